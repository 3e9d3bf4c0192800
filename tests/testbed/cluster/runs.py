"""Run folders: what each running cluster made, so that somebody else can remove it.

A run folder holds the data and logs of one cluster, a lock that its owner holds for life, and
`state.json`. When the lock is free and the state doesn't say "kept", the owner died without
cleaning up, and whoever comes next cleans up for it.
"""

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from testbed.cluster import cgroups, mountpoints
from testbed.cluster.errors import TestbedError
from testbed.cluster.locks import FileLock, locked
from testbed.cluster.packages import find_program
from testbed.cluster.paths import state_folder
from testbed.cluster.processes import kill_recorded, start_ticks
from testbed.cluster.processes import run as command
from testbed.cluster.signals import uninterrupted

STATE = "state.json"


@dataclass(slots=True)
class State:
    """What a run made outside its folder, and whether it is to outlive its owner."""

    kind: str
    owner_pid: int
    kept: bool = False
    processes: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    cgroup: str | None = None
    link: str | None = None
    created_folders: list[str] = field(default_factory=list)
    kubeconfig: str | None = None


class Run:
    """One run folder, held by a lock."""

    def __init__(self, folder: Path, state: State, *, outlives_owner: bool = False) -> None:
        self.folder = folder
        self.state = state
        self.outlives_owner = outlives_owner
        self._lock = FileLock(folder / "lock")

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def record_process(self, name: str, pid: int) -> None:
        self.state.processes[name] = (pid, start_ticks(pid))
        self.save()

    def started(self) -> None:
        """All of it is up. From here on it is kept if it is to outlive its owner, not before:
        what a killed start leaves is swept like any other ruin.
        """
        self.state.kept = self.outlives_owner
        self.save()

    def save(self) -> None:
        """Write the state in one step: a reader never sees half of it."""
        unfinished = self.folder / f".{STATE}"
        unfinished.write_text(json.dumps(asdict(self.state), indent=1), encoding="utf-8")
        unfinished.rename(self.folder / STATE)

    def try_lock(self) -> bool:
        return self._lock.try_acquire()

    def unlock(self) -> None:
        self._lock.release()

    def remove(self) -> None:
        """Forget the run; its processes and everything else must be gone by now."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()


def begin(kind: str, *, outlives_owner: bool = False, alone: bool = False) -> Run:
    """Make a run folder, after cleaning up what dead owners left.

    `alone`: raise TestbedError, saying who runs, when another run of this kind is alive.
    """
    with _registry():
        _sweep()
        if alone:
            _refuse_second(kind)
        folder = _runs_folder() / f"{kind}-{uuid.uuid4().hex[:8]}"
        (folder / "logs").mkdir(parents=True, mode=0o700)
        state = State(kind=kind, owner_pid=os.getpid())
        run = Run(folder, state, outlives_owner=outlives_owner)
        run.try_lock()
        run.save()
    return run


def existing() -> list[Run]:
    """Every run folder there is, owned or not."""
    return [
        Run(folder, _read_state(folder))
        for folder in sorted(_runs_folder().iterdir())
        if folder.is_dir()
    ]


def sweep() -> list[str]:
    """Clean up what dead owners left; returns the names of those runs."""
    with _registry():
        return _sweep()


def end_all() -> tuple[list[str], list[Run]]:
    """End kept runs and clean up after dead owners; returns their names, and the runs that
    live owners still hold, which are theirs to end.
    """
    ended, held = [], []
    with _registry():
        for run in existing():
            if run.try_lock():
                end(run)
                ended.append(run.folder.name)
            else:
                held.append(run)
    return ended, held


def clean(run: Run) -> None:
    """Undo all that a run recorded. Safe to repeat, and safe when some of it is gone already."""
    for pid, ticks in reversed(run.state.processes.values()):
        kill_recorded(pid, ticks)
    if run.state.link and Path("/sys/class/net", run.state.link).exists():
        # It goes with the node's network namespace, which the kernel removes in its own time.
        with contextlib.suppress(TestbedError):
            command(find_program("ip"), "link", "delete", run.state.link)
    if run.state.cgroup:
        cgroups.remove(run.state.cgroup)
    mountpoints.remove(run.state.created_folders)


def end(run: Run) -> None:
    """Undo a run and forget it; Ctrl-C waits meanwhile."""
    with uninterrupted():
        clean(run)
        run.remove()


def _sweep() -> list[str]:
    swept = []
    for run in existing():
        if not run.state.kept and run.try_lock():
            end(run)
            swept.append(run.folder.name)
    return swept


def _refuse_second(kind: str) -> None:
    for run in existing():
        if run.state.kind == kind:
            owner = "is kept up" if run.state.kept else f"belongs to process {run.state.owner_pid}"
            raise TestbedError(
                f"A {kind} is up already: {run.folder.name} {owner}. Use it with the kubeconfig "
                f"{run.state.kubeconfig}, or end it with `python -m testbed.cluster down`"
            )


def _runs_folder() -> Path:
    folder = state_folder() / "runs"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


@contextmanager
def _registry() -> Iterator[None]:
    with locked(state_folder() / "runs.lock"):
        yield


def _read_state(folder: Path) -> State:
    try:
        values = json.loads((folder / STATE).read_text(encoding="utf-8"))
        values["processes"] = {
            name: (pid, ticks) for name, (pid, ticks) in values["processes"].items()
        }
        return State(**values)
    except (OSError, ValueError, TypeError, KeyError):
        # Its owner died between making the folder and writing the state: nothing else was made.
        return State(kind="unknown", owner_pid=0)
