"""What the engine itself takes: batch tokens, state blocks, host memory, failures seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from parkade.api import names
from parkade.api.quantity import gib, parse_bytes
from parkade.sizing.ladder import RUNGS, TOP
from parkade.sizing.pool import Pool, Setup, pool_at
from parkade.sizing.result import Bound, BoundKind
from parkade.sizing.wording import count

Limit = tuple[int, str]
"""The most that runs, and why."""

_TOKEN_BYTES = 4
"""Of a token id in pinned host memory (`RequestState.all_token_ids`, vllm/v1/worker/gpu 0.33)."""


def engine_bound(at: Setup, pool: Pool) -> Bound:
    """Return the smallest of the engine's own limits, and which one it is."""
    limits = [
        (TOP, f"{TOP} is the largest max_num_seqs that is tried."),
        *_batch_limits(at),
        *_block_limits(at, pool),
        *_host_limits(at),
    ]
    cap = at.inputs.max_num_seqs_cap
    if cap is not None:
        limits.append((cap, f"A start with more than {cap} failed in this configuration."))
    value, why = min(limits, key=lambda limit: limit[0])
    return Bound(BoundKind.ENGINE, float(max(1, value)), why)


def _batch_limits(at: Setup) -> Iterator[Limit]:
    tokens = at.args.max_num_batched_tokens
    yield tokens, f"The engine refuses more than max_num_batched_tokens {count(tokens)}."
    drafts = at.inputs.engine_spec.speculative_config
    if drafts is not None:
        each = 1 + drafts.num_speculative_tokens
        yield (
            tokens // each,
            (
                f"A step of {count(tokens)} tokens has room for {count(tokens // each)} requests "
                f"of {each} tokens, drafts included."
            ),
        )
    active = at.args.max_num_active_seqs
    if active is not None:
        yield active, f"--max-num-active-seqs lets {active} run."


def _block_limits(at: Setup, pool: Pool) -> Iterator[Limit]:
    blocks = pool.capacity.num_blocks
    if at.inputs.architecture.is_hybrid:
        yield (
            blocks,
            f"Each request takes a block of constant state, and there are {count(blocks)}.",
        )
    if not pool.capacity.fits_one_request:
        most = _most_that_fits(at, Decimal(pool.memory.utilization))
        yield most, f"With more than {most} one request no longer fits the pool."


def _most_that_fits(at: Setup, utilization: Decimal) -> int:
    """Return the largest rung that leaves room for one request; buffers grow with the rung."""
    for rung in reversed(RUNGS):
        if pool_at(at, utilization, rung).capacity.fits_one_request:
            return rung
    return 1


def _host_limits(at: Setup) -> Iterator[Limit]:
    """Yield what fits the container's memory limit: token ids of every slot are kept there.

    One pinned array with the V2 runner (since 0.29), two with the one before.
    """
    limit = _memory_limit_bytes(at.inputs.engine_spec.pod_template)
    if limit is None:
        return
    copies = 1 if at.args.version >= (0, 29, 0) else 2
    each = copies * _TOKEN_BYTES * at.inputs.spec.model.max_model_len
    yield (
        limit // each,
        (
            f"The container's memory limit of {gib(limit)} holds {count(limit // each)} requests' "
            f"token ids of {count(each)} bytes each."
        ),
    )


def _memory_limit_bytes(pod_template: Mapping[str, Any]) -> int | None:
    spec = pod_template.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    for container in containers if isinstance(containers, list) else ():
        if not isinstance(container, Mapping) or container.get("name") != names.ENGINE_CONTAINER:
            continue
        resources = container.get("resources")
        limits = resources.get("limits") if isinstance(resources, Mapping) else None
        if isinstance(limits, Mapping) and "memory" in limits:
            return parse_bytes(str(limits["memory"]))
    return None


def user_bound(at: Setup) -> Bound:
    """Return the upper end of the range that the user gives."""
    seqs = at.inputs.spec.tuning.max_num_seqs
    why = f"tuning.maxNumSeqs allows {seqs.min} to {max(seqs.min, seqs.max)}."
    return Bound(BoundKind.USER, float(max(seqs.min, seqs.max)), why)
