"""Maintenance windows: time zones, daylight saving, and schedules that can't be read."""

from datetime import UTC, datetime

import pytest

from parkade.api.spec import MaintenanceWindow
from parkade.rollout.windows import opening


def window(schedule: str = "0 2 * * *", seconds: int = 7200, zone: str = "UTC"):
    return MaintenanceWindow.model_construct(
        schedule=schedule, duration_seconds=seconds, time_zone=zone
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("windows", "now", "is_open", "moment"),
    [
        pytest.param([], "2026-03-02T12:00", True, None, id="no windows are always open"),
        pytest.param([window()], "2026-03-02T02:00", True, "2026-03-02T04:00", id="it opens now"),
        pytest.param(
            [window()], "2026-03-02T03:59:59", True, "2026-03-02T04:00", id="the last second"
        ),
        pytest.param([window()], "2026-03-02T04:00", False, "2026-03-03T02:00", id="it has closed"),
        pytest.param(
            [window(zone="Asia/Seoul")],
            "2026-03-02T17:30",
            True,
            "2026-03-02T19:00",
            id="two in the night of Seoul is five in the afternoon of UTC",
        ),
        pytest.param(
            [window(zone="Asia/Seoul")],
            "2026-03-02T02:30",
            False,
            "2026-03-02T17:00",
            id="and not two in the night of UTC",
        ),
        pytest.param(
            [window(), window("0 3 * * *", 10800)],
            "2026-03-02T03:30",
            True,
            "2026-03-02T06:00",
            id="of two open windows the later end counts",
        ),
        pytest.param(
            [window("0 2 * * 0", 3600), window("0 5 * * *", 3600)],
            "2026-03-02T04:00",
            False,
            "2026-03-02T05:00",
            id="of two closed windows the earlier opening counts",
        ),
        pytest.param(
            [window("30 2 * * *", 3600, "Europe/Berlin")],
            "2026-03-29T01:05",
            True,
            "2026-03-29T02:00",
            id="an opening in the hour that is left out comes when that hour is over",
        ),
        pytest.param(
            [window("30 2 * * *", 3600, "Europe/Berlin")],
            "2026-10-25T00:45",
            True,
            "2026-10-25T01:30",
            id="an opening in the hour that comes twice is the first one",
        ),
        pytest.param(
            [window("30 2 * * *", 3600, "Europe/Berlin")],
            "2026-10-25T01:45",
            False,
            "2026-10-26T01:30",
            id="and does not come a second time",
        ),
        pytest.param(
            [window("0 0 * * 6", 172800)],
            "2026-03-08T23:00",
            True,
            "2026-03-09T00:00",
            id="a window of two days",
        ),
        pytest.param(
            [window("0 0 30 2 *", 3600)], "2026-03-02T00:00", False, None, id="a day that never is"
        ),
    ],
)
def test_opening(windows, now: str, is_open: bool, moment: str | None) -> None:
    found = opening(windows, utc(now))
    assert found.is_open is is_open
    assert (found.until or found.next_open) == (utc(moment) if moment else None)


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        pytest.param(
            window("not a cron line"),
            "spec.tuning.maintenanceWindows[0]: 'not a cron line' is not a cron expression of five "
            "fields",
            id="schedule",
        ),
        pytest.param(
            window(zone="Mars/Olympus"),
            "spec.tuning.maintenanceWindows[0]: 'Mars/Olympus' is not a time zone known here",
            id="time zone",
        ),
        pytest.param(
            window(zone="../etc/passwd"),
            "spec.tuning.maintenanceWindows[0]: '../etc/passwd' is not a time zone known here",
            id="a path for a time zone",
        ),
    ],
)
def test_a_window_that_cannot_be_read_never_opens_and_says_why(one, problem: str) -> None:
    found = opening([one], utc("2026-03-02T02:30"))
    assert not found.is_open
    assert found.problem.startswith(problem)


def test_a_window_that_cannot_be_read_does_not_close_the_others() -> None:
    assert opening([window(zone="Mars/Olympus"), window()], utc("2026-03-02T02:30")).is_open
