"""The control group below which a node puts its pods, in every mounted hierarchy (v1 or v2)."""

import contextlib
import os
from functools import partial
from pathlib import Path

from testbed.cluster.errors import TestbedError
from testbed.waiting import WaitedTooLongError, wait_until

EMPTY_SECONDS = 10.0


def hierarchies() -> list[Path]:
    """The mount points of all control group hierarchies."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    fields = [line.split() for line in mounts]
    return [Path(mount[1]) for mount in fields if mount[2] in {"cgroup", "cgroup2"}]


def make(name: str) -> None:
    """Make the group `name` everywhere."""
    found = hierarchies()
    if not found:
        raise TestbedError("No control groups are mounted on this machine: containers need them")
    for hierarchy in found:
        (hierarchy / name).mkdir(exist_ok=True)


def remove(name: str) -> None:
    """Remove the group `name` and all below it; its processes must have been killed."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        if group.exists():
            with contextlib.suppress(WaitedTooLongError):  # the caller checks what is left
                wait_until(partial(_removed, group), str(group), EMPTY_SECONDS)


def remaining(name: str) -> list[Path]:
    """Groups of that name that still exist."""
    return [hierarchy / name for hierarchy in hierarchies() if (hierarchy / name).exists()]


def _removed(group: Path) -> bool:
    for folder, _folders, _files in os.walk(group, topdown=False):
        # Busy for a moment after its last process was killed: the next round finds it empty.
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not group.exists()
