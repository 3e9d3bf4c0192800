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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from parkade.api.conditions import Reason
from parkade.api.spec import Rollout
from parkade.api.status import Origin, Verdict
from parkade.rollout.causes import Blame
from parkade.rollout.observed import DeploymentState, Evidence, PodState
from parkade.rollout.obstacles import no_room, not_created, stuck
from parkade.rollout.reasons import (
    REASON_OF_CAUSE,
    unscheduled_reason,
    waiting_reason,
    with_remedy,
)
from parkade.rollout.record import Candidate, Phase, SeenTermination
from parkade.rollout.witness import UNKNOWN_TERMINATIONS, witnessed

SURGE_PATIENCE = timedelta(seconds=30)
"""How long a surge pod may find no room before another way is taken."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with its reason."""

    verdict: Verdict
    reason: Reason
    message: str
    candidate: Candidate
    """With all that was seen of its pods so far."""
    blamed: SeenTermination | None = None
    """The termination that decided."""
    ready: int = 0
    soaked: int = 0
    """Pods that served for soakSeconds without a restart."""
    no_room: str = ""
    """What keeps it from a pod beside the others: no GPU, no room on a node, no quota."""
    no_room_for: timedelta | None = None
    """How long it has waited for that room."""
    check_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    candidate: Candidate
    pods: Sequence[PodState]
    deployment: DeploymentState | None
    rollout: Rollout
    now: datetime
    alone: bool
    """No pod of another revision holds room any more."""

    @property
    def proven(self) -> bool:
        """All pods are its own, and one soaked: where the others lack room, so would any."""
        full = self.candidate.phase is Phase.FULL and self.alone
        return full and any(pod.is_ready and self.has_soaked(pod) for pod in self.pods)

    @property
    def lacks_pods(self) -> bool:
        """More of its pods should be there, and none is on its way."""
        more = self.candidate.phase is Phase.FULL and all(pod.is_ready for pod in self.pods)
        return more or not self.pods

    @property
    def latest(self) -> datetime:
        """When one of its pods last became ready, or it began."""
        moments = (pod.ready_since for pod in self.pods if pod.ready_since is not None)
        return max([self.candidate.since, *moments])

    @property
    def deadline(self) -> timedelta:
        return timedelta(seconds=self.rollout.start_deadline_seconds)

    def answer(self, verdict: Verdict, reason: Reason, message: str) -> Judgement:
        ready = [pod for pod in self.pods if pod.is_ready]
        asking = self.deployment if self.lacks_pods else None
        lacks, lacks_for = no_room(self.pods, asking, self.now, self.latest)
        return Judgement(
            verdict,
            reason,
            message,
            self.candidate,
            ready=len(ready),
            soaked=sum(1 for pod in ready if self.has_soaked(pod)),
            no_room=lacks,
            no_room_for=lacks_for,
        )

    def waited(self, since: datetime) -> timedelta:
        """Return the time since then, as far as this candidate had it (pods outlive a retry)."""
        return self.now - max(since, self.candidate.since)

    def has_soaked(self, pod: PodState) -> bool:
        soak = timedelta(seconds=self.rollout.soak_seconds)
        return pod.ready_since is not None and self.now - pod.ready_since >= soak


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
    case = _Case(seen, own, deployment, rollout, now, alone)
    return (
        _failed(case)
        or _restarted_too_often(case)
        or _too_slow(case)
        or _never_created(case)
        or _successful(case)
        or _pending(case)
    )


def _failed(case: _Case) -> Judgement | None:
    """Before the first Ready: settings or user at once, unknown at the second time."""
    early = [one for one in case.candidate.terminations if one.before_ready]
    started = set(case.candidate.ready_uids)
    for one in early:
        healed = one.blame is Blame.USER and one.pod_uid in started
        if one.blame in {Blame.SETTINGS, Blame.USER} and not healed:
            answer = case.answer(
                Verdict.FAILED, REASON_OF_CAUSE[one.cause_class], _error(one, "did not start")
            )
            return replace(answer, blamed=one)
    unknown = [one for one in early if one.blame is Blame.UNKNOWN]
    if len(unknown) >= UNKNOWN_TERMINATIONS:
        what = f"ended {len(unknown)} times before it was ready"
        answer = case.answer(Verdict.FAILED, Reason.ENGINE_FAILED, _error(unknown[-1], what))
        return replace(answer, blamed=unknown[-1])
    return None


