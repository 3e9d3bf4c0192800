"""From a plan and what runs to the status of the resource. Steady endpoints get the same status.

Numbers that change all the time are metrics: the traffic, the memory and the arithmetic stand in
status as of the last decision, and are renewed only when a decision or a condition changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from parkade.api import status as api
from parkade.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    condition,
    find_condition,
    read_conditions,
    set_condition,
    with_all_types,
)
from parkade.api.quantity import quantity
from parkade.rollout.actions import Action, Finding, Plan, PlanInputs
from parkade.rollout.obstacles import held_up
from parkade.rollout.record import HistoryEntry, Phase, Quarantined, Record
from parkade.rollout.render import selector_text
from parkade.rollout.revision import Revision
from parkade.rollout.serving import NOT_KEPT_FROM_RUNNING
from parkade.rollout.situation import described

_BLOCKS = ("recommendation", "memory", "workload")

_MEASURING = frozenset({Reason.UNSATURATED, Reason.WITHIN_HYSTERESIS, Reason.INSUFFICIENT_EVIDENCE})
"""Reasons of SettingsApplied whose message tells measured numbers."""


def build_status(
    inputs: PlanInputs,
    plan: Plan,
    sizing: Mapping[str, Any],
    workload_observed: Finding,
    objectives_met: Finding,
    now: datetime,
) -> dict[str, Any]:
    """Return the whole status as a raw dict for server-side apply.

    `sizing` has the keys `recommendation`, `memory`, `workload` as sizing's `to_status` gives
    them (each optional). A status built on the one it returns is the same.
    """
    old = inputs.endpoint.status
    conditions = _conditions(inputs, plan, workload_observed, objectives_met, now)
    built = api.EndpointStatus(
        observed_generation=inputs.endpoint.generation,
        conditions=conditions,
        replicas=_replicas(inputs),
        ready_replicas=_ready(inputs),
        selector=selector_text(inputs.endpoint),
        applied=_applied(plan.record),
        last_good=_last_good(plan.record),
        rejected=tuple(_rejected(one) for one in _kept_from_running(plan.record)),
        history=tuple(_history(one) for one in plan.record.history),
    ).to_dict()
    return {**built, **_blocks(old, built, plan, sizing)}


def _conditions(
    inputs: PlanInputs,
    plan: Plan,
    workload_observed: Finding,
    objectives_met: Finding,
    now: datetime,
) -> tuple[Condition, ...]:
    generation = inputs.endpoint.generation
    findings = {
        ConditionType.READY: _ready_finding(inputs, plan),
        ConditionType.RECONCILING: _reconciling(plan),
        ConditionType.STALLED: plan.stalled
        or Finding(ConditionStatus.FALSE, Reason.AS_EXPECTED, "Nothing needs a person."),
        ConditionType.WORKLOAD_OBSERVED: workload_observed,
        ConditionType.SETTINGS_APPLIED: plan.settings_applied,
        ConditionType.OBJECTIVES_MET: objectives_met,
    }
    known = read_conditions(inputs.endpoint.status)
    for kind, finding in findings.items():
        new = condition(kind, finding.status, finding.reason, finding.message, generation)
        known = set_condition(known, _quiet(find_condition(known, kind), new), now)
    return with_all_types(known, generation, now)


def _quiet(old: Condition | None, new: Condition) -> Condition:
    """Keep the old message where only measured numbers in it moved."""
    measured = {ConditionType.WORKLOAD_OBSERVED, ConditionType.OBJECTIVES_MET}
    if old is None or (old.status, old.reason) != (new.status, new.reason):
        return new
    if old.observed_generation != new.observed_generation:
        return new
    if new.type in measured or (
        new.type is ConditionType.SETTINGS_APPLIED and new.reason in _MEASURING
    ):
        return new.model_copy(update={"message": old.message})
    return new


def _ready_finding(inputs: PlanInputs, plan: Plan) -> Finding:
    spec = inputs.endpoint.spec
    if spec.engine is None:
        return Finding(ConditionStatus.TRUE, Reason.ADVISE_ONLY, plan.message)
    ready = _ready(inputs)
    if spec.replicas == 0 and ready == 0 and plan.stalled is None:
        return Finding(ConditionStatus.TRUE, Reason.SCALED_TO_ZERO, "Zero replicas are asked for.")
    if ready > 0:
        return _serving(inputs, ready, plan)
    return _not_serving(inputs, plan)


def _serving(inputs: PlanInputs, ready: int, plan: Plan) -> Finding:
    replicas = inputs.endpoint.spec.replicas
    what = f"{ready} of {replicas} pods are ready"
    good = plan.record.last_good
    if good is None:
        message = f"{what}; the first revision is still being judged."
        return Finding(ConditionStatus.TRUE, Reason.ROLLOUT_IN_PROGRESS, message)
    message = f"{what}; last good: {described(good.settings)}."
    own = [pod for pod in inputs.pods if pod.revision == good.hash]
    why = held_up(own, inputs.deployment) if ready < replicas else None
    message += f" {why[1]}" if why is not None else ""
    return Finding(ConditionStatus.TRUE, Reason.SERVING, message)


def _not_serving(inputs: PlanInputs, plan: Plan) -> Finding:
    if plan.stalled is not None and plan.stalled.reason is not Reason.SPEC_REJECTED:
        return Finding(ConditionStatus.FALSE, plan.stalled.reason, plan.stalled.message)
    waits = {Reason.WAITING_FOR_GPU, Reason.WAITING_FOR_OLD_CHILDREN, Reason.SUSPENDED}
    if plan.reason in waits:
        return Finding(ConditionStatus.FALSE, plan.reason, plan.message)
    if plan.record.candidate is not None or plan.action is not Action.HOLD:
        return Finding(ConditionStatus.FALSE, Reason.ROLLOUT_IN_PROGRESS, plan.message)
    why = held_up(inputs.pods, inputs.deployment) or (Reason.NO_READY_PODS, "No pod is ready.")
    return Finding(ConditionStatus.FALSE, *why)


def _reconciling(plan: Plan) -> Finding:
    if plan.reconciling is not None:
        return plan.reconciling
    if plan.stalled is not None:
        return Finding(ConditionStatus.FALSE, plan.stalled.reason, plan.stalled.message)
    if plan.reason in {Reason.ADVISE_ONLY, Reason.SUSPENDED}:
        return Finding(ConditionStatus.FALSE, plan.reason, plan.message)
    return Finding(ConditionStatus.FALSE, Reason.UP_TO_DATE, "The spec is in place.")


def _blocks(
    old: Mapping[str, Any], built: Mapping[str, Any], plan: Plan, sizing: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the three blocks of sizing: new on a decision, as they were while nothing happens."""
    new = {key: sizing[key] for key in _BLOCKS if sizing.get(key)}
    before = {key: old[key] for key in _BLOCKS if old.get(key)}
    steady = (
        plan.action is Action.HOLD
        and old.get("observedGeneration") == built["observedGeneration"]
        and _decisions(old) == _decisions(built)
        and _gist(before) == _gist(new)
    )
    return before if steady else {**before, **new}


