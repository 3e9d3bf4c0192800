"""From the bounds to the rung to run: what they want, and whether what is in force moves."""

from __future__ import annotations

from dataclasses import replace

from parkade.api.conditions import Reason
from parkade.api.status import TriState, WorkloadBasis
from parkade.sizing.case import SATURATED_PERCENT, Case, Traffic, saturation
from parkade.sizing.choice import (
    Choice,
    Evidence,
    Target,
    choose,
    hard_limit,
    still_recommended,
    target,
)
from parkade.sizing.first_token import replicas_needed
from parkade.sizing.inputs import SizingInputs
from parkade.sizing.ladder import TOP
from parkade.sizing.objectives import judge_objectives
from parkade.sizing.preemption import relieved
from parkade.sizing.result import LIMITS, BoundKind, ObjectivesVerdict
from parkade.sizing.speed_bound import overhead
from parkade.sizing.trade_off import best_between
from parkade.sizing.wording import number, rough

BASELINE_MAX_NUM_SEQS = 32
"""Without traffic, initial and assumed lengths: where a 27B model on a B200 was measured to give
100 tok/s to each request. Too low for short chats, too high for books; the traffic tells."""


def decide(case: Case) -> tuple[Target, Choice]:
    """Return what the bounds want, and the rung to run after hysteresis.

    A recommendation that is not in force yet (nothing may be applied, or not now) is not given up
    for noise; `Choice.firm` says whether the traffic asks for it at this moment.
    """
    if case.traffic.workload is None:
        return _without_traffic(case)
    missed = case.in_force is not None and objectives_at(case, case.in_force).met is False
    smallest = target(case.bounds.by_kind, case.floor)
    wanted = _between(case, relieved(case, smallest, missed=missed))
    evidence = _evidence(case, wanted)
    choice = choose(wanted, case.in_force, case.bounds.by_kind, case.floor, evidence)
    before, in_force = case.inputs.recommended_max_num_seqs, case.in_force
    if before is None or in_force is None or (before > in_force and _is_calm(case)):
        return wanted, choice
    if not case.floor <= before <= hard_limit(case.bounds.by_kind):
        return wanted, choice
    return wanted, still_recommended(wanted, choice, in_force, before, evidence) or choice


def _is_calm(case: Case) -> bool:
    """Tell whether a raise that waits has lost its reason: clearly fewer requests queue."""
    workload = case.traffic.workload
    queued = workload.queued_percent if workload is not None else None
    return queued is not None and queued <= SATURATED_PERCENT / 2


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
        previous=case.inputs.previous_max_num_seqs,
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
    start = start_of(case.inputs, case.traffic)
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


def start_of(inputs: SizingInputs, traffic: Traffic) -> int:
    """Return the max_num_seqs to begin with: in force, initial, or the baseline."""
    if inputs.in_force is not None:
        return inputs.in_force.max_num_seqs
    initial = inputs.spec.tuning.initial
    if initial is not None and traffic.workload is None:
        return initial.max_num_seqs
    return BASELINE_MAX_NUM_SEQS


def objectives_at(case: Case, rung: int) -> ObjectivesVerdict:
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
    words, _ = replicas_of(case)
    if objectives is None or objectives.max_time_to_first_token_seconds is None or not words:
        return verdict
    message = f"{words} {verdict.message}"
    return ObjectivesVerdict(met=False, reason=Reason.NEEDS_REPLICAS, message=message)


def replicas_of(case: Case) -> tuple[str, int | None]:
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
