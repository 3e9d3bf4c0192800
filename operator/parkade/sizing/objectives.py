"""Do requests get what the objectives ask for, now or with the settings to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parkade.api.conditions import Reason
from parkade.api.spec import Objectives
from parkade.sizing.first_token import first_token_seconds
from parkade.sizing.histograms import Histogram
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.result import ObjectivesVerdict
from parkade.sizing.speed_curve import SpeedCurve
from parkade.sizing.wording import number, rough
from parkade.sizing.workload import Workload


@dataclass(frozen=True, slots=True)
class _Finding:
    met: bool | None
    words: str


def judge_objectives(
    objectives: Objectives | None,
    workload: Workload | None,
    curve: SpeedCurve | None,
    points: Sequence[SpeedPoint],
    running: float,
) -> ObjectivesVerdict:
    """Return the verdict. `running` is the max_num_seqs that it is judged at.

    Shares of requests from the window's histograms decide; where there are none, the measured
    points at `running`.
    """
    if objectives is None:
        return ObjectivesVerdict(None, Reason.NO_OBJECTIVES, "The spec asks for nothing.")
    findings = [
        _speed(objectives, workload, curve, running),
        _first_token(objectives, workload, points, running),
    ]
    known = [one for one in findings if one is not None]
    if not known:
        return ObjectivesVerdict(None, Reason.NO_OBJECTIVES, "The objectives ask for nothing.")
    words = " ".join(one.words for one in known)
    if any(one.met is False for one in known):
        return ObjectivesVerdict(met=False, reason=Reason.MISSED, message=words)
    if any(one.met is None for one in known):
        return ObjectivesVerdict(None, Reason.CANNOT_TELL, words)
    return ObjectivesVerdict(met=True, reason=Reason.MET, message=words)


def _speed(
    objectives: Objectives, workload: Workload | None, curve: SpeedCurve | None, running: float
) -> _Finding | None:
    wanted = objectives.min_output_tokens_per_second
    if wanted is None:
        return None
    name = f"{wanted} output tok/s"
    times = workload.time_per_output_token if workload else None
    if times is not None and times.total > 0:
        return _share(times, 1.0 / wanted, objectives.attainment_percent, name)
    if curve is None:
        return _Finding(None, f"No speed was measured to hold against {name} per request.")
    if _beside(curve, running, 1.0 / wanted):
        only = rough(curve.highest)
        return _Finding(
            None,
            f"Speed was measured at {only} requests at a time alone, so what {rough(running)} "
            f"would get is not known, for {name} asked.",
        )
    reached = 1.0 / curve.seconds(running)
    return _Finding(
        reached >= wanted * (1 - 1e-9),
        f"At {rough(running)} requests at a time one gets {rough(reached)} tok/s by the measured "
        f"points, for {name} asked.",
    )


def _beside(curve: SpeedCurve, running: float, target: float) -> bool:
    """Whether one point is all that is known and says nothing of this concurrency.

    Fewer requests than it may be faster, more may be slower.
    """
    if len(curve.points) > 1:
        return False
    point = curve.points[0]
    holds = point.seconds <= target * (1 + 1e-9)
    return running > point.concurrency if holds else running < point.concurrency


def _first_token(
    objectives: Objectives, workload: Workload | None, points: Sequence[SpeedPoint], running: float
) -> _Finding | None:
    wanted = objectives.max_time_to_first_token_seconds
    if wanted is None:
        return None
    name = f"a first token within {wanted} s"
    times = workload.time_to_first_token if workload else None
    if times is not None and times.total > 0:
        return _share(times, float(wanted), objectives.attainment_percent, name)
    seconds = first_token_seconds(tuple(points), running)
    if seconds is None:
        return _Finding(None, f"No first-token time was measured to hold against {wanted} s.")
    return _Finding(
        seconds <= wanted,
        f"At {rough(running)} requests at a time the first token comes after {number(seconds, 1)} "
        f"s by the measured points, for {wanted} s asked.",
    )


def _share(times: Histogram, limit: float, wanted_percent: int, name: str) -> _Finding:
    low, high = times.share_at_most(limit)
    words = (
        f"{number(100 * low, 1)} % of requests get {name}"
        if low == high
        else f"{number(100 * low, 1)} to {number(100 * high, 1)} % of requests get {name}"
    ) + f", for {wanted_percent} % asked."
    if 100 * low >= wanted_percent - 1e-9:
        return _Finding(met=True, words=words)
    return _Finding(False if 100 * high < wanted_percent else None, words)
