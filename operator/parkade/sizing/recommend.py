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
from parkade.api.status import LimitedBy, TriState, WorkloadBasis
from parkade.sizing.case import (
    Case,
    Speeds,
    Traffic,
    bounds_at,
    saturation,
    speeds_of,
    traffic_of,
)
from parkade.sizing.choice import Choice, Evidence, Target, choose, target
from parkade.sizing.explanation import Said, explanation
from parkade.sizing.first_token import replicas_needed
from parkade.sizing.fraction import settle
from parkade.sizing.inputs import Device, MeasuredMemory, SizingInputs
from parkade.sizing.ladder import TOP
from parkade.sizing.objectives import judge_objectives
from parkade.sizing.pool import (
    NO_CURE,
    Setup,
    misfit,
    pool_at,
    setup,
    spare_bytes,
)
from parkade.sizing.preemption import relieved
from parkade.sizing.result import (
    LIMITS,
    Bound,
    BoundKind,
    FootprintUse,
    MemoryMap,
    NotSizable,
    ObjectivesVerdict,
    Sizing,
)
from parkade.sizing.speed_bound import overhead
from parkade.sizing.trade_off import best_between
from parkade.sizing.traffic import workload_status
from parkade.sizing.wording import number, rough
from parkade.sizing.workload import Workload

