"""What a candidate's pods show, remembered: logs and pods vanish, the record stays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from parkade.rollout.causes import Blame, RootCause, Stage
from parkade.rollout.observed import Evidence, PodState
from parkade.rollout.record import MAX_TERMINATIONS, Candidate, SeenTermination

UNKNOWN_TERMINATIONS = 2
"""Before the first Ready: once decides nothing, twice is no accident."""

SKEW = timedelta(seconds=1)
"""Of times that the API server writes in whole seconds."""


def witnessed(candidate: Candidate, pods: Iterable[PodState], evidence: Evidence) -> Candidate:
    """Return the candidate with what its pods show now added to what was seen before."""
    own = list(pods)
    earlier = candidate.earlier_ends
    if earlier is None:
        counts = ((pod.uid, _ended_before(pod, candidate.since)) for pod in own)
        earlier = tuple((uid, count) for uid, count in counts if count > 0)
    before = dict(earlier)
    ready = set(candidate.ready_uids)
    seen = candidate.terminations
    for pod in own:
        after = before.get(pod.uid, 0)
        if pod.uid in ready or pod.was_ready:
            seen = seen if pod.uid in ready else _with_start(seen, pod, evidence, after)
            seen = _with_late(seen, pod, evidence, after)
            ready.add(pod.uid)
        elif pod.terminations > after:
            seen = _with_early(seen, pod, evidence, after)
    return replace(
        candidate,
        ready_uids=tuple(sorted(ready))[-MAX_TERMINATIONS:],
        terminations=seen[:MAX_TERMINATIONS],
        earlier_ends=earlier[-MAX_TERMINATIONS:],
    )


def _ended_before(pod: PodState, since: datetime) -> int:
    """Return how many of its ends are of an earlier try of the same revision (a retry)."""
    if pod.created_at is None or pod.created_at >= since - SKEW:
        return 0
    last = pod.last_termination
    before = last is not None and last.finished_at is not None and last.finished_at + SKEW < since
    return pod.terminations if before else pod.terminations - 1


def _with_early(
    seen: tuple[SeenTermination, ...], pod: PodState, evidence: Evidence, after: int
) -> tuple[SeenTermination, ...]:
    """Add the newest end before the first Ready, unless it tells nothing new.

    A loop of one cause is remembered twice, not at each round; an end without evidence in a loop
    of a known cause is taken for one more of it, since logs vanish. The first `after` ends are
    of an earlier try.
    """
    newest = pod.terminations
    own = [one for one in seen if one.pod_uid == pod.uid]
    if not own:  # a record that was lost had the cause of an end before
        newest = _newest_known(pod, evidence, after)
    fresh = seen_end(pod.uid, newest, evidence, before_ready=True)
    old = next((one for one in own if one.number == newest), None)
    if old is not None:
        better = old.blame is Blame.UNKNOWN and fresh.blame is not Blame.UNKNOWN
        return tuple(fresh if one is old else one for one in seen) if better else seen
    unknown = fresh.blame is Blame.UNKNOWN
    if unknown and any(one.blame is not Blame.UNKNOWN for one in own):
        return seen
    if sum(1 for one in own if one.cause_class is fresh.cause_class) >= UNKNOWN_TERMINATIONS:
        return seen
    missed = (
        (seen_end(pod.uid, newest - 1, {}, before_ready=True),)
        if unknown and newest > after + 1 and not own
        else ()
    )
    return (*seen, *missed, fresh)


def _newest_known(pod: PodState, evidence: Evidence, after: int) -> int:
    """Return the newest end whose cause is known; the newest of all where none is."""
    known = (
        number
        for (uid, number), cause in evidence.items()
        if uid == pod.uid and number > after and cause.blame is not Blame.UNKNOWN
    )
    return max(known, default=pod.terminations)


def _with_start(
    seen: tuple[SeenTermination, ...], pod: PodState, evidence: Evidence, after: int
) -> tuple[SeenTermination, ...]:
    """Settle which ends came before the first Ready, in the pass that first sees it ready.

    A loop is remembered by two of its ends, and while no operator ran by none of them. One end
    stands for the rest, which would else be counted as ends after the first Ready.
    """
    own = [one for one in seen if one.pod_uid == pod.uid]
    until = pod.terminations - (1 if _ended_while_ready(pod) else 0)
    cause = evidence.get((pod.uid, until))
    if not own:
        cause = cause or evidence.get((pod.uid, pod.terminations))
        if until <= after or not _is_early(cause, until - after):
            return seen
        return (*seen, seen_end(pod.uid, until, {}, before_ready=True, otherwise=cause))
    if _is_late(cause):
        until, cause = until - 1, None
    if until <= own[-1].number:
        return seen
    if cause is not None and cause.cause_class is not own[-1].cause_class:
        return (*seen, seen_end(pod.uid, until, evidence, before_ready=True))
    return tuple(replace(one, number=until) if one is own[-1] else one for one in seen)


def _is_early(cause: RootCause | None, ends: int) -> bool:
    """Tell whether ends that nobody saw are taken for ends before the first Ready.

    Where nothing tells, they are what blames less: early where the cause is elsewhere or one end
    is unknown; late where more are, since twice unknown decides before the first Ready.
    """
    if cause is None or cause.blame is Blame.UNKNOWN:
        return ends < UNKNOWN_TERMINATIONS
    return not _is_late(cause)


def _is_late(cause: RootCause | None) -> bool:
    """Tell whether the cause itself says that the engine had started."""
    if cause is None or cause.blame is not Blame.SETTINGS:
        return False
    return cause.stage in {None, Stage.RUNTIME}


def _ended_while_ready(pod: PodState) -> bool:
    """Tell whether the newest end is what made it unready, or it failed its probe alone."""
    if pod.is_ready:
        return False
    running, unready = pod.running_since, pod.unready_since
    return running is None or unready is None or unready <= running


def _with_late(
    seen: tuple[SeenTermination, ...], pod: PodState, evidence: Evidence, after: int
) -> tuple[SeenTermination, ...]:
    """Add every end after the first Ready: they are counted against maxRestarts.

    Where several came at once, those without evidence are taken for more of the newest one.
    """
    own = {one.number: one for one in seen if one.pod_uid == pod.uid}
    cause = evidence.get((pod.uid, pod.terminations))
    added = [
        seen_end(pod.uid, number, evidence, before_ready=False, otherwise=cause)
        for number in range(max([after, *own]) + 1, pod.terminations + 1)
    ]
    newest = own.get(pod.terminations)
    if newest is not None and newest.blame is Blame.UNKNOWN:
        fresh = seen_end(pod.uid, newest.number, evidence, before_ready=newest.before_ready)
        seen = tuple(fresh if one is newest else one for one in seen)
    return (*seen, *added)


def seen_end(
    uid: str,
    number: int,
    evidence: Evidence,
    *,
    before_ready: bool,
    otherwise: RootCause | None = None,
) -> SeenTermination:
    """Return an end with its cause as far as it is known."""
    cause = evidence.get((uid, number), otherwise)
    if cause is None:
        return SeenTermination(uid, number, before_ready)
    return SeenTermination(
        uid,
        number,
        before_ready,
        cause_class=cause.cause_class,
        blame=cause.blame,
        knob=cause.knob,
        message=cause.message,
        remedy=cause.remedy,
        shortfall_bytes=cause.shortfall_bytes,
        max_num_seqs_at_most=cause.max_num_seqs_at_most,
    )
