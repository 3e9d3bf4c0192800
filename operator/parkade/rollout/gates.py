"""What keeps tuning from starting, and what it heads for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from parkade.api.conditions import Reason, utc_seconds
from parkade.api.settings import Settings
from parkade.api.spec import Mode, Strategy
from parkade.api.status import Origin, Verdict
from parkade.rollout.actions import Action, Finding, Plan
from parkade.rollout.bookkeeping import retry_for
from parkade.rollout.causes import Knob
from parkade.rollout.inflight import LOOK_AGAIN_SECONDS
from parkade.rollout.record import HistoryEntry, Quarantined
from parkade.rollout.revision import Revision, quarantine_key
from parkade.rollout.room import how_to_allow
from parkade.rollout.situation import Situation, settings_finding
from parkade.rollout.steps import next_steps

LEAST_BACK_OFF_SECONDS = 60
MAX_BACK_OFF = 5
"""The cooldown doubles with each candidate taken back in a row, at most to 32 times."""


def outside_windows(now: Situation) -> Plan | None:
    """Where windows are given, tuning starts only inside them."""
    window = now.opening
    if window.is_open:
        return None
    if window.problem:
        return _held(now, Reason.OUTSIDE_MAINTENANCE_WINDOW, f"{window.problem}.", None)
    if window.next_open is None:
        return _held(now, Reason.OUTSIDE_MAINTENANCE_WINDOW, "No window ever opens.", None)
    message = f"The next window opens at {utc_seconds(window.next_open)}."
    return _held(now, Reason.OUTSIDE_MAINTENANCE_WINDOW, message, window.next_open)


def cooling_down(now: Situation) -> Plan | None:
    """Never two disruptions within the cooldown; each withdrawal in a row doubles it."""
    settled = now.record.settled_at
    if settled is None:
        return None
    seconds = now.spec.tuning.cooldown_seconds
    if now.record.withdrawals > 0 and not _has_the_word(now):
        seconds = max(seconds, LEAST_BACK_OFF_SECONDS) * 2 ** min(
            now.record.withdrawals, MAX_BACK_OFF
        )
    until = settled + timedelta(seconds=seconds)
    if until <= now.now:
        return None
    message = f"The last change ended at {utc_seconds(settled)}; the next may start at "
    return _held(now, Reason.COOLING_DOWN, f"{message}{utc_seconds(until)}.", until)


def _has_the_word(now: Situation) -> bool:
    """Tell whether a person has since allowed what the last candidate was taken back for."""
    newest = _newest_of_tuning(now)
    refused = newest is not None and newest.reason == Reason.WOULD_INTERRUPT_SERVING.value
    return refused and now.may_interrupt()


def would_interrupt(now: Situation) -> Plan | None:
    """Tuning never leaves an endpoint without a ready pod, unless that is allowed."""
    if now.spec.rollout.strategy is not Strategy.NO_SURGE or now.ready >= 2:
        return None
    if now.may_interrupt_some_time():
        return None
    message = f"Replacing the only ready pod would interrupt serving. {how_to_allow(now)}"
    return _held(now, Reason.WOULD_INTERRUPT_SERVING, message, None)


def budget_blocks(now: Situation) -> Plan | None:
    """Rollouts bypass PodDisruptionBudgets; Parkade does not."""
    budget = now.blocking_budget()
    if budget is None:
        return None
    message = f"PodDisruptionBudget {budget} allows no disruption at present."
    return _held(now, Reason.BLOCKED_BY_DISRUPTION_BUDGET, message, _soon(now))


def not_all_ready(now: Situation) -> Plan | None:
    """Tuning starts from a settled endpoint, so that an effect has one cause."""
    good, deployment = now.record.last_good, now.deployment
    if good is None:
        return None
    own = sum(1 for pod in now.pods_of(good) if pod.is_ready)
    settled = deployment is not None and deployment.is_settled and deployment.revision == good.hash
    if settled and own == now.spec.replicas:
        return None
    message = f"{own} of {now.spec.replicas} pods are ready; tuning waits for all."
    return _held(now, Reason.ROLLOUT_IN_PROGRESS, message, _soon(now))


def others_are_first(now: Situation) -> Plan | None:
    """At most so many endpoints of the cluster are being tuned at a time."""
    fleet = now.inputs.fleet
    if fleet.rollouts_elsewhere < fleet.max_concurrent_rollouts:
        return None
    message = (
        f"{fleet.rollouts_elsewhere} of {fleet.max_concurrent_rollouts} endpoints that may be "
        "tuned at a time are (--max-concurrent-rollouts)."
    )
    return _held(now, Reason.WAITING_FOR_TURN, message, _soon(now))


GATES: tuple[Callable[[Situation], Plan | None], ...] = (
    would_interrupt,
    outside_windows,
    cooling_down,
    budget_blocks,
    not_all_ready,
    others_are_first,
)
"""What keeps tuning from starting, the most lasting first."""

NEED_READY_PODS = (would_interrupt, not_all_ready)
"""Those that protect pods that serve."""


def wanted(now: Situation, good: Revision) -> Settings:
    """Return the settings that tuning heads for: a retry, new initial ones, or sizing's answer."""
    retry = retry_for(now.record, good.fingerprint)
    if retry is not None:
        return retry.settings
    if now.spec.tuning.mode is Mode.RECOMMEND_ONLY:
        return now.chosen_by_the_user(good.settings)
    if now.desired.settings is None:
        return good.settings
    return now.cut(now.desired.settings, good.fingerprint)


