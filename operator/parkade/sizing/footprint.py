"""What one request holds of the pool while it is in the engine, averaged over time.

Not the mean over requests: a request that stays longer is seen more often. Measured, it is the
ratio of sums over scrapes; computed, it follows from the two length histograms, weighted by the
time that each length stays (prefill and decode).

For a request of p prompt and o output tokens, with r the seconds of prefill per token in units of
the seconds of decode per token:

    residence = r * f * p + o
    held      = r * f * p * B(p - f * p / 2) + o * B(p + o / 2)
    footprint = E[held] / E[residence]

where B is the blocks of a length and f the share of the prompt that no cache holds, since a
prompt is read in chunks that take their blocks one after the other, and an output grows
token by token. The two histograms are marginals: which output goes with which prompt is not
known. Independence is the point; outputs rising with prompts, and falling with them, are the
ends of the bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from parkade.sizing.histograms import Bucket, Histogram
from parkade.sizing.workload import Workload

MIN_SCRAPES = 100
"""A measured footprint wins from here on: by then it was within 6 % of the truth on traces."""

DEFAULT_PREFILL_RATIO = 0.01
"""Seconds of prefill per prompt token over seconds of decode per output token, where not
measured. A 27B model on a B200: 0.002 for a lone prompt (54,000 tokens/s, 10 ms per output token)
to 0.03 where prompts wait for each other (a third of 32 requests was in prefill)."""

Blocks = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class ComputedFootprint:
    """Blocks that a request in flight holds, as a bracket with a point in it."""

    blocks: float
    low_blocks: float
    high_blocks: float
    mean_length: float
    """Mean tokens of a request in flight, at the point."""
    length_spread: float
    """Coefficient of variation of the footprint over requests in flight, at the point."""
    prefill_ratio: float
    block_time: float
    """Blocks times the time that they are held, per request, in units of one output token."""
    time: float
    """Time in flight per request, in the same unit."""


@dataclass(frozen=True, slots=True)
class _Cell:
    prompt: float
    output: float
    weight: float


def computed_footprint(workload: Workload, blocks: Blocks) -> ComputedFootprint:
    """Return the footprint that the two histograms allow. `blocks` maps tokens to blocks."""
    ratio = prefill_ratio(workload)
    prompts, outputs = workload.prompt_tokens.buckets(), workload.output_tokens.buckets()
    memo: dict[int, int] = {}

    def held(length: float) -> int:
        whole = max(1, math.ceil(length))
        if whole not in memo:
            memo[whole] = blocks(whole)
        return memo[whole]

    fresh = 1.0 - workload.cached_share
    point = _mean(_independent(prompts, outputs), ratio, fresh, held)
    rising = _mean(_coupled(prompts, outputs), ratio, fresh, held)
    falling = _mean(_coupled(prompts, tuple(reversed(outputs))), ratio, fresh, held)
    ends = (point.blocks, rising.blocks, falling.blocks)
    return ComputedFootprint(
        blocks=point.blocks,
        low_blocks=min(ends),
        high_blocks=max(ends),
        mean_length=point.length,
        length_spread=point.spread,
        prefill_ratio=ratio * fresh,
        block_time=point.block_time,
        time=point.time,
    )


def prefill_ratio(workload: Workload) -> float:
    """Return seconds of prefill per uncached prompt token over seconds of decode per token.

    Measured where both times are: the mean time to first token holds the wait in the queue too,
    so it is used only where at most 1 % of requests queued.
    """
    first, token = workload.time_to_first_token, workload.time_per_output_token
    fresh_prompt = workload.mean_prompt_tokens * (1.0 - workload.cached_share)
    if first is None or token is None or not first.mean or not token.mean or fresh_prompt <= 0:
        return DEFAULT_PREFILL_RATIO
    if workload.queued_percent is None or workload.queued_percent > 1:
        return DEFAULT_PREFILL_RATIO
    return min(1.0, first.mean / fresh_prompt / token.mean)


def _independent(prompts: Sequence[Bucket], outputs: Sequence[Bucket]) -> Iterable[_Cell]:
    total = sum(bucket.count for bucket in outputs)
    for prompt in prompts:
        for output in outputs:
            yield _Cell(prompt.point, output.point, prompt.count * output.count / total)


def _coupled(prompts: Sequence[Bucket], outputs: Sequence[Bucket]) -> Iterable[_Cell]:
    """Pair both in the order given: the longest with the longest, or with the shortest."""
    scale = sum(one.count for one in prompts) / sum(one.count for one in outputs)
    rest = [(one.point, one.count * scale) for one in outputs]
    index = 0
    for prompt in prompts:
        left = prompt.count
        while left > 1e-9 * prompt.count and index < len(rest):
            output, available = rest[index]
            taken = min(left, available)
            yield _Cell(prompt.point, output, taken)
            left -= taken
            rest[index] = (output, available - taken)
            if available - taken <= 1e-9 * prompt.count:
                index += 1


@dataclass(frozen=True, slots=True)
class _Held:
    """Time-weighted means over requests in flight."""

    blocks: float
    length: float
    spread: float
    block_time: float
    time: float


def _mean(
    cells: Iterable[_Cell], ratio: float, fresh: float, held: Callable[[float], int]
) -> _Held:
    weight = time = blocks = length = squares = 0.0
    for cell in cells:
        weight += cell.weight
        for seconds, tokens in (
            (ratio * fresh * cell.prompt, cell.prompt * (1 - fresh / 2)),
            (cell.output, cell.prompt + cell.output / 2),
        ):
            share = cell.weight * seconds
            now = held(tokens)
            time += share
            blocks += share * now
            length += share * tokens
            squares += share * now * now
    if time <= 0:
        return _Held(float(held(1)), 1.0, 0.0, float(held(1)), 1.0)
    mean = blocks / time
    variance = max(0.0, squares / time - mean * mean)
    spread = math.sqrt(variance) / mean
    return _Held(mean, length / time, spread, blocks / weight, time / weight)


def effective_requests(outputs: Histogram) -> tuple[float, float]:
    """Return how many equal requests these are worth, as an interval from the buckets.

    (sum of outputs)^2 / sum of squares (Kish's effective sample size): 693 requests of a code
    service are worth 124. The sum is exact; the squares are known only between the least and the
    most that values in these buckets with this sum can have.
    """
    buckets = outputs.buckets()
    total = sum(bucket.count * bucket.point for bucket in buckets)
    if total <= 0:
        return 0.0, 0.0
    least, most = _least_squares(buckets, total), _most_squares(buckets, total)
    return total * total / most, min(outputs.total, total * total / least)


def _least_squares(buckets: Sequence[Bucket], total: float) -> float:
    """Return the least sum of squares: all values as equal as their buckets allow."""

    def filled(level: float) -> list[float]:
        return [min(max(level, bucket.low), bucket.high) for bucket in buckets]

    low, high = 0.0, max(bucket.high for bucket in buckets)
    for _ in range(60):
        level = (low + high) / 2
        reached = sum(
            bucket.count * one for bucket, one in zip(buckets, filled(level), strict=True)
        )
        low, high = (level, high) if reached < total else (low, level)
    return sum(bucket.count * one**2 for bucket, one in zip(buckets, filled(high), strict=True))


def _most_squares(buckets: Sequence[Bucket], total: float) -> float:
    """Return the most: all values at their lower edges, the rest raised from the longest down."""
    squares = sum(bucket.count * bucket.low**2 for bucket in buckets)
    rest = total - sum(bucket.count * bucket.low for bucket in buckets)
    for bucket in sorted(buckets, key=lambda one: one.low, reverse=True):
        raised = min(rest, bucket.count * (bucket.high - bucket.low))
        squares += raised * (bucket.low + bucket.high)
        rest -= raised
        if rest <= 0:
            break
    return max(squares, total * total / max(1e-9, sum(bucket.count for bucket in buckets)))


def standard_error_percent(spread: float, effective: float) -> float:
    """Return the relative standard error of a mean over requests in flight, in percent.

    `spread` is their coefficient of variation, `effective` the effective sample size.
    """
    return 100.0 * spread / math.sqrt(effective) if effective >= 1 else 100.0
