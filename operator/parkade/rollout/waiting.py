"""Policies for when Parkade must not act: deletion, advice only, foreign children, suspension."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from parkade.api.conditions import (
    ConditionType,
    Reason,
    find_condition,
    read_conditions,
)
from parkade.rollout import bookkeeping
from parkade.rollout.actions import Action, Plan
from parkade.rollout.observed import ForeignChild
from parkade.rollout.situation import Situation, reconciling, stalled
from parkade.rollout.taking_back import candidate_failed

FOREIGN_PATIENCE = timedelta(seconds=300)
"""The garbage collector takes children within a minute; what stays longer needs a person."""

LOOK_AGAIN_SECONDS = 5.0


def being_deleted(now: Situation) -> Plan | None:
    """Nothing is written for a resource that is being deleted; the garbage collector does it."""
    if not now.endpoint.deleting:
        return None
    message = "The resource is being deleted: nothing is written."
    plan = now.plan(Action.HOLD, Reason.UP_TO_DATE, message)
    return replace(plan, target=None, record=now.inputs.record)


def advises_only(now: Situation) -> Plan | None:
    """With targetRef nothing is ever written but status."""
    if now.spec.engine is not None:
        return None
    name = now.spec.target_ref.name if now.spec.target_ref is not None else ""
    message = f"Only advises on deployment/{name}: nothing is written to it."
    plan = replace(now.plan(Action.HOLD, Reason.ADVISE_ONLY, message), target=None)
    if now.desired.stalled:
        return replace(plan, stalled=stalled(now.desired.reason, now.desired.message))
    return plan


def old_children_are_there(now: Situation) -> Plan | None:
    """Children of another uid are awaited, never taken over; those that stay are named."""
    foreign = _in_the_way(now)
    if not foreign:
        return None
    orphans = [one for one in foreign if one.owner_uid is None and not one.deleting]
    if orphans or _waited_long(now):
        stay = orphans or list(foreign)
        message = (
            f"{_names(stay)} already there and not of this resource. Remove with: "
            f"{_delete_command(now, stay)}"
        )
        plan = now.plan(Action.HOLD, Reason.FOREIGN_CHILD, message)
        blocked = stalled(Reason.FOREIGN_CHILD, message)
        plan = replace(plan, target=None, stalled=blocked)
        return replace(plan, requeue_after_seconds=6 * LOOK_AGAIN_SECONDS)
    message = f"{_names(foreign)} left of a deleted resource of this name, and awaited to go."
    plan = now.plan(Action.HOLD, Reason.WAITING_FOR_OLD_CHILDREN, message)
    return replace(
        plan,
        target=None,
        reconciling=reconciling(Reason.WAITING_FOR_OLD_CHILDREN, message),
        requeue_after_seconds=LOOK_AGAIN_SECONDS,
    )


def suspended(now: Situation) -> Plan | None:
    """Take back a candidate in flight, then write nothing but status."""
    if not now.spec.suspend:
        return None
    message = "spec.suspend is true: nothing but status is written."
    candidate, good, deployment = now.candidate, now.record.last_good, now.deployment
    if candidate is not None and good is not None:
        failed = candidate_failed(now)
        if failed is not None:  # a verdict is never lost; going back is what suspend asks for
            return failed
        back = "Taken back, since spec.suspend became true."
        record = bookkeeping.withdrawn(now.record, Reason.SUSPENDED.value, back, now.now)
        plan = now.plan(Action.WITHDRAW, Reason.SUSPENDED, back, record)
        return replace(plan, requeue_after_seconds=LOOK_AGAIN_SECONDS)
    plan = now.plan(Action.HOLD, Reason.SUSPENDED, message)
    unfinished = good is not None and deployment is not None and deployment.revision != good.hash
    return plan if unfinished else replace(plan, target=None)


def deployment_is_being_deleted(now: Situation) -> Plan | None:
    """Wait for a Deployment that somebody deletes; it is made anew once it is gone."""
    deployment = now.deployment
    if deployment is None or not deployment.deleting:
        return None
    message = f"Waits until deployment/{deployment.name}, which is being deleted, is gone."
    plan = now.plan(Action.HOLD, Reason.ROLLOUT_IN_PROGRESS, message)
    return replace(
        plan,
        target=None,
        reconciling=reconciling(Reason.ROLLOUT_IN_PROGRESS, message),
        requeue_after_seconds=LOOK_AGAIN_SECONDS,
    )


def _in_the_way(now: Situation) -> tuple[ForeignChild, ...]:
    """Return the foreign children that matter.

    Pods and ReplicaSets tell only their Deployment's uid. Where the record, which is bound to our
    uid, has a revision already, they are of a Deployment of ours that somebody deleted.
    """
    if now.record.target is None:
        return now.inputs.foreign
    return tuple(one for one in now.inputs.foreign if one.kind not in {"Pod", "ReplicaSet"})


def _waited_long(now: Situation) -> bool:
    """Since when: Ready turned False at the first visit, and stays so while waiting."""
    ready = find_condition(read_conditions(now.endpoint.status), ConditionType.READY)
    if ready is None or ready.last_transition_time is None:
        return False
    waits = ready.reason in {
        Reason.WAITING_FOR_OLD_CHILDREN.value,
        Reason.FOREIGN_CHILD.value,
    }
    return waits and now.now - ready.last_transition_time >= FOREIGN_PATIENCE


def _names(children: list[ForeignChild] | tuple[ForeignChild, ...]) -> str:
    named = [str(one) for one in children[:3]]
    more = f" and {len(children) - 3} more" if len(children) > 3 else ""
    verb = "is" if len(children) == 1 else "are"
    return f"{', '.join(named)}{more} {verb}"


def _delete_command(now: Situation, children: list[ForeignChild]) -> str:
    named = " ".join(str(one) for one in children[:3])
    return f"kubectl -n {now.endpoint.namespace} delete {named}"
