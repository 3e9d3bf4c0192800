"""The traffic file: what an endpoint got in a window, written down by a person or a script."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from parkade.cli.errors import UsageError
from parkade.sizing.gates import RawHistogram, WorkloadReading
from parkade.sizing.histograms import Histogram, read_histogram
from parkade.sizing.ledger import PointSource, SpeedPoint, speed_point

_SLACK = 0.01
"""Sums may lie this share outside what their buckets allow: exporters extrapolate."""

Number = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Buckets = Annotated[dict[str, Number], Field(min_length=1, max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        coerce_numbers_to_str=True,
    )


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

    concurrency: Positive
    output_tokens_per_second_per_request: Annotated[
        list[Positive], Field(min_length=1, max_length=10_000)
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


def read_traffic(raw: dict[str, Any], path: str) -> WorkloadReading:
    """Return the reading of a traffic file, or refuse it with what is wrong and where."""
    try:
        file = TrafficFile.model_validate(raw)
    except ValidationError as error:
        raise UsageError(f"traffic file {path!r}: {_first(error)}") from error
    if file.prefix_cached_tokens > file.prompt_tokens.sum:
        raise UsageError(
            f"traffic file {path!r}: prefixCachedTokens {file.prefix_cached_tokens:g} is more than "
            f"all prompt tokens, {file.prompt_tokens.sum:g}"
        )
    flight = file.in_flight
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
        speed=tuple(_point(one, index, path) for index, one in enumerate(file.speed)),
    )


def _lengths(given: TokenHistogram, requests: float, name: str, path: str) -> RawHistogram:
    counted = max(given.buckets.values())
    if counted > requests:
        raise UsageError(
            f"traffic file {path!r}: {name}.buckets count {counted:g} requests, more than the "
            f"{requests:g} of requests"
        )
    histogram = _read(given.buckets, requests, given.sum, name, path)
    low = sum(bucket.low * bucket.count for bucket in histogram.buckets())
    high = sum(bucket.high * bucket.count for bucket in histogram.buckets())
    closed = not histogram.cumulative or histogram.cumulative[-1] >= histogram.total
    if given.sum < low * (1 - _SLACK) or (closed and given.sum > high * (1 + _SLACK)):
        raise UsageError(
            f"traffic file {path!r}: {name}.sum {given.sum:g} does not go with its buckets, which "
            f"allow {low:g} to {high:g}"
        )
    return _raw(histogram, given.sum)


def _times(given: TimeHistogram | None, name: str, path: str) -> RawHistogram | None:
    if given is None:
        return None
    return _raw(_read(given.buckets, None, given.sum, name, path), given.sum)


def _raw(histogram: Histogram, sum_: float | None) -> RawHistogram:
    pairs = tuple(zip(histogram.edges, histogram.cumulative, strict=True))
    return RawHistogram((*pairs, (math.inf, histogram.total)), sum_, histogram.total)


def _read(
    buckets: dict[str, float], total: float | None, sum_: float | None, name: str, path: str
) -> Histogram:
    read = read_histogram(buckets, total, sum_)
    if isinstance(read, str):
        raise UsageError(f"traffic file {path!r}: {name}.buckets: {read}")
    return read


def _point(given: MeasuredSpeed, index: int, path: str) -> SpeedPoint:
    point = speed_point(
        given.concurrency,
        given.output_tokens_per_second_per_request,
        given.time_to_first_token_seconds,
        source=PointSource.BENCHMARK,
    )
    if isinstance(point, str):
        raise UsageError(f"traffic file {path!r}: speed.{index}: {point}")
    return point


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{where} is not a field of a traffic file"
    if problem["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {problem['msg']}"
