"""Maintenance windows: whether one is open, and when the next one opens.

A window opens whenever its cron expression fires in its own time zone and stays open for its
duration in real seconds. Where clocks jump forward, an opening in the missing hour comes as soon
as that hour is over; where they go back, it comes once (cronsim's rule, that of Debian's cron).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from parkade.api.spec import MaintenanceWindow

MAX_STEPS = 20_000
"""Openings looked at within one duration: a week of minutes is 10080."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What the windows say now."""

    is_open: bool
    until: datetime | None = None
    """When the open window closes."""
    next_open: datetime | None = None
    """When the next one opens, where none is open; None: never."""
    problem: str = ""
    """A schedule or time zone that can't be read."""


def opening(windows: Iterable[MaintenanceWindow], now: datetime) -> Opening:
    """Return whether tuning may start now. No windows at all are always open."""
    given = tuple(windows)
    if not given:
        return Opening(is_open=True)
    closes: list[datetime] = []
    opens: list[datetime] = []
    problem = ""
    for at, window in enumerate(given):
        found = _one(window, now)
        if isinstance(found, str):
            problem = problem or f"spec.tuning.maintenanceWindows[{at}]: {found}"
            continue
        until, following = found
        if until is not None:
            closes.append(until)
        if following is not None:
            opens.append(following)
    if closes:
        return Opening(is_open=True, until=max(closes), problem=problem)
    return Opening(is_open=False, next_open=min(opens, default=None), problem=problem)


def _one(window: MaintenanceWindow, now: datetime) -> tuple[datetime | None, datetime | None] | str:
    """Return (end of the opening that holds `now`, next opening), or what can't be read."""
    try:
        zone = ZoneInfo(window.time_zone)
    except (KeyError, ValueError, OSError):
        return f"{window.time_zone!r} is not a time zone known here (for example Asia/Seoul)"
    duration = timedelta(seconds=window.duration_seconds)
    try:
        schedule = CronSim(window.schedule, (now - duration).astimezone(zone))
    except CronSimError as error:
        return f"{window.schedule!r} is not a cron expression of five fields ({error})"
    until: datetime | None = None
    for _ in range(MAX_STEPS):
        start = next(schedule, None)
        if start is None:
            return until, None
        moment = start.astimezone(UTC)
        if moment > now:
            return until, moment
        if now < moment + duration:
            until = moment + duration
    return until, None
