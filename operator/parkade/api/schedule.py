"""Whether a maintenance window's schedule and time zone mean anything. CEL can't tell."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

FIVE_FIELDS = r"^\s*\S+(\s+\S+){4}\s*$"


@lru_cache(maxsize=256)
def opens_at_times(schedule: str) -> bool:
    """Return whether a cron expression is valid and ever comes true (30 February does not)."""
    try:
        next(CronSim(schedule, datetime(2024, 1, 1)))  # noqa: DTZ001 - any start will do
    except (CronSimError, StopIteration, ValueError, OverflowError):
        return False
    return True


@lru_cache(maxsize=256)
def is_time_zone(name: str) -> bool:
    """Return whether a name is in the IANA time zone database of this machine."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True
