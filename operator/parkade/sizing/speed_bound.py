"""The largest max_num_seqs at which requests still get their output speed.

Time per token is linear in concurrency between measured points (a step is weights plus so much
for each sequence). Where points keep the per-token-time buckets, the share of requests decides;
where only medians are known, the median decides, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.result import Bound, BoundKind
from parkade.sizing.speed_curve import SpeedCurve, TimePoint
from parkade.sizing.speed_words import line_sentence, point_sentences, standard_error, step_words
from parkade.sizing.wording import milliseconds, number, rough, two_times

_BENCHMARK = (
    "Concurrency is what a client held open under constant load, taken as the number of requests "
    "in the engine."
)

RAISE_FACTOR = 2.0
"""A bound from measured points raises to at most this times the highest measured concurrency."""

_OVERHEAD_PERCENT = 2.0
_OVERHEAD_FROM = 8.0


@dataclass(frozen=True, slots=True)
class SpeedBound:
    """The bound, how it was found, and what it rests on."""

    bound: Bound
    sentences: tuple[str, ...]
    standard_error_percent: float
    reachable: bool
    """False: even one request at a time would be slower than the objective."""
    open_ended: bool
    """Every measured point holds: the value only limits how far to raise."""


def speed_bound(
    curve: SpeedCurve, min_output_tokens_per_second: float, attainment_percent: float
) -> SpeedBound:
    """Return the largest concurrency at which the objective holds.

    Three cases: every point holds (the value is twice the highest, and does not lower anything);
    the crossing lies between two points; or the lowest point misses already, and the line is
    continued below it.
    """
    target = 1.0 / min_output_tokens_per_second
    goal = f"{number(min_output_tokens_per_second)} tok/s per request"
    whose = _whose(curve, attainment_percent)
    wanted = f"Speed objective: 1000 / {number(min_output_tokens_per_second)} tok/s"
    first = f"{wanted} = {milliseconds(target)} per token, for {whose}."
    if curve.benchmark:
        first = f"{first} {_BENCHMARK}"
    points = curve.points
    above = next((i for i, one in enumerate(points) if one.seconds > target * (1 + 1e-9)), None)
    if above is None:
        return _open_ended(curve, target, goal, whose, first)
    if above == 0:
        return _below_all(curve, target, goal, whose, first)
    left, right = points[above - 1], points[above]
    value = _crossing(left.concurrency, left.seconds, right.concurrency, right.seconds, target)
    why = (
        f"{goal} holds for {whose} at {rough(left.concurrency)} and not at "
        f"{rough(right.concurrency)}; time per token, linear between them, crosses "
        f"{milliseconds(target)} at {rough(value)}."
    )
    before, after = two_times(left.seconds, right.seconds)
    sentence = (
        f"Speed bound: {number(left.concurrency)} + ({_like(target, before)} - "
        f"{before}) / ({after} - "
        f"{before}) × ({number(right.concurrency)} - "
        f"{number(left.concurrency)}) = {rough(value)} requests."
    )
    low, high = _interval(curve, target, value)
    noisier = max((left, right), key=lambda one: one.spread_percent)
    slope = (right.seconds - left.seconds) / (right.concurrency - left.concurrency)
    error, uncertainty = standard_error(noisier, target, slope, value)
    return SpeedBound(
        Bound(BoundKind.SPEED, value, why, low, high),
        (first, *point_sentences((left, right)), sentence, uncertainty),
        error,
        reachable=True,
        open_ended=False,
    )


def _like(seconds: float, other: str) -> str:
    """Return a time with as many digits as another has."""
    digits = len(other.removesuffix(" ms").partition(".")[2])
    return f"{seconds * 1000:.{digits}f} ms"


def _open_ended(curve: SpeedCurve, target: float, goal: str, whose: str, first: str) -> SpeedBound:
    value = RAISE_FACTOR * curve.highest
    line = _line_above(curve, target)
    if line is not None and line < value:
        return _continued(curve, (line, target), goal, whose, first)
    why = (
        f"{goal} holds for {whose} at {rough(curve.highest)}, the highest concurrency measured; "
        f"nothing is raised above twice that."
    )
    sentence = f"Speed bound: 2 × {number(curve.highest)} measured = {number(value)} requests."
    sentences = (first, *point_sentences(curve.points[-1:]), sentence)
    bound = Bound(BoundKind.SPEED, value, why)
    return SpeedBound(bound, sentences, 0.0, reachable=True, open_ended=True)


def _line_above(curve: SpeedCurve, target: float) -> float | None:
    """Return where the line through the lowest and the highest point crosses; None: not told.

    Production windows alone are continued (a benchmark has its own ladder), and only where the
    points lie apart by more than a factor of two: the noise of near ones would be the slope.
    """
    low, high = curve.points[0], curve.points[-1]
    slope = high.seconds - low.seconds
    if curve.benchmark or high.concurrency < 2 * low.concurrency or slope <= 0:
        return None
    slope /= high.concurrency - low.concurrency
    return high.concurrency + max(0.0, target - high.seconds) / slope


def _continued(
    curve: SpeedCurve, crossing: tuple[float, float], goal: str, whose: str, first: str
) -> SpeedBound:
    value, target = crossing
    low, high = curve.points[0], curve.points[-1]
    why = (
        f"{goal} holds for {whose} at {rough(high.concurrency)}, the highest concurrency "
        f"measured; the line from {rough(low.concurrency)} through it crosses at {rough(value)}."
    )
    between = f"({number(high.concurrency)} - {number(low.concurrency)})"
    sentence = (
        f"Speed bound: {number(high.concurrency)} + ({milliseconds(target)} - "
        f"{milliseconds(high.seconds)}) / ({milliseconds(high.seconds)} - "
        f"{milliseconds(low.seconds)}) × {between} = {rough(value)} requests, on the line through "
        "the lowest and the highest point."
    )
    uncertainty = (
        f"Standard error of the crossing: {number(high.spread_percent, 2)} % spread / 2 = "
        f"{number(high.spread_percent / 2, 2)} % (the spread is that at "
        f"{number(high.concurrency)})."
    )
    return SpeedBound(
        Bound(BoundKind.SPEED, value, why),
        (first, *point_sentences((low, high)), sentence, uncertainty),
        high.spread_percent / 2,
        reachable=True,
        open_ended=True,
    )


def _below_all(curve: SpeedCurve, target: float, goal: str, whose: str, first: str) -> SpeedBound:
    lowest = curve.points[0]
    base, slope = _line_below(curve)
    raw = (target - base) / slope if slope > 0 else 0.0
    value = max(1.0, min(raw, lowest.concurrency), _least_step(lowest, target))
    missed = (
        f"{goal} is missed for {whose} at {rough(lowest.concurrency)}, the lowest concurrency "
        "measured"
    )
    where = f"the line below it crosses at {rough(raw)}"
    if raw < 1:
        where = "by the line below it even for one request at a time"
    sentence = (
        f"Speed bound: ({milliseconds(target)} - {milliseconds(base)}) / "
        f"{slope * 1000:.6f} ms for each request = {rough(raw)} requests"
        if slope > 0
        else "Speed bound: none, since the line below does not fall"
    )
    if value > raw * (1 + 1e-9):
        where += f", and {rough(value)} is measured before anything lower"
        sentence += f"; {step_words(lowest, target, value)}"
    error, uncertainty = standard_error(lowest, target, slope, value)
    below = line_sentence(curve, base, slope)
    points = point_sentences(curve.points[:2])
    return SpeedBound(
        Bound(BoundKind.SPEED, value, f"{missed}; {where}."),
        (first, *points, below, f"{sentence}.", uncertainty),
        error,
        reachable=raw >= 1.0,
        open_ended=False,
    )


def _least_step(lowest: TimePoint, target: float) -> float:
    """Return the lowest that an extrapolation may go: half of the lowest measured concurrency.

    Two close points of wide buckets can give any slope. Where time in proportion already says
    less, that holds: it is an upper bound, since a step takes some time without any request.
    """
    proportional = lowest.concurrency * target / lowest.seconds
    return max(1.0, min(lowest.concurrency / 2, proportional))


def _line_below(curve: SpeedCurve) -> tuple[float, float]:
    """Return the time at no load and the time for each request, below the lowest point.

    From the two lowest points; with one point alone time is taken as proportional, which lowers
    least, and the next measurement corrects it.
    """
    lowest = curve.points[0]
    if len(curve.points) > 1:
        second = curve.points[1]
        slope = (second.seconds - lowest.seconds) / (second.concurrency - lowest.concurrency)
        base = lowest.seconds - slope * lowest.concurrency
        if base > 0:
            return base, slope
    return 0.0, lowest.seconds / lowest.concurrency


def _whose(curve: SpeedCurve, attainment_percent: float) -> str:
    if all(one.by_share for one in curve.points):
        return f"{number(attainment_percent)} % of requests"
    return "the median request (only medians were measured)"


def _interval(curve: SpeedCurve, target: float, value: float) -> tuple[float | None, float | None]:
    """Return the crossings of the buckets' upper and lower edges; None where exact."""
    if not any(one.by_share for one in curve.points):
        return None, None
    slow = [(one.concurrency, min(one.high, 1e6)) for one in curve.points]
    fast = [(one.concurrency, one.low) for one in curve.points]
    low, high = _first_crossing(slow, target), _first_crossing(fast, target)
    return min(value, low), max(value, high)


