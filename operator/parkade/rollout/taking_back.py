"""Policies that end a candidate without success: it failed, or nobody wants it any more."""

from __future__ import annotations

from dataclasses import replace

from parkade.api.conditions import Reason
from parkade.api.spec import Mode
from parkade.api.status import Origin, Verdict
from parkade.rollout import bookkeeping
from parkade.rollout.actions import Action, Plan
from parkade.rollout.causes import Blame
from parkade.rollout.lessons import Limits, quarantined
from parkade.rollout.record import Candidate, Phase, Quarantined, RejectedSpec
from parkade.rollout.revision import inputs_hash
from parkade.rollout.situation import (
    Situation,
    reconciling,
    settings_finding,
    stalled,
)
from parkade.rollout.starting import nothing_runs_yet, user_changed_the_spec
from parkade.rollout.trial import Judgement


def spec_went_back(now: Situation) -> Plan | None:
    """Go back where the user put the spec back to what ran before."""
    candidate, good = now.candidate, now.record.last_good
    if candidate is None or good is None or candidate.origin is not Origin.USER:
        return None
    if now.user_change(candidate.revision) is None or now.user_change(good) is not None:
        return None
    return withdraw(now, Reason.CANDIDATE_WITHDRAWN, "The spec is again what runs.")


def deployment_is_gone(now: Situation) -> Plan | None:
    """Somebody deleted the Deployment: bring back what is known to be good."""
    if now.candidate is None or now.record.last_good is None or now.deployment is not None:
        return None
    return withdraw(now, Reason.CANDIDATE_WITHDRAWN, "The Deployment was deleted meanwhile.")


def mode_forbids_it(now: Situation) -> Plan | None:
    """Take a candidate back that RecommendOnly would not start, unless a person asked for it."""
    candidate = now.candidate
    if candidate is None or candidate.origin is not Origin.TUNING:
        return None
    if now.spec.tuning.mode is not Mode.RECOMMEND_ONLY or now.record.last_good is None:
        return None
    if candidate.asked:
        return None
    return withdraw(now, Reason.RECOMMEND_ONLY, "tuning.mode became RecommendOnly.")


def scale_changed(now: Situation) -> Plan | None:
    """Take a canary back before scaling, which would multiply it or delete the good pods.

    With zero replicas a candidate of tuning goes in whatever phase: others wait for its turn.
    """
    candidate = now.candidate
    if candidate is None or now.record.last_good is None:
        return None
    if candidate.scale == now.spec.replicas or not _must_not_be_scaled(now, candidate):
        return None
    why = f"{candidate.scale} -> {now.spec.replicas} replicas were asked for before it was judged."
    plan = withdraw(now, Reason.CANDIDATE_WITHDRAWN, why)
    if candidate.origin is Origin.USER:
        return replace(plan, reconciling=reconciling(Reason.SCALING, why))
    return plan


def _must_not_be_scaled(now: Situation, candidate: Candidate) -> bool:
    idle = now.spec.replicas == 0 and candidate.origin is Origin.TUNING
    return idle or candidate.phase is Phase.CANARY


def candidate_failed(now: Situation) -> Plan | None:
    """Its settings or its spec are to blame: remember that first, then go back."""
    candidate, judgement = now.candidate, now.judgement
    if candidate is None or judgement is None or judgement.verdict is not Verdict.FAILED:
        return None
    blamed, good = judgement.blamed, now.record.last_good
    if blamed is not None and blamed.blame is Blame.USER:
        return _failed_by_the_user(now, candidate, judgement)
    if blamed is None:
        return None
    limits = Limits(now.tuning, now.desired.total_bytes, now.spec.tuning.max_num_seqs.min)
    entry = quarantined(candidate, blamed, limits, now.now, shrink_on_unknown=good is None)
    reason = judgement.reason.value
    if good is None:
        record = bookkeeping.failed(now.record, reason, entry.message, now.now, entry, None)
        without = replace(now, record=record, judgement=None)
        return nothing_runs_yet(without)
    if candidate.origin is Origin.USER:
        proven = candidate.revision.quarantine_key == good.quarantine_key
        return _reject_spec(now, candidate, judgement, None if proven else entry)
    record = bookkeeping.failed(now.record, reason, entry.message, now.now, entry, None)
    return now.plan(Action.REVERT, Reason.CANDIDATE_REJECTED, entry.message, record)