def _restarted_too_often(case: _Case) -> Judgement | None:
    """While soaking: more than maxRestarts."""
    late = [one for one in case.candidate.terminations if not one.before_ready]
    blamed = [one for one in late if one.blame is not Blame.ENVIRONMENT]
    limit = case.rollout.max_restarts
    if len(blamed) > limit:
        worst = next((one for one in blamed if one.blame is Blame.SETTINGS), blamed[-1])
        what = f"restarted {len(blamed)} times while soaking, more than maxRestarts {limit}"
        reason = REASON_OF_CAUSE[worst.cause_class]
        return replace(case.answer(Verdict.FAILED, reason, _error(worst, what)), blamed=worst)
    if len(late) > limit and not any(case.has_soaked(pod) for pod in case.pods):
        what = f"restarted {len(late)} times while soaking, and its settings are not to blame"
        reason = REASON_OF_CAUSE[late[-1].cause_class]
        return case.answer(Verdict.INCONCLUSIVE, reason, _error(late[-1], what))
    return None


def _too_slow(case: _Case) -> Judgement | None:
    """Not ready after startDeadlineSeconds, counted from the container's start."""
    for pod in case.pods:
        if pod.is_ready:
            continue
        served = pod.was_ready or pod.uid in case.candidate.ready_uids
        checks = (_slow_restart,) if served else (_slow_start, _never_started, _never_scheduled)
        found = next((late for check in checks if (late := check(case, pod)) is not None), None)
        if found is not None:
            return case.answer(Verdict.INCONCLUSIVE, *found)
    return None


def _slow_restart(case: _Case, pod: PodState) -> tuple[Reason, str] | None:
    """Of a pod that had served: the same time for the container that runs now."""
    since = pod.running_since
    if since is None or case.waited(max(since, pod.unready_since or since)) < case.deadline:
        return None
    seconds = case.rollout.start_deadline_seconds
    late = f"Pod {pod.name} was not ready again {seconds} s after its container restarted"
    return Reason.START_DEADLINE_EXCEEDED, f"{late} (rollout.startDeadlineSeconds)."


def _slow_start(case: _Case, pod: PodState) -> tuple[Reason, str] | None:
    since = pod.first_run_since
    if since is None or case.waited(since) < case.deadline:
        return None
    seconds = case.rollout.start_deadline_seconds
    late = f"Pod {pod.name} was not ready {seconds} s after its container started"
    own = [one for one in case.candidate.terminations if one.pod_uid == pod.uid and one.message]
    if own:
        return REASON_OF_CAUSE[own[-1].cause_class], f"{late}: {own[-1].message}"
    return Reason.START_DEADLINE_EXCEEDED, f"{late} (rollout.startDeadlineSeconds)."


def _never_started(case: _Case, pod: PodState) -> tuple[Reason, str] | None:
    """Pull and mount errors count from the node on; a long pull alone only stops tuning."""
    if pod.terminations or pod.running_since or pod.started_at is None:
        return None
    reason = waiting_reason(pod)
    if case.waited(pod.started_at) < case.deadline:
        return None
    if reason is None and case.candidate.origin is Origin.USER:
        return None
    seconds = case.rollout.start_deadline_seconds
    what = pod.waiting_reason or "not started"
    detail = f": {pod.waiting_message}" if pod.waiting_message else ""
    return (
        reason or Reason.START_DEADLINE_EXCEEDED,
        f"The container of pod {pod.name} did not start within {seconds} s: {what}{detail}",
    )


