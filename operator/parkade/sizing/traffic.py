"""The traffic that a decision rests on: chosen, assumed, and summed up for status."""

from __future__ import annotations

import math

from parkade.api import status
from parkade.api.spec import Assumed
from parkade.api.status import WorkloadBasis
from parkade.sizing.histograms import Histogram
from parkade.sizing.kv_bound import KVBound
from parkade.sizing.result import decimal
from parkade.sizing.wording import count, number
from parkade.sizing.workload import Workload


def assumed_workload(assumed: Assumed) -> Workload:
    """Return traffic of one prompt and one output length, as the spec assumes them."""
    return Workload(
        window_seconds=0.0,
        requests=1.0,
        prompt_tokens=_single(assumed.prompt_tokens),
        output_tokens=_single(assumed.output_tokens),
    )


def _single(tokens: int) -> Histogram:
    return Histogram((float(tokens),), (1.0,), 1.0, float(tokens))


def traffic_sentences(workload: Workload, basis: WorkloadBasis) -> tuple[str, ...]:
    """Return the means with their arithmetic."""
    if basis is WorkloadBasis.ASSUMED:
        return (
            (
                f"Traffic: none yet; workload.assumed says {count(workload.mean_prompt_tokens)} "
                f"prompt and {count(workload.mean_output_tokens)} output tokens."
            ),
        )
    prompt, output = workload.prompt_tokens, workload.output_tokens
    window = workload.window_seconds
    seconds = f" in {number(window)} s" if window > 0 else ", in a time that is not known"
    sentences = [
        f"Traffic: {count(workload.requests)} requests{seconds}.",
        _mean("prompt", prompt),
        _mean("output", output),
    ]
    if workload.prefix_cached_tokens > 0 and prompt.sum:
        sentences.append(
            f"Prefix cache: 100 × {count(workload.prefix_cached_tokens)} cached / "
            f"{count(prompt.sum)} prompt tokens = {number(100 * workload.cached_share, 2)} %."
        )
    return tuple(sentences)


def _mean(what: str, lengths: Histogram) -> str:
    return (
        f"Mean {what}: {count(lengths.sum or 0)} tokens / {count(lengths.total)} requests = "
        f"{number(lengths.mean or 0, 1)} tokens."
    )


def workload_status(
    workload: Workload, basis: WorkloadBasis, kv: KVBound | None
) -> status.Workload:
    """Return the summary for status."""
    measured = basis is WorkloadBasis.MEASURED
    flight = workload.in_flight
    return status.Workload(
        basis=basis,
        window_seconds=round(workload.window_seconds) if workload.window_seconds > 0 else None,
        requests=round(workload.requests) if measured else None,
        effective_requests=_interval(*kv.effective) if kv and measured else None,
        prompt_tokens=_lengths(workload.prompt_tokens),
        output_tokens=_lengths(workload.output_tokens),
        prefix_cached_percent=decimal(100 * workload.cached_share) if measured else None,
        footprint=_footprint(kv) if kv else None,
        running=decimal(flight.running) if flight else None,
        peak_requests_per_second=decimal(workload.peak_requests_per_second, 4),
        queued_percent=decimal(workload.queued_percent),
        preemptions_per_request=decimal(flight.preemptions / workload.requests, 4)
        if flight and workload.requests > 0
        else None,
    )


def _lengths(lengths: Histogram) -> status.Lengths:
    return status.Lengths(
        mean=decimal(lengths.mean, 1),
        median=_interval(*lengths.quantile(0.5)),
        p90=_interval(*lengths.quantile(0.9)),
        p99=_interval(*lengths.quantile(0.99)),
    )


def _interval(above: float, up_to: float) -> status.Interval:
    return status.Interval(
        above=math.floor(above), up_to=None if math.isinf(up_to) else math.ceil(up_to)
    )


def _footprint(kv: KVBound) -> status.Footprint:
    use = kv.footprint
    return status.Footprint(
        tokens=decimal(use.tokens, 1),
        low=decimal(use.low, 1),
        high=decimal(use.high, 1),
        basis=use.basis,
        scrapes=use.scrapes,
    )
