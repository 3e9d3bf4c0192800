"""Time per token against concurrency, from the measured points that count.

One point stands for a rung; citable ones count, and beyond them the others too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

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
    citable: bool
    speeds: tuple[float, ...]
    """Tokens per second of the windows or runs whose median it is."""
    mean_seconds: float
    """Of a token, over all requests; the median where only that was measured."""
    pooled: bool = False
    """Times fell with load, so that this is the mean of neighbours."""


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

    @property
    def means(self) -> list[tuple[float, float]]:
        """Concurrency and mean seconds per token, which decide how long requests stay."""
        rising = _rising([one.mean_seconds for one in self.points])
        return list(zip((one.concurrency for one in self.points), rising, strict=True))

    def mean_seconds(self, concurrency: float) -> float:
        """Return the mean seconds per token at a concurrency, on the same kind of line."""
        return _at(concurrency, self.means)


def speed_curve(points: Sequence[SpeedPoint], attainment_percent: float) -> SpeedCurve | None:
    """Return the curve of the points that count; None where there is none.

    Citable points count, and beyond the lowest and the highest of them the others too, where they
    do not contradict: more requests never make a token faster. Of points on one rung, those whose
    cap was binding outrank the others; windows of several pods are pooled, and are citable where
    those of one pod are (windows of two pods at one time are not independent).
    """
    by_rung: dict[int, list[SpeedPoint]] = {}
    for one in points:
        by_rung.setdefault(rung_of(one.concurrency), []).append(one)
    rungs = [_outranking(group) for group in by_rung.values()]
    usable = _that_count(rungs)
    if not usable:
        return None
    timed = _agreeing([(one, _time_point(one, attainment_percent / 100)) for one in usable])
    times = sorted((time for _, time in timed), key=lambda one: one.concurrency)
    return SpeedCurve(
        tuple(_never_falling(times)),
        citable=any(one.citable for one in rungs),
        benchmark=any(one.point.source is PointSource.BENCHMARK for one, _ in timed),
        measured=tuple(one.point for one, _ in timed),
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


def _agreeing(timed: list[tuple[_Rung, TimePoint]]) -> list[tuple[_Rung, TimePoint]]:
    """Leave out what is not citable and contradicts the citable points beside it."""
    citable = [time for _, time in timed if time.citable]
    if not citable:
        return timed
    low = min(citable, key=lambda one: one.concurrency)
    high = max(citable, key=lambda one: one.concurrency)
    return [
        (rung, time)
        for rung, time in timed
        if time.citable
        or (time.concurrency < low.concurrency and time.seconds <= low.seconds)
        or (time.concurrency > high.concurrency and time.seconds >= high.seconds)
    ]


def _time_point(rung: _Rung, share: float) -> TimePoint:
    point = rung.point
    median = point.seconds_per_token
    of_medians = TimePoint(
        point.concurrency,
        median,
        median,
        median,
        by_share=False,
        spread_percent=rung.spread_percent,
        citable=rung.citable,
        speeds=point.output_tokens_per_second_per_request,
        mean_seconds=median,
    )
    times = point.time_per_output_token
    if times is None or times.total <= 0:
        return of_medians
    low, high = times.quantile(share)
    inside = quantile_inside(times, share)
    mean = times.mean or median
    return replace(of_medians, seconds=inside, low=low, high=high, by_share=True, mean_seconds=mean)


def _never_falling(points: list[TimePoint]) -> list[TimePoint]:
    """Pool neighbours whose times fall (more requests never make a token faster)."""
    risen, done = [], 0
    for size in _blocks([one.seconds for one in points]):
        block = points[done : done + size]
        done += size
        risen += block if size == 1 else [_pooled(one, block) for one in block]
    return risen


def _pooled(one: TimePoint, block: list[TimePoint]) -> TimePoint:
    return replace(
        one,
        seconds=fmean(other.seconds for other in block),
        low=min(other.low for other in block),
        high=max(other.high for other in block),
        pooled=True,
    )


def _rising(values: list[float]) -> list[float]:
    """Return the values with falling neighbours pooled."""
    risen: list[float] = []
    for size in _blocks(values):
        block = values[len(risen) : len(risen) + size]
        risen += [fmean(block)] * size
    return risen


def _blocks(values: list[float]) -> list[int]:
    """Return how many neighbours are pooled each time, so that means do not fall."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([value])
        while len(blocks) > 1 and fmean(blocks[-1]) < fmean(blocks[-2]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return [len(block) for block in blocks]


def _at(concurrency: float, line: list[tuple[float, float]]) -> float:
    if len(line) == 1:
        return line[0][1]
    (x0, y0), (x1, y1) = segment(concurrency, line)
    return max(1e-9, y0 + (y1 - y0) * (concurrency - x0) / (x1 - x0))


def segment(
    concurrency: float, line: Sequence[tuple[float, float]]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the two points whose line holds at a concurrency; beyond the ends it goes on."""
    index = next((i for i, (x, _) in enumerate(line) if x >= concurrency), len(line) - 1)
    return line[max(index - 1, 0)], line[max(index, 1)]