def candidate_is_inconclusive(now: Situation) -> Plan | None:
    """Not to blame, and not to be waited for: take it back; of a user, until the spec changes."""
    candidate, judgement = now.candidate, now.judgement
    if candidate is None or judgement is None or judgement.verdict is not Verdict.INCONCLUSIVE:
        return None
    if now.record.last_good is None:
        return _other_first_settings(now) or _wait_for_a_person(now, judgement)
    if candidate.origin is Origin.TUNING:
        reason = judgement.reason
        waits = reason if reason is Reason.WAITING_FOR_GPU else Reason.CANDIDATE_WITHDRAWN
        plan = withdraw(now, reason, judgement.message, back_off=True)
        return replace(
            plan, reason=waits, settings_applied=settings_finding(waits, judgement.message)
        )
    rejected = _rejected_spec(now, candidate, judgement.reason.value, judgement.message)
    record = bookkeeping.withdrawn(
        now.record, judgement.reason.value, judgement.message, now.now, rejected=rejected
    )
    plan = now.plan(Action.WITHDRAW, Reason.SPEC_REJECTED, judgement.message, record)
    return _stalled_unless_changed(now, candidate, plan)


def withdraw(now: Situation, reason: Reason, message: str, *, back_off: bool = False) -> Plan:
    """Take a candidate back without blame; `back_off` doubles the next cooldown."""
    record = bookkeeping.withdrawn(now.record, reason.value, message, now.now, back_off=back_off)
    plan = now.plan(Action.WITHDRAW, reason, message, record)
    return replace(plan, requeue_after_seconds=1.0)


def _failed_by_the_user(now: Situation, candidate: Candidate, judgement: Judgement) -> Plan:
    """Blame no setting where the engine refuses model, arguments or secrets."""
    if now.record.last_good is None:
        mended = user_changed_the_spec(now) or _other_first_settings(now)
        return mended or _wait_for_a_person(now, judgement)
    if candidate.origin is Origin.TUNING:
        return withdraw(now, Reason.CANDIDATE_WITHDRAWN, judgement.message, back_off=True)
    return _reject_spec(now, candidate, judgement, None)


def _other_first_settings(now: Situation) -> Plan | None:
    """Start anew where a person named other first settings than those that do not come up."""
    initial = now.spec.tuning.initial
    if initial is None or initial.settings == now.record.initial:
        return None
    record = bookkeeping.withdrawn(now.record, "Superseded", "tuning.initial changed.", now.now)
    return nothing_runs_yet(replace(now, record=record, judgement=None))


def _wait_for_a_person(now: Situation, judgement: Judgement) -> Plan:
    """There is nothing to go back to: leave the pods, which recover when the cause goes away."""
    plan = now.plan(Action.HOLD, judgement.reason, judgement.message)
    finding = stalled(judgement.reason, judgement.message)
    return replace(plan, stalled=finding, requeue_after_seconds=judgement.check_after_seconds)


def _reject_spec(
    now: Situation, candidate: Candidate, judgement: Judgement, entry: Quarantined | None
) -> Plan:
    message = entry.message if entry is not None else judgement.message
    reason = judgement.reason.value
    rejected = _rejected_spec(now, candidate, reason, message)
    record = bookkeeping.failed(now.record, reason, message, now.now, entry, rejected)
    plan = now.plan(Action.REVERT, Reason.SPEC_REJECTED, message, record)
    return _stalled_unless_changed(now, candidate, plan)


def _stalled_unless_changed(now: Situation, candidate: Candidate, plan: Plan) -> Plan:
    """Ask for a person, unless that person changed the spec already."""
    if inputs_hash(now.spec) != candidate.revision.inputs:
        return replace(plan, requeue_after_seconds=1.0)
    return replace(plan, stalled=stalled(Reason.SPEC_REJECTED, plan.message))


def _rejected_spec(now: Situation, candidate: Candidate, cause: str, message: str) -> RejectedSpec:
    revision = candidate.revision
    return RejectedSpec(
        inputs=revision.inputs,
        tuning=now.tuning,
        generation=revision.generation,
        key=revision.quarantine_key,
        revision=revision.hash,
        cause=cause,
        message=(
            f"Generation {revision.generation} of the spec broke the endpoint; the last good "
            f"template runs. {message} Change the spec, or ask for a retry of "
            f"{revision.quarantine_key}."
        ),
        time=now.now,
    )
