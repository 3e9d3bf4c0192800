"""Events of transitions: what a person sees with `kubectl get events`.

An action is one event. A condition that changed its status or reason is one, unless the action
says the same. A steady endpoint has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parkade.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    read_conditions,
)
from parkade.rollout.actions import Action, Plan

MAX_MESSAGE_LENGTH = 1000
"""The API server takes 1024 characters."""

RAN_OUT_OF_MEMORY = "RanOutOfMemory"
"""The last good settings did while they served; the headroom grows."""

_TOLD = (
    ConditionType.STALLED,
    ConditionType.READY,
    ConditionType.SETTINGS_APPLIED,
    ConditionType.WORKLOAD_OBSERVED,
    ConditionType.OBJECTIVES_MET,
)


@dataclass(frozen=True, slots=True)
class EventNote:
    """An event to write. `warning` False is type Normal."""

    reason: str
    message: str
    warning: bool = False


def events(
    plan: Plan, old_status: Mapping[str, Any], new_status: Mapping[str, Any]
) -> tuple[EventNote, ...]:
    """Return the events of this pass: what was learned, the action, conditions that changed."""
    notes = [EventNote(RAN_OUT_OF_MEMORY, _cut(one), warning=True) for one in plan.learned]
    if plan.action is not Action.HOLD:
        warning = plan.action is Action.REVERT or plan.stalled is not None
        reason = f"{_DONE[plan.action]}"
        notes.append(EventNote(reason, _cut(f"{plan.reason.value}: {plan.message}"), warning))
    before = {one.type: one for one in read_conditions(old_status)}
    # In the order of `_TOLD`: what needs a person is told as that, not as a pod that is not ready.
    after = {one.type: one for one in read_conditions(new_status)}
    for one in [after[kind] for kind in _TOLD if kind in after]:
        if _changed(before.get(one.type), one):
            note = EventNote(one.reason, _cut(one.message), _is_bad(one))
            if not any(one.message and one.message in other.message for other in notes):
                notes.append(note)
    return tuple(notes)


_DONE = {
    Action.DEPLOY: "Deploying",
    Action.WIDEN: "Widening",
    Action.PROMOTE: "Promoted",
    Action.REVERT: "Reverting",
    Action.WITHDRAW: "Withdrawing",
}


def _changed(old: Condition | None, new: Condition) -> bool:
    if new.type is ConditionType.STALLED and new.status != ConditionStatus.TRUE:
        return old is not None and old.status == ConditionStatus.TRUE
    if new.reason == Reason.INITIALIZING.value:
        return False
    return old is None or (old.status, old.reason) != (new.status, new.reason)


def _is_bad(one: Condition) -> bool:
    if one.type is ConditionType.STALLED:
        return one.status == ConditionStatus.TRUE
    return one.reason in {
        Reason.CANDIDATE_REJECTED.value,
        Reason.NO_READY_PODS.value,
        Reason.PROMETHEUS_UNAVAILABLE.value,
        Reason.MISSED.value,
        Reason.NEEDS_REPLICAS.value,
        Reason.OVERHEAD_BOUND.value,
    }


def _cut(message: str) -> str:
    limit = MAX_MESSAGE_LENGTH
    return message if len(message) <= limit else f"{message[: limit - 1]}…"
