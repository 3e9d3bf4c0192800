"""Histograms as engines export them: cumulative counts at edges, and an exact sum.

vLLM counts lengths on the 1-2-5 series up to max_model_len (`vllm/v1/metrics/buckets.py`), so a
quantile is known only to its bucket, while a mean is exact. Counts are floats, since Prometheus'
`increase` extrapolates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

TOLERANCE = 1e-6
"""Relative; `increase` over many series falls by rounding errors of this order."""

LARGEST = 1e15
"""Far above every count, sum and length that an engine can have; beyond it nothing is believed."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """What one bucket holds: `count` values above `low` and not above `high`."""

    low: float
    high: float
    count: float
    point: float
    """Where its values are taken to be: scaled so that all points give the exact sum."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts at most each edge, the count of all, and the exact sum of the values."""

    edges: tuple[float, ...]
    """Finite, positive, strictly rising upper edges."""
    cumulative: tuple[float, ...]
    """How many values are at most the edge."""
    total: float
    """How many values there are, above the last edge included."""
    sum: float | None = None
    """Exact sum of the values; None where only buckets are known."""

    @property
    def mean(self) -> float | None:
        """The exact mean; None without values or without a sum."""
        if self.total <= 0 or self.sum is None:
            return None
        return self.sum / self.total

    def quantile(self, share: float) -> tuple[float, float]:
        """Return the bucket that holds a quantile, as (above, at most); infinite beyond the edges.

        `share` is in (0, 1]. No interpolation: inside a bucket of the 1-2-5 series it can be
        wrong by a factor of 2.5.
        """
        wanted = share * self.total * (1 - TOLERANCE)
        low = 0.0
        for edge, count in zip(self.edges, self.cumulative, strict=True):
            if count >= wanted and count > 0:
                return low, edge
            low = edge
        return low, math.inf

    def share_at_most(self, limit: float) -> tuple[float, float]:
        """Return the least and the most share of values that can be at most `limit`."""
        if self.total <= 0:
            return 0.0, 1.0
        below = 0.0
        for edge, count in zip(self.edges, self.cumulative, strict=True):
            if math.isclose(edge, limit, rel_tol=TOLERANCE):
                return count / self.total, count / self.total
            if edge > limit:
                return below / self.total, count / self.total
            below = count
        return below / self.total, 1.0

    def buckets(self) -> tuple[Bucket, ...]:
        """Return the buckets that hold something, with points that add up to the exact sum."""
        return tuple(
            Bucket(low, high, count, point)
            for (low, high, count), point in zip(self._filled(), self._points(), strict=True)
        )

    def _filled(self) -> list[tuple[float, float, float]]:
        filled, low, before = [], 0.0, 0.0
        for edge, count in zip(self.edges, self.cumulative, strict=True):
            if count - before > 0:
                filled.append((low, edge, count - before))
            low, before = edge, count
        if self.total - before > TOLERANCE * max(self.total, 1.0):
            filled.append((low, max(low * 2.5, 1.0), self.total - before))
        return filled

    def _points(self) -> list[float]:
        """Place each bucket's values at one fraction of its width, so that the sum is exact.

        One fraction for all buckets is the least that can be assumed; where even the edges do not
        reach the sum (the last bucket is open), all points are scaled by the same factor.
        """
        filled = self._filled()
        if self.sum is None:
            return [(low + high) / 2 for low, high, _ in filled]
        lows = sum(low * count for low, _, count in filled)
        highs = sum(high * count for _, high, count in filled)
        if highs <= lows:
            return [high for _, high, _ in filled]
        fraction = (self.sum - lows) / (highs - lows)
        if 0 <= fraction <= 1:
            return [low + fraction * (high - low) for low, high, _ in filled]
        middle = sum((low + high) / 2 * count for low, high, count in filled)
        return [(low + high) / 2 * self.sum / middle for low, high, _ in filled]


FIT_TOLERANCE = 0.02
"""Shares of requests at the edges that a fitted distribution may miss; of fewer than 600 requests
more, since a share's own standard error is up to 0.5 / sqrt(requests)."""

_SIGMAS = (0.0, *(0.005 * 1.15**step for step in range(42)))
"""Widths of log-normal distributions that are tried, narrowest first, up to 1.54: with 1.28 the
90th percentile is farthest from the mean, at 2.3 times it."""


