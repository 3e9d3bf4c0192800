"""The least max_num_seqs at which arrivals at their peak do not pile up.

With N requests at a time, each staying R(N) seconds, a pod finishes N / R(N) requests a second
(Little's law). The bound is the smallest N at which that reaches the peak arrival rate. R(N) is
the time of the prefill plus the output tokens times the time per token at N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from parkade.sizing.footprint import prefill_ratio
from parkade.sizing.ladder import TOP
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.result import Bound, BoundKind
from parkade.sizing.speed_curve import SpeedCurve, segment
from parkade.sizing.wording import milliseconds, number, ratio, rough, two_times
from parkade.sizing.workload import Workload


@dataclass(frozen=True, slots=True)
class Service:
    """How long a request stays in a pod that runs so many at a time.

    Times per token are means: how long requests stay does not follow from the slow ones alone.
    """

    prompt_tokens: float
    """Mean that no cache holds."""
    prefill_ratio: float
    """Seconds of prefill for each over seconds of decode for an output token."""
    output_tokens: float
    curve: SpeedCurve | None
    window_seconds_per_token: float = 0.0
    """The mean of the whole window, where there is no curve."""

    def seconds_per_token(self, running: float) -> float:
        """Return the mean time of an output token with so many at a time."""
        if self.curve is None:
            return self.window_seconds_per_token
        return self.curve.mean_seconds(running)

    @property
    def prefill_seconds(self) -> float:
        """The prefill of a lone prompt; that of others is in the time per token."""
        return self.prefill_ratio * self.prompt_tokens * self.seconds_per_token(1.0)

    def residence_seconds(self, running: float) -> float:
        """Return the seconds from the first prefill step to the last token."""
        return self.prefill_seconds + self.output_tokens * self.seconds_per_token(running)

    def requests_per_second(self, running: float) -> float:
        """Return the requests that one pod finishes in a second."""
        return running / max(1e-9, self.residence_seconds(running))

    def sentences(self, running: float) -> tuple[str, ...]:
        """Return the arithmetic of the stay with so many at a time."""
        stay = self.residence_seconds(running)
        return (
            *self._token_sentences((1.0, running)),
            (
                f"Prefill: {number(self.prompt_tokens)} prompt tokens that no cache holds × "
                f"{ratio(self.prefill_ratio)} × "
                f"{number(self.seconds_per_token(1.0), 6)} s per output token = "
                f"{number(self.prefill_seconds)} s."
            ),
            (
                f"Stay: {number(self.prefill_seconds)} s prefill + {number(self.output_tokens)} "
                f"tokens × {number(self.seconds_per_token(running), 6)} s per token = "
                f"{number(stay)} s with {rough(running)} at a time."
            ),
        )

    def _token_sentences(self, loads: Sequence[float]) -> tuple[str, ...]:
        line = self.curve.means if self.curve is not None else []
        if len(line) < 2:
            only = milliseconds(self.seconds_per_token(1.0))
            return (f"Time per token: {only} at every load, since it is known at one alone.",)
        return tuple(_on_line(line, load) for load in dict.fromkeys(loads))


def _on_line(line: Sequence[tuple[float, float]], load: float) -> str:
    (x0, y0), (x1, y1) = segment(load, line)
    raw = y0 + (y1 - y0) * (load - x0) / (x1 - x0)
    first, second = two_times(y0, y1)
    least = ", taken as 0.000001 ms" if raw < _LEAST_SECONDS else ""
    return (
        f"Time per token with {number(load)} at a time: {first} + ({number(load)} - "
        f"{number(x0)}) / ({number(x1)} - {number(x0)}) × ({second} - "
        f"{first}) = {milliseconds(raw)}{least}."
    )


_LEAST_SECONDS = 1e-9
"""Where a steep line would go below zero (`speed_curve`)."""


def service(workload: Workload, curve: SpeedCurve | None) -> Service | None:
    """Return the service times that were measured; None where no time per token is known."""
    times = workload.time_per_output_token
    window = (times.mean if times else None) or 0.0
    if curve is None and not window:
        return None
    return Service(
        prompt_tokens=workload.mean_prompt_tokens * (1.0 - workload.cached_share),
        prefill_ratio=prefill_ratio(workload),
        output_tokens=workload.mean_output_tokens,
        curve=curve,
        window_seconds_per_token=window,
    )


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
        return _none_keeps_up(times, rate, pods)
    stay = times.residence_seconds(value)
    fewer = f"Fewer than {rough(value)} at a time queue at" if value > 1 else "One at a time bears"
    why = (
        f"{fewer} the peak of {number(per_pod)} requests/s on each pod, where each stays "
        f"{number(stay)} s."
    )
    sentences = (
        _peak(rate, pods),
        *times.sentences(value),
        (
            f"First-token bound: {number(per_pod)} requests/s × {number(stay)} s = "
            f"{rough(per_pod * stay)} requests at a time."
        ),
    )
    return Bound(BoundKind.FIRST_TOKEN, value, why), sentences


def _none_keeps_up(times: Service, rate: float, pods: int) -> tuple[Bound, tuple[str, ...]]:
    finished = number(times.requests_per_second(TOP))
    why = (
        f"No number up to {TOP:,} keeps up with {number(rate / pods)} requests/s on each pod: with "
        f"{TOP:,} at a time one finishes {finished} requests/s."
    )
    sentences = (
        _peak(rate, pods),
        *times.sentences(TOP),
        (
            f"First-token bound: {TOP:,} requests at a time / "
            f"{number(times.residence_seconds(TOP))} s = {finished} requests/s, fewer than the "
            "peak: no number keeps up."
        ),
    )
    return Bound(BoundKind.FIRST_TOKEN, float(TOP + 1), why), sentences


def _peak(rate: float, pods: int) -> str:
    each = number(rate / pods)
    noun = "pod" if pods == 1 else "pods"
    return f"Peak on one pod: {number(rate)} requests/s / {pods} {noun} = {each} requests/s."


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
    if not rate or times is None or running <= 0:
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
