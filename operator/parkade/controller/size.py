"""Step three of a pass: what should run, from traffic, memory and model, as the planner takes it.

What engines measured and what was learned become sizing's inputs, and sizing's answer becomes
`Desired` with the parts of status that explain it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parkade.adapters.traffic import Traffic
from parkade.api.conditions import ConditionStatus, Reason
from parkade.api.settings import Settings
from parkade.controller import ledger
from parkade.controller.learn import from_learned
from parkade.controller.models import Answer, ModelFacts
from parkade.controller.observe import Observation
from parkade.controller.observed_workload import observe_workload, workload_finding
from parkade.rollout.actions import Desired, Finding
from parkade.rollout.revision import tuning_hash
from parkade.sizing import cards
from parkade.sizing.inputs import MeasuredMemory
from parkade.sizing.points import Points
from parkade.sizing.recommend import (
    Device,
    NotSizable,
    Sizing,
    SizingInputs,
    recommend,
)
from parkade.sizing.workload import CannotTell, Workload


@dataclass(frozen=True, slots=True)
class Sized:
    """What sizing says, in the planner's words, with the parts of status that explain it."""

    desired: Desired
    workload_observed: Finding
    objectives_met: Finding
    status: Mapping[str, Any] = field(default_factory=dict)
    ledger: Points | None = None
    """The record's points with the newest windows; None where sizing could not be asked."""
    waits: bool = False
    """For the hub, or for the list of nodes."""

    @property
    def unasked(self) -> bool:
        """Whether Prometheus, the hub or the nodes were not asked yet since the start."""
        return self.waits or self.workload_observed.reason is Reason.INITIALIZING


def size(
    seen: Observation,
    traffic: Traffic | CannotTell,
    model: Answer,
    node_memory_bytes: int | CannotTell | None,
) -> Sized:
    """Return what should run. `node_memory_bytes` is what node labels say of the card, per GPU."""
    workload = observe_workload(seen, traffic)
    observed = workload_finding(seen, workload)
    if not isinstance(model, ModelFacts):
        return _unsized(seen, model, observed)
    advises = seen.endpoint.spec.engine is None
    points = () if advises else ledger.merged(seen, traffic, workload, seen.fingerprint)
    inputs = _inputs(seen, model, workload, points, node_memory_bytes)
    if isinstance(inputs, NotSizable | CannotTell):
        return _unsized(seen, inputs, observed)
    answer = recommend(inputs)
    if isinstance(answer, NotSizable):
        return _unsized(seen, answer, observed)
    return Sized(
        desired=Desired(
            settings=answer.settings,
            reason=answer.held or Reason.APPLIED,
            message=answer.held_message,
            firm=answer.firm,
            first=None if advises else _first(seen, inputs, answer),
            total_bytes=answer.memory.total_bytes,
            headroom_bytes=inputs.headroom_bytes,
            predicted_kv_tokens=answer.memory.pool_tokens,
        ),
        workload_observed=observed,
        objectives_met=_objectives(answer),
        status=answer.to_status(),
        ledger=None if advises else points,
    )


def unsized(
    seen: Observation, why: NotSizable | CannotTell, traffic: Traffic | CannotTell
) -> Sized:
    """Return the same where sizing can't be asked at all."""
    return _unsized(seen, why, workload_finding(seen, observe_workload(seen, traffic)))


def _inputs(
    seen: Observation,
    model: ModelFacts,
    workload: Workload | CannotTell,
    points: Points,
    node_memory_bytes: int | CannotTell | None,
) -> SizingInputs | NotSizable | CannotTell:
    spec, record = seen.endpoint.spec, seen.record
    current, tuning = seen.fingerprint, tuning_hash(spec)
    measured = from_learned(record.learned.get(current))
    device = _device(seen, measured, node_memory_bytes)
    if isinstance(device, NotSizable | CannotTell):
        return device
    lessons = record.lessons(current, tuning)
    caps = [one.max_num_seqs_below - 1 for one in lessons if one.max_num_seqs_below is not None]
    return SizingInputs(
        spec=spec,
        architecture=model.architecture,
        weights_bytes=model.weights_bytes,
        device=device,
        workload=workload,
        measured=measured,
        ledger=tuple(one for one in points if one.fingerprint == current),
        in_force=seen.in_force,
        previous_max_num_seqs=record.previous_max_num_seqs,
        recommended_max_num_seqs=seen.recommended_max_num_seqs,
        engine=seen.running.engine if seen.running is not None else None,
        effective_headroom_bytes=record.effective_headroom(
            current, tuning, spec.tuning.headroom_bytes
        ),
        max_num_seqs_cap=max(1, min(caps)) if caps else None,
    )