def _decisions(status: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (one.get("type"), one.get("status"), one.get("reason"))
        for one in status.get("conditions") or []
    ]


def _gist(blocks: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what of the blocks is a decision and not a measurement."""
    recommendation = blocks.get("recommendation") or {}
    memory = blocks.get("memory") or {}
    keys = ("maxNumSeqs", "gpuMemoryUtilization", "limitedBy", "saturated")
    return (
        *(recommendation.get(key) for key in keys),
        memory.get("effectiveHeadroom"),
        memory.get("basis"),
        (blocks.get("workload") or {}).get("basis"),
    )


def _replicas(inputs: PlanInputs) -> int:
    if inputs.deployment is None or inputs.endpoint.spec.engine is None or _are_foreign(inputs):
        return 0
    return inputs.deployment.status_replicas


def _ready(inputs: PlanInputs) -> int:
    if _are_foreign(inputs):
        return 0
    return sum(1 for pod in inputs.pods if pod.is_ready and pod.revision)


def _are_foreign(inputs: PlanInputs) -> bool:
    """Tell whether the pods belong to another resource: of the same name, or to nobody."""
    return any(one.kind in {"Deployment", "ReplicaSet", "Pod"} for one in inputs.foreign)


def _applied(record: Record) -> api.Revision | None:
    """Return what runs: the last good revision until a candidate may replace all pods."""
    candidate = record.candidate
    if candidate is not None and (record.last_good is None or candidate.phase is Phase.FULL):
        return _revision(candidate.revision, candidate.since)
    return _last_good(record)


def _last_good(record: Record) -> api.Revision | None:
    if record.last_good is None:
        return None
    return _revision(record.last_good, record.last_good_since)


def _revision(revision: Revision, since: datetime | None) -> api.Revision:
    return api.Revision(
        revision=revision.hash,
        generation=revision.generation,
        max_num_seqs=revision.settings.max_num_seqs,
        gpu_memory_utilization=_decimal(revision),
        fingerprint=revision.fingerprint,
        since=since,
    )


def _kept_from_running(record: Record) -> tuple[Quarantined, ...]:
    kept = (one for one in record.quarantine if one.key != NOT_KEPT_FROM_RUNNING)
    return tuple(kept)[: api.MAX_REJECTED]


def _rejected(one: Quarantined) -> api.Rejected:
    return api.Rejected(
        hash=one.key,
        revision=one.revision or None,
        max_num_seqs=one.settings.max_num_seqs,
        gpu_memory_utilization=_decimal(one),
        cause=one.cause,
        message=one.message,
        shortfall=quantity(one.shortfall_bytes) if one.shortfall_bytes is not None else None,
        time=one.time,
    )


def _history(one: HistoryEntry) -> api.HistoryEntry:
    return api.HistoryEntry(
        revision=one.revision,
        generation=one.generation,
        max_num_seqs=one.settings.max_num_seqs,
        gpu_memory_utilization=_decimal(one),
        fingerprint=one.fingerprint or None,
        since=one.since,
        origin=one.origin,
        verdict=one.verdict,
        reason=one.reason,
        message=one.message,
        predicted_kv_tokens=one.predicted_kv_tokens,
        measured_kv_tokens=one.measured_kv_tokens,
        until=one.until,
    )


def _decimal(one: Revision | Quarantined | HistoryEntry) -> str:
    return f"{one.settings.gpu_memory_utilization.normalize():f}"
