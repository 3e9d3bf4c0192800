"""Policies that start a candidate: the first one of an endpoint, and a change of the user."""

from __future__ import annotations

from dataclasses import replace

from parkade.api.conditions import Reason
from parkade.api.quantity import gib
from parkade.api.spec import Mode
from parkade.api.status import Origin
from parkade.rollout import bookkeeping
from parkade.rollout.actions import Action, Plan
from parkade.rollout.causes import Knob
from parkade.rollout.reasons import BELOW_ONE_REQUEST
from parkade.rollout.record import Candidate, Phase
from parkade.rollout.render import render_revision
from parkade.rollout.revision import Revision
from parkade.rollout.situation import Situation, described, reconciling, stalled

MAX_SMALLER_TRIES = 3
"""After the first settings of an endpoint without a last good template."""


def nothing_runs_yet(now: Situation) -> Plan | None:
    """Deploy the first settings; after a failure at most three smaller ones; then a person."""
    if now.candidate is not None or now.record.last_good is not None:
        return None
    again = _asked_again(now)
    if again is not None:
        message = f"Tries {described(again.settings)} again."
        return deploy(now, again, Origin.USER, message, phase=Phase.FULL)
    wanted = now.desired.first
    if wanted is None:
        return _no_first_settings(now)
    wanted_as_asked = render_revision(now.endpoint, wanted)
    stop = _tries_are_used_up(now, wanted_as_asked)
    if stop is not None:
        return stop
    settings = now.cut(wanted, wanted_as_asked.fingerprint)
    revision = render_revision(now.endpoint, settings)
    if now.record.is_quarantined(revision.quarantine_key):
        return _no_known_good(now, wanted_as_asked)
    tries = len(now.record.lessons(revision.fingerprint, now.tuning))
    what = "Starts" if tries == 0 else f"Smaller try {tries} of {MAX_SMALLER_TRIES}"
    message = f"{what} with {described(settings)}."
    return deploy(now, revision, Origin.USER, message, phase=Phase.FULL)


def user_changed_the_spec(now: Situation) -> Plan | None:
    """Bring up the user's template beside the last good one, whatever tuning would wait for."""
    good, running = now.record.last_good, _proven(now)
    if running is None:
        return None
    changed = now.user_change(running)
    if changed is None or (now.candidate is not None and good is not None and _same(now, good)):
        return None
    revision = _with_settings(now, changed, running)
    if revision is None:
        return _no_first_settings(now)
    if now.record.is_quarantined(revision.quarantine_key):
        message = (
            f"The changed spec would run {described(revision.settings)}, which failed before. "
            f"Change the spec, or ask for a retry of {revision.quarantine_key}."
        )
        return _rejected(now, message)
    dropped = "" if revision.fingerprint == running.fingerprint else _dropped(now, running)
    message = f"The spec changed: {described(revision.settings)}.{dropped}"
    guarded = good is not None and now.spec.replicas > 0 and now.ready_beside(revision) > 0
    phase = Phase.CANARY if guarded else Phase.FULL
    return deploy(now, revision, Origin.USER, message, phase=phase)


def _proven(now: Situation) -> Revision | None:
    """Return what a user's change is a change of: never a knob that tuning has not proven yet."""
    candidate = now.candidate
    tuning = candidate is not None and candidate.origin is Origin.TUNING
    return now.record.last_good if tuning else now.record.target


def spec_stays_rejected(now: Situation) -> Plan | None:
    """Do not try a change that broke the endpoint again until the spec changes."""
    rejected, good = now.record.rejected_spec, now.record.last_good
    if rejected is None or good is None or now.candidate is not None:
        return None
    changed = now.user_change(good)
    if changed is None or (rejected.inputs, rejected.tuning) != (changed.inputs, now.tuning):
        return None
    return _rejected(now, rejected.message)


def deploy(
    now: Situation,
    revision: Revision,
    origin: Origin,
    message: str,
    *,
    phase: Phase,
    knob: Knob | None = None,
) -> Plan:
    """Return the plan that starts a candidate."""
    retry = bookkeeping.retry_for(now.record, revision.fingerprint)
    noted = retry is not None and retry.settings == revision.settings
    asked = retry is not None or now.spec.tuning.mode is Mode.RECOMMEND_ONLY
    candidate = Candidate(
        revision,
        origin,
        now.now,
        phase=phase,
        knob=knob,
        surge=now.starts_with_surge(),
        predicted_kv_tokens=now.desired.predicted_kv_tokens,
        scale=now.spec.replicas,
        headroom_bytes=now.headroom_bytes(revision.fingerprint),
        asked=asked,
        note=retry.note if noted and retry is not None else "",
    )
    record = bookkeeping.started(now.record, candidate, message)
    initial = now.spec.tuning.initial
    tuning = origin is Origin.TUNING
    if initial is not None and (not tuning or initial.settings == revision.settings):
        record = replace(record, initial=initial.settings)
    reason = Reason.CANDIDATE_IN_PROGRESS if tuning else Reason.ROLLOUT_IN_PROGRESS
    plan = now.plan(Action.DEPLOY, reason, message, record)
    return plan if tuning else replace(plan, reconciling=reconciling(reason, message))