__all__ = [
    "BASELINE_MAX_NUM_SEQS",
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

BASELINE_MAX_NUM_SEQS = 32
"""Without traffic, initial and assumed lengths: where a 27B model on a B200 was measured to give
100 tok/s to each request. Too low for short chats, too high for books; the traffic tells."""

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
    start = _start(inputs, traffic)
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
        wanted, choice = _choose(case)
        if choice.rung == rung:
            break
        rung = choice.rung
    return _sizing(case, wanted, choice)


def _start(inputs: SizingInputs, traffic: Traffic) -> int:
    """Return the max_num_seqs to begin with: in force, initial, or the baseline."""
    if inputs.in_force is not None:
        return inputs.in_force.max_num_seqs
    initial = inputs.spec.tuning.initial
    if initial is not None and traffic.workload is None:
        return initial.max_num_seqs
    return BASELINE_MAX_NUM_SEQS


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
        return replace(found, message=f"{words}. With no headroom: {found.message}")
    headroom = spare_bytes(pool) // MIB * MIB
    cure = f"lower tuning.headroom to at most {quantity(headroom)}"
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


def _choose(case: Case) -> tuple[Target, Choice]:
    if case.traffic.workload is None:
        return _without_traffic(case)
    missed = case.in_force is not None and _objectives(case, case.in_force).met is False
    smallest = target(case.bounds.by_kind, case.floor)
    wanted = _between(case, relieved(case, smallest, missed=missed))
    return wanted, choose(
        wanted, case.in_force, case.bounds.by_kind, case.floor, _evidence(case, wanted)
    )


def _evidence(case: Case, wanted: Target) -> Evidence:
    kv, speed = case.bounds.kv, case.bounds.speed
    error = 0.0
    if wanted.kind is BoundKind.SPEED and speed is not None:
        error = speed.standard_error_percent
    elif wanted.kind is BoundKind.KV_CACHE and kv is not None:
        error = kv.standard_error_percent
    return Evidence(
        min_gain_percent=float(case.inputs.spec.tuning.min_gain_percent),
        standard_error_percent=error,
        saturated=saturation(case.traffic.workload),
        overhead=overhead(case.speeds.points),
    )


def _between(case: Case, wanted: Target) -> Target:
    """Where the bound from below is above the speed bound, take what meets both most often."""
    objectives, workload = case.inputs.spec.objectives, case.traffic.workload
    first = case.bounds.by_kind.get(BoundKind.FIRST_TOKEN)
    if objectives is None or workload is None or first is None or first.value is None:
        return wanted
    speed = objectives.min_output_tokens_per_second
    both = speed and objectives.max_time_to_first_token_seconds
    if not speed or not both or wanted.kind is not BoundKind.SPEED or first.value <= wanted.rung:
        return wanted
    others = [
        bound.value
        for kind, bound in case.bounds.by_kind.items()
        if kind in LIMITS and kind is not BoundKind.SPEED and bound.value is not None
    ]
    highest = int(min(first.value, *others))
    rate = (workload.peak_requests_per_second or 0.0) / max(1, workload.pods)
    points = case.speeds.curve.measured if case.speeds.curve else ()
    best = best_between(points, 1.0 / speed, case.speeds.service, rate, (wanted.rung, highest))
    if best is None or best.rung == wanted.rung:
        return wanted
    return replace(
        wanted,
        unsnapped=float(best.rung),
        rung=best.rung,
        sentences=(*wanted.sentences, best.sentence),
    )


def _without_traffic(case: Case) -> tuple[Target, Choice]:
    """Return what runs while the traffic can't be told: what is in force, if allowed."""
    hard = target(
        {kind: case.bounds.by_kind[kind] for kind in (BoundKind.ENGINE, BoundKind.USER)},
        case.floor,
    )
    start = _start(case.inputs, case.traffic)
    rung = int(max(case.floor, min(start, hard.ceiling)))
    if case.in_force is not None:
        source = "in force"
    else:
        source = "tuning.initial" if case.inputs.spec.tuning.initial else "the baseline"
    observed = case.traffic.observed
    why = observed.message if observed else "Nothing is known of the traffic."
    message = f"{why} max_num_seqs stays {rung} ({source})."
    wanted = replace(hard, unsnapped=float(rung), rung=rung, sentences=())
    return wanted, Choice(rung, Reason.INSUFFICIENT_EVIDENCE, message)


def _objectives(case: Case, rung: int) -> ObjectivesVerdict:
    """Return the verdict on what a max_num_seqs gives.

    A queue breaks a wish for an early first token and no other: without that objective too few
    pods violate nothing that was asked for, and the explanation alone tells of them.
    """
    inputs, workload = case.inputs, case.traffic.workload
    objectives = inputs.spec.objectives
    measured = workload if case.traffic.basis is WorkloadBasis.MEASURED else None
    verdict = judge_objectives(
        objectives, measured, case.speeds.curve, case.speeds.points, float(rung)
    )
    words, _ = _replicas(case)
    if objectives is None or objectives.max_time_to_first_token_seconds is None or not words:
        return verdict
    message = f"{words} {verdict.message}"
    return ObjectivesVerdict(met=False, reason=Reason.NEEDS_REPLICAS, message=message)


def _replicas(case: Case) -> tuple[str, int | None]:
    """Return that more pods are needed and how many; nothing where these keep up."""
    workload, first = case.traffic.workload, case.bounds.by_kind.get(BoundKind.FIRST_TOKEN)
    if case.inputs.spec.objectives is None or workload is None or first is None:
        return "", None
    upper = target(case.bounds.by_kind, case.floor).unsnapped
    keeps_up = saturation(workload) is TriState.FALSE and upper >= (case.in_force or TOP)
    if first.value is None or first.value <= upper or keeps_up:
        return "", None
    service = case.speeds.service
    needed = replicas_needed(workload, service, upper)
    if needed is None or service is None:
        return "", None
    at_peak = (
        f"at least {rough(first.value)} requests at a time are"
        if first.value <= TOP
        else f"more than {TOP:,} requests at a time would be"
    )
    message = (
        f"On each pod {at_peak} needed at the peak, and at most {rough(upper)} may run: one "
        f"finishes {number(upper)} / {number(service.residence_seconds(upper))} s = "
        f"{number(service.requests_per_second(upper))} requests/s, so {needed:,} pods would keep "
        f"up with {number(workload.peak_requests_per_second or 0.0)} requests/s."
    )
    return message, needed


def _sizing(case: Case, wanted: Target, choice: Choice) -> Sizing:
    verdict = _objectives(case, choice.rung)
    words, replicas = _replicas(case)
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
        held_message=choice.message if choice.held else "",
        needs_replicas=replicas,
        overhead_bound=alarm is not None,
        explanation=explanation(
            case, wanted, choice, Said(alarm, words, _start(case.inputs, case.traffic))
        ),
        warnings=case.at.layout.warnings,
    )