def _never_scheduled(case: _Case, pod: PodState) -> tuple[Reason, str] | None:
    """Nothing is lost by waiting beside the old pods, but tuning must not wait for ever."""
    since = pod.unschedulable_since
    if since is None or case.proven or case.waited(since) < case.deadline:
        return None
    reason = unscheduled_reason(pod)
    if reason is Reason.WAITING_FOR_GPU:
        if case.candidate.origin is Origin.USER:
            return None
        return reason, f"Pod {pod.name} found no GPU: {pod.unschedulable_message}"
    return reason, f"No node takes pod {pod.name}: {pod.unschedulable_message}"


def _never_created(case: _Case) -> Judgement | None:
    """Take tuning back where a quota stays used up, since others wait for its turn."""
    refused = not_created(case.deployment)
    if refused is None or case.proven or not case.lacks_pods:
        return None
    if case.candidate.origin is Origin.USER or case.now - case.latest < case.deadline:
        return None
    return case.answer(Verdict.INCONCLUSIVE, *refused)


def _successful(case: _Case) -> Judgement | None:
    answer = case.answer(Verdict.SUCCESSFUL, Reason.APPLIED, "")
    if answer.soaked == 0:
        return None
    served = f"{_count(answer.soaked, 'pod')} served for {case.rollout.soak_seconds} s"
    unready = [pod for pod in case.pods if not pod.is_ready or not case.has_soaked(pod)]
    soonest = _soonest(case, unready)
    return replace(answer, message=f"{served} without a restart.", check_after_seconds=soonest)


def _pending(case: _Case) -> Judgement:
    reason, message = _waits_for(case)
    answer = case.answer(Verdict.PENDING, reason, message)
    return replace(answer, check_after_seconds=_soonest(case, case.pods))


def _waits_for(case: _Case) -> tuple[Reason, str]:
    """Return what a candidate waits for, the most telling pod first."""
    if not case.pods:
        waits = Reason.ROLLOUT_IN_PROGRESS, "Waits for the first pod to be created."
        return not_created(case.deployment) or waits
    held_up = next((one for one in map(stuck, case.pods) if one is not None), None)
    if held_up is not None:
        return held_up
    ends = case.candidate.terminations
    if ends:
        return _known_cause(ends[-1]), _error(ends[-1], "ended, which alone decides nothing")
    if any(pod.is_ready for pod in case.pods):
        seconds = case.rollout.soak_seconds
        return Reason.ROLLOUT_IN_PROGRESS, f"Serves, and is believed after {seconds} s."
    return Reason.ROLLOUT_IN_PROGRESS, "Waits for the engine to start."


def _known_cause(end: SeenTermination) -> Reason:
    """Return the reason of a cause that settings do not have; else that it is on its way."""
    reason = REASON_OF_CAUSE[end.cause_class]
    elsewhere = end.blame in {Blame.ENVIRONMENT, Blame.USER}
    named = elsewhere and reason is not Reason.ENGINE_FAILED
    return reason if named else Reason.ROLLOUT_IN_PROGRESS


def _soonest(case: _Case, pods: Iterable[PodState]) -> float | None:
    """Return the seconds until time alone changes the verdict; None: it never does."""
    soak = timedelta(seconds=case.rollout.soak_seconds)
    begun = case.candidate.since
    moments = [] if case.pods else [begun + SURGE_PATIENCE, begun + case.deadline]
    for pod in pods:
        if pod.ready_since is not None:
            moments.append(pod.ready_since + soak)
        elif pod.unschedulable_since is not None:
            moments.append(pod.unschedulable_since + SURGE_PATIENCE)
            moments.append(pod.unschedulable_since + case.deadline)
        else:
            moments.append((pod.first_run_since or pod.started_at or case.now) + case.deadline)
    left = [(moment - case.now).total_seconds() for moment in moments]
    return min((max(one, 1.0) for one in left if one > -5), default=None)


def _error(one: SeenTermination, what: str) -> str:
    if not one.message:
        return f"The engine {what}; its error is not known."
    return f"The engine {what}: {with_remedy(one.message, one.remedy)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
