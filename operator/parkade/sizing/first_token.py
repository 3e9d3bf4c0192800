"""The least max_num_seqs at which arrivals at their peak do not pile up.

With N requests at a time, each staying R(N) seconds, a pod finishes N / R(N) requests a second
(Little's law). The bound is the smallest N at which that reaches the peak arrival rate. R(N) is
the time of the prefill plus the output tokens times the time per token at N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from parkade.sizing.footprint import prefill_ratio
from parkade.sizing.ladder import TOP
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.result import Bound, BoundKind
from parkade.sizing.speed_curve import SpeedCurve
from parkade.sizing.wording import number, rough
from parkade.sizing.workload import Workload


@dataclass(frozen=True, slots=True)
class Service:
    """How long a request stays in a pod that runs so many at a time."""

    prefill_seconds: float
    output_tokens: float
    seconds_per_token: Callable[[float], float]

    def residence_seconds(self, running: float) -> float:
        """Return the seconds from the first prefill step to the last token."""
        return self.prefill_seconds + self.output_tokens * self.seconds_per_token(running)

    def requests_per_second(self, running: float) -> float:
        """Return the requests that one pod finishes in a second."""
        return running / max(1e-9, self.residence_seconds(running))


def service(workload: Workload, curve: SpeedCurve | None) -> Service | None:
    """Return the service times that were measured; None where no time per token is known."""
    token: Callable[[float], float]
    if curve is not None:
        token = curve.seconds
    elif workload.time_per_output_token and workload.time_per_output_token.mean:
        token = partial(_constant, workload.time_per_output_token.mean)
    else:
        return None
    outputs = workload.mean_output_tokens
    fresh = workload.mean_prompt_tokens * (1.0 - workload.cached_share)
    prefill = prefill_ratio(workload) * fresh * token(1.0)
    return Service(prefill, outputs, token)


def _constant(seconds: float, running: float) -> float:
    """Return the one time that is known, whatever runs."""
    del running
    return seconds


def first_token_bound(
    workload: Workload, times: Service | None, pods: int
) -> tuple[Bound | None, tuple[str, ...]]:
    """Return the bound from below and its arithmetic; None where rate or times are not known.

    A value above 1024 says that no setting keeps up.
    """
    rate = workload.peak_requests_per_second
    if not rate or times is None:
        return None, ()
    per_pod = rate / pods
    value = _least(times, per_pod)
    if value is None:
        why = (
            f"No number up to {TOP} keeps up with {number(per_pod)} requests/s on one pod: at "
            f"{TOP} it finishes {number(times.requests_per_second(TOP))} requests/s."
        )
        return Bound(BoundKind.FIRST_TOKEN, float(TOP + 1), why), (f"First-token bound: {why}",)
    stay = times.residence_seconds(value)
    why = (
        f"Fewer than {rough(value)} at a time queue at the peak of {number(per_pod)} requests/s "
        f"on each pod, where each stays {number(stay)} s."
    )
    sentences = (
        f"Peak on one pod: {number(rate)} requests/s / {pods} pods = {number(per_pod)} requests/s.",
        (
            f"Stay: {number(times.prefill_seconds)} s prefill + {number(times.output_tokens)} "
            f"tokens × {number(times.seconds_per_token(value), 6)} s per token = {number(stay)} s "
            f"with {rough(value)} at a time."
        ),
        (
            f"First-token bound: {number(per_pod)} requests/s × {number(stay)} s = "
            f"{rough(per_pod * stay)} requests at a time."
        ),
    )
    return Bound(BoundKind.FIRST_TOKEN, value, why), sentences


def _least(times: Service, rate: float) -> float | None:
    """Return the smallest N with N / R(N) = rate, by bisection over the first crossing."""
    high = next((n for n in range(1, TOP + 1) if times.requests_per_second(float(n)) >= rate), None)
    if high is None:
        return None
    low, top = 0.0, float(high)
    for _ in range(40):
        middle = (low + top) / 2
        if middle > 0 and times.requests_per_second(middle) >= rate:
            top = middle
        else:
            low = middle
    return top


def replicas_needed(workload: Workload, times: Service | None, running: float) -> int | None:
    """Return the pods that keep up with the peak at `running` each; None where not known."""
    rate = workload.peak_requests_per_second
    if not rate or times is None:
        return None
    return max(1, -int(-rate // times.requests_per_second(running)))


def first_token_seconds(points: tuple[SpeedPoint, ...], running: float) -> float | None:
    """Return the measured median first-token time at a concurrency, linear between points."""
    timed = sorted(
        (one.concurrency, one.first_token_seconds)
        for one in points
        if one.first_token_seconds is not None
    )
    if not timed:
        return None
    below = [point for point in timed if point[0] <= running]
    above = [point for point in timed if point[0] >= running]
    if not below or not above:
        return (below or above)[-1 if below else 0][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return fmean((y0, y1)) if x1 == x0 else y0 + (y1 - y0) * (running - x0) / (x1 - x0)
