"""From what was read of the metrics to a workload that may decide, or the reason why it may not.

Every way in which an answer can be wrong has its outcome here. None of them is zero traffic, and
none is "fine": the running settings stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from parkade.api.conditions import Reason
from parkade.sizing.histograms import LARGEST, Histogram, read_histogram
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.workload import CannotTell, InFlight, Workload

MAX_AGE_SECONDS = 300.0
"""Prometheus itself forgets a series after five minutes without a sample."""

MAX_LOST_SHARE = 0.5
"""Pods that restarted within the window may lose at most this share of it."""

_NO_PODS = (
    "No metric of these pods is in the answer: check that they are scraped, and with their "
    "labels (docs/install.md, Prometheus)."
)
_NO_LENGTHS = (
    "The engines' length histograms (vllm:request_prompt_tokens, vllm:request_generation_tokens) "
    "are not in the answer: check that they run without --disable-log-stats."
)

Buckets = tuple[tuple[float, float], ...]
"""Upper edges (inf allowed) with cumulative counts."""


@dataclass(frozen=True, slots=True)
class RawHistogram:
    """A histogram as read, nothing checked."""

    buckets: Buckets
    sum: float | None
    count: float | None


@dataclass(frozen=True, slots=True)
class WorkloadReading:
    """What a source of metrics answered, nothing checked. None: the source does not have it."""

    window_seconds: float
    prompt_tokens: RawHistogram | None
    output_tokens: RawHistogram | None
    requests: float | None = None
    """Finished requests; None: the count of the prompt histogram."""
    prefix_cached_tokens: float | None = None
    peak_requests_per_second: float | None = None
    queued_percent: float | None = None
    running: float | None = None
    """Sum of running over scrapes that saw any, divided by their number; per pod."""
    kv_usage: float | None = None
    """Sum of KV usage over the same scrapes, divided by their number; per pod."""
    pool_tokens: float | None = None
    preemptions: float | None = None
    scrapes: int | None = None
    time_per_output_token: RawHistogram | None = None
    time_to_first_token: RawHistogram | None = None
    tokens_per_step: float | None = None
    pods: int = 1
    """That have a series in the answer."""
    age_seconds: float | None = None
    """Age of the newest sample; None where the source is a file."""
    warnings: tuple[str, ...] = ()
    """What the source itself said of its answer."""
    missing_pods: int = 0
    """Ready pods that have no series in the answer."""
    max_model_lens: tuple[int, ...] = ()
    """Distinct last edges of the pods' histograms of prompt lengths, which vLLM cuts there."""
    lost_share: float = 0.0
    """Share of the pods' time in the window that counter resets made unreadable, 0 to 1."""
    speed: tuple[SpeedPoint, ...] = ()


def gate(reading: WorkloadReading, *, min_requests: int) -> Workload | CannotTell:
    """Return the workload, or the first reason why the reading may not decide."""
    if reading.warnings:
        return CannotTell(
            Reason.PARTIAL_DATA, f"The answer is incomplete by its own word: {reading.warnings[0]}"
        )
    if reading.prompt_tokens is None or reading.output_tokens is None:
        missing = _NO_LENGTHS if reading.pods else _NO_PODS
        return CannotTell(Reason.NO_SERIES, missing)
    refusal = _source(reading)
    if refusal is not None:
        return refusal
    prompt = _histogram("prompt lengths", reading.prompt_tokens)
    if isinstance(prompt, CannotTell):
        return prompt
    output = _histogram("output lengths", reading.output_tokens)
    if isinstance(output, CannotTell):
        return output
    requests = prompt.total if reading.requests is None else reading.requests
    refusal = _numbers(reading) or _enough(requests, prompt, output, min_requests)
    return refusal or _workload(reading, requests, prompt, output)


def _source(reading: WorkloadReading) -> CannotTell | None:
    if reading.age_seconds is not None and not reading.age_seconds <= MAX_AGE_SECONDS:
        return CannotTell(
            Reason.STALE_DATA,
            f"The newest sample is {reading.age_seconds:.0f} s old, more than "
            f"{MAX_AGE_SECONDS:.0f} s.",
        )
    if reading.missing_pods > 0:
        return CannotTell(
            Reason.PARTIAL_DATA,
            f"{reading.missing_pods} of {reading.pods + reading.missing_pods} pods are missing "
            "from the metrics.",
        )
    if len(set(reading.max_model_lens)) > 1:
        lengths = ", ".join(f"{one:,}" for one in sorted(set(reading.max_model_lens)))
        return CannotTell(
            Reason.MIXED_MODEL_LENGTHS,
            f"Pods of the window ran with different max_model_len: their histograms of prompt "
            f"lengths end at {lengths} and do not add up.",
        )
    if not reading.lost_share <= MAX_LOST_SHARE:
        return CannotTell(
            Reason.COUNTER_RESET,
            f"Counter resets made {100 * reading.lost_share:.0f} % of the window unreadable, more "
            f"than {100 * MAX_LOST_SHARE:.0f} %.",
        )
    return None


