"""The ledger over time: windows of one pod become points, and points become citable or too old.

A pod runs one setting all its life, so what it measured belongs to one concurrency. A point is
one pod at one rung; its values are windows that do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from parkade.sizing.histograms import Histogram
from parkade.sizing.ladder import RUNGS
from parkade.sizing.ledger import CITABLE_WINDOWS, SpeedPoint

MAX_VALUES = 7
"""Windows of a point: enough to be citable, and four new ones outvote what was before."""

MAX_POINTS = 64
"""About 1.5 KB each; a ConfigMap holds 1 MiB and the record has other parts."""

MAX_AGE = timedelta(days=14)
"""Traffic changes by the week; what was learned longer ago may be tried again."""

MAX_AGE_WINDOWS = 6
"""Very long windows keep their points for at least so many of them."""

MATERIAL_PERCENT = 5.0
"""Half of the default minGainPercent: a speed that moved by less decides nothing."""

Points = tuple[SpeedPoint, ...]


def rung_of(concurrency: float) -> int:
    """Return the rung of the ladder nearest to a concurrency."""
    return min(RUNGS, key=lambda rung: abs(rung - concurrency))


def stamp(time: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge_points(
    ledger: Sequence[SpeedPoint],
    new_points: Iterable[SpeedPoint],
    now: datetime,
    window_seconds: float,
) -> Points:
    """Return the ledger with the newest window of each pod, oldest first.

    A window that begins after the newest one of its point ended is a further value; one that
    overlaps takes that value's place, so a window that slides by a minute is still one window. A
    reading that is not newer changes nothing. Points that are too old, or have no readable time,
    go; so do the oldest beyond `MAX_POINTS`.
    """
    kept = {_key(one): one for one in ledger}
    for new in new_points:
        old = kept.get(_key(new))
        kept[_key(new)] = new if old is None else _merged(old, new, window_seconds)
    oldest = max(MAX_AGE, timedelta(seconds=MAX_AGE_WINDOWS * window_seconds))
    timed = [(time, one) for one in kept.values() if (time := _time(one)) is not None]
    fresh = [(time, one) for time, one in timed if abs(now - time) <= oldest]
    fresh.sort(key=lambda pair: (pair[0], pair[1].pod, pair[1].concurrency))
    return tuple(one for _, one in fresh[-MAX_POINTS:])


def matters(old: Sequence[SpeedPoint], new: Sequence[SpeedPoint], now: datetime) -> bool:
    """Return whether a decision could come out otherwise: whether the ledger is worth a write.

    A point that is new, that is not yet citable and has one more window, whose speed moved, or
    that would age out though it is still measured. What merely ages out is no news.
    """
    before = {_key(one): one for one in old}
    return any(_is_news(before.get(_key(one)), one, now) for one in new)


def pooled(points: Sequence[SpeedPoint]) -> SpeedPoint:
    """Return points of one rung as one: all their windows, and their buckets added up."""
    if len(points) == 1:
        return points[0]
    weights = [len(one.output_tokens_per_second_per_request) for one in points]
    mean = sum(one.concurrency * weight for one, weight in zip(points, weights, strict=True))
    times: Histogram | None = points[-1].time_per_output_token
    for one in points[:-1]:
        times = added(one.time_per_output_token, times) if times is not None else None
    return replace(
        points[-1],
        concurrency=mean / sum(weights),
        output_tokens_per_second_per_request=tuple(
            value for one in points for value in one.output_tokens_per_second_per_request
        ),
        time_to_first_token_seconds=tuple(
            value for one in points for value in one.time_to_first_token_seconds
        ),
        time_per_output_token=times,
        newest_time_per_output_token=None,
    )


def added(one: Histogram | None, other: Histogram, factor: float = 1.0) -> Histogram:
    """Return `factor` times one plus the other; the other alone where their edges differ."""
    if one is None or one.edges != other.edges:
        return other
    counts = [
        max(0.0, factor * left) + right
        for left, right in zip(one.cumulative, other.cumulative, strict=True)
    ]
    rising = [max(counts[: at + 1]) for at in range(len(counts))]
    total = max([factor * one.total + other.total, *rising])
    sums = None if one.sum is None or other.sum is None else factor * one.sum + other.sum
    return Histogram(one.edges, tuple(rising), total, sums)


def _without(whole: Histogram | None, part: Histogram | None) -> Histogram | None:
    """Take the newest window's buckets out again."""
    if whole is None or part is None or whole.edges != part.edges:
        return None
    counts = [
        max(0.0, all_ - own) for all_, own in zip(whole.cumulative, part.cumulative, strict=True)
    ]
    rising = [max(counts[: at + 1]) for at in range(len(counts))]
    sums = None if whole.sum is None or part.sum is None else max(0.0, whole.sum - part.sum)
    return Histogram(whole.edges, tuple(rising), max([whole.total - part.total, *rising]), sums)