def next_step(
    now: Situation, good: Revision, *, firmly: bool = False
) -> tuple[Settings, Knob] | None:
    """Return the first single-knob step that may work; None: each failed, or one like it.

    `firmly`: only what is asked for at this moment, noise or not.

    What failures taught holds for steps too: noise moves a recommendation a little, and settings
    just beside failed ones are not tried one after the other.
    """
    record = now.record
    asked = retry_for(record, good.fingerprint) is not None
    aim = wanted(now, good)
    if firmly and not asked and not now.desired.firm:
        aim = replace(aim, max_num_seqs=good.settings.max_num_seqs)
    for settings, knob in next_steps(good.settings, aim):
        if record.is_quarantined(quarantine_key(good.fingerprint, settings)):
            continue
        if asked or now.cut(settings, good.fingerprint) == settings:
            return settings, knob
    return None


def _held(now: Situation, reason: Reason, message: str, until: datetime | None) -> Plan:
    """Hold tuning; SettingsApplied tells of a fresh failure rather than of the wait after it."""
    plan = now.plan(Action.HOLD, reason, message)
    left = (until - now.now).total_seconds() if until is not None else None
    plan = replace(plan, requeue_after_seconds=left)
    fresh = fresh_failure(now)
    if fresh is None or reason is Reason.WOULD_INTERRUPT_SERVING:
        return plan
    if fresh.reason is Reason.WOULD_INTERRUPT_SERVING and now.may_interrupt_some_time():
        return plan  # a person has given the word since
    return replace(
        plan, settings_applied=Finding(fresh.status, fresh.reason, f"{fresh.message} {message}")
    )


def rejected_last(now: Situation) -> Quarantined | None:
    """Return the failure that the history ends with, where it is one of tuning.

    None where the tuning inputs changed since, or a person asked for a retry.
    """
    newest = _newest_of_tuning(now)
    if newest is None or newest.verdict is not Verdict.FAILED:
        return None
    lessons = now.record.lessons(newest.fingerprint, now.tuning)
    return next((one for one in lessons if one.revision == newest.revision), None)


def _newest_of_tuning(now: Situation) -> HistoryEntry | None:
    newest = now.record.history[0] if now.record.history else None
    return newest if newest is not None and newest.origin is Origin.TUNING else None


def fresh_failure(now: Situation) -> Finding | None:
    """Return what the newest verdict said, where it was on a candidate of tuning."""
    rejected = rejected_last(now)
    if rejected is not None:
        return settings_finding(Reason.CANDIDATE_REJECTED, rejected.message)
    newest = _newest_of_tuning(now)
    if newest is None or newest.verdict is not Verdict.INCONCLUSIVE:
        return None
    lasting = {
        one.value: one
        for one in (
            Reason.WOULD_INTERRUPT_SERVING,
            Reason.WAITING_FOR_GPU,
            Reason.BLOCKED_BY_DISRUPTION_BUDGET,
        )
    }
    reason = lasting.get(newest.reason, Reason.CANDIDATE_WITHDRAWN)
    return settings_finding(reason, newest.message)


def _soon(now: Situation) -> datetime:
    return now.now + timedelta(seconds=LOOK_AGAIN_SECONDS)
