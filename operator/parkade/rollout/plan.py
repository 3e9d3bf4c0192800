"""One pass decides one action: a chain of small policies, the first that applies wins.

Deterministic: the same inputs give the same plan, and a plan repeated on its own record changes
nothing more until the world does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parkade.api.conditions import Reason
from parkade.rollout.actions import Action, Plan, PlanInputs
from parkade.rollout.gates import GATES
from parkade.rollout.inflight import (
    LOOK_AGAIN_SECONDS,
    candidate_passed,
    candidate_waits,
    no_room_beside,
)
from parkade.rollout.quiet import (
    failed_before,
    last_good_fails,
    less_than_what_fails,
    nothing_to_change,
    number_of_pods_changed,
    only_recommends,
    rejected_and_failing,
    revert_needs_room,
    sizing_needs_a_person,
    turn_one_knob,
    zero_replicas,
)
from parkade.rollout.record import Recommended
from parkade.rollout.revision import sizing_hash
from parkade.rollout.serving import lessons_of_serving
from parkade.rollout.situation import Situation, situation
from parkade.rollout.starting import nothing_runs_yet, spec_stays_rejected, user_changed_the_spec
from parkade.rollout.taking_back import (
    candidate_failed,
    candidate_is_inconclusive,
    deployment_is_gone,
    mode_forbids_it,
    scale_changed,
    spec_went_back,
)
from parkade.rollout.waiting import (
    advises_only,
    being_deleted,
    deployment_is_being_deleted,
    old_children_are_there,
    suspended,
)

Policy = Callable[[Situation], Plan | None]

MUST_NOT_ACT: tuple[Policy, ...] = (
    being_deleted,  # the garbage collector takes the children
    advises_only,  # targetRef
    old_children_are_there,  # of another uid
    suspended,  # takes back a candidate first
    deployment_is_being_deleted,
)
IN_FLIGHT: tuple[Policy, ...] = (
    candidate_failed,  # first, so that what it teaches is never lost
    spec_went_back,
    scale_changed,
    user_changed_the_spec,  # supersedes
    deployment_is_gone,
    mode_forbids_it,
    candidate_is_inconclusive,
    no_room_beside,
    candidate_passed,  # widen or promote
    candidate_waits,
)
QUIET: tuple[Policy, ...] = (
    nothing_runs_yet,
    revert_needs_room,
    rejected_and_failing,
    spec_stays_rejected,
    number_of_pods_changed,
    user_changed_the_spec,
    less_than_what_fails,
    last_good_fails,
    zero_replicas,
    sizing_needs_a_person,
    only_recommends,
    nothing_to_change,
    failed_before,
    *GATES,
    turn_one_knob,
)


def plan(inputs: PlanInputs) -> Plan:
    """Return the one action of this pass, with its reason, the record and what to apply.

    Order of use: write `plan.record` where it differs from the one that is stored (unless
    `plan.hands_off`), apply `plan.target` (None: write no child), then write the status.
    """
    now = situation(inputs)
    return _with_news(inputs, _with_recommendation(now, _decided(now)))


def _decided(now: Situation) -> Plan:
    for policy in MUST_NOT_ACT:
        found = policy(now)
        if found is not None:
            return _consistent(now, found if found.target is not None else _hands_off(now, found))
    for policy in IN_FLIGHT if now.candidate is not None else QUIET:
        found = policy(now)
        if found is not None:
            return _consistent(now, found)
    return _consistent(now, now.plan(Action.HOLD, Reason.APPLIED, "Nothing to do."))


def _with_recommendation(now: Situation, found: Plan) -> Plan:
    """Note what is recommended beside what is in force, so that noise does not take it back."""
    good, wanted = found.record.last_good, now.desired.settings
    if found.hands_off or good is None or wanted is None:
        return found
    if now.desired.reason is Reason.INSUFFICIENT_EVIDENCE:
        return found  # what runs is named for want of anything better
    if now.user_change(good) is not None:
        return found  # it is for another fingerprint
    given_up = found.reason is Reason.WITHIN_HYSTERESIS  # nothing but noise kept it from starting
    runs = given_up or wanted.max_num_seqs == good.settings.max_num_seqs
    inputs = sizing_hash(now.spec)
    noted = None if runs else Recommended(wanted.max_num_seqs, good.fingerprint, inputs)
    return replace(found, record=replace(found.record, recommended=noted))


def _with_news(inputs: PlanInputs, found: Plan) -> Plan:
    """Tell what serving taught, in the pass that writes it down."""
    if found.hands_off:
        return found
    known = lessons_of_serving(inputs.record)
    news = (one.message for one in lessons_of_serving(found.record) if one not in known)
    return replace(found, learned=tuple(news))


def _hands_off(now: Situation, found: Plan) -> Plan:
    """Take nothing in that is not written: the status would tell what no record holds."""
    return replace(found, hands_off=True, record=now.inputs.record)


def _consistent(now: Situation, found: Plan) -> Plan:
    """Never say Stalled and Reconciling together, and look again while pods are not ready.

    kstatus reads the first of the two that it finds. Time alone can decide on a pod that waits.
    """
    if found.stalled is not None:
        found = replace(found, reconciling=None)
    if found.target is None or now.ready >= now.spec.replicas:
        return found
    soon = min(found.requeue_after_seconds or LOOK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS)
    return replace(found, requeue_after_seconds=soon)
