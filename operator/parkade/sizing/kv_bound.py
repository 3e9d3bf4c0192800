"""How many requests the pool holds at a time, by what those in flight really hold.

A soft bound: vLLM admits what fits and preempts the rest, so a limit somewhat too high costs
recomputation, and one too low costs throughput. It is therefore taken at the mean footprint, not
at the worst edge of the buckets.
"""

from __future__ import annotations

from dataclasses import dataclass

from parkade.api.status import FootprintBasis, WorkloadBasis
from parkade.sizing.footprint import (
    MIN_SCRAPES,
    ComputedFootprint,
    computed_footprint,
    effective_requests,
    standard_error_percent,
)
from parkade.sizing.planner import KVLayout
from parkade.sizing.planner.specs import Kind, LayerSpec
from parkade.sizing.pool import Pool
from parkade.sizing.result import Bound, BoundKind, FootprintUse
from parkade.sizing.wording import count, number, ratio, rough
from parkade.sizing.workload import InFlight, Workload

_WINDOWS = frozenset({Kind.SLIDING_WINDOW, Kind.SLIDING_WINDOW_MLA})


@dataclass(frozen=True, slots=True)
class KVBound:
    """The bound with its arithmetic and its uncertainty."""

    bound: Bound
    footprint: FootprintUse
    sentences: tuple[str, ...]
    standard_error_percent: float
    effective: tuple[float, float]


def kv_bound(
    pool: Pool, workload: Workload, basis: WorkloadBasis = WorkloadBasis.MEASURED
) -> KVBound:
    """Return pool / footprint: measured where it was measured long enough, else computed.

    Assumed lengths have neither a bracket nor a standard error: they are one request.
    """
    layout = pool.capacity.layout
    computed = computed_footprint(workload, lambda length: held_blocks(layout, length))
    effective = effective_requests(workload.output_tokens)
    error = standard_error_percent(computed.length_spread, effective[0])
    measured = workload.in_flight
    if measured is not None and enough_scrapes(measured):
        bound, footprint, sentences = _measured(pool, measured)
    else:
        source = "workload.assumed" if basis is WorkloadBasis.ASSUMED else "the length histograms"
        bound, footprint, sentences = _computed(pool, workload, computed, source)
        if measured is not None:
            sentences = (*sentences, _too_few(measured))
    if basis is WorkloadBasis.ASSUMED:
        return KVBound(bound, footprint, sentences, 0.0, effective)
    uncertainty = (
        f"Standard error of the footprint: 100 × {number(computed.length_spread)} spread of what "
        f"requests hold / √{number(effective[0], 2)} effective requests = {number(error, 2)} % (of "
        f"{count(workload.requests)} requests; between {rough(effective[0])} and "
        f"{rough(effective[1])} equal ones by the buckets of their outputs)."
    )
    return KVBound(bound, footprint, (*sentences, uncertainty), error, effective)


def held_blocks(layout: KVLayout, length: int) -> int:
    """Return the blocks that a request of a length holds while it is answered.

    What the planner's `blocks` reserves for windows (a whole batch of tokens in flight) is held
    only while a prompt is read; afterwards blocks that left the window are freed
    (`remove_skipped_blocks`, vllm/v1/core/single_type_kv_cache_manager.py), and of a chunk half
    is filled on average.
    """
    tokens = length + layout.lookahead_tokens
    return sum(max(_held(spec, tokens) for spec in group.specs) for group in layout.groups)


