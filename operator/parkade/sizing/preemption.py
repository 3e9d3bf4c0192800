"""Staying below the KV bound where requests push one another out.

The bound is taken at the mean footprint, so the pool may overflow now and then. N goes below it
only where preemptions are many and an objective is missed. What preempted is remembered in the
ledger as a share of the pool: with fewer at a time the preemptions are gone, and without a memory
the bound would be tried again and again.
"""

from __future__ import annotations

from dataclasses import replace

from parkade.sizing.case import Case
from parkade.sizing.choice import Target
from parkade.sizing.ladder import rung_below
from parkade.sizing.ledger import MANY_PREEMPTIONS
from parkade.sizing.result import BoundKind
from parkade.sizing.wording import number


def relieved(case: Case, wanted: Target, *, missed: bool) -> Target:
    """Return the target below where preemptions are or were many. `missed`: an objective is.

    At least one rung below what is in force where they are many now; no raise, and no smaller
    step down, to where the ledger knows them to be many.
    """
    in_force = case.in_force
    if in_force is None or case.inputs.spec.objectives is None:
        return wanted
    lower = _below_what_runs(case, wanted, in_force) if missed else None
    if lower is not None:
        return lower
    moves = wanted.rung > in_force or (missed and wanted.rung < in_force)
    return _below_what_preempted(case, wanted, in_force) if moves else wanted


def _below_what_runs(case: Case, wanted: Target, in_force: int) -> Target | None:
    workload = case.traffic.workload
    if workload is None or workload.in_flight is None:
        return None
    preemptions = workload.in_flight.preemptions
    each = preemptions / max(1.0, workload.requests)
    rung = min(wanted.rung, max(case.floor, rung_below(in_force)))
    if each < MANY_PREEMPTIONS or rung >= in_force:
        return None
    sentence = (
        f"Preemptions: {number(preemptions, 1)} preemptions / {number(workload.requests, 1)} "
        f"requests = {number(each)} for each, and an objective is missed, so {rung}, below "
        f"{in_force}, is tried."
    )
    return replace(_lowered(wanted, rung, sentence), urgent=True)


def _below_what_preempted(case: Case, wanted: Target, in_force: int) -> Target:
    """Stop where the pool would be as full; a raise keeps minGainPercent away from it."""
    bound = case.bounds.by_kind.get(BoundKind.KV_CACHE)
    known = [one for one in case.inputs.ledger if one.preempted]
    if bound is None or bound.value is None or not known:
        return wanted
    point = min(known, key=lambda one: one.kv_share or 1.0)
    raises = wanted.rung > in_force
    spare = 1 + float(case.inputs.spec.tuning.min_gain_percent) / 100 if raises else 1.0
    share = point.kv_share or 1.0
    most = bound.value * share / spare
    if wanted.rung < most:
        return wanted
    rung = max(case.floor, rung_below(most), in_force if raises else 0)
    if rung >= wanted.rung:
        return wanted
    apart = f" / {number(spare)}" if raises else ""
    why = " (minGainPercent below it)" if raises else ""
    sentence = (
        f"Preemptions: {number(bound.value)} requests × {number(share)} of the pool{apart} = "
        f"{number(most)} requests{why}; with so much of the pool held there were "
        f"{number(point.preemptions_per_request or 0.0)} for each request, so {rung} and not "
        f"{wanted.rung}."
    )
    return _lowered(wanted, rung, sentence)


def _lowered(wanted: Target, rung: int, sentence: str) -> Target:
    return replace(
        wanted,
        unsnapped=min(wanted.unsnapped, float(rung)),
        kind=BoundKind.KV_CACHE,
        rung=rung,
        sentences=(*wanted.sentences, sentence),
    )
