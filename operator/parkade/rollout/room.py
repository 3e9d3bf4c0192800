"""Where pods lack room: whether one may go so that another comes in its place, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parkade.api.conditions import Reason
from parkade.api.spec import Interruption
from parkade.api.status import Origin
from parkade.rollout.actions import Finding
from parkade.rollout.obstacles import NO_GPU, held_up
from parkade.rollout.record import Candidate
from parkade.rollout.revision import GPU_PRODUCT_LABEL, Revision
from parkade.rollout.situation import Situation, settings_finding
from parkade.rollout.trial import Judgement


def may_not_replace(now: Situation, candidate: Candidate, no_room: str) -> Finding | None:
    """Return why tuning may not take a pod away before the new one is there; None: it may.

    The pods of the candidate itself are never taken away for more of them.
    """
    if now.ready_beside(candidate.revision) == 0:
        return None
    budget = now.blocking_budget()
    if budget is not None:
        return settings_finding(
            Reason.BLOCKED_BY_DISRUPTION_BUDGET,
            f"{no_room}, and PodDisruptionBudget {budget} allows no disruption.",
        )
    if now.ready >= 2 or now.may_interrupt():
        return None
    return settings_finding(
        Reason.WOULD_INTERRUPT_SERVING,
        f"{no_room}, and replacing the only ready one would interrupt serving. {how_to_allow(now)}",
    )


def how_to_allow(now: Situation) -> str:
    """Return what a person can do so that tuning may replace the only ready pod."""
    tuning = now.spec.tuning
    lacks_windows = (
        tuning.interruption is Interruption.IN_WINDOWS and not tuning.maintenance_windows
    )
    window = "add tuning.maintenanceWindows, " if lacks_windows else ""
    return (
        f"To allow it, {window}set tuning.interruption: Allowed, add a replica, or make room for "
        "one more pod."
    )


def fits_in_its_place(good: Revision | None, candidate: Candidate, no_room: str) -> bool:
    """Tell whether a pod that goes makes room for the new one.

    Not for one that needs another kind of node; nor, where it is not a GPU that lacks, for one
    that a user made larger.
    """
    if good is None:
        return True
    old, new = (one.template["spec"] for one in (good, candidate.revision))
    same_product = _product(old) == _product(new)
    same_size = candidate.origin is Origin.TUNING or _resources(old) == _resources(new)
    return same_product and (no_room == NO_GPU or same_size)


def has_others(now: Situation, candidate: Candidate) -> bool:
    """Tell whether pods of other revisions hold room; one that waits for a node holds none."""
    return any(pod.scheduled for pod in now.pods_beside(candidate.revision))


def waits_for(now: Situation, candidate: Candidate) -> tuple[Reason, str]:
    """Return what the pods wait for that are not there yet, beside some that served."""
    why = held_up(now.pods_of(candidate.revision), now.deployment)
    return why or (Reason.ROLLOUT_IN_PROGRESS, "")


def rest_lacks_room(now: Situation, candidate: Candidate, judgement: Judgement) -> str | None:
    """Return why the other pods of a tuning candidate found no room for startDeadlineSeconds.

    None where one may still come up. What served is then good: to wait on, or to go back, would
    give the others no room, and keep the turn from other endpoints.
    """
    if candidate.origin is not Origin.TUNING:
        return None
    others = [pod for pod in now.pods_of(candidate.revision) if not pod.is_ready]
    if judgement.soaked < judgement.ready or any(pod.scheduled for pod in others):
        return None
    waiting = [pod.unschedulable_since for pod in others if pod.unschedulable_since is not None]
    if now.now - max([judgement.latest, *waiting]) < now.start_deadline:
        return None
    reason, why = waits_for(now, candidate)
    return None if reason is Reason.ROLLOUT_IN_PROGRESS else why


def _product(pod_spec: Mapping[str, Any]) -> Any:
    return (pod_spec.get("nodeSelector") or {}).get(GPU_PRODUCT_LABEL)


def _resources(pod_spec: Mapping[str, Any]) -> list[Any]:
    return [one.get("resources") for one in pod_spec.get("containers") or ()]
