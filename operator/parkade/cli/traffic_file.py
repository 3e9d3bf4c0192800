"""The traffic file: what an endpoint got in a window, written down by a person or a script."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from parkade.cli.errors import UsageError
from parkade.sizing.gates import RawHistogram, WorkloadReading
from parkade.sizing.histograms import LARGEST, Histogram, read_histogram
from parkade.sizing.ledger import PointSource, SpeedPoint, speed_point

_SLACK = 0.01
"""Sums may lie this share outside what their buckets allow: exporters extrapolate."""

Number = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
Concurrency = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Speed = Annotated[float, Field(ge=1e-3, le=1e7, allow_inf_nan=False)]
_EDGE = re.compile(r"\+?(inf|\d+\.?\d*(e[+-]?\d+)?|\.\d+)", re.IGNORECASE | re.ASCII)


def _edges_as_text(raw: object) -> object:
    """Return buckets with text for keys: YAML reads an edge without quotes as a number."""
    if not isinstance(raw, dict):
        return raw
    return {
        str(edge) if isinstance(edge, int | float) and not isinstance(edge, bool) else edge: count
        for edge, count in raw.items()
    }


Buckets = Annotated[
    dict[str, Number], BeforeValidator(_edges_as_text), Field(min_length=1, max_length=1000)
]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)


class TokenHistogram(_Strict):
    """Lengths: cumulative counts at upper edges, and the exact sum of the tokens."""

    sum: Number
    buckets: Buckets


class TimeHistogram(_Strict):
    """Seconds per request: cumulative counts at upper edges."""

    sum: Number | None = None
    buckets: Buckets


class InFlightFigures(_Strict):
    """Ratio of sums over the window, per pod."""

    running: Positive
    kv_usage: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    pool_tokens: Positive
    preemptions: Number = 0.0


class MeasuredSpeed(_Strict):
    """One rung of a ladder under constant load."""

    concurrency: Concurrency
    output_tokens_per_second_per_request: Annotated[
        list[Speed], Field(min_length=1, max_length=10_000)
    ]
    time_to_first_token_seconds: Annotated[list[Number], Field(max_length=10_000)] = []


class TrafficFile(_Strict):
    """The whole file. Only the first four keys are required."""

    window_seconds: Positive
    requests: Number
    prompt_tokens: TokenHistogram
    output_tokens: TokenHistogram
    prefix_cached_tokens: Number = 0.0
    peak_requests_per_second: Number | None = None
    queued_percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None
    in_flight: InFlightFigures | None = None
    time_per_output_token: TimeHistogram | None = None
    time_to_first_token: TimeHistogram | None = None
    tokens_per_step: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] | None = None
    speed: Annotated[list[MeasuredSpeed], Field(max_length=1000)] = []


def read_traffic(raw: dict[str, Any], path: str, pods: int = 1) -> WorkloadReading:
    """Return the reading of a traffic file, or refuse it with what is wrong and where.

    `pods` shared the traffic: counts are the endpoint's.
    """
    try:
        file = TrafficFile.model_validate(_without_nulls(raw))
    except ValidationError as error:
        raise UsageError(f"traffic file {path!r}: {_first(error)}") from error
    if file.prefix_cached_tokens > file.prompt_tokens.sum:
        raise UsageError(
            f"traffic file {path!r}: prefixCachedTokens {_plain(file.prefix_cached_tokens)} is "
            f"more than all prompt tokens, {_plain(file.prompt_tokens.sum)}"
        )
    flight = file.in_flight
    if flight is not None:
        _check_footprint(flight, path)
    return WorkloadReading(
        window_seconds=file.window_seconds,
        requests=file.requests,
        prompt_tokens=_lengths(file.prompt_tokens, file.requests, "promptTokens", path),
        output_tokens=_lengths(file.output_tokens, file.requests, "outputTokens", path),
        prefix_cached_tokens=file.prefix_cached_tokens,
        peak_requests_per_second=file.peak_requests_per_second,
        queued_percent=file.queued_percent,
        running=flight.running if flight else None,
        kv_usage=flight.kv_usage if flight else None,
        pool_tokens=flight.pool_tokens if flight else None,
        preemptions=flight.preemptions if flight else None,
        time_per_output_token=_times(file.time_per_output_token, "timePerOutputToken", path),
        time_to_first_token=_times(file.time_to_first_token, "timeToFirstToken", path),
        tokens_per_step=file.tokens_per_step,
        speed=_points(file.speed, path),
        pods=pods,
    )


def _without_nulls(raw: object) -> object:
    """Return the value without keys that were left empty: they are not given."""
    if isinstance(raw, list):
        return [_without_nulls(one) for one in raw]
    if not isinstance(raw, dict):
        return raw
    return {key: _without_nulls(one) for key, one in raw.items() if one is not None}


def _check_footprint(flight: InFlightFigures, path: str) -> None:
    tokens = flight.kv_usage * flight.pool_tokens / flight.running
    if flight.kv_usage > 0 and not 1 <= tokens <= LARGEST:
        raise UsageError(
            f"traffic file {path!r}: inFlight: kvUsage × poolTokens / running gives {tokens:g} "
            "tokens for each request, and a request holds at least one"
        )


def _plain(value: float) -> str:
    return f"{value:,.15g}"


def _lengths(given: TokenHistogram, requests: float, name: str, path: str) -> RawHistogram:
    counted = max(given.buckets.values())
    if counted > requests:
        raise UsageError(
            f"traffic file {path!r}: {name}.buckets count {_plain(counted)} requests, more than "
            f"the {_plain(requests)} of requests"
        )
    return _raw(_read(given.buckets, requests, given.sum, name, path), given.sum)


def _times(given: TimeHistogram | None, name: str, path: str) -> RawHistogram | None:
    if given is None:
        return None
    return _raw(_read(given.buckets, None, given.sum, name, path), given.sum)


def _check_sum(histogram: Histogram, sum_: float, name: str, path: str) -> None:
    """Refuse a sum that values in these buckets cannot have; the last bucket may be open."""
    low = sum(bucket.low * bucket.count for bucket in histogram.buckets())
    high = sum(bucket.high * bucket.count for bucket in histogram.buckets())
    closed = bool(histogram.cumulative) and histogram.cumulative[-1] >= histogram.total
    if sum_ < low * (1 - _SLACK) or (closed and sum_ > high * (1 + _SLACK)):
        allowed = f"{_plain(low)} to {_plain(high)}" if closed else f"at least {_plain(low)}"
        raise UsageError(
            f"traffic file {path!r}: {name}.sum {_plain(sum_)} does not go with its buckets, "
            f"which allow {allowed}"
        )


def _raw(histogram: Histogram, sum_: float | None) -> RawHistogram:
    pairs = tuple(zip(histogram.edges, histogram.cumulative, strict=True))
    return RawHistogram((*pairs, (math.inf, histogram.total)), sum_, histogram.total)


def _read(
    buckets: dict[str, float], total: float | None, sum_: float | None, name: str, path: str
) -> Histogram:
    odd = next((edge for edge in buckets if not _EDGE.fullmatch(edge)), None)
    if odd is not None:
        raise UsageError(
            f"traffic file {path!r}: {name}.buckets: {odd[:40]!r} is not an upper edge: a number "
            "above 0 or +Inf"
        )
    read = read_histogram(buckets, total, sum_)
    if isinstance(read, str):
        raise UsageError(f"traffic file {path!r}: {name}.buckets: {read}")
    if sum_ is not None:
        _check_sum(read, sum_, name, path)
    return read


def _points(given: Sequence[MeasuredSpeed], path: str) -> tuple[SpeedPoint, ...]:
    """Return one point for each concurrency: entries of the same one are runs of it."""
    runs: dict[float, list[MeasuredSpeed]] = {}
    for one in given:
        runs.setdefault(one.concurrency, []).append(one)
    points = []
    for concurrency, several in runs.items():
        point = speed_point(
            concurrency,
            [value for one in several for value in one.output_tokens_per_second_per_request],
            [value for one in several for value in one.time_to_first_token_seconds],
            source=PointSource.BENCHMARK,
        )
        if isinstance(point, str):
            raise UsageError(f"traffic file {path!r}: speed: {point}")
        points.append(point)
    return tuple(points)


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    if "[key]" in problem["loc"]:
        return f"{where.removesuffix('.[key]')} is not an upper edge: a number above 0 or +Inf"
    said = _SAID.get(problem["type"])
    return f"{where} {said}" if said else f"{where}: {problem['msg']}"


_SAID = {
    "extra_forbidden": "is not a field of a traffic file",
    "missing": "is missing",
    "too_short": "is empty",
    "dict_type": "must be an object with fields",
    "model_type": "must be an object with fields",
    "list_type": "must be a list",
    "float_type": "must be a number",
}
