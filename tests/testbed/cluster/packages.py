"""Programs of the system that the node and the image builder need; installed when missing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from testbed.cluster.errors import TestbedError

# Where administrators' programs are; the PATH of an ordinary login often lacks these.
ADMINISTRATION = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# Where distributions put the CNI plugins: Debian and Ubuntu; Fedora; everybody else.
CNI_FOLDERS = ("/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin")
CNI_PLUGINS = ("bridge", "host-local", "portmap", "loopback")

# Program -> the Debian package that brings it.
NODE_PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
}
IMAGE_PROGRAMS = {
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
CNI_PACKAGE = "containernetworking-plugins"


def find_program(name: str) -> str:
    """The path of a system program; raises TestbedError when it is not there."""
    found = _which(name)
    if found is None:
        raise TestbedError(
            f"The program {name!r} is missing: install it with the system's packages"
        )
    return found


def cni_folder() -> Path | None:
    """The folder that holds all CNI plugins the node uses."""
    for folder in map(Path, CNI_FOLDERS):
        if all((folder / plugin).exists() for plugin in CNI_PLUGINS):
            return folder
    return None


def require(programs: dict[str, str], *, cni: bool = False) -> None:
    """Make sure of the programs, installing Debian packages when root.

    Raises TestbedError with one line that names what is missing and why it can't be installed.
    """
    missing = _missing(programs, cni=cni)
    if not missing:
        return
    _install_missing(missing)
    if still := _missing(programs, cni=cni):
        raise TestbedError(f"Installed packages, but still missing: {' '.join(sorted(still))}")


def require_library(name: str, package: str) -> None:
    """Make sure of a shared library, installing its Debian package when root.

    Raises TestbedError with one line otherwise, as `require` does.
    """
    if find_library(name) is not None:
        return
    _install_missing({package})
    if find_library(name) is None:
        raise TestbedError(f"Installed {package}, but {name} is still missing")


def find_library(name: str) -> Path | None:
    """Where the loader of this machine finds a shared library; None when it does not."""
    ldconfig = _which("ldconfig")
    if ldconfig is None:
        return None
    known = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    lines = (line.partition(" => ") for line in known.splitlines())
    found = (Path(path) for left, _, path in lines if left.split()[:1] == [name] and path)
    return next(found, None)


def _install_missing(missing: set[str]) -> None:
    names = " ".join(sorted(missing))
    apt_get = _which("apt-get")
    if apt_get is None:
        raise TestbedError(f"Missing: {names} (Debian's package names), and there is no apt-get")
    if os.geteuid() != 0:
        raise TestbedError(f"Missing: {names}. Install with: sudo apt-get install {names}")
    _install(apt_get, sorted(missing))


def require_root_on_linux(what: str) -> None:
    """Raise TestbedError unless this is root on Linux."""
    if sys.platform != "linux":
        raise TestbedError(f"{what} needs Linux; this is {sys.platform}")
    if os.geteuid() != 0:
        raise TestbedError(f"{what} needs root: it makes network devices, mounts and containers")


def _which(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(ADMINISTRATION))


def _missing(programs: dict[str, str], *, cni: bool) -> set[str]:
    missing = {package for program, package in programs.items() if _which(program) is None}
    return missing | ({CNI_PACKAGE} if cni and cni_folder() is None else set())


def _install(apt_get: str, names: Iterable[str]) -> None:
    print(f"Installing Debian packages: {' '.join(names)}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [apt_get, "install", "-qq", "--yes", "--no-install-recommends", *names]
    for command in ([apt_get, "update", "-qq"], install):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["apt-get said nothing"])[-1]
            raise TestbedError(f"Could not install {' '.join(names)}: {said}")