def _held(spec: LayerSpec, tokens: int) -> int:
    most = spec.blocks(tokens)
    if spec.kind in _WINDOWS and spec.sliding_window is not None:
        return min(most, -(-(spec.sliding_window - 1) // spec.block_size) + 1)
    if spec.attention_chunk_size is not None and tokens > spec.attention_chunk_size:
        return min(most, -(-spec.attention_chunk_size // (2 * spec.block_size)))
    return most


def enough_scrapes(in_flight: InFlight) -> bool:
    """Whether the measured footprint wins; a traffic file states the ratio, which always does."""
    return in_flight.scrapes is None or in_flight.scrapes >= MIN_SCRAPES


def _measured(pool: Pool, measured: InFlight) -> tuple[Bound, FootprintUse, tuple[str, ...]]:
    tokens = measured.tokens_per_request
    value = pool.memory.pool_tokens / tokens
    over = "" if measured.scrapes is None else f" over {count(measured.scrapes)} scrapes"
    sentences = (
        (
            f"Footprint: {number(measured.kv_usage, 6)} of the pool in use × "
            f"{count(measured.pool_tokens)} tokens / {number(measured.running)} requests running = "
            f"{count(tokens)} tokens held by one request in flight (measured{over})."
        ),
        (
            f"KV bound: {count(pool.memory.pool_tokens)} tokens of pool / {count(tokens)} tokens = "
            f"{rough(value)} requests."
        ),
    )
    why = (
        f"The pool of {count(pool.memory.pool_tokens)} tokens holds {rough(value)} requests of "
        f"{count(tokens)} tokens, what one in flight was measured to hold{over}."
    )
    footprint = FootprintUse(tokens, FootprintBasis.MEASURED, scrapes=measured.scrapes)
    return Bound(BoundKind.KV_CACHE, value, why), footprint, sentences


def _computed(
    pool: Pool, workload: Workload, computed: ComputedFootprint, source: str
) -> tuple[Bound, FootprintUse, tuple[str, ...]]:
    usable = pool.usable_blocks
    value = usable / computed.blocks
    low, high = usable / computed.high_blocks, usable / computed.low_blocks
    tokens_per_block = pool.memory.pool_tokens / max(1, pool.capacity.num_blocks)
    certain = rough(low) == rough(high)
    kept = pool.capacity.num_blocks - usable
    blocks = f"{count(pool.capacity.num_blocks)} blocks"
    sentences = (
        *_stay_sentences(workload, computed),
        *(() if certain else (_bracket(computed, usable, (low, high)),)),
        (
            f"KV bound: ({blocks} - {kept} that the engine keeps) / {number(computed.blocks)} "
            f"blocks = {rough(value)} requests."
            if kept
            else f"KV bound: {blocks} / {number(computed.blocks)} blocks = {rough(value)} requests."
        ),
    )
    why = (
        f"The pool of {count(usable)} blocks holds {rough(value)} requests of "
        f"{rough(computed.blocks)} blocks, computed from {source}"
        f"{'' if certain else f' ({rough(low)} to {rough(high)})'}."
    )
    footprint = FootprintUse(
        computed.blocks * tokens_per_block,
        FootprintBasis.COMPUTED,
        computed.low_blocks * tokens_per_block,
        computed.high_blocks * tokens_per_block,
    )
    return Bound(BoundKind.KV_CACHE, value, why, low, high), footprint, sentences


def _stay_sentences(workload: Workload, computed: ComputedFootprint) -> tuple[str, ...]:
    """Return how long a request stays and what it holds meanwhile, in steps of one output token.

    The block-steps are a mean over both histograms, which a sentence cannot hold.
    """
    return (
        (
            f"Steps in flight: {number(workload.mean_output_tokens)} output tokens + "
            f"{ratio(computed.prefill_ratio)} × {number(workload.mean_prompt_tokens)} prompt "
            f"tokens = {number(computed.time)} (a prompt token takes "
            f"{ratio(computed.prefill_ratio)} of the time of an output token"
            f"{', cached ones included' if workload.cached_share else ''})."
        ),
        (
            f"Footprint: {number(computed.block_time)} block-steps / {number(computed.time)} "
            f"steps in flight = {number(computed.blocks)} blocks held by one request, of "
            f"{count(computed.mean_length)} tokens on average (computed; lengths of prompts and "
            "outputs taken as independent)."
        ),
    )


def _bracket(computed: ComputedFootprint, usable: int, bounds: tuple[float, float]) -> str:
    low, high = bounds
    return (
        f"Bracket: which output goes with which prompt is not known; it can be "
        f"{number(computed.low_blocks)} to {number(computed.high_blocks)} blocks, and "
        f"{count(usable)} blocks hold {rough(high)} to {rough(low)} requests of these; "
        f"{MIN_SCRAPES} scrapes with running requests would narrow it to 6 %."
    )


def _too_few(measured: InFlight) -> str:
    return (
        f"The footprint was also measured over {count(measured.scrapes or 0)} scrapes with "
        f"running requests, fewer than {MIN_SCRAPES}: {count(measured.tokens_per_request)} tokens; "
        "unused."
    )
