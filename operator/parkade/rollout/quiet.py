"""Policies while no candidate flies: what to put right, and what keeps tuning from starting."""

from __future__ import annotations

from dataclasses import replace

from parkade.api.conditions import REASONS, ConditionStatus, ConditionType, Reason
from parkade.api.names import RETRY_ANNOTATION
from parkade.api.spec import Mode
from parkade.api.status import Origin
from parkade.rollout.actions import Action, Plan
from parkade.rollout.causes import Blame
from parkade.rollout.gates import (
    GATES,
    NEED_READY_PODS,
    fresh_failure,
    next_step,
    rejected_last,
    wanted,
)
from parkade.rollout.inflight import LOOK_AGAIN_SECONDS
from parkade.rollout.observed import PodState
from parkade.rollout.obstacles import no_room
from parkade.rollout.reasons import (
    BELOW_ONE_REQUEST,
    REASON_OF_CAUSE,
    waiting_reason,
    with_remedy,
)
from parkade.rollout.record import Phase, Quarantined
from parkade.rollout.render import render_revision
from parkade.rollout.revision import Revision, quarantine_key
from parkade.rollout.situation import (
    Situation,
    described,
    reconciling,
    settings_finding,
    stalled,
)
from parkade.rollout.starting import deploy, spec_stays_rejected
from parkade.rollout.trial import SURGE_PATIENCE

CRASHES_OF_LAST_GOOD = 2
"""Failed starts of a good template until it counts as failing."""


def revert_needs_room(now: Situation) -> Plan | None:
    """Take the room of broken pods, where a revert beside them finds none."""
    good = now.record.last_good
    if good is None or not now.record.surge:
        return None
    waiting = [pod for pod in now.pods_of(good) if pod.unschedulable_since is not None]
    lacks, lacks_for = no_room(waiting, None, now.now, now.now)
    alone = not now.pods_beside(good)
    if lacks_for is None or lacks_for < SURGE_PATIENCE or alone:
        return None
    message = f"{lacks} beside those to be replaced: they are replaced one at a time."
    record = replace(now.record, surge=False)
    return now.plan(Action.REVERT, Reason.WAITING_FOR_GPU, message, record)


def number_of_pods_changed(now: Situation) -> Plan | None:
    """Copy spec.replicas; nothing else starts in the same pass.

    What else is known of the endpoint stays told: an autoscaler may come by every minute.
    """
    deployment = now.deployment
    if deployment is None or deployment.replicas == now.spec.replicas:
        return None
    message = f"{deployment.replicas} -> {now.spec.replicas} replicas."
    plan = now.plan(Action.HOLD, Reason.SCALING, message)
    late = plan.target is not None and plan.target.replicas != now.spec.replicas
    told = zero_replicas(now) or nothing_to_change(now) or failed_before(now)
    in_progress = settings_finding(Reason.ROLLOUT_IN_PROGRESS, message)
    plan = last_good_fails(now) or replace(
        plan,
        settings_applied=told.settings_applied if told else fresh_failure(now) or in_progress,
        reconciling=reconciling(Reason.SCALING, message),
    )
    return replace(plan, requeue_after_seconds=5.0 if late else plan.requeue_after_seconds)


def rejected_and_failing(now: Situation) -> Plan | None:
    """Tell of both, where the last good template fails after a spec was rejected."""
    rejected, failing = spec_stays_rejected(now), last_good_fails(now)
    if rejected is None or failing is None or failing.stalled is None:
        return None
    message = f"{failing.message} {rejected.message}"
    return replace(failing, message=message, stalled=replace(failing.stalled, message=message))


