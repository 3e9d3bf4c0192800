"""The traffic of one endpoint out of the reading for all, and what WorkloadObserved says of it."""

from __future__ import annotations

from datetime import timedelta

from parkade.adapters.traffic import Traffic
from parkade.api.conditions import ConditionStatus, Reason
from parkade.controller.observe import Observation
from parkade.rollout.actions import Finding
from parkade.sizing.gates import gate
from parkade.sizing.workload import CannotTell, Workload

SCRAPES_UNTIL_MISSED = 4
"""A pod that has been ready for so many scrape intervals should be in the answer ..."""

SECONDS_UNTIL_MISSED = 30
"""... but not before Prometheus has discovered it (5 s is its least) and been asked again."""

FALSE_REASONS = frozenset({Reason.INSUFFICIENT_REQUESTS, Reason.NO_TRAFFIC, Reason.ASSUMED_LENGTHS})
"""Known and too little; every other reason means that it is not known."""


def observe_workload(seen: Observation, traffic: Traffic | CannotTell) -> Workload | CannotTell:
    """Return the endpoint's workload out of the reading for all."""
    if isinstance(traffic, CannotTell):
        return traffic
    settled = seen.now - timedelta(
        seconds=max(
            SECONDS_UNTIL_MISSED, SCRAPES_UNTIL_MISSED * traffic.scope.scrape_interval_seconds
        )
    )
    expected = [
        pod.name
        for pod in seen.pods
        if pod.is_ready and pod.ready_since and pod.ready_since < settled
    ]
    current, settings = seen.fingerprint, seen.in_force

    def comparable(pod: str) -> bool:
        return seen.running is not None or seen.fingerprint_of_pod(pod) == current

    def judged(pod: str) -> bool:
        if settings is None or seen.running is not None:
            return True
        return comparable(pod) and seen.settings_of_pod(pod) == settings

    key = seen.key if seen.endpoint.spec.engine is not None else (seen.endpoint.namespace, "")
    reading = traffic.reading(key, expected_pods=expected, in_flight_of=comparable, judged=judged)
    return gate(reading, min_requests=seen.endpoint.spec.workload.min_requests)


def workload_finding(seen: Observation, workload: Workload | CannotTell) -> Finding:
    """Return what the condition WorkloadObserved says of it."""
    if isinstance(workload, Workload):
        return Finding(
            ConditionStatus.TRUE,
            Reason.OBSERVED,
            f"{workload.requests:.0f} requests finished in the last "
            f"{workload.window_seconds:.0f} s.",
        )
    spec = seen.endpoint.spec
    if spec.replicas == 0 and not seen.pods:
        return Finding(
            ConditionStatus.UNKNOWN, Reason.SCALED_TO_ZERO, "No pod runs, so nothing is measured."
        )
    if workload.reason is Reason.NO_TRAFFIC and spec.workload.assumed is not None:
        return Finding(
            ConditionStatus.FALSE,
            Reason.ASSUMED_LENGTHS,
            f"{workload.message} Without a last good revision workload.assumed stands in for it; "
            "what runs stays.",
        )
    known = workload.reason in FALSE_REASONS
    status = ConditionStatus.FALSE if known else ConditionStatus.UNKNOWN
    return Finding(status, workload.reason, workload.message)
