"""What the engine itself takes: batch tokens, active requests, state blocks, failures seen."""

from __future__ import annotations

from decimal import Decimal

from parkade.sizing.ladder import RUNGS, TOP
from parkade.sizing.pool import Pool, Setup, pool_at
from parkade.sizing.result import Bound, BoundKind
from parkade.sizing.wording import count


def engine_bound(at: Setup, pool: Pool) -> Bound:
    """Return the smallest of the engine's own limits, and which one it is."""
    limits: list[tuple[int, str]] = [
        (TOP, f"{TOP} is the largest max_num_seqs that is tried."),
        (
            at.args.max_num_batched_tokens,
            (
                f"The engine refuses more than max_num_batched_tokens "
                f"{count(at.args.max_num_batched_tokens)}."
            ),
        ),
    ]
    if at.args.max_num_active_seqs is not None:
        limits.append(
            (
                at.args.max_num_active_seqs,
                f"--max-num-active-seqs lets {at.args.max_num_active_seqs} run.",
            )
        )
    if at.inputs.architecture.is_hybrid:
        limits.append(
            (
                max(1, pool.capacity.num_blocks),
                (
                    f"Constant state takes a block of each request, and there are "
                    f"{count(pool.capacity.num_blocks)}."
                ),
            )
        )
    cap = at.inputs.max_num_seqs_cap
    if cap is not None:
        limits.append((max(1, cap), f"A start with more than {cap} failed in this configuration."))
    if not pool.capacity.fits_one_request:
        most = _most_that_fits(at, Decimal(pool.memory.utilization))
        limits.append((most, f"With more than {most} one request no longer fits the pool."))
    value, why = min(limits, key=lambda limit: limit[0])
    return Bound(BoundKind.ENGINE, float(value), why)


def _most_that_fits(at: Setup, utilization: Decimal) -> int:
    """Return the largest rung that leaves room for one request; buffers grow with the rung."""
    for rung in reversed(RUNGS):
        if pool_at(at, utilization, rung).capacity.fits_one_request:
            return rung
    return 1


def user_bound(at: Setup) -> Bound:
    """Return the upper end of the range that the user gives."""
    seqs = at.inputs.spec.tuning.max_num_seqs
    why = f"tuning.maxNumSeqs allows {seqs.min} to {max(seqs.min, seqs.max)}."
    return Bound(BoundKind.USER, float(max(seqs.min, seqs.max)), why)
