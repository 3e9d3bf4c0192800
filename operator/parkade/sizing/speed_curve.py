"""Time per token against concurrency, from the measured points that count.

One point stands for a rung; citable ones count, and beyond them the others too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parkade.sizing.histograms import quantile_inside
from parkade.sizing.ledger import PointSource, SpeedPoint
from parkade.sizing.points import pooled, rung_of

FEW_WINDOWS_SPREAD_PERCENT = 10.0
"""Half-width of the 95 % interval that is assumed of fewer windows than tell their own spread."""


@dataclass(frozen=True, slots=True)
class TimePoint:
    """Seconds per output token that decide at one concurrency, as an interval with a point."""

    concurrency: float
    seconds: float
    low: float
    high: float
    by_share: bool
    """The share of requests decides; else the median."""
    spread_percent: float


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """The usable points, by rising concurrency, with times that do not fall."""

    points: tuple[TimePoint, ...]
    citable: bool
    benchmark: bool
    measured: tuple[SpeedPoint, ...] = ()
    """What stands for each rung, with its buckets, in no order."""

    @property
    def highest(self) -> float:
        """The highest measured concurrency."""
        return self.points[-1].concurrency

    def seconds(self, concurrency: float) -> float:
        """Return seconds per token at a concurrency: linear between and beyond the points."""
        return _at(concurrency, [(one.concurrency, one.seconds) for one in self.points])


def speed_curve(points: Sequence[SpeedPoint], attainment_percent: float) -> SpeedCurve | None:
    """Return the curve of the points that count; None where there is none.

    Citable points count, and beyond the lowest and the highest of them the others too: there
    nothing better is known. Of points on one rung, those whose cap was binding outrank the
    others; windows of several pods are pooled, and are citable where those of one pod are
    (windows of two pods at one time are not independent).
    """
    by_rung: dict[int, list[SpeedPoint]] = {}
    for one in points:
        by_rung.setdefault(rung_of(one.concurrency), []).append(one)
    rungs = [_outranking(group) for group in by_rung.values()]
    usable = _that_count(rungs)
    if not usable:
        return None
    times = [_time_point(one, attainment_percent / 100) for one in usable]
    return SpeedCurve(
        tuple(_never_falling(sorted(times, key=lambda one: one.concurrency))),
        citable=any(one.citable for one in rungs),
        benchmark=any(one.point.source is PointSource.BENCHMARK for one in usable),
        measured=tuple(one.point for one in usable),
    )


@dataclass(frozen=True, slots=True)
class _Rung:
    """The point that stands for a rung."""

    point: SpeedPoint
    citable: bool

    @property
    def spread_percent(self) -> float:
        """The half-width of the 95 % interval, assumed where windows are too few to tell it."""
        measured = self.point.spread_percent
        if self.citable or self.point.source is PointSource.BENCHMARK:
            return measured
        return max(measured, FEW_WINDOWS_SPREAD_PERCENT)


def _outranking(group: list[SpeedPoint]) -> _Rung:
    """Return pooled windows, or the newest benchmark: of points whose cap bound, if they count."""
    binding = [one for one in group if one.cap_binding]
    if any(one.citable for one in binding) or not any(one.citable for one in group):
        group = binding or group
    benchmarks = [one for one in group if one.source is PointSource.BENCHMARK]
    if benchmarks:
        newest = next((one for one in reversed(benchmarks) if one.citable), benchmarks[-1])
        return _Rung(newest, newest.citable)
    return _Rung(pooled(group), any(one.citable for one in group))


def _that_count(rungs: list[_Rung]) -> list[_Rung]:
    citable = [one.point.concurrency for one in rungs if one.citable]
    if not citable:
        return rungs
    low, high = min(citable), max(citable)
    return [one for one in rungs if one.citable or not low <= one.point.concurrency <= high]


def _time_point(rung: _Rung, share: float) -> TimePoint:
    point, spread = rung.point, rung.spread_percent
    median = point.seconds_per_token
    if point.time_per_output_token is None or point.time_per_output_token.total <= 0:
        return TimePoint(
            point.concurrency,
            median,
            median,
            median,
            by_share=False,
            spread_percent=spread,
        )
    low, high = point.time_per_output_token.quantile(share)
    inside = quantile_inside(point.time_per_output_token, share)
    return TimePoint(point.concurrency, inside, low, high, by_share=True, spread_percent=spread)


def _never_falling(points: list[TimePoint]) -> list[TimePoint]:
    """Pool neighbours whose times fall (more requests never make a token faster)."""
    blocks: list[list[TimePoint]] = []
    for point in points:
        blocks.append([point])
        while len(blocks) > 1 and _mean(blocks[-1]) < _mean(blocks[-2]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return [
        TimePoint(
            one.concurrency,
            _mean(block) if len(block) > 1 else one.seconds,
            min(other.low for other in block),
            max(other.high for other in block),
            one.by_share,
            one.spread_percent,
        )
        for block in blocks
        for one in block
    ]


def _mean(block: list[TimePoint]) -> float:
    return sum(one.seconds for one in block) / len(block)


def _at(concurrency: float, line: list[tuple[float, float]]) -> float:
    if len(line) == 1:
        return line[0][1]
    index = next((i for i, (x, _) in enumerate(line) if x >= concurrency), len(line) - 1)
    (x0, y0), (x1, y1) = line[max(index - 1, 0)], line[max(index, 1)]
    return max(1e-9, y0 + (y1 - y0) * (concurrency - x0) / (x1 - x0))
