"""From the inputs to settings with their arithmetic: the entry of sizing.

`recommend` reads as the list of its steps: what the engine is, which fraction leaves the
headroom, what the traffic is, and then pool, bounds and rung until they agree.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from parkade.api.conditions import Reason
from parkade.api.quantity import MIB, gib, quantity
from parkade.api.settings import Settings
from parkade.api.status import LimitedBy
from parkade.sizing.case import (
    Case,
    Speeds,
    Traffic,
    bounds_at,
    saturation,
    speeds_of,
    traffic_of,
)
from parkade.sizing.choice import Choice, Target
from parkade.sizing.decision import decide, objectives_at, replicas_of, start_of
from parkade.sizing.explanation import Said, explanation
from parkade.sizing.fraction import settle
from parkade.sizing.inputs import Device, MeasuredMemory, SizingInputs
from parkade.sizing.pool import (
    NO_CURE,
    Setup,
    misfit,
    pool_at,
    setup,
    spare_bytes,
)
from parkade.sizing.result import (
    Bound,
    BoundKind,
    FootprintUse,
    MemoryMap,
    NotSizable,
    ObjectivesVerdict,
    Sizing,
)
from parkade.sizing.speed_bound import overhead
from parkade.sizing.traffic import workload_status
from parkade.sizing.workload import Workload

__all__ = [
    "Bound",
    "BoundKind",
    "Device",
    "FootprintUse",
    "MeasuredMemory",
    "MemoryMap",
    "NotSizable",
    "ObjectivesVerdict",
    "Sizing",
    "SizingInputs",
    "recommend",
]

_ROUNDS = 4
"""Pool and rung depend on each other a little (sampler, graphs) and agree after two rounds."""


def recommend(inputs: SizingInputs) -> Sizing | NotSizable:
    """Return settings with their arithmetic, or why there are none.

    `Sizing.settings` is what should run after hysteresis. Traffic that can't be told keeps what
    is in force; a new endpoint then starts from `initial`, else `assumed`, else the baseline.
    """
    at = setup(inputs)
    if isinstance(at, NotSizable):
        return at
    wanted = at.fraction_basis().utilization
    if wanted is None:
        return _no_budget(at)
    unfit = misfit(pool_at(at, wanted, inputs.spec.tuning.max_num_seqs.min))
    if unfit is not None:
        return unfit
    traffic = traffic_of(inputs)
    start = start_of(inputs, traffic)
    run = _settled_fraction(at, wanted, start)
    return _agree(at, (wanted, run), start, traffic, speeds_of(inputs, traffic))


def _agree(
    at: Setup, fractions: tuple[Decimal, Decimal], start: int, traffic: Traffic, speeds: Speeds
) -> Sizing:
    """Size the pool for a rung and the rung for the pool, until they agree."""
    rung = start
    for _ in range(_ROUNDS):
        pool = pool_at(at, fractions[1], rung)
        bounds = bounds_at(at, pool, traffic, speeds)
        case = Case(at, *fractions, pool, traffic, speeds, bounds)
        wanted, choice = decide(case)
        if choice.rung == rung:
            break
        rung = choice.rung
    return _sizing(case, wanted, choice)


def _no_budget(at: Setup) -> NotSizable:
    """Say that the headroom takes all, and whether a smaller one would help."""
    basis = at.fraction_basis()
    outside = basis.correction_bytes
    less = f" - {gib(outside)} taken outside the budget" if outside > 0 else ""
    words = (
        f"Nothing is left: {gib(basis.free_bytes)} free - {gib(basis.headroom_bytes)} headroom"
        f"{less} = {gib(basis.budget_bytes)}"
    )
    bare = replace(basis, headroom_bytes=0)
    most = bare.utilization
    if most is None:
        return NotSizable(Reason.DOES_NOT_FIT, f"{words}; {NO_CURE} would fit.")
    pool = pool_at(at, most, at.inputs.spec.tuning.max_num_seqs.min)
    found = misfit(pool, headroom_bytes=0)
    if found is not None:
        return replace(found, message=f"{words}. With tuning.headroom 0: {found.message}")
    headroom = max(0, spare_bytes(pool) // MIB * MIB)
    most_words = f"at most {quantity(headroom)}" if headroom else "0"
    cure = f"lower tuning.headroom to {most_words}"
    return NotSizable(Reason.DOES_NOT_FIT, f"{words}; {cure}.", headroom_bytes=headroom)


def _settled_fraction(at: Setup, wanted: Decimal, seqs: int) -> Decimal:
    """Return the fraction to run: in force, the user's initial one, or the computed one."""
    inputs, spec = at.inputs, at.inputs.spec.tuning
    measured = isinstance(inputs.workload, Workload)
    if inputs.in_force is None:
        if spec.initial is None or measured:
            return wanted
        return spec.initial.settings.gpu_memory_utilization
    now = inputs.in_force.gpu_memory_utilization
    pool = pool_at(at, now, seqs)
    if misfit(pool) is not None:
        return wanted
    gain = 0.0
    if measured:  # with too little data the running settings stay
        larger = pool_at(at, wanted, seqs).memory.available_kv_bytes
        gain = 100.0 * (larger / pool.memory.available_kv_bytes - 1)
    return settle(
        at.fraction_basis(),
        wanted,
        now,
        pool_gain_percent=gain,
        min_gain_percent=float(spec.min_gain_percent),
    )


def _sizing(case: Case, wanted: Target, choice: Choice) -> Sizing:
    verdict = objectives_at(case, choice.rung)
    words, replicas = replicas_of(case)
    workload, kv = case.traffic.workload, case.bounds.kv
    alarm = overhead(case.speeds.points)
    limited_by: LimitedBy | None = wanted.limited_by if workload is not None else None
    return Sizing(
        settings=Settings(choice.rung, case.run_fraction),
        target=Settings(wanted.rung, case.wanted_fraction),
        unsnapped=wanted.unsnapped,
        limited_by=limited_by,
        bounds=case.bounds.by_kind,
        saturated=saturation(workload),
        objectives=verdict,
        memory=case.pool.memory,
        workload=workload_status(workload, case.traffic.basis, kv) if workload else None,
        footprint=kv.footprint if kv else None,
        observed=case.traffic.observed,
        held=choice.held,
        held_message="" if choice.held is None and choice.firm else choice.message,
        firm=choice.firm,
        needs_replicas=replicas,
        overhead_bound=alarm is not None,
        explanation=explanation(
            case, wanted, choice, Said(alarm, words, start_of(case.inputs, case.traffic))
        ),
        warnings=case.at.layout.warnings,
    )
