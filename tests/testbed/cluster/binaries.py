"""Build the real components from pinned Go modules into a cache, with progress."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed.cluster.errors import TestbedError
from testbed.cluster.golang import find_go, least_version
from testbed.cluster.locks import locked
from testbed.cluster.paths import TOOLS, cache_folder
from testbed.cluster.processes import signal_group

CONTROL_PLANE = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl",
)  # fmt: skip
NODE = (*CONTROL_PLANE, "kubelet", "kube-proxy", "prometheus", "helm")
PROGRESS_INTERVAL_SECONDS = 15.0
KUBERNETES_VERSION = "k8s.io/component-base/version"
PROMETHEUS_VERSION = "github.com/prometheus/common/version"


@dataclass(frozen=True, slots=True)
class Tool:
    """One folder below `tools/`: a Go module that pins one program or several."""

    name: str
    module: str
    packages: dict[str, str]
    linker_flags: Callable[[str], list[str]] = lambda _version: []
    tags: str = ""

    @property
    def folder(self) -> Path:
        return TOOLS / self.name

    def version(self) -> str:
        """The version of the main module, as go.mod pins it."""
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        found = re.search(rf"^\s*{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if not found:
            raise TestbedError(f"tools/{self.name}/go.mod does not require {self.module}")
        return found[1]

    def build_flags(self) -> list[str]:
        linker = " ".join(["-s", "-w", *self.linker_flags(self.version())])
        return [*(["-tags", self.tags] if self.tags else []), "-ldflags", linker]

    def cached(self) -> Path:
        """The cache folder of exactly these sources built with these flags."""
        digest = hashlib.sha256("\0".join(self.build_flags()).encode())
        for file in ("go.mod", "go.sum"):
            digest.update((self.folder / file).read_bytes())
        return cache_folder() / f"{self.name}-{self.version()}-{digest.hexdigest()[:12]}"


def _kubernetes_flags(version: str) -> list[str]:
    major, minor = version.removeprefix("v").split(".")[:2]
    # Without these the server calls itself v0.0.0-master.
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return [f"-X {KUBERNETES_VERSION}.{name}={value}" for name, value in values.items()]


def _prometheus_flags(version: str) -> list[str]:
    # The module v0.316.0 is the release 3.16.0: Go allows no v3 without a change of path.
    major, rest = version.removeprefix("v0.").split(".")
    return [f"-X {PROMETHEUS_VERSION}.Version={major[0]}.{int(major[1:])}.{rest}"]


TOOLS_BY_NAME = {
    tool.name: tool
    for tool in (
        Tool("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
        Tool(
            "kubernetes",
            "k8s.io/kubernetes",
            {
                name: f"k8s.io/kubernetes/cmd/{name}"
                for name in (
                    *("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
                    *("kubectl", "kubelet", "kube-proxy"),
                )
            },
            linker_flags=_kubernetes_flags,
        ),
        Tool("helm", "helm.sh/helm/v3", {"helm": "helm.sh/helm/v3/cmd/helm"}),
        Tool(
            "prometheus",
            "github.com/prometheus/prometheus",
            {"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"},
            linker_flags=_prometheus_flags,
            tags="remove_all_sd,enable_kubernetes_sd",
        ),
        Tool(
            "argo-rollouts",
            "github.com/argoproj/argo-rollouts",
            {"rollouts-controller": "github.com/argoproj/argo-rollouts/cmd/rollouts-controller"},
        ),
    )
}

# Measured on two cores with an empty cache, in this order (the Kubernetes ones share packages).
BUILD_SECONDS = {
    "etcd": 60,
    "kube-apiserver": 325,
    "kube-controller-manager": 92,
    "kube-scheduler": 9,
    "kubectl": 40,
    "kubelet": 33,
    "kube-proxy": 10,
    "helm": 95,
    "prometheus": 240,
    "rollouts-controller": 400,  # only for the bench of reverts; an estimate
}


def ensure(names: Iterable[str]) -> dict[str, Path]:
    """The path of each named program, built first where the cache lacks it.

    Raises TestbedError, with the end of the compiler's output, when a build fails. Two runs at
    once wait for each other. Progress goes to standard error as plain lines.
    """
    wanted = {name: _path(name) for name in names}
    if all(path.exists() for path in wanted.values()):
        return wanted
    with locked(cache_folder() / "build.lock", lambda: _say("Another run builds; waiting for it")):
        missing = [name for name in BUILD_SECONDS if name in wanted and not wanted[name].exists()]
        if missing:
            _build_all(missing)
    return wanted


def _path(name: str) -> Path:
    return _tool(name).cached() / name


def _tool(name: str) -> Tool:
    for tool in TOOLS_BY_NAME.values():
        if name in tool.packages:
            return tool
    raise TestbedError(f"No Go module below tools/ builds a program named {name!r}")


def _build_all(names: list[str]) -> None:
    tools = {_tool(name).name: _tool(name) for name in names}
    go = find_go(least_version([tool.folder / "go.mod" for tool in tools.values()]))
    _say(
        f"Building {len(names)} programs from Go modules, once per version: about "
        f"{_minutes(sum(BUILD_SECONDS[name] for name in names))} on two cores"
    )
    started = time.monotonic()
    for number, name in enumerate(names, start=1):
        later = sum(BUILD_SECONDS[other] for other in names[number:])
        _build(go, name, f"{name} ({number} of {len(names)})", started, later)
    _say(f"Built {len(names)} programs in {_minutes(time.monotonic() - started)}")


def _build(go: Path, name: str, title: str, started: float, later_seconds: float) -> None:
    tool = _tool(name)
    target = tool.cached() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{name}.unfinished")
    log = target.with_name(f".{name}.log")
    command = [str(go), "build", *tool.build_flags(), "-o", str(unfinished), tool.packages[name]]
    begun = time.monotonic()
    with log.open("wb") as output, subprocess.Popen(
        command, cwd=tool.folder, env=_environment(), stdout=output, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            while _still_runs(process):
                here = BUILD_SECONDS[name] - (time.monotonic() - begun)
                _say(f"  {title}: {_outlook(time.monotonic() - started, here, later_seconds)}")
        except BaseException:
            signal_group(process.pid, signal.SIGKILL)  # the compilers that it runs as well
            raise
    if process.returncode != 0:
        end = " | ".join(log.read_text(errors="replace").strip().splitlines()[-5:])
        raise TestbedError(f"go build of {name} failed, whole output in {log}: {end}")
    unfinished.rename(target)
    log.unlink()


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(PROGRESS_INTERVAL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _environment() -> dict[str, str]:
    # A C compiler is not needed then, and the programs run on any Linux. A workspace file above
    # or flags of the person at this machine must not change what is built.
    own = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    return {**os.environ, **own}


def _outlook(spent_seconds: float, here_seconds: float, later_seconds: float) -> str:
    spent = f"{_minutes(spent_seconds)} so far"
    if here_seconds <= 0:
        return f"{spent}, longer than usual; after it about {_minutes(later_seconds)}"
    return f"{spent}, about {_minutes(here_seconds + later_seconds)} left"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