def quantile_inside(histogram: Histogram, share: float) -> float:
    """Return where in its bucket a quantile is taken to lie.

    The buckets of vLLM's times are wide (all answers from 40 to 100 tokens/s share one), while
    the mean is exact. So the quantile is that of the narrowest log-normal distribution that has
    this mean and the counted shares at the edges, kept within the bucket that is certain. Where
    there is no sum, or none fits, values lie evenly in the bucket. A decision names the bucket
    beside it. In the open last bucket it is twice the last edge.
    """
    low, high = histogram.quantile(share)
    if math.isinf(high):
        return 2 * low if low > 0 else 1.0
    if histogram.mean:
        sigma = _fitted_sigma(histogram, histogram.mean)
        middle = NormalDist().inv_cdf(min(max(share, 1e-6), 1 - 1e-6))
        place = histogram.mean * math.exp(sigma * middle - sigma * sigma / 2)
        return min(max(place, low * (1 + 1e-6)), high)
    below = histogram.share_at_most(low)[0] if low > 0 else 0.0
    upto = histogram.share_at_most(high)[0]
    return low + (high - low) * (share - below) / (upto - below) if upto > below else high


def _fitted_sigma(histogram: Histogram, mean: float) -> float:
    """Return the narrowest width whose shares at all edges are the counted ones, or nearly so."""
    shares = [
        (math.log(edge / mean), count / histogram.total)
        for edge, count in zip(histogram.edges, histogram.cumulative, strict=True)
    ]
    tolerance = max(FIT_TOLERANCE, 0.5 / math.sqrt(max(histogram.total, 1.0)))
    best, least = 0.0, math.inf
    for sigma in _SIGMAS:
        error = max(abs(_share(sigma, edge) - counted) for edge, counted in shares)
        if error <= tolerance:
            return sigma
        if error < least:
            best, least = sigma, error
    return best


def _share(sigma: float, edge: float) -> float:
    """Return the share at most an edge, given as the logarithm of edge over mean."""
    if sigma == 0:
        return 1.0 if edge >= 0 else 0.0
    return 0.5 * math.erfc(-(edge / sigma + sigma / 2) / math.sqrt(2))


def read_histogram(
    buckets: Mapping[str, float] | Iterable[tuple[float, float]],
    total: float | None,
    sum_: float | None,
) -> Histogram | str:
    """Return a histogram, or in one line what is wrong with it.

    `buckets` maps upper edges (`+Inf` allowed) to cumulative counts, in any order. `total` may be
    None: then it is the count at `+Inf`, else at the last edge.
    """
    pairs = _pairs(buckets)
    if isinstance(pairs, str):
        return pairs
    finite = [(edge, count) for edge, count in pairs if not math.isinf(edge)]
    last = pairs[-1][1] if pairs else 0.0
    whole = last if total is None else total
    problem = _problem(pairs, whole, sum_)
    if problem:
        return problem
    counts, highest = [], 0.0
    for _, count in finite:
        highest = max(highest, count)
        counts.append(min(highest, whole))
    return Histogram(tuple(edge for edge, _ in finite), tuple(counts), float(whole), sum_)


def _pairs(
    buckets: Mapping[str, float] | Iterable[tuple[float, float]],
) -> list[tuple[float, float]] | str:
    items = buckets.items() if isinstance(buckets, Mapping) else buckets
    pairs = []
    for edge, count in items:
        try:
            pairs.append((float(edge), float(count)))
        except (TypeError, ValueError):
            return f"bucket {edge!r}: {count!r} is not an edge with a count"
    return sorted(pairs)


def _problem(pairs: list[tuple[float, float]], total: float, sum_: float | None) -> str | None:
    if any(math.isnan(edge) or edge <= 0 for edge, _ in pairs):
        return "an edge is not a positive number"
    if any(LARGEST < edge < math.inf for edge, _ in pairs):
        return f"an edge is above {LARGEST:g}"
    if len({edge for edge, _ in pairs}) < len(pairs):
        return "an edge is given twice"
    numbers = [count for _, count in pairs] + [total] + ([] if sum_ is None else [sum_])
    if any(not (math.isfinite(number) and number >= 0) for number in numbers):
        return "a count or the sum is negative or not a finite number"
    if max(numbers) > LARGEST:
        return f"a count or the sum is above {LARGEST:g}"
    return _falling(pairs, total)


def _falling(pairs: list[tuple[float, float]], total: float) -> str | None:
    slack = TOLERANCE * max(total, 1.0)
    for (low, before), (high, after) in pairwise(pairs):
        if after < before - slack:
            top = "+Inf" if math.isinf(high) else f"{high:g}"
            return f"cumulative counts fall from {before:g} at {low:g} to {after:g} at {top}"
    if pairs and pairs[-1][1] > total + slack:
        return f"the last bucket holds {pairs[-1][1]:g}, more than all {total:g}"
    return None
