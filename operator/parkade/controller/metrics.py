"""The operator's own metrics: the queue, the passes, and what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from parkade.controller.numbers import EndpointNumbers
from parkade.controller.queue import QueueState

PASS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(slots=True)
class Metrics:
    """All metrics, in a registry of their own (several operators may run in one test process)."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    passes: Counter = field(init=False)
    pass_seconds: Histogram = field(init=False)
    actions: Counter = field(init=False)
    writes: Counter = field(init=False)
    traffic_reads: Counter = field(init=False)
    numbers: EndpointNumbers = field(default_factory=EndpointNumbers)

    def __post_init__(self) -> None:
        self.passes = Counter(
            "parkade_passes",
            "Passes over an endpoint, by outcome: done, conflict, unavailable, error.",
            ("outcome",),
            registry=self.registry,
        )
        self.pass_seconds = Histogram(
            "parkade_pass_seconds",
            "How long a pass over an endpoint takes.",
            buckets=PASS_BUCKETS,
            registry=self.registry,
        )
        self.actions = Counter(
            "parkade_actions",
            "Planned actions other than Hold, by action and reason.",
            ("action", "reason"),
            registry=self.registry,
        )
        self.writes = Counter(
            "parkade_writes",
            "Writes to the cluster, by kind. A steady fleet causes none.",
            ("kind",),
            registry=self.registry,
        )
        self.traffic_reads = Counter(
            "parkade_traffic_reads",
            "Readings of the traffic from a Prometheus, by server and outcome.",
            ("server", "outcome"),
            registry=self.registry,
        )

        self.registry.register(self.numbers)

    def watch_queue(self, state: Callable[[], QueueState]) -> None:
        """Report the queue as it is at each scrape."""
        self.registry.register(_QueueCollector(state))

    def count_endpoints(self, count: Callable[[], int]) -> None:
        """Report how many endpoints there are at each scrape."""
        gauge = Gauge(
            "parkade_endpoints", "InferenceEndpoints that are known.", registry=self.registry
        )
        gauge.set_function(count)


@dataclass(frozen=True, slots=True)
class _QueueCollector:
    state: Callable[[], QueueState]

    def collect(self) -> Iterator[Metric]:
        now = self.state()
        values = {
            "waiting": (now.waiting, "Endpoints that wait for a worker."),
            "running": (now.running, "Endpoints that are worked on."),
            "scheduled": (now.scheduled, "Endpoints that will be looked at later."),
            "oldest_dirty_seconds": (
                now.oldest_dirty_seconds,
                "How long the oldest due endpoint has waited or been worked on.",
            ),
        }
        for name, (value, text) in values.items():
            yield GaugeMetricFamily(f"parkade_queue_{name}", text, value=value)

    def describe(self) -> Iterator[Metric]:
        return iter(())