def _device(
    seen: Observation,
    measured: MeasuredMemory | None,
    node_memory_bytes: int | CannotTell | None,
) -> Device | NotSizable | CannotTell:
    accelerator = seen.endpoint.spec.accelerator
    if measured is not None:
        return cards.measured_device(accelerator.product, measured.total_bytes, measured.free_bytes)
    known = accelerator.memory is not None or cards.card_of(accelerator.product) is not None
    if known:
        return cards.device(accelerator, total_bytes=None)
    if isinstance(node_memory_bytes, CannotTell):
        return node_memory_bytes
    return cards.device(accelerator, total_bytes=node_memory_bytes)


def _first(seen: Observation, inputs: SizingInputs, answer: Sizing) -> Settings:
    """Return what a fingerprint starts with that never ran.

    With a last good revision that is the first-estimate fraction and the N in force, cut to the
    new bounds; `tuning.initial` is for endpoints that never ran at all.
    """
    spec, last_good = seen.endpoint.spec, seen.record.last_good
    if last_good is None:
        return spec.tuning.initial.settings if spec.tuning.initial is not None else answer.target
    seqs = min(last_good.settings.max_num_seqs, max(1, int(answer.unsnapped)))
    if inputs.max_num_seqs_cap is not None:
        seqs = min(seqs, inputs.max_num_seqs_cap)
    return Settings(seqs, answer.target.gpu_memory_utilization)


def _unsized(seen: Observation, why: NotSizable | CannotTell, observed: Finding) -> Sized:
    """Sizing has no answer: what runs stays; a new endpoint may still start as it was told."""
    stalled = isinstance(why, NotSizable)
    waits = why.reason is Reason.INITIALIZING
    return Sized(
        desired=Desired(
            settings=None,
            reason=why.reason if stalled else Reason.INSUFFICIENT_EVIDENCE,
            message=why.message,
            first=_told_first(seen, waits=waits),
            stalled=stalled,
        ),
        workload_observed=observed,
        objectives_met=Finding(ConditionStatus.UNKNOWN, *_no_objectives(seen, why.message)),
        status=why.to_status() if isinstance(why, NotSizable) else {},
        waits=waits,
    )


def _told_first(seen: Observation, *, waits: bool) -> Settings | None:
    """Return `tuning.initial` for a fingerprint that never ran, at most with the N in force.

    None also where the hub or the nodes are merely being asked: with a last good revision
    running, their answer is worth the seconds.
    """
    initial, last_good = seen.endpoint.spec.tuning.initial, seen.record.last_good
    if initial is None or last_good is None:
        return initial.settings if initial is not None else None
    if waits:
        return None
    seqs = min(last_good.settings.max_num_seqs, initial.settings.max_num_seqs)
    return Settings(seqs, initial.settings.gpu_memory_utilization)


def _no_objectives(seen: Observation, message: str) -> tuple[Reason, str]:
    if seen.endpoint.spec.objectives is None:
        return Reason.NO_OBJECTIVES, "The spec asks for nothing."
    return Reason.CANNOT_TELL, message


def _objectives(answer: Sizing) -> Finding:
    verdict = answer.objectives
    status = ConditionStatus.UNKNOWN
    if verdict.met is not None:
        status = ConditionStatus.TRUE if verdict.met else ConditionStatus.FALSE
    return Finding(status, verdict.reason, verdict.message)