def _dropped(now: Situation, old: Revision) -> str:
    """Return a sentence on what was learned of a configuration that runs no more."""
    points = sum(1 for one in now.record.ledger if one.get("fingerprint") == old.fingerprint)
    failed = len(now.record.lessons(old.fingerprint, now.tuning))
    headroom = now.headroom_bytes(old.fingerprint)
    known = (
        ("its measured memory", old.fingerprint in now.record.learned),
        (f"{points} measured points of its speed", points > 0),
        (f"a headroom of {gib(headroom)}", headroom > now.spec.tuning.headroom_bytes),
        (f"{failed} failed settings", failed > 0),
    )
    names = ", ".join(name for name, is_known in known if is_known)
    return f" Of the old configuration this is used no more: {names}." if names else ""


def _asked_again(now: Situation) -> Revision | None:
    """Return what a person asked to be tried again, whatever else has failed since."""
    retry = now.record.retry
    if retry is None:
        return None
    revision = render_revision(now.endpoint, retry.settings)
    return revision if revision.fingerprint == retry.fingerprint else None


def _no_first_settings(now: Situation) -> Plan:
    reason, message = now.desired.reason, now.desired.message
    plan = now.plan(Action.HOLD, reason, message)
    if now.desired.stalled:
        return replace(plan, stalled=stalled(reason, message))
    return replace(plan, reconciling=reconciling(reason, message))


def _tries_are_used_up(now: Situation, revision: Revision) -> Plan | None:
    lessons = now.record.lessons(revision.fingerprint, now.tuning)
    if not lessons:
        return None
    if lessons[0].cause in BELOW_ONE_REQUEST:
        message = lessons[0].message
        plan = now.plan(Action.HOLD, Reason.DOES_NOT_FIT, message)
        return replace(plan, stalled=stalled(Reason.DOES_NOT_FIT, message))
    if len(lessons) > MAX_SMALLER_TRIES or now.spec.tuning.mode is Mode.RECOMMEND_ONLY:
        return _no_known_good(now, revision)
    return None


def _no_known_good(now: Situation, revision: Revision) -> Plan:
    lessons = now.record.lessons(revision.fingerprint, now.tuning) or now.record.quarantine
    last = lessons[0].message if lessons else ""
    key = lessons[0].key if lessons else revision.quarantine_key
    tries = f"{len(lessons)} settings failed" if len(lessons) != 1 else "The first settings failed"
    message = (
        f"{tries}, the last: {last} Change spec.tuning or the model, or ask for a retry of {key}."
    )
    plan = now.plan(Action.HOLD, Reason.NO_KNOWN_GOOD_SETTINGS, message)
    return replace(plan, stalled=stalled(Reason.NO_KNOWN_GOOD_SETTINGS, message))


def _rejected(now: Situation, message: str) -> Plan:
    plan = now.plan(Action.HOLD, Reason.SPEC_REJECTED, message)
    return replace(plan, stalled=stalled(Reason.SPEC_REJECTED, message))


def _same(now: Situation, good: Revision) -> bool:
    return now.user_change(good) is None


def _with_settings(now: Situation, changed: Revision, running: Revision) -> Revision | None:
    """Return the changed template with its settings; None where sizing has none to start with.

    The knobs stay where the fingerprint does, and in mode RecommendOnly. Else a new fingerprint
    starts anew, within what its own failures taught.
    """
    if changed.fingerprint == running.fingerprint:
        return changed
    retry = bookkeeping.retry_for(now.record, changed.fingerprint)
    if retry is not None:
        return render_revision(now.endpoint, retry.settings)
    if now.spec.tuning.mode is Mode.RECOMMEND_ONLY:
        return render_revision(now.endpoint, now.chosen_by_the_user(running.settings))
    if now.desired.first is None:
        return None
    settings = now.cut(now.desired.first, changed.fingerprint)
    return render_revision(now.endpoint, settings)
