"""The numbers of each endpoint as metrics: status holds them as of the last decision alone."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from parkade.controller.views import EndpointKey

LABELS = ("namespace", "endpoint")

GAUGES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "recommended_max_num_seqs": (
        ("recommendation", "maxNumSeqs"),
        "vLLM's --max-num-seqs that is recommended.",
    ),
    "recommended_gpu_memory_utilization": (
        ("recommendation", "gpuMemoryUtilization"),
        "vLLM's --gpu-memory-utilization that is recommended.",
    ),
    "kv_cache_tokens": (("memory", "poolTokens"), "The KV cache of each pod in tokens."),
    "window_requests": (("workload", "requests"), "Requests that finished in the window."),
    "footprint_tokens": (
        ("workload", "footprint", "tokens"),
        "KV tokens that one request in flight holds, averaged over time.",
    ),
    "queued_percent": (
        ("workload", "queuedPercent"),
        "Share of requests that waited for more than 0.3 s.",
    ),
}
"""Name of the gauge: where its number stands in status, and what it is."""

BOUND = ("bound", "Bounds on max_num_seqs before they are snapped, by kind.")


@dataclass(slots=True, eq=False)
class EndpointNumbers:
    """What sizing said last of each endpoint; a collector of `prometheus_client`."""

    _last: dict[EndpointKey, Mapping[str, Any]] = field(default_factory=dict)
    _known: Callable[[], Collection[EndpointKey]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, key: EndpointKey, status: Mapping[str, Any]) -> None:
        """Take in sizing's parts of status."""
        with self._lock:
            self._last[key] = status

    def of_endpoints(self, known: Callable[[], Collection[EndpointKey]]) -> None:
        """Tell only of endpoints that `known` names: a pass may end after its endpoint is gone."""
        self._known = known

    def describe(self) -> Iterator[Metric]:
        """Say nothing beforehand: the registry would otherwise collect to find out."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers at a scrape."""
        known = None if self._known is None else set(self._known())
        with self._lock:
            if known is not None:
                self._last = {key: one for key, one in self._last.items() if key in known}
            last = dict(self._last)
        for name, (path, text) in GAUGES.items():
            family = GaugeMetricFamily(f"parkade_endpoint_{name}", text, labels=LABELS)
            for key, status in last.items():
                value = _number(status, path)
                if value is not None:
                    family.add_metric(key, value)
            yield family
        yield _bounds(last)


def _bounds(last: Mapping[EndpointKey, Mapping[str, Any]]) -> Metric:
    name, text = BOUND
    family = GaugeMetricFamily(f"parkade_endpoint_{name}", text, labels=(*LABELS, "kind"))
    for key, status in last.items():
        for kind in (status.get("recommendation") or {}).get("bounds") or {}:
            value = _number(status, ("recommendation", "bounds", kind, "value"))
            if value is not None:
                family.add_metric((*key, kind), value)
    return family


def _number(status: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    found: Any = status
    for step in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    try:
        value = float(found)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
