"""What single pods measured of speed: a point each, since a pod runs one setting all its life.

The histogram of a pod's requests, its running requests and its tokens belong to one another,
while those of an endpoint mix the settings of all pods that ran in the window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from parkade.adapters.traffic import EndpointKey, PodTraffic, Traffic, histogram_of
from parkade.adapters.vllm_metrics import Scope
from parkade.sizing.histograms import Histogram, quantile_inside, read_histogram
from parkade.sizing.ledger import PointSource, SpeedPoint, speed_point
from parkade.sizing.points import stamp

MIN_FINISHED = 30
"""The share of requests that decides is one in ten: three of these lie above it."""

MIN_SHARE_OF_WINDOW = 0.2
"""A pod that was busy for less is left out: at first only short requests have finished, and it
ran fewer than it will."""

BINDING_SHARE = 0.9
"""Running requests of max_num_seqs from which on the setting is what limits them."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a pod ran all its life."""

    fingerprint: str
    max_num_seqs: int | None = None
    """None: not known, so nothing is said of whether it was binding."""


def speed_points(
    traffic: Traffic, key: EndpointKey, ran: Callable[[str], Ran | None]
) -> tuple[SpeedPoint, ...]:
    """Return a point for each pod of an endpoint that says enough of itself in the window.

    `ran` tells of a pod's name what it ran; None leaves the pod out. The speed is that of the
    median request. Concurrency is what a request saw beside itself, E[n^2] / E[n] over scrapes
    with n running: histograms count requests, and most of them run when many do, so the plain
    mean over time of a busy and a quiet hour would say that slow tokens come with few requests.
    """
    at = stamp(datetime.fromtimestamp(traffic.at, UTC))
    found = []
    for name, pod in sorted(traffic.of(key).items()):
        what = ran(name)
        point = None if what is None else _point(pod, what, traffic.scope)
        if point is not None:
            found.append(replace(point, pod=name, measured_at=at))
    return tuple(found)


def _point(pod: PodTraffic, ran: Ran, scope: Scope) -> SpeedPoint | None:
    times = _read(pod, "token_time")
    busy_seconds = pod.numbers.get("busy_steps", 0.0) * scope.step_seconds
    if times is None or times.total < MIN_FINISHED:
        return None
    if not busy_seconds >= MIN_SHARE_OF_WINDOW * scope.window_seconds:
        return None
    running = _ratio(pod.numbers.get("running_squares"), pod.numbers.get("running_sum", 0.0))
    if running is None:
        return None
    seconds = quantile_inside(times, 0.5)
    point = speed_point(
        running, [1.0 / max(seconds, 1e-9)], _first_token(pod), source=PointSource.LEDGER
    )
    if isinstance(point, str):
        return None
    prefill = _prefill_share(pod)
    return replace(
        point,
        time_per_output_token=times,
        newest_time_per_output_token=times,
        cap_binding=ran.max_num_seqs is not None and running >= BINDING_SHARE * ran.max_num_seqs,
        acceptance=_share(pod, "accepted_tokens", "draft_tokens"),
        output_tokens_per_second=_ratio(pod.numbers.get("generated"), busy_seconds),
        context_tokens=_context_tokens(pod),
        prefill_share=prefill,
        decoding=None if prefill is None else running * (1.0 - prefill),
        kv_share=_kv_share(pod, running),
        preemptions_per_request=_ratio(pod.numbers.get("preemptions"), times.total),
        fingerprint=ran.fingerprint,
    )


def _read(pod: PodTraffic, what: str) -> Histogram | None:
    """Return a histogram of one pod, its counts without the noise of `increase`."""
    raw = histogram_of([pod], what)
    read = None if raw is None else read_histogram(raw.buckets, raw.count, raw.sum)
    if not isinstance(read, Histogram) or not read.edges:
        return None
    return Histogram(
        read.edges,
        tuple(round(one, 2) for one in read.cumulative),
        round(read.total, 2),
        None if read.sum is None else round(read.sum, 6),
    )


def _first_token(pod: PodTraffic) -> tuple[float, ...]:
    times = _read(pod, "first_token")
    return () if times is None or times.total <= 0 else (quantile_inside(times, 0.5),)


def _context_tokens(pod: PodTraffic) -> float | None:
    """Return the mean length of those running: the footprint of one."""
    pool, used = pod.pool_tokens, pod.numbers.get("usage_sum")
    if pool is None or used is None:
        return None
    return _ratio(used * pool, pod.numbers.get("running_sum", 0.0))


def _kv_share(pod: PodTraffic, running: float) -> float | None:
    """Return the share of the KV cache that so many requests of this pod hold."""
    each = _ratio(pod.numbers.get("usage_sum"), pod.numbers.get("running_sum", 0.0))
    return None if each is None else min(1.0, each * running)


def _prefill_share(pod: PodTraffic) -> float | None:
    """Return the share of a request's time that its prefill takes."""
    prefill, decode = pod.numbers.get("prefill_seconds"), pod.numbers.get("decode_seconds")
    if prefill is None or decode is None:
        return None
    return _ratio(prefill, prefill + decode)


def _share(pod: PodTraffic, part: str, whole: str) -> float | None:
    found = _ratio(pod.numbers.get(part), pod.numbers.get(whole, 0.0))
    return None if found is None else min(1.0, found)


def _ratio(part: float | None, whole: float) -> float | None:
    """Return a ratio that is a number from 0; None where it is none."""
    if part is None or not whole > 0:
        return None
    found = part / whole
    return found if math.isfinite(found) and found >= 0 else None