def less_than_what_fails(now: Situation) -> Plan | None:
    """Try less memory where nothing serves and the last good settings themselves are to blame.

    A new driver can take more than the old one; a person then leaves more headroom. It is tuning,
    and waits for what tuning waits for, but for pods to be ready.
    """
    good = now.record.last_good
    if good is None or now.ready > 0 or now.spec.replicas == 0 or last_good_fails(now) is None:
        return None
    own = {pod.uid for pod in now.pods_of(good)}
    blamed = any(
        uid in own and cause.blame is Blame.SETTINGS
        for (uid, _), cause in now.inputs.evidence.items()
    )
    step = next_step(now, good)
    held = any(gate(now) is not None for gate in GATES if gate not in NEED_READY_PODS)
    if not blamed or held or step is None or now.spec.tuning.mode is Mode.RECOMMEND_ONLY:
        return None
    settings, knob = step
    if not settings.asks_for_less_than(good.settings):
        return None
    message = f"{described(good.settings)} fails: {described(settings)} is tried."
    revision = render_revision(now.endpoint, settings)
    return deploy(now, revision, Origin.TUNING, message, phase=Phase.FULL, knob=knob)


def last_good_fails(now: Situation) -> Plan | None:
    """Stop where pods of the last good template fail; they recover by themselves."""
    good = now.record.last_good
    if good is None or now.spec.replicas == 0:
        return None
    failures = (_failure(now, pod) for pod in now.pods_of(good))
    found = [one for one in failures if one is not None]
    if not found:
        return _last_good_lacks_something(now, good)
    return _fails(
        now,
        Reason.LAST_GOOD_FAILING,
        f"The last good template fails on {len(found)} of {now.spec.replicas} pods: "
        f"{found[0].rstrip('.')}.",
    )


def _last_good_lacks_something(now: Situation, good: Revision) -> Plan | None:
    """Ask for a person where its pods have not even started for long, each with its own reason."""
    late = now.keeps_from_starting(good)
    return None if late is None else _fails(now, late[0], f"{late[1].rstrip('.')}.")


def _fails(now: Situation, reason: Reason, what: str) -> Plan:
    message = f"{what} No other settings are tried; it goes on by itself when the cause is gone."
    plan = now.plan(Action.HOLD, reason, message)
    return replace(plan, stalled=stalled(reason, message), requeue_after_seconds=LOOK_AGAIN_SECONDS)


def zero_replicas(now: Situation) -> Plan | None:
    """Nothing runs, so nothing is tuned."""
    if now.spec.replicas > 0:
        return None
    message = "Zero replicas are asked for: nothing runs, nothing is tuned."
    return now.plan(Action.HOLD, Reason.SCALED_TO_ZERO, message)


def sizing_needs_a_person(now: Situation) -> Plan | None:
    """No setting can be right: what runs stays, and the message says what to change."""
    if now.desired.stalled:
        reason, message = now.desired.reason, now.desired.message
        plan = now.plan(Action.HOLD, reason, message)
        return replace(plan, stalled=stalled(reason, message))
    good = now.record.last_good
    lessons = now.record.lessons(good.fingerprint, now.tuning) if good is not None else ()
    small = [one for one in lessons if one.cause in BELOW_ONE_REQUEST]
    return now.plan(Action.HOLD, Reason.CANDIDATE_REJECTED, small[0].message) if small else None


def only_recommends(now: Situation) -> Plan | None:
    """RecommendOnly never changes the knobs by itself."""
    good = now.record.last_good
    if good is None or now.spec.tuning.mode is not Mode.RECOMMEND_ONLY:
        return None
    if wanted(now, good) != good.settings and now.record.retry is None:
        return None
    if now.desired.settings in {None, good.settings}:
        return None
    message = (
        f"{described(good.settings)} runs; status.recommendation is not rolled out, since "
        "tuning.mode is RecommendOnly."
    )
    return now.plan(Action.HOLD, Reason.RECOMMEND_ONLY, message)


