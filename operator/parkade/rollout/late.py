"""Candidates that do not come up in time: taken back without blame, with what they waited for."""

from __future__ import annotations

from parkade.api.conditions import Reason
from parkade.api.status import Origin, Verdict
from parkade.rollout.observed import PodState
from parkade.rollout.obstacles import not_created
from parkade.rollout.reasons import REASON_OF_CAUSE, unscheduled_reason, waiting_reason
from parkade.rollout.trial import Judgement, Trial


def too_slow(trial: Trial) -> Judgement | None:
    """Not ready after startDeadlineSeconds, counted from the container's start."""
    for pod in trial.pods:
        if pod.is_ready:
            continue
        served = pod.was_ready or pod.uid in trial.candidate.ready_uids
        checks = (_slow_restart,) if served else (_slow_start, _never_started, _never_scheduled)
        found = next((late for check in checks if (late := check(trial, pod)) is not None), None)
        if found is not None:
            return trial.answer(Verdict.INCONCLUSIVE, *found)
    return None


def _slow_restart(trial: Trial, pod: PodState) -> tuple[Reason, str] | None:
    """Of a pod that had served: the same time for the container that runs now."""
    since = pod.running_since
    if since is None or trial.waited(max(since, pod.unready_since or since)) < trial.deadline:
        return None
    seconds = trial.rollout.start_deadline_seconds
    late = f"Pod {pod.name} was not ready again {seconds} s after its container restarted"
    return Reason.START_DEADLINE_EXCEEDED, f"{late} (rollout.startDeadlineSeconds)."


def _slow_start(trial: Trial, pod: PodState) -> tuple[Reason, str] | None:
    since = pod.first_run_since
    if since is None or trial.waited(since) < trial.deadline:
        return None
    seconds = trial.rollout.start_deadline_seconds
    late = f"Pod {pod.name} was not ready {seconds} s after its container started"
    own = [one for one in trial.candidate.terminations if one.pod_uid == pod.uid and one.message]
    if own:
        return REASON_OF_CAUSE[own[-1].cause_class], f"{late}: {own[-1].message}"
    return Reason.START_DEADLINE_EXCEEDED, f"{late} (rollout.startDeadlineSeconds)."


def _never_started(trial: Trial, pod: PodState) -> tuple[Reason, str] | None:
    """Pull and mount errors count from the node on; a long pull alone only stops tuning."""
    if pod.terminations or pod.running_since or pod.started_at is None:
        return None
    reason = waiting_reason(pod)
    if trial.waited(pod.started_at) < trial.deadline:
        return None
    if reason is None and trial.candidate.origin is Origin.USER:
        return None
    seconds = trial.rollout.start_deadline_seconds
    what = pod.waiting_reason or "not started"
    detail = f": {pod.waiting_message}" if pod.waiting_message else ""
    return (
        reason or Reason.START_DEADLINE_EXCEEDED,
        f"The container of pod {pod.name} did not start within {seconds} s: {what}{detail}",
    )


def _never_scheduled(trial: Trial, pod: PodState) -> tuple[Reason, str] | None:
    """Nothing is lost by waiting beside the old pods, but tuning must not wait for ever."""
    since = pod.unschedulable_since
    if since is None or trial.proven or trial.waited(since) < trial.deadline:
        return None
    reason = unscheduled_reason(pod)
    if reason is Reason.WAITING_FOR_GPU:
        if trial.candidate.origin is Origin.USER:
            return None
        return reason, f"Pod {pod.name} found no GPU: {pod.unschedulable_message}"
    return reason, f"No node takes pod {pod.name}: {pod.unschedulable_message}"


def never_created(trial: Trial) -> Judgement | None:
    """Take tuning back where a quota stays used up, since others wait for its turn."""
    refused = not_created(trial.deployment)
    if refused is None or trial.proven or not trial.lacks_pods:
        return None
    if trial.candidate.origin is Origin.USER or trial.now - trial.latest < trial.deadline:
        return None
    return trial.answer(Verdict.INCONCLUSIVE, *refused)
