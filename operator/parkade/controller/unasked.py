"""Until Prometheus and the hub have answered once, a restart says nothing new of sizing.

Both are asked in the background, so the first passes of a process know nothing of them. What the
status tells of sizing then stays as it is: a restart must change nothing, and post no event.
"""

from __future__ import annotations

from dataclasses import replace

from parkade.api.conditions import (
    ConditionStatus,
    ConditionType,
    Reason,
    find_condition,
    read_conditions,
)
from parkade.api.endpoint import Endpoint
from parkade.controller.size import Sized
from parkade.rollout.actions import Action, Finding, Plan

FROM_SIZING = frozenset(
    {
        Reason.APPLIED,
        Reason.UNSATURATED,
        Reason.WITHIN_HYSTERESIS,
        Reason.INSUFFICIENT_EVIDENCE,
        Reason.INITIALIZING,
    }
)
"""Reasons of a plan that holds since sizing says so, or says nothing."""

STALLING = frozenset(
    {
        Reason.UNSUPPORTED_MODEL.value,
        Reason.DOES_NOT_FIT.value,
        Reason.UNKNOWN_ACCELERATOR.value,
        Reason.MODEL_UNAVAILABLE.value,
    }
)
"""Reasons of Stalled that come from sizing."""


def as_told_before(endpoint: Endpoint, plan: Plan, sized: Sized) -> tuple[Plan, Sized]:
    """Return plan and sizing with what status tells already, while sizing's sources are asked."""
    settings = _told(endpoint, ConditionType.SETTINGS_APPLIED)
    workload = _told(endpoint, ConditionType.WORKLOAD_OBSERVED)
    objectives = _told(endpoint, ConditionType.OBJECTIVES_MET)
    holds = plan.action is Action.HOLD and plan.record.last_good is not None
    if not sized.unasked or not holds:
        return plan, sized
    if settings is None or workload is None or objectives is None:
        return plan, sized
    kept = replace(sized, workload_observed=workload, objectives_met=objectives, status={})
    if plan.stalled is not None or plan.reason not in FROM_SIZING:
        return plan, kept
    stalled = _told(endpoint, ConditionType.STALLED)
    if stalled is None or stalled.reason.value not in STALLING:
        stalled = None
    return replace(plan, settings_applied=settings, stalled=stalled), kept


def _told(endpoint: Endpoint, kind: ConditionType) -> Finding | None:
    """Return what a condition says of this generation; None where it says nothing yet."""
    found = find_condition(read_conditions(endpoint.status), kind)
    if found is None or found.observed_generation != endpoint.generation:
        return None
    reasons = {one.value: one for one in Reason}
    reason = reasons.get(found.reason)
    if reason is None or reason is Reason.INITIALIZING:
        return None
    return Finding(ConditionStatus(found.status), reason, found.message)
