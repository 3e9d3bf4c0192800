"""A real control plane on loopback: etcd, API server, controllers, scheduler. No root, no nodes.

Pods exist, but nothing runs them: tests write pod states themselves, as the test suites of
controllers do. It is ready in seconds, and several can run at once.
"""

import contextlib
import json
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from testbed.cluster import binaries, components, runs
from testbed.cluster.certificates import CLIENTS, SERVER_NAMES, Certificates
from testbed.cluster.components import LOOPBACK, Settings
from testbed.cluster.errors import PortTakenError, TestbedError
from testbed.cluster.ports import free_ports
from testbed.cluster.processes import Program, run, stop_all
from testbed.cluster.signals import uninterrupted
from testbed.waiting import WaitedTooLongError, wait_until

READY_SECONDS = 60.0
ATTEMPTS = 3
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class ControlPlane:
    """A running control plane; `start()` or `started()` make one.

    `kubeconfig` is the administrator's, `server` its address, `http` an authenticated client
    (fast), `kubectl` the real command (what people type).
    """

    def __init__(
        self,
        run_folder: runs.Run,
        settings: Settings,
        *,
        audit: bool = True,
        programs: Sequence[str] = binaries.CONTROL_PLANE,
    ) -> None:
        self.run = run_folder
        self.settings = settings
        self.kubeconfig = settings.kubeconfig("admin")
        run_folder.state.kubeconfig = str(self.kubeconfig)
        self.server = settings.server
        self.audit_log = settings.audit_log
        self._audit = audit
        self.enter: Sequence[str] = ()  # a command prefix, for a node inside namespaces
        self._programs: dict[str, Program] = {}
        self._binaries = binaries.ensure(programs)
        self.http = _client(settings)

    @classmethod
    @contextmanager
    def started(cls, *, audit: bool = True) -> Iterator["ControlPlane"]:
        """A control plane for the length of a `with` block."""
        control_plane = cls.start(audit=audit)
        try:
            yield control_plane
        finally:
            control_plane.stop()

    @classmethod
    def start(cls, *, audit: bool = True, kept: bool = False) -> Self:
        """Start one and wait until it serves; `kept` lets it outlive this process.

        Raises TestbedError with the end of the log of the part that failed. The kernel ties the
        programs to the thread that starts them: it has to live as long as they shall.
        """
        binaries.ensure(binaries.CONTROL_PLANE)
        for _ in range(ATTEMPTS - 1):
            # Somebody else may have taken a port between our look and the program's bind.
            with contextlib.suppress(PortTakenError):
                return cls._start_once(audit=audit, kept=kept)
        return cls._start_once(audit=audit, kept=kept)

    @classmethod
    def _start_once(cls, *, audit: bool, kept: bool) -> Self:
        run_folder = runs.begin("controlplane", outlives_owner=kept)
        control_plane = cls(run_folder, _loopback_settings(run_folder.folder), audit=audit)
        try:
            control_plane.start_programs()
            run_folder.started()
        except BaseException:
            control_plane.stop()
            raise
        return control_plane

    def start_programs(self) -> None:
        """Start etcd, the API server and, once it serves, the controllers and the scheduler."""
        self.settings.audit_policy.write_text(yaml.safe_dump(AUDIT_POLICY), encoding="utf-8")
        self.launch("etcd", components.etcd(self.settings))
        self.launch("kube-apiserver", components.kube_apiserver(self.settings, audit=self._audit))
        self.wait_ready()
        self.launch("kube-controller-manager", components.kube_controller_manager(self.settings))
        self.launch("kube-scheduler", components.kube_scheduler(self.settings))
        self.wait_for("the controllers to work", self._default_account_exists)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run the real kubectl as administrator; returns what it prints.

        Raises TestbedError with kubectl's own words when it fails.
        """
        kubectl = self._binaries["kubectl"]
        return run(kubectl, "--kubeconfig", self.kubeconfig, *arguments, stdin=stdin)

    def audit_events(self) -> list[dict[str, Any]]:
        """Every request so far, oldest first, as audit.k8s.io/v1 Events of level Metadata."""
        lines = self.audit_log.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]  # the last may grow

    def stop_apiserver(self) -> None:
        """Take the API server away, as an upgrade of the control plane does."""
        self._programs["kube-apiserver"].stop(grace_seconds=2)  # it would wait for watches

    def start_apiserver(self) -> None:
        """Bring it back on the same address, and wait until it serves."""
        self.run.record_process("kube-apiserver", self._programs["kube-apiserver"].start())
        self.wait_ready()

    def restart_apiserver(self) -> None:
        """Stop and start the API server; its clients see connections refused in between."""
        self.stop_apiserver()
        self.start_apiserver()

    def wait_ready(self) -> None:
        self.wait_for("the API server to be ready", self._is_ready)

    def stop(self) -> None:
        """Stop everything and remove the run folder with data and logs. Safe to call twice."""
        with uninterrupted():
            try:
                self.stop_programs()
            finally:
                runs.end(self.run)

    def stop_programs(self) -> None:
        """Stop the programs, last started first."""
        self.http.close()
        stop_all(list(self._programs.values()))

    def launch(
        self, name: str, arguments: Sequence[str | Path], path: str | Path | None = None
    ) -> None:
        """Start one more program beside the others: its log is kept, its end is noticed.

        `path` is that of a program of the system; without it, it is one of ours.
        """
        program = Program(
            name,
            [*self.enter, path or self._binaries[name], *arguments],
            self.run.logs / f"{name}.log",
            outlives_owner=self.run.outlives_owner,
        )
        self._programs[name] = program
        self.run.record_process(name, program.start())

    def wait_for(self, what: str, probe: Callable[[], Any]) -> None:
        """Wait until `probe` is true; raises at once when one of the programs dies."""

        def healthy_and_done() -> Any:
            for program in self._programs.values():
                program.fail_if_exited()
            return probe()

        try:
            wait_until(
                healthy_and_done, what, READY_SECONDS, interval_seconds=0.05,
                not_yet=(httpx.TransportError,),
            )  # fmt: skip
        except WaitedTooLongError as error:
            newest = list(self._programs.values())[-1]
            raise TestbedError(f"{error}; {newest.name} said: {newest.log_end()}") from error

    def _is_ready(self) -> bool:
        return self.http.get("/readyz").status_code == httpx.codes.OK

    def _default_account_exists(self) -> bool:
        account = self.http.get("/api/v1/namespaces/default/serviceaccounts/default")
        return account.status_code == httpx.codes.OK


def prepare(
    folder: Path, advertise: str, ports: tuple[int, int, int]
) -> tuple[Settings, Certificates]:
    """Issue the certificates and kubeconfigs of a control plane that is about to start."""
    certificates = Certificates(folder / "certificates")
    keys = {name: certificates.client(name) for name in CLIENTS}
    names = tuple(dict.fromkeys((*SERVER_NAMES, advertise)))
    keys["apiserver"] = certificates.issue(
        "apiserver", user="kube-apiserver", group="parkade-testbed", server_names=names
    )
    keys["service-accounts"] = certificates.issue(
        "service-accounts",
        user="service-accounts",
        group="parkade-testbed",
        server_names=("service-accounts",),
    )
    settings = Settings(folder, certificates.authority, keys, *ports, advertise)
    for name in CLIENTS:
        certificates.kubeconfig(settings.kubeconfig(name), settings.server, keys[name])
    return settings, certificates


def _loopback_settings(folder: Path) -> Settings:
    api, etcd, peers = free_ports(3)
    return prepare(folder, LOOPBACK, (api, etcd, peers))[0]


def _client(settings: Settings) -> httpx.Client:
    context = ssl.create_default_context(cafile=settings.authority)
    admin = settings.keys["admin"]
    context.load_cert_chain(admin.certificate, admin.key)
    # trust_env off: a proxy of this machine must not stand between us and loopback.
    return httpx.Client(base_url=settings.server, verify=context, timeout=10, trust_env=False)