def _first_crossing(line: list[tuple[float, float]], target: float) -> float:
    before = (0.0, 0.0)
    for concurrency, seconds in line:
        if seconds > target * (1 + 1e-9):
            return _crossing(*before, concurrency, seconds, target)
        before = (concurrency, seconds)
    return RAISE_FACTOR * line[-1][0]


def _crossing(
    low: float, low_seconds: float, high: float, high_seconds: float, target: float
) -> float:
    if high_seconds <= low_seconds:
        return low
    return low + (target - low_seconds) / (high_seconds - low_seconds) * (high - low)


def overhead(points: Sequence[SpeedPoint]) -> str | None:
    """Return the sentence of the alarm: time per token stands still while concurrency doubles.

    Then what is measured is overhead (a client, a network, a scheduler), not the engine. Below 8
    requests a card is bound by reading weights and may well stand still; only citable points
    count.
    """
    citable = sorted((one for one in points if one.citable), key=lambda one: one.concurrency)
    for low in citable:
        for high in citable:
            doubled = high.concurrency >= 2 * low.concurrency >= 2 * _OVERHEAD_FROM
            moved = 100 * (high.seconds_per_token / low.seconds_per_token - 1)
            if doubled and moved < _OVERHEAD_PERCENT:
                return (
                    f"Overhead: time per token is {milliseconds(low.seconds_per_token)} at "
                    f"{rough(low.concurrency)} and {milliseconds(high.seconds_per_token)} at "
                    f"{rough(high.concurrency)} requests: it does not move while concurrency "
                    "doubles, so something other than the engine is measured; nothing is raised."
                )
    return None
