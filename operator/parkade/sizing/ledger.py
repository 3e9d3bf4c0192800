"""Measured points of speed against concurrency, and which of them may be cited.

Points come from the durable record (windows of one pod and one fingerprint) or from a benchmark
(the traffic file's `speed`). Code decides what is citable: at least five windows that do not
overlap, and a 95 % half-width of their median of at most 8 %. For a benchmark under constant
load the plain range of five runs serves as the spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median
from typing import Any

from parkade.sizing.histograms import Histogram, read_histogram

CITABLE_WINDOWS = 5
"""Fewer values say nothing of their own spread."""

CITABLE_SPREAD_PERCENT = 8.0
"""The measured ladder spread by 1 to 8 % at 32 and above, and was too noisy to cite below."""

MANY_PREEMPTIONS = 0.1
"""Preemptions for each finished request from which on they count as many."""


class PointSource(StrEnum):
    """Where a point was measured."""

    LEDGER = "Ledger"
    """Windows of production traffic, concurrency is requests running in the engine."""
    BENCHMARK = "Benchmark"
    """A client that held `concurrency` requests open under constant load."""


@dataclass(frozen=True, slots=True)
class SpeedPoint:
    """Output speed per request at one concurrency of one pod."""

    concurrency: float
    """Requests running at a time (ledger), or held open by a client (benchmark); above 0."""
    output_tokens_per_second_per_request: tuple[float, ...]
    """One value per window or run: the median request of it."""
    time_to_first_token_seconds: tuple[float, ...] = ()
    """One value per window or run."""
    time_per_output_token: Histogram | None = None
    """Per request over the same windows, seconds; lets a share of requests decide."""
    newest_time_per_output_token: Histogram | None = None
    """What the newest window has of it, so that a window that overlaps can take its place."""
    source: PointSource = PointSource.LEDGER
    cap_binding: bool = False
    """max_num_seqs limited what ran; such points outrank others."""
    decoding: float | None = None
    """Of those running, how many were decoding."""
    context_tokens: float | None = None
    """Mean length of those running."""
    prefill_share: float | None = None
    """Share of time spent in prefill, 0 to 1."""
    acceptance: float | None = None
    """Accepted of drafted tokens, 0 to 1."""
    output_tokens_per_second: float | None = None
    """Of the whole pod."""
    kv_share: float | None = None
    """Share of the KV cache that so many requests hold, 0 to 1."""
    preemptions_per_request: float | None = None
    """Preemptions for each finished request, while so much of it was held."""
    pod: str = ""
    fingerprint: str = ""
    measured_at: str = ""
    """End of the newest window, UTC, as Kubernetes writes times; points age out by it."""

    @property
    def speed(self) -> float:
        """Median output tokens per second of one request."""
        return median(self.output_tokens_per_second_per_request)

    @property
    def seconds_per_token(self) -> float:
        """The same as time: 1 / median speed."""
        return 1.0 / self.speed

    @property
    def first_token_seconds(self) -> float | None:
        """Median time to first token; None where not measured."""
        values = self.time_to_first_token_seconds
        return median(values) if values else None

    @property
    def spread_percent(self) -> float:
        """Half-width of the median's 95 % interval (ledger), or the range (benchmark), in %."""
        values = self.output_tokens_per_second_per_request
        if self.source is PointSource.BENCHMARK:
            return 100.0 * (max(values) - min(values)) / self.speed
        low, high = median_interval(values)
        return 100.0 * (high - low) / 2 / self.speed

    @property
    def citable(self) -> bool:
        """Whether a decision or a report may rest on this point."""
        enough = len(self.output_tokens_per_second_per_request) >= CITABLE_WINDOWS
        return enough and self.spread_percent <= CITABLE_SPREAD_PERCENT

    @property
    def preempted(self) -> bool:
        """Whether requests pushed one another out, and it is known how full the pool was."""
        return bool(self.kv_share) and (self.preemptions_per_request or 0.0) >= MANY_PREEMPTIONS

    def to_dict(self) -> dict[str, Any]:
        """Return the point as JSON for the durable record."""
        raw: dict[str, Any] = {
            "concurrency": self.concurrency,
            "outputTokensPerSecondPerRequest": list(self.output_tokens_per_second_per_request),
            "source": self.source.value,
        }
        if self.time_to_first_token_seconds:
            raw["timeToFirstTokenSeconds"] = list(self.time_to_first_token_seconds)
        if self.time_per_output_token is not None:
            raw["timePerOutputToken"] = _histogram_to_dict(self.time_per_output_token)
        if self.newest_time_per_output_token is not None:
            raw["newestTimePerOutputToken"] = _histogram_to_dict(self.newest_time_per_output_token)
        for key, attribute in _OPTIONAL.items():
            value = getattr(self, attribute)
            if value not in (None, "", False):
                raw[key] = value
        return raw

    @classmethod
    def from_dict(cls, raw: object) -> SpeedPoint | None:
        """Read a point back; None where it is not what `to_dict` writes."""
        if not isinstance(raw, Mapping):
            return None
        try:
            speeds = _numbers(raw["outputTokensPerSecondPerRequest"])
            concurrency = float(raw["concurrency"])
            first = _numbers(raw.get("timeToFirstTokenSeconds", []))
            source = PointSource(raw.get("source", "Ledger"))
        except (KeyError, TypeError, ValueError):
            return None
        point = speed_point(concurrency, speeds, first, source=source)
        if isinstance(point, str):
            return None
        optional = {name: raw[key] for key, name in _OPTIONAL.items() if key in raw}
        times = _histogram_from(raw.get("timePerOutputToken"))
        newest = _histogram_from(raw.get("newestTimePerOutputToken"))
        return replace(_with(point, optional, times), newest_time_per_output_token=newest)