def nothing_to_change(now: Situation) -> Plan | None:
    """Leave what runs: it is what is recommended, or nothing can be recommended.

    What a failure taught may be why the two are the same; then the failure is what is told.
    """
    good = now.record.last_good
    if good is None or wanted(now, good) != good.settings:
        return None
    desired, rejected = now.desired, rejected_last(now)
    if rejected is not None and (desired.settings is None or _teaches(rejected)):
        message = f"{rejected.message} {described(good.settings)} runs on."
        return now.plan(Action.HOLD, Reason.CANDIDATE_REJECTED, message)
    if desired.settings is None:
        known = REASONS[ConditionType.SETTINGS_APPLIED][ConditionStatus.UNKNOWN]
        reason = desired.reason if desired.reason in known else Reason.INSUFFICIENT_EVIDENCE
        return now.plan(Action.HOLD, reason, f"The running settings stay. {desired.message}")
    normal = REASONS[ConditionType.SETTINGS_APPLIED][ConditionStatus.TRUE]
    reason = desired.reason if desired.reason in normal else Reason.APPLIED
    message = desired.message if reason is not Reason.APPLIED else ""
    return now.plan(Action.HOLD, reason, message or f"{described(good.settings)} runs.")


def failed_before(now: Situation) -> Plan | None:
    """Never try settings in quarantine again, unless a person asks.

    Of several failures the newest is told: noise moves what is wanted between them.
    """
    good = now.record.last_good
    if good is None:
        return None
    key = quarantine_key(good.fingerprint, wanted(now, good))
    entry = next((one for one in now.record.quarantine if one.key == key), None)
    if entry is None and next_step(now, good) is not None:
        return None
    told = rejected_last(now) or entry
    message = "Each single step towards what is recommended failed, or one like it."
    if told is not None:
        message = f"{told.message} To try again, annotate with {_retry(now, told.key)}."
    record = replace(now.record, retry=None)  # a wish that no step leads to any more
    return now.plan(Action.HOLD, Reason.CANDIDATE_REJECTED, message, record)


def _retry(now: Situation, key: str) -> str:
    """Return the annotation that asks for a retry; the same words count once."""
    asked = (now.endpoint.retry or "").partition(" ")[0] == key
    return f"{RETRY_ANNOTATION}: {key}" + (" and other words behind it than now" if asked else "")


def turn_one_knob(now: Situation) -> Plan | None:
    """Start the next single-knob step towards the recommended settings."""
    good = now.record.last_good
    if good is None:
        return None
    step = next_step(now, good, firmly=True)
    if step is None:
        message = f"{described(good.settings)} runs on: nothing else kept a change that waited."
        plan = now.plan(Action.HOLD, Reason.WITHIN_HYSTERESIS, message)
        return replace(plan, requeue_after_seconds=1.0)  # sized without it
    settings, knob = step
    revision = render_revision(now.endpoint, settings)
    target = wanted(now, good)
    rest = "" if settings == target else f" On the way to {described(target)}."
    message = f"{described(good.settings)} -> {described(settings)}.{rest}"
    guarded = now.ready_beside(revision) > 0
    phase = Phase.CANARY if guarded else Phase.FULL
    return deploy(now, revision, Origin.TUNING, message, phase=phase, knob=knob)


def _teaches(one: Quarantined) -> bool:
    """Tell whether a failure limits what is recommended, and so may be why nothing changes."""
    limits = (one.headroom_bytes, one.max_num_seqs_below, one.utilization_at_most)
    return any(limit is not None for limit in limits)


def _failure(now: Situation, pod: PodState) -> str | None:
    """Return how a pod of the last good template fails; None where it may still come up."""
    if pod.is_ready:
        return None
    deadline = now.start_deadline
    waits = waiting_reason(pod)
    since = pod.unready_since or pod.started_at
    if waits is not None and since is not None and now.now - since >= deadline:
        return f"pod {pod.name} waits: {pod.waiting_reason} {pod.waiting_message}".strip()
    if pod.terminations >= CRASHES_OF_LAST_GOOD and pod.ended_unready:
        cause = now.inputs.evidence.get((pod.uid, pod.terminations))
        if cause is None or not cause.message:
            return f"pod {pod.name} ended {pod.terminations} times"
        error = f"{cause.message} ({REASON_OF_CAUSE[cause.cause_class].value})"
        return with_remedy(error, cause.remedy)
    running = pod.running_since
    unready = max(running, pod.unready_since or running) if running is not None else None
    if unready is not None and now.now - unready >= deadline:
        return f"pod {pod.name} has run for {deadline.total_seconds():.0f} s without being ready"
    return None