def _key(point: SpeedPoint) -> tuple[str, str, str, int]:
    return (point.source.value, point.fingerprint, point.pod, rung_of(point.concurrency))


def _time(point: SpeedPoint) -> datetime | None:
    try:
        time = datetime.fromisoformat(point.measured_at)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _merged(old: SpeedPoint, new: SpeedPoint, window_seconds: float) -> SpeedPoint:
    before, after = _time(old), _time(new)
    if before is None or after is None:
        return new
    if after <= before:
        return old
    apart = after - before >= timedelta(seconds=window_seconds)
    return _appended(old, new) if apart else _replaced(old, new)


def _appended(old: SpeedPoint, new: SpeedPoint) -> SpeedPoint:
    """Add a window; of a full point the oldest goes, and its buckets fade."""
    values = old.output_tokens_per_second_per_request
    kept = min(len(values), MAX_VALUES - 1)
    return _with(
        old, new, values[-kept:], old.time_to_first_token_seconds[-kept:], kept / len(values)
    )


def _replaced(old: SpeedPoint, new: SpeedPoint) -> SpeedPoint:
    """Put a window in the place of the newest one, which it overlaps."""
    rest = _without(old.time_per_output_token, old.newest_time_per_output_token)
    first = old.time_to_first_token_seconds
    return _with(
        replace(old, time_per_output_token=rest),
        new,
        old.output_tokens_per_second_per_request[:-1],
        first[:-1] if new.time_to_first_token_seconds else first,
        1.0,
    )


def _with(
    old: SpeedPoint,
    new: SpeedPoint,
    values: tuple[float, ...],
    first: tuple[float, ...],
    factor: float,
) -> SpeedPoint:
    own = new.time_per_output_token
    count = len(values)
    fullest = _that_preempted(old, new)
    return replace(
        new,
        kv_share=fullest.kv_share,
        preemptions_per_request=fullest.preemptions_per_request,
        concurrency=(count * old.concurrency + new.concurrency) / (count + 1),
        output_tokens_per_second_per_request=(*values, *new.output_tokens_per_second_per_request),
        time_to_first_token_seconds=(*first, *new.time_to_first_token_seconds),
        time_per_output_token=added(old.time_per_output_token, own, factor) if own else None,
        newest_time_per_output_token=own,
    )


def _that_preempted(old: SpeedPoint, new: SpeedPoint) -> SpeedPoint:
    """Return the window that tells from which share of the pool on requests push one another out.

    A window that is as full and calm takes it back.
    """
    share, known = new.kv_share or 0.0, old.kv_share or 0.0
    if not old.preempted or (share < known if new.preempted else share >= known):
        return new
    return old


def _is_news(old: SpeedPoint | None, new: SpeedPoint, now: datetime) -> bool:
    if old is None:
        return True
    if old == new:
        return False
    before, after = (len(one.output_tokens_per_second_per_request) for one in (old, new))
    if after > before and before < CITABLE_WINDOWS:
        return True
    if abs(100 * (new.speed / old.speed - 1)) >= MATERIAL_PERCENT:
        return True
    if new.preempted != old.preempted:
        return True
    time = _time(old)
    return time is None or now - time > MAX_AGE / 2
