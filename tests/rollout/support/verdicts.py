"""Whether verdicts follow from what really ended: promptly, and for nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from parkade.api.status import Verdict
from parkade.rollout.actions import Plan, PlanInputs
from parkade.rollout.causes import Blame
from parkade.rollout.record import Candidate
from rollout.support.world import End, Pod, World

Key = tuple[str, int]
"""Uid of a pod, and the number of its end."""


class BrokenError(AssertionError):
    """A promise was broken."""


@dataclass
class Trial:
    """What is remembered of the candidate in flight."""

    key: tuple[str, datetime]
    faults: int
    guarded: bool = False
    """All good pods served when it started."""
    asked: bool = True
    soaked: bool = False
    """One of its pods served long enough."""
    interrupts: bool = False
    """Taking its only ready pod was allowed when it began."""
    held: bool = False
    """A budget or a suspension held it up, or zero replicas."""
    no_room: int = 0
    unknown: set[Key] = field(default_factory=set)
    """Ends before the first Ready that the operator saw, and could not explain."""


def ends_are_acted_on(world: World, trial: Trial | None, before: PlanInputs, found: Plan) -> None:
    """A revert begins in the pass that sees the deciding end, and its lesson is kept."""
    old = before.record.candidate
    assert old is not None
    left = found.record.candidate
    gone = left is None or candidate_key(left) != candidate_key(old)
    good = before.record.last_good
    proven = good is not None and good.quarantine_key == old.revision.quarantine_key
    late = 0
    for end in _newest_ends(world, before, old):
        cause = before.evidence.get(end.key)
        early = end.early and end.pod.uid not in old.ready_uids
        if early and cause is not None and cause.blame is Blame.SETTINGS:
            if not gone:
                raise BrokenError("a deciding termination is not acted on")
            if not found.record.is_quarantined(old.revision.quarantine_key) and not proven:
                raise BrokenError("what a failure teaches is lost")
        if early and cause is None:
            _note_unknown(trial, before, end)
        if not end.early:
            late += _late(world, end.pod, old)
    if gone or good is None:
        return
    if late > before.endpoint.spec.rollout.max_restarts:
        raise BrokenError("a pod that restarts too often is kept")
    if trial is not None and len(trial.unknown) >= 2:
        raise BrokenError("two ends that nobody can explain are not acted on")


def _newest_ends(world: World, before: PlanInputs, old: Candidate) -> list[End]:
    shown = {
        (pod.uid, pod.terminations)
        for pod in before.pods
        if pod.revision == old.revision.hash and not pod.deleting and not pod.disrupted
    }
    return [one for one in world.ends if one.key in shown and one.at >= old.since]


def _note_unknown(trial: Trial | None, before: PlanInputs, end: End) -> None:
    explained = any(uid == end.pod.uid for uid, _ in before.evidence)
    if trial is not None and not explained:
        trial.unknown.add(end.key)


def _late(world: World, pod: Pod, old: Candidate) -> int:
    return sum(
        1
        for one in world.ends
        if one.pod is pod and not one.early and one.at >= old.since
        if not _is_environment(one)
    )


def blames_rightly(world: World, seen: set[Key], before: PlanInputs, found: Plan) -> None:
    """A candidate fails only for what its settings or its spec may have caused."""
    old = before.record.candidate
    assert old is not None
    entry = next(
        (
            one
            for one in found.record.history
            if (one.revision, one.since) == candidate_key(old) and one.verdict is Verdict.FAILED
        ),
        None,
    )
    ends = [
        one
        for one in world.ends
        if one.revision == old.revision.hash and one.at >= old.since - timedelta(seconds=1)
    ]
    limit = before.endpoint.spec.rollout.max_restarts
    late = [one for one in ends if not one.early]
    if "while soaking" in found.message and len(late) <= limit:
        raise BrokenError("ends before the first Ready count as restarts while soaking")
    if entry is None:
        return
    early = [one for one in ends if one.early]
    told = any(
        one.known and one.cause is not None and one.cause.blame is not Blame.ENVIRONMENT
        for one in early
    )
    unknown = [one for one in early if one.key not in world.causes or one.key not in seen]
    restarts = [one for one in late if not _is_environment(one)]
    if not told and len(unknown) < 2 and len(restarts) <= limit:
        raise BrokenError("settings are blamed for what they did not cause")


def candidate_key(candidate: Candidate) -> tuple[str, datetime]:
    return candidate.revision.hash, candidate.since


def _is_environment(end: End) -> bool:
    return end.known and end.cause is not None and end.cause.blame is Blame.ENVIRONMENT
