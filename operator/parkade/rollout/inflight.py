"""Policies for a candidate in flight that may succeed: widen it, promote it, or wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from parkade.api.conditions import Reason
from parkade.api.spec import Strategy
from parkade.api.status import Origin, Verdict
from parkade.rollout import bookkeeping
from parkade.rollout.actions import Action, Plan
from parkade.rollout.record import Candidate, Phase
from parkade.rollout.room import (
    fits_in_its_place,
    has_others,
    may_not_replace,
    rest_lacks_room,
    waits_for,
)
from parkade.rollout.situation import (
    Situation,
    described,
    reconciling,
    settings_finding,
    stalled,
)
from parkade.rollout.taking_back import withdraw
from parkade.rollout.trial import SURGE_PATIENCE, Judgement

LOOK_AGAIN_SECONDS = 30.0
SHORT_OF_PREDICTION = 0.9


def no_room_beside(now: Situation) -> Plan | None:
    """No GPU or quota for a surge pod: replace pods one at a time where that is allowed."""
    candidate, judgement = now.candidate, now.judgement
    if candidate is None or judgement is None or not candidate.surge:
        return None
    waited = judgement.no_room_for
    if now.spec.rollout.strategy is not Strategy.AUTO or waited is None or waited < SURGE_PATIENCE:
        return None
    others = now.pods_beside(candidate.revision)
    if not others or not fits_in_its_place(now.record.last_good, candidate, judgement.no_room):
        return None
    if candidate.origin is Origin.TUNING:
        refusal = may_not_replace(now, candidate, judgement.no_room)
        if refusal is not None:
            return withdraw(now, refusal.reason, refusal.message, back_off=True)
    message = f"{judgement.no_room}: pods are replaced one at a time."
    record = replace(now.record, candidate=replace(candidate, surge=False))
    return _in_progress(now.plan(Action.DEPLOY, Reason.ROLLOUT_IN_PROGRESS, message, record))


def candidate_passed(now: Situation) -> Plan | None:
    """One pod soaked: let the rest follow. All soaked: it is the last good one from now on."""
    candidate, judgement, deployment = now.candidate, now.judgement, now.deployment
    if candidate is None or judgement is None or judgement.verdict is not Verdict.SUCCESSFUL:
        return None
    if deployment is None or deployment.revision != candidate.revision.hash:
        return None
    alone = not now.pods_beside(candidate.revision)
    if deployment.is_settled and alone and judgement.soaked >= max(1, now.spec.replicas):
        return _promote(now, candidate, judgement)
    if candidate.phase is Phase.FULL:
        others = has_others(now, candidate)
        lacks = None if others else rest_lacks_room(now, candidate, judgement)
        return _promote(now, candidate, judgement, lacks) if lacks is not None else None
    budget = now.blocking_budget()
    if candidate.origin is Origin.TUNING and budget is not None:
        return _blocked(now, candidate, judgement, budget)
    message = f"{judgement.message} The rest follows."
    widened = replace(candidate, phase=Phase.FULL, widened_at=now.now)
    record = replace(now.record, candidate=widened)
    return _in_progress(now.plan(Action.WIDEN, Reason.ROLLOUT_IN_PROGRESS, message, record))


def _blocked(now: Situation, candidate: Candidate, judgement: Judgement, budget: str) -> Plan:
    """Wait for a PodDisruptionBudget, but not for ever: others wait for this turn.

    To take a pod back that came in the place of another would be a disruption of its own.
    """
    message = f"PodDisruptionBudget {budget} allows no disruption: the rest has to wait."
    patience = timedelta(seconds=now.spec.rollout.soak_seconds) + now.start_deadline
    if candidate.surge and now.now - judgement.latest >= patience:
        return withdraw(now, Reason.BLOCKED_BY_DISRUPTION_BUDGET, message, back_off=True)
    plan = now.plan(Action.HOLD, Reason.BLOCKED_BY_DISRUPTION_BUDGET, message)
    return replace(plan, requeue_after_seconds=LOOK_AGAIN_SECONDS)


def candidate_waits(now: Situation) -> Plan | None:
    """Nothing is decided yet."""
    candidate, judgement = now.candidate, now.judgement
    if candidate is None or judgement is None:
        return None
    if now.spec.replicas == 0:
        message = "Zero replicas are asked for: the candidate is judged once pods run."
        return now.plan(Action.HOLD, Reason.SCALED_TO_ZERO, message)
    reason, message = judgement.reason, judgement.message
    if judgement.verdict is Verdict.SUCCESSFUL:
        served = f"{judgement.soaked} of {now.spec.replicas} pods have served long enough."
        reason, why = waits_for(now, candidate)
        message = f"{served} {why}".rstrip()
        if not now.may_be_scaled(candidate):
            message += (
                f" {now.spec.replicas} replicas are asked for, and come when no old pod is left, "
                "so that one serves all the time."
            )
    if candidate.origin is Origin.TUNING:
        message = f"{described(candidate.revision.settings)}: {message}"
    plan = _in_progress(now.plan(Action.HOLD, reason, message))
    plan = replace(plan, requeue_after_seconds=judgement.check_after_seconds)
    if candidate.origin is Origin.TUNING:
        return plan  # taken back in time
    late = now.keeps_from_starting(candidate.revision)
    return plan if late is None else replace(plan, stalled=stalled(*late))


def _in_progress(plan: Plan) -> Plan:
    """Say what is under way: for tuning in SettingsApplied, for the user in Reconciling too."""
    candidate = plan.record.candidate
    if candidate is None:
        return plan
    if candidate.origin is Origin.TUNING:
        waits = plan.reason is Reason.WAITING_FOR_GPU
        reason = plan.reason if waits else Reason.CANDIDATE_IN_PROGRESS
        return replace(plan, settings_applied=settings_finding(reason, plan.message))
    return replace(
        plan,
        settings_applied=settings_finding(Reason.ROLLOUT_IN_PROGRESS, plan.message),
        reconciling=reconciling(plan.reason, plan.message),
    )


def _promote(
    now: Situation, candidate: Candidate, judgement: Judgement, lacks: str | None = None
) -> Plan:
    message = f"{described(candidate.revision.settings)}: {judgement.message}"
    if lacks is not None:
        message += f" The other pods find no room: {lacks.rstrip('.')}."
    predicted, measured = candidate.predicted_kv_tokens, now.inputs.measured_kv_tokens
    if predicted and measured is not None:
        message += f" KV cache: {measured:,} tokens, {predicted:,} were predicted."
        if measured < SHORT_OF_PREDICTION * predicted:
            known = candidate.revision.fingerprint in now.record.learned
            message += " That is short" + (
                "; sizing goes on from what was measured."
                if known
                else ", and the engine's log does not tell where the memory went: sizing goes on "
                "from its estimate."
            )
    record = bookkeeping.promoted(now.record, message, now.now, measured)
    plan = now.plan(Action.PROMOTE, Reason.APPLIED, message, record)
    return replace(plan, requeue_after_seconds=1.0)
