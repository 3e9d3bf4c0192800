"""What keeps a pod from starting: no room, no quota, an image or a Secret that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from parkade.api.conditions import Reason
from parkade.rollout.observed import DeploymentState, PodState
from parkade.rollout.reasons import (
    GPU_SCARCE,
    ROOM_SCARCE,
    quota_takes_one_instead,
    unscheduled_reason,
    waiting_reason,
)

NO_GPU = "No GPU is free for another pod"
NO_NODE = "No node has room for another pod"
NO_QUOTA = "The quota takes no further pod"


def no_room(
    pods: Iterable[PodState], deployment: DeploymentState | None, now: datetime, since: datetime
) -> tuple[str, timedelta | None]:
    """Return what room pods beside the others lack, and for how long; empty where they have it.

    `deployment`: where it asks for more pods than there are, since that time.
    """
    waits = [
        (pod.unschedulable_since, pod.unschedulable_message)
        for pod in pods
        if pod.unschedulable_since is not None
    ]
    if not waits and quota_takes_one_instead(creation_error(deployment)):
        return NO_QUOTA, now - since
    begun, message = min(waits, default=(now, ""))
    if GPU_SCARCE in message:
        return NO_GPU, now - begun
    if any(words in message for words in ROOM_SCARCE):
        return NO_NODE, now - begun
    return "", None


def creation_error(deployment: DeploymentState | None) -> str:
    """Return why no pod can be created; empty where nothing is said."""
    known = deployment.conditions if deployment is not None else {}
    failure = known.get("ReplicaFailure")
    return failure.message if failure is not None and failure.status == "True" else ""


def not_created(deployment: DeploymentState | None) -> tuple[Reason, str] | None:
    """Return why no pod can be created, as a reason with its message; None where it can."""
    error = creation_error(deployment)
    return (Reason.QUOTA_EXCEEDED, f"No pod can be created: {error}") if error else None


def held_up(
    pods: Iterable[PodState], deployment: DeploymentState | None
) -> tuple[Reason, str] | None:
    """Return why the pods that do not serve yet are held up: one of them, else their creation."""
    known = (stuck(pod) for pod in pods if not (pod.is_ready or pod.deleting))
    return next((one for one in known if one is not None), None) or not_created(deployment)


def for_a_person(
    pods: Iterable[PodState], deployment: DeploymentState | None, now: datetime, patience: timedelta
) -> tuple[Reason, str] | None:
    """Return what has kept a pod from starting for so long that a person should look at it.

    Nothing of a pod that waits for a GPU: others give theirs back.
    """
    late = [pod for pod in pods if _is_late(pod, now, patience)]
    found = next((one for pod in late if (one := stuck(pod)) is not None), None)
    if found is not None:
        return None if found[0] is Reason.WAITING_FOR_GPU else found
    for pod in late:
        waits = f"{pod.waiting_reason or 'not started'}: {pod.waiting_message}".rstrip(": ")
        message = f"Pod {pod.name} has not started for {patience.total_seconds():.0f} s ({waits})"
        return Reason.START_DEADLINE_EXCEEDED, f"{message}; kubectl describe tells its events."
    failure = deployment.conditions.get("ReplicaFailure") if deployment is not None else None
    if failure is None or failure.since is None or now - failure.since < patience:
        return None
    return not_created(deployment)


def _is_late(pod: PodState, now: datetime, patience: timedelta) -> bool:
    """Tell whether a pod has no container yet, and for so long."""
    if pod.is_ready or pod.deleting or pod.running_since is not None or pod.terminations:
        return False
    since = pod.unschedulable_since or pod.started_at
    return since is not None and now - since >= patience


def stuck(pod: PodState) -> tuple[Reason, str] | None:
    """Return why a pod does not start, which time alone does not mend; None where it may."""
    if pod.unschedulable_message:
        message = f"Pod {pod.name} is not scheduled: {pod.unschedulable_message}"
        return unscheduled_reason(pod), message
    waits = waiting_reason(pod)
    if waits is None:
        return None
    detail = f": {pod.waiting_message}" if pod.waiting_message else ""
    return waits, f"Pod {pod.name} waits: {pod.waiting_reason}{detail}"