def _histogram(what: str, raw: RawHistogram) -> Histogram | CannotTell:
    read = read_histogram(raw.buckets, raw.count, raw.sum)
    if isinstance(read, str):
        return CannotTell(Reason.INVALID_DATA, f"The histogram of {what} is not usable: {read}.")
    if read.total > 0 and not read.sum:
        return CannotTell(
            Reason.INVALID_DATA,
            f"The histogram of {what} counts {read.total:g} requests and has no sum of tokens.",
        )
    return read


def _numbers(reading: WorkloadReading) -> CannotTell | None:
    named = {
        "window": reading.window_seconds,
        "requests": reading.requests,
        "prefix-cached tokens": reading.prefix_cached_tokens,
        "peak rate": reading.peak_requests_per_second,
        "queued percentage": reading.queued_percent,
        "running requests": reading.running,
        "KV usage": reading.kv_usage,
        "pool": reading.pool_tokens,
        "preemptions": reading.preemptions,
        "tokens per step": reading.tokens_per_step,
    }
    for name, value in named.items():
        if value is not None and not 0 <= value <= LARGEST:
            return CannotTell(
                Reason.INVALID_DATA, f"The {name} is {value}, not a number from 0 to {LARGEST:g}."
            )
    if reading.kv_usage is not None and reading.kv_usage > 1:
        return CannotTell(Reason.INVALID_DATA, f"The KV usage is {reading.kv_usage:g}, above 1.")
    if reading.queued_percent is not None and reading.queued_percent > 100:
        return CannotTell(
            Reason.INVALID_DATA, f"{reading.queued_percent:g} % of requests queued, above 100."
        )
    return None


def _enough(
    requests: float, prompt: Histogram, output: Histogram, min_requests: int
) -> CannotTell | None:
    if requests <= 0 or prompt.total <= 0:
        return CannotTell(Reason.NO_TRAFFIC, "No request finished in the window.")
    if requests < min_requests:
        return CannotTell(
            Reason.INSUFFICIENT_REQUESTS,
            f"{requests:.0f} requests finished in the window, fewer than minRequests "
            f"{min_requests}.",
        )
    if output.total <= 0:
        return CannotTell(Reason.INVALID_DATA, "Requests finished, and no output was counted.")
    return None


def _optional(what: str, raw: RawHistogram | None) -> Histogram | CannotTell | None:
    if raw is None:
        return None
    read = read_histogram(raw.buckets, raw.count, raw.sum)
    if isinstance(read, str):
        return CannotTell(Reason.INVALID_DATA, f"The histogram of {what} is not usable: {read}.")
    return read if read.total > 0 and read.edges else None


def _in_flight(reading: WorkloadReading) -> InFlight | None:
    if not reading.running or not reading.kv_usage or not reading.pool_tokens:
        return None
    found = InFlight(
        reading.running,
        reading.kv_usage,
        reading.pool_tokens,
        reading.preemptions or 0.0,
        reading.scrapes,
    )
    # A request holds a token at least: less was measured beside the requests, not of them.
    return found if 1 <= found.tokens_per_request <= LARGEST else None


def _workload(
    reading: WorkloadReading, requests: float, prompt: Histogram, output: Histogram
) -> Workload | CannotTell:
    token_time = _optional("time per output token", reading.time_per_output_token)
    if isinstance(token_time, CannotTell):
        return token_time
    first = _optional("time to first token", reading.time_to_first_token)
    if isinstance(first, CannotTell):
        return first
    return Workload(
        window_seconds=reading.window_seconds,
        requests=requests,
        prompt_tokens=prompt,
        output_tokens=output,
        prefix_cached_tokens=reading.prefix_cached_tokens or 0.0,
        peak_requests_per_second=reading.peak_requests_per_second,
        queued_percent=reading.queued_percent,
        in_flight=_in_flight(reading),
        time_per_output_token=token_time,
        time_to_first_token=first,
        speed=reading.speed,
        tokens_per_step=max(1.0, reading.tokens_per_step or 1.0),
        pods=max(1, reading.pods),
    )
