"""Start and stop the programs of a cluster: logs kept, nothing left running."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.cluster.errors import PortTakenError, TestbedError
from testbed.waiting import WaitedTooLongError, wait_until

STOP_SECONDS = 10.0


class Program:
    """One long-running program with its log file.

    It runs in a session of its own, so that Ctrl-C reaches whoever owns the cluster first, and
    it dies with its owner (Linux), so that a killed test run leaves no process; `outlives_owner`
    turns that off for a cluster that is meant to stay.
    """

    def __init__(
        self, name: str, argv: Sequence[str | Path], log: Path, *, outlives_owner: bool = False
    ) -> None:
        self.name = name
        self.argv = [str(part) for part in argv]
        self.log = log
        self._outlives_owner = outlives_owner
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """Start it; returns its pid. The log is appended to: a restart keeps what was said."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._tie_to_owner(), *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,
            )
        return self._process.pid

    def fail_if_exited(self) -> None:
        """Raise TestbedError with the end of the log when the program is gone."""
        if self._process and self._process.poll() is not None:
            kind = PortTakenError if "address already in use" in self.log_end() else TestbedError
            raise kind(
                f"{self.name} exited with status {self._process.returncode}: {self.log_end()} "
                f"(whole log: {self.log})"
            )

    def stop(self, grace_seconds: float = STOP_SECONDS) -> None:
        """SIGTERM to its process group, then SIGKILL; does nothing when it isn't running.

        The group counts, not the process: a program that was started inside other namespaces is
        a child of the helper that entered them, and that helper dies first.
        """
        process, self._process = self._process, None
        if process is None:
            return
        signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(WaitedTooLongError):
            wait_until(lambda: _ended(process), self.name, grace_seconds, interval_seconds=0.02)
        signal_group(process.pid, signal.SIGKILL)
        process.wait()

    def log_end(self, lines: int = 3) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return " | ".join(text.strip().splitlines()[-lines:]) or "it wrote nothing"

    def _tie_to_owner(self) -> list[str]:
        setpriv = shutil.which("setpriv")
        if self._outlives_owner or setpriv is None:
            return []
        return [setpriv, "--pdeathsig", "KILL", "--"]


def stop_all(programs: Sequence[Program]) -> None:
    """Stop programs, last started first, even when stopping one of them fails."""
    with contextlib.ExitStack() as stack:
        for program in programs:
            stack.callback(program.stop)


def environment() -> dict[str, str]:
    """The environment for every child: the person's own cluster can't be reached by accident."""
    return {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}


def run(
    *argv: str | Path, stdin: str | None = None, extra_environment: dict[str, str] | None = None
) -> str:
    """Run a short command; returns its standard output, or raises TestbedError with its words."""
    done = subprocess.run(
        [str(part) for part in argv],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**environment(), **(extra_environment or {})},
    )
    if done.returncode != 0:
        said = " | ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:])
        command = " ".join([Path(argv[0]).name, *(str(part) for part in argv[1:])])
        raise TestbedError(f"`{command}` failed with status {done.returncode}: {said}")
    return done.stdout


def start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot: with it, a reused pid is told apart."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()
    return None if after_name[0] == "Z" else int(after_name[19])


def kill_recorded(pid: int, ticks: int | None) -> None:
    """Kill a recorded process and the group it leads, unless the pid was reused since."""
    if ticks is None or start_ticks(pid) != ticks:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    signal_group(pid, signal.SIGKILL)
    wait_until(lambda: start_ticks(pid) != ticks, f"process {pid} to end", STOP_SECONDS)


def signal_group(pid: int, signal_number: int) -> bool:
    """Signal the group that `pid` leads or led; says whether anybody was there to get it."""
    try:
        os.killpg(pid, signal_number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None and not signal_group(process.pid, 0)
