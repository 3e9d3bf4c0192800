"""The arithmetic of the speed bound in sentences: points, lines and standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from parkade.sizing.speed_curve import SpeedCurve, TimePoint
from parkade.sizing.wording import milliseconds, number, rough, two_times

_ERROR = "Standard error of the crossing"

MAX_ERROR_PERCENT = 25.0
"""Standard error of a bound: where lines are flat it grows without limit and says nothing."""


def standard_error(
    point: TimePoint, target: float, slope: float, value: float
) -> tuple[float, str]:
    """Return the standard error of a crossing in percent, and its arithmetic.

    That of the times, over how steeply they rise. A spread is two standard errors.
    """
    spread = point.spread_percent
    per_percent = target / (slope * value) if slope > 0 and value > 0 else math.inf
    error = min(MAX_ERROR_PERCENT, spread / 2 * max(1.0, per_percent))
    rise = ""
    if 1 < per_percent < math.inf:
        rise = (
            f" × {milliseconds(target)} / ({slope * 1000:.6f} ms for each request × "
            f"{number(value)})"
        )
    cut = f", cut to {number(error)} %" if error == MAX_ERROR_PERCENT else ""
    if cut and math.isinf(per_percent):
        return error, f"{_ERROR}: {number(error)} %, since the line does not rise."
    raw = spread / 2 * max(1.0, per_percent)
    return error, (
        f"{_ERROR}: {number(spread, 2)} % spread / 2{rise} = {number(raw, 2)} %{cut} (the spread "
        f"is that at {number(point.concurrency)})."
    )


def step_words(lowest: TimePoint, target: float, value: float) -> str:
    """Say why an extrapolation stops at a value."""
    if value <= 1:
        return "at least 1 runs"
    if value < lowest.concurrency / 2 * (1 - 1e-9):
        return (
            f"a step goes at most to where time in proportion crosses, {rough(lowest.concurrency)} "
            f"× {milliseconds(target)} / {milliseconds(lowest.seconds)}: {rough(value)}"
        )
    return f"a step goes to half of {rough(lowest.concurrency)} at most: {rough(value)}"


def line_sentence(curve: SpeedCurve, base: float, slope: float) -> str:
    """Return the arithmetic of the line below the lowest point."""
    lowest = curve.points[0]
    if base == 0:
        why = (
            "one point alone is known"
            if len(curve.points) == 1
            else "the line of the two lowest points would start below zero"
        )
        return (
            f"Line below: {milliseconds(lowest.seconds)} / {number(lowest.concurrency)} = "
            f"{slope * 1000:.6f} ms for each request, in proportion, since {why}."
        )
    second = curve.points[1]
    low, high = two_times(lowest.seconds, second.seconds)
    return (
        f"Line below: ({high} - {low}) / "
        f"({number(second.concurrency)} - {number(lowest.concurrency)}) = {slope * 1000:.6f} ms "
        f"for each request, from {milliseconds(base)} at none."
    )


def point_sentences(points: Sequence[TimePoint]) -> tuple[str, ...]:
    """Return what was measured at each point, one sentence a point."""
    return tuple(f"Measured at {number(one.concurrency)}: {_measured(one)}." for one in points)


def _measured(point: TimePoint) -> str:
    taken = milliseconds(point.seconds)
    uncitable = "" if point.citable else "; too few or too scattered to be cited"
    if point.pooled:
        return f"{taken} per token, the mean of neighbours whose times fell with load{uncitable}"
    if point.by_share:
        limit = (
            f"more than {milliseconds(point.low)}"
            if math.isinf(point.high)
            else f"between {milliseconds(point.low)} and {milliseconds(point.high)}"
        )
        return (
            f"{limit} per token, taken as {taken}, with a mean of "
            f"{milliseconds(point.mean_seconds)}{uncitable}"
        )
    speeds = point.speeds
    values = (
        "one value"
        if len(speeds) == 1
        else f"median of {len(speeds)} values from {number(min(speeds))} to {number(max(speeds))}"
    )
    return f"1000 / {number(1 / point.seconds)} tok/s = {taken} per token ({values}{uncitable})"