_OPTIONAL = {
    "capBinding": "cap_binding",
    "decoding": "decoding",
    "contextTokens": "context_tokens",
    "prefillShare": "prefill_share",
    "acceptance": "acceptance",
    "outputTokensPerSecond": "output_tokens_per_second",
    "kvShare": "kv_share",
    "preemptionsPerRequest": "preemptions_per_request",
    "pod": "pod",
    "fingerprint": "fingerprint",
    "measuredAt": "measured_at",
}


def speed_point(
    concurrency: float,
    speeds: Sequence[float],
    first_token_seconds: Sequence[float] = (),
    *,
    source: PointSource,
) -> SpeedPoint | str:
    """Return a point, or in one line what is wrong with it. Speeds in tokens per second."""
    if not math.isfinite(concurrency) or concurrency <= 0:
        return f"concurrency {concurrency!r} is not a positive number"
    if not speeds:
        return f"concurrency {concurrency:g} has no measured speed"
    if any(not math.isfinite(one) or one <= 0 for one in speeds):
        return f"concurrency {concurrency:g}: a speed is not a positive number"
    if any(not math.isfinite(one) or one < 0 for one in first_token_seconds):
        return f"concurrency {concurrency:g}: a time to first token is not a number from 0"
    return SpeedPoint(concurrency, tuple(speeds), tuple(first_token_seconds), source=source)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a 95 % interval of the median of independent values, from order statistics.

    The ranks leave at most 2.5 % of the binomial(n, 1/2) on each side; below six values even the
    extremes leave more, and the whole range is returned (five values: 93.75 %).
    """
    ordered = sorted(values)
    count = len(ordered)
    rank, tail = 0, 0.5**count
    while rank < count // 2 and tail <= 0.025:
        rank += 1
        tail += math.comb(count, rank) * 0.5**count
    first = max(rank - 1, 0)
    return ordered[first], ordered[count - 1 - first]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The measured points of one endpoint, newest last."""

    points: tuple[SpeedPoint, ...] = field(default=())

    def of(self, fingerprint: str) -> tuple[SpeedPoint, ...]:
        """Return the points that still hold: those of this configuration alone."""
        return tuple(one for one in self.points if one.fingerprint == fingerprint)


def _numbers(raw: object) -> list[float]:
    if not isinstance(raw, list):
        raise TypeError("not a list")
    return [float(one) for one in raw]


def _histogram_to_dict(histogram: Histogram) -> dict[str, Any]:
    pairs = zip(histogram.edges, histogram.cumulative, strict=True)
    return {
        "buckets": {repr(edge): count for edge, count in pairs},
        "count": histogram.total,
        "sum": histogram.sum,
    }


def _histogram_from(raw: object) -> Histogram | None:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("buckets"), Mapping):
        return None
    total, sum_ = raw.get("count"), raw.get("sum")
    if not isinstance(total, int | float) or not isinstance(sum_, int | float | None):
        return None
    read = read_histogram(raw["buckets"], float(total), None if sum_ is None else float(sum_))
    return None if isinstance(read, str) else read


def _with(
    point: SpeedPoint, optional: Mapping[str, Any], histogram: Histogram | None
) -> SpeedPoint:
    fields: dict[str, Any] = {}
    for name, value in optional.items():
        if name in {"pod", "fingerprint", "measured_at"}:
            fields[name] = str(value)
        elif name == "cap_binding":
            fields[name] = value is True
        elif isinstance(value, int | float) and math.isfinite(value):
            fields[name] = float(value)
    return SpeedPoint(
        point.concurrency,
        point.output_tokens_per_second_per_request,
        point.time_to_first_token_seconds,
        time_per_output_token=histogram,
        source=point.source,
        **fields,
    )
