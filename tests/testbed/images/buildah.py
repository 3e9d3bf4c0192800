"""Run buildah with a storage of our own, in a mount namespace that takes its mounts along."""

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from testbed.cluster.errors import TestbedError
from testbed.cluster.locks import locked
from testbed.cluster.packages import (
    IMAGE_PROGRAMS,
    find_program,
    require,
    require_root_on_linux,
)
from testbed.cluster.paths import cache_folder
from testbed.cluster.processes import environment, run

# Mounted into each build step where they exist, for a machine whose network needs its own
# certificate authority or package index; nothing of them gets into an image.
MACHINE_FILES = ("/etc/ssl/certs", "/etc/pip.conf")


def images_folder() -> Path:
    folder = cache_folder() / "images"
    folder.mkdir(exist_ok=True)
    return folder


def require_buildah() -> None:
    """Make sure that images can be built here, or raise TestbedError that says what is missing."""
    require_root_on_linux("Building images")
    require(IMAGE_PROGRAMS)


def buildah(*arguments: str | Path) -> str:
    """Run a short buildah command; returns what it prints."""
    return run(*command(*arguments), extra_environment=_environment())


def buildah_with_progress(title: str, *arguments: str | Path) -> None:
    """Run a long buildah command; its lines go to a log, and to the error when it fails."""
    log = images_folder() / "last-build.log"
    print(title, file=sys.stderr, flush=True)
    with log.open("wb") as output:
        done = subprocess.run(
            command(*arguments),
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
            env={**environment(), **_environment()},
        )
    if done.returncode != 0:
        end = " | ".join(log.read_text(errors="replace").strip().splitlines()[-5:])
        raise TestbedError(f"{title}: buildah failed (whole output in {log}): {end}")


def command(*arguments: str | Path) -> list[str]:
    return contained(find_program("buildah"), *arguments)


def contained(*argv: str | Path) -> list[str]:
    """The command in mount and PID namespaces: when it ends or is killed, its children and its
    mounts are gone. (Overlay storage leaves a mount of its own folder behind, for example.)
    """
    tie = [find_program("setpriv"), "--pdeathsig", "KILL", "--"]
    namespaces = ["--mount", "--propagation", "slave", "--pid", "--fork", "--mount-proc"]
    unshare = [find_program("unshare"), *namespaces, "--kill-child=KILL", "--"]
    return [*tie, *unshare, *(str(part) for part in argv)]


def machine_volumes() -> list[str]:
    """Arguments that give build steps the certificates and pip settings of this machine."""
    present = [path for path in MACHINE_FILES if Path(path).exists()]
    return [f"--volume={path}:{path}:ro" for path in present]


def images_lock() -> AbstractContextManager[None]:
    """Two runs never build at the same time: the second finds everything in the cache."""
    return locked(
        images_folder() / "lock",
        lambda: print("Another run builds images; waiting for it", file=sys.stderr, flush=True),
    )


def _environment() -> dict[str, str]:
    folder = images_folder()
    settings = folder / "storage.conf"
    text = (
        '[storage]\ndriver = "overlay"\n'
        f'graphroot = "{folder / "storage"}"\nrunroot = "{folder / "run"}"\n'
    )
    if not settings.exists() or settings.read_text(encoding="utf-8") != text:
        settings.write_text(text, encoding="utf-8")
    return {
        "CONTAINERS_STORAGE_CONF": str(settings),
        "STORAGE_DRIVER": "overlay",
        "BUILDAH_ISOLATION": "chroot",
    }
