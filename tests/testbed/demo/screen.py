"""The terminal: plain words, what a user would type, and a table of the endpoints that updates."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from testbed.demo import resources
from testbed.demo.claims import Claims
from testbed.demo.world import World
from testbed.waiting import wait_until

WIDTH = 100
SECONDS_BETWEEN_ROWS = 0.5


class Screen:
    """Tells the story; `wait` shows the table while something is awaited."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(width=WIDTH, highlight=False)
        self._began = time.monotonic()
        self._shown: list[tuple[str, ...]] = []

    def chapter(self, title: str) -> None:
        """A heading with the time since the start."""
        self.console.print()
        self.console.rule(f"[bold]{title}[/bold]  {time.monotonic() - self._began:.0f} s")

    def say(self, text: str) -> None:
        """A plain sentence or two."""
        self.console.print(text)

    def type(self, command: str) -> None:
        """What a user would type to see or do the same."""
        self.console.print(f"  $ {command}", style="cyan", soft_wrap=True)

    def quote(self, text: str) -> None:
        """Words of the cluster, indented."""
        for line in text.strip().splitlines():
            self.console.print(f"    {line}", style="dim", markup=False, soft_wrap=True)

    def wait(
        self, world: World, probe: Callable[[], Any], what: str, timeout_seconds: float
    ) -> Any:
        """Wait for something with the table in view; raises WaitedTooLongError."""
        with self._table(world) as refresh:

            def look() -> Any:
                refresh()
                return probe()

            return wait_until(look, what, timeout_seconds, interval_seconds=SECONDS_BETWEEN_ROWS)

    def summary(self, claims: Claims) -> None:
        """Every claim with what was seen."""
        self.chapter("Summary")
        for claim in claims.made:
            mark = "[green]yes[/green]" if claim.held else "[red]NO[/red] "
            self.console.print(f"  {mark}  {claim.sentence}", soft_wrap=True)
            if claim.seen and not claim.held:
                self.quote(claim.seen)
        held = len(claims.made) - len(claims.failed)
        self.console.print(f"\n{held} of {len(claims.made)} claims held.")

    @contextmanager
    def _table(self, world: World) -> Iterator[Callable[[], None]]:
        if not self.console.is_terminal:
            yield lambda: self._print_changes(world)
            return
        with Live(_as_table(_rows(world)), console=self.console, auto_refresh=False) as live:
            yield lambda: live.update(_as_table(_rows(world)), refresh=True)

    def _print_changes(self, world: World) -> None:
        rows = _rows(world)
        for row in rows:
            if row not in self._shown:
                self.console.print(f"    {'  '.join(cell for cell in row if cell)}", style="dim")
        self._shown = rows


HEADINGS = ("ENDPOINT", "READY", "SEQS", "UTIL", "LIMITED BY", "PODS", "SETTINGS")


def _as_table(rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    return table


def _rows(world: World) -> list[tuple[str, ...]]:
    return [
        _row(name, found, world.pods(name))
        for name in (resources.SHORT, resources.LONG)
        if (found := world.endpoint(name))
    ]


def _row(name: str, found: dict[str, Any], pods: list[dict[str, Any]]) -> tuple[str, ...]:
    status = found.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions", [])}
    applied = status.get("applied", {})
    return (
        name,
        conditions.get("Ready", {}).get("status", "?"),
        str(applied.get("maxNumSeqs", "-")),
        str(applied.get("gpuMemoryUtilization", "-")),
        status.get("recommendation", {}).get("limitedBy", "-"),
        " ".join(filter(None, (_state(pod) for pod in pods))),
        conditions.get("SettingsApplied", {}).get("reason", "-"),
    )


def _state(pod: dict[str, Any]) -> str:
    """The engine's container in a word, as kubectl shows it."""
    found = pod["status"].get("containerStatuses", [])
    if not found:
        return str(pod["status"].get("phase", "?"))
    state, container = found[0]["state"], found[0]
    if "waiting" in state:
        word = state["waiting"].get("reason", "Waiting")
    elif "terminated" in state:
        word = f"exit {state['terminated']['exitCode']}"
    else:
        word = "ready" if container["ready"] else "starting"
    restarts = container["restartCount"]
    return f"{word}({restarts} restarts)" if restarts else word
