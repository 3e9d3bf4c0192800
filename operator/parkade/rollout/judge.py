"""What a candidate is worth: a verdict from the pods that carry its hash, and from nothing else.

Terminations are remembered in the record, since logs and pods vanish. Only causes that blame the
settings, or that stay unknown twice, fail a candidate; all others at most take it back.

| a candidate that | verdict | then |
|---|---|---|
| ends before its first Ready, settings or user to blame | Failed at once | reverted |
| does so twice, cause unknown (exit code 0 counts) | Failed | reverted |
| restarts more than maxRestarts while soaking | Failed (Inconclusive without blame) | reverted |
| is not Ready startDeadlineSeconds after its container's start | Inconclusive | withdrawn |
| serves, but preempts, misses objectives or has a small pool | Successful | promoted |
| serves on some pods, and of tuning the others find no room so long | Successful | promoted |

Where it serves less well than predicted, sizing goes on from what was measured; the history has
both figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from parkade.api.conditions import Reason
from parkade.api.spec import Rollout
from parkade.api.status import Verdict
from parkade.rollout.causes import Blame
from parkade.rollout.late import never_created, too_slow
from parkade.rollout.observed import DeploymentState, Evidence, PodState
from parkade.rollout.obstacles import not_created, stuck
from parkade.rollout.reasons import (
    REASON_OF_CAUSE,
    with_remedy,
)
from parkade.rollout.record import Candidate, SeenTermination
from parkade.rollout.trial import SURGE_PATIENCE, Judgement, Trial
from parkade.rollout.witness import UNKNOWN_TERMINATIONS, witnessed


def judge(
    candidate: Candidate,
    pods: Iterable[PodState],
    evidence: Evidence,
    deployment: DeploymentState | None,
    rollout: Rollout,
    now: datetime,
) -> Judgement:
    """Return the verdict on a candidate.

    Successful: at least one of its pods served for `soakSeconds`. Failed: its settings or its
    spec are to blame. Inconclusive: it must be taken back without blame. Pending: wait.
    """
    live = [
        pod
        for pod in pods
        if not (pod.deleting or pod.disrupted or pod.phase in {"Failed", "Succeeded"})
    ]
    own = [pod for pod in live if pod.revision == candidate.revision.hash]
    seen = witnessed(candidate, own, evidence)
    alone = not any(pod.scheduled for pod in live if pod not in own)
    trial = Trial(seen, own, deployment, rollout, now, alone)
    return (
        _failed(trial)
        or _restarted_too_often(trial)
        or too_slow(trial)
        or never_created(trial)
        or _successful(trial)
        or _pending(trial)
    )


def _failed(trial: Trial) -> Judgement | None:
    """Before the first Ready: settings or user at once, unknown at the second time."""
    early = [one for one in trial.candidate.terminations if one.before_ready]
    started = set(trial.candidate.ready_uids)
    for one in early:
        healed = one.blame is Blame.USER and one.pod_uid in started
        if one.blame in {Blame.SETTINGS, Blame.USER} and not healed:
            answer = trial.answer(
                Verdict.FAILED, REASON_OF_CAUSE[one.cause_class], _error(one, "did not start")
            )
            return replace(answer, blamed=one)
    unknown = [one for one in early if one.blame is Blame.UNKNOWN]
    if len(unknown) >= UNKNOWN_TERMINATIONS:
        what = f"ended {len(unknown)} times before it was ready"
        answer = trial.answer(Verdict.FAILED, Reason.ENGINE_FAILED, _error(unknown[-1], what))
        return replace(answer, blamed=unknown[-1])
    return None


def _restarted_too_often(trial: Trial) -> Judgement | None:
    """While soaking: more than maxRestarts."""
    late = [one for one in trial.candidate.terminations if not one.before_ready]
    blamed = [one for one in late if one.blame is not Blame.ENVIRONMENT]
    limit = trial.rollout.max_restarts
    if len(blamed) > limit:
        worst = next((one for one in blamed if one.blame is Blame.SETTINGS), blamed[-1])
        what = f"restarted {len(blamed)} times while soaking, more than maxRestarts {limit}"
        reason = REASON_OF_CAUSE[worst.cause_class]
        return replace(trial.answer(Verdict.FAILED, reason, _error(worst, what)), blamed=worst)
    if len(late) > limit and not any(trial.has_soaked(pod) for pod in trial.pods):
        what = f"restarted {len(late)} times while soaking, and its settings are not to blame"
        reason = REASON_OF_CAUSE[late[-1].cause_class]
        return trial.answer(Verdict.INCONCLUSIVE, reason, _error(late[-1], what))
    return None


def _successful(trial: Trial) -> Judgement | None:
    answer = trial.answer(Verdict.SUCCESSFUL, Reason.APPLIED, "")
    if answer.soaked == 0:
        return None
    served = f"{_count(answer.soaked, 'pod')} served for {trial.rollout.soak_seconds} s"
    unready = [pod for pod in trial.pods if not pod.is_ready or not trial.has_soaked(pod)]
    soonest = _soonest(trial, unready)
    return replace(answer, message=f"{served} without a restart.", check_after_seconds=soonest)


def _pending(trial: Trial) -> Judgement:
    reason, message = _waits_for(trial)
    answer = trial.answer(Verdict.PENDING, reason, message)
    return replace(answer, check_after_seconds=_soonest(trial, trial.pods))


def _waits_for(trial: Trial) -> tuple[Reason, str]:
    """Return what a candidate waits for, the most telling pod first."""
    if not trial.pods:
        waits = Reason.ROLLOUT_IN_PROGRESS, "Waits for the first pod to be created."
        return not_created(trial.deployment) or waits
    held_up = next((one for one in map(stuck, trial.pods) if one is not None), None)
    if held_up is not None:
        return held_up
    ends = trial.candidate.terminations
    if ends:
        return _known_cause(ends[-1]), _error(ends[-1], "ended, which alone decides nothing")
    if any(pod.is_ready for pod in trial.pods):
        seconds = trial.rollout.soak_seconds
        return Reason.ROLLOUT_IN_PROGRESS, f"Serves, and is believed after {seconds} s."
    return Reason.ROLLOUT_IN_PROGRESS, "Waits for the engine to start."


def _known_cause(end: SeenTermination) -> Reason:
    """Return the reason of a cause that settings do not have; else that it is on its way."""
    reason = REASON_OF_CAUSE[end.cause_class]
    elsewhere = end.blame in {Blame.ENVIRONMENT, Blame.USER}
    named = elsewhere and reason is not Reason.ENGINE_FAILED
    return reason if named else Reason.ROLLOUT_IN_PROGRESS


def _soonest(trial: Trial, pods: Iterable[PodState]) -> float | None:
    """Return the seconds until time alone changes the verdict; None: it never does."""
    soak = timedelta(seconds=trial.rollout.soak_seconds)
    begun = trial.candidate.since
    moments = [] if trial.pods else [begun + SURGE_PATIENCE, begun + trial.deadline]
    for pod in pods:
        if pod.ready_since is not None:
            moments.append(pod.ready_since + soak)
        elif pod.unschedulable_since is not None:
            moments.append(pod.unschedulable_since + SURGE_PATIENCE)
            moments.append(pod.unschedulable_since + trial.deadline)
        else:
            moments.append((pod.first_run_since or pod.started_at or trial.now) + trial.deadline)
    left = [(moment - trial.now).total_seconds() for moment in moments]
    return min((max(one, 1.0) for one in left if one > -5), default=None)


def _error(one: SeenTermination, what: str) -> str:
    if not one.message:
        return f"The engine {what}; its error is not known."
    return f"The engine {what}: {with_remedy(one.message, one.remedy)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
