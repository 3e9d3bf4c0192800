"""What Prometheus knows of all endpoints' traffic over a window, and the reading of one of them.

Nothing is judged here: `sizing.gates.gate` says whether a reading may decide.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from parkade.adapters import vllm_metrics
from parkade.adapters.errors import UnavailableError
from parkade.adapters.prometheus import Prometheus, Sample
from parkade.adapters.vllm_metrics import NAMESPACE_LABEL, POD_LABEL, QUEUED_EDGE, Scope
from parkade.sizing.gates import RawHistogram, WorkloadReading

EndpointKey = tuple[str, str]
"""Namespace and name."""

TOTAL_TIMEOUTS = 2
"""A healthy server answers all queries within seconds."""

Edges = dict[float, float]
"""Upper edges with cumulative counts."""


@dataclass(slots=True)
class PodTraffic:
    """What one pod reported over the window; a name is absent where the engine lacks the series."""

    numbers: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, Edges] = field(default_factory=dict)
    cache_config: dict[str, str] | None = None

    @property
    def last_prompt_edge(self) -> float:
        """The highest finite edge of the prompt histogram; vLLM cuts it at max_model_len."""
        edges = [edge for edge in self.histograms.get("prompt_buckets", {}) if math.isfinite(edge)]
        return max(edges, default=0.0)

    @property
    def pool_tokens(self) -> float | None:
        """What the engine calls its KV cache size in tokens (0.24 on), else blocks times size."""
        config = self.cache_config or {}
        exact = _number(config.get("kv_cache_size_tokens"))
        if exact is not None:
            return exact
        blocks, size = _number(config.get("num_gpu_blocks")), _number(config.get("block_size"))
        return None if blocks is None or size is None else blocks * size

    @property
    def busy_scrapes(self) -> float:
        """Real scrapes that saw a request running; a subquery's step may be finer than scrapes."""
        steps, busy = self.numbers.get("all_steps", 0.0), self.numbers.get("busy_steps", 0.0)
        scrapes = self.numbers.get("scrapes", steps)
        return busy * min(1.0, scrapes / steps) if steps > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """One answer for all endpoints: a server, a tenant, a window, a time."""

    scope: Scope
    at: float
    """Unix time at which the window ends."""
    pods: Mapping[EndpointKey, Mapping[str, PodTraffic]]
    peak_rates: Mapping[EndpointKey, float]
    warnings: tuple[str, ...] = ()

    def of(self, key: EndpointKey) -> Mapping[str, PodTraffic]:
        """Return what is known of an endpoint's pods, those that are gone included."""
        return self.pods.get(key, {})

    def reading(
        self,
        key: EndpointKey,
        *,
        expected_pods: Collection[str],
        in_flight_of: Callable[[str], bool] = lambda _pod: True,
        judged: Callable[[str], bool] = lambda _pod: True,
    ) -> WorkloadReading:
        """Return the reading of one endpoint.

        `expected_pods` are ready long enough to have been scraped. `in_flight_of` says of a pod's
        name whether its KV usage counts: only pods of one fingerprint have comparable tokens.
        `judged` says whether its times and preemptions count: those of pods with other settings
        than the ones in force say nothing of these.
        """
        pods = self.of(key)
        fresh = {name for name, pod in pods.items() if "newest" in pod.numbers}
        footprint = [pod for name, pod in pods.items() if in_flight_of(name)]
        lengths = {pod.last_prompt_edge for pod in pods.values() if pod.last_prompt_edge}
        values = list(pods.values())
        own = [pod for name, pod in pods.items() if judged(name)]
        reading = WorkloadReading(
            window_seconds=float(self.scope.window_seconds),
            prompt_tokens=histogram_of(values, "prompt"),
            output_tokens=histogram_of(values, "output"),
            prefix_cached_tokens=_first_total(values, "cached_tokens", "prefix_hits"),
            peak_requests_per_second=self.peak_rates.get(key),
            queued_percent=_queued_percent(values),
            preemptions=_total(own, "preemptions"),
            time_per_output_token=histogram_of(own, "token_time"),
            time_to_first_token=histogram_of(own, "first_token"),
            tokens_per_step=_tokens_per_step(values),
            pods=len(fresh),
            age_seconds=self._age(values),
            warnings=self.warnings,
            missing_pods=len(set(expected_pods) - fresh),
            max_model_lens=tuple(sorted(int(one) for one in lengths)) if len(lengths) > 1 else (),
            lost_share=self._lost_share(values),
        )
        return _with_in_flight(reading, footprint)

    def _age(self, pods: Iterable[PodTraffic]) -> float | None:
        stamps = [
            stamp
            for pod in pods
            for what in ("newest", "newest_in_window")
            if (stamp := pod.numbers.get(what)) is not None
        ]
        if not all(math.isfinite(stamp) for stamp in stamps):
            return math.nan
        return max(0.0, self.at - max(stamps)) if stamps else None

    def _lost_share(self, pods: Iterable[PodTraffic]) -> float:
        """Each reset loses what was counted since the last scrape before it."""
        seen = [pod for pod in pods if pod.numbers.get("scrapes")]
        scrapes = sum(pod.numbers["scrapes"] for pod in seen)
        resets = sum(pod.numbers.get("resets", 0.0) for pod in seen)
        return min(1.0, resets / scrapes) if scrapes > 0 else 0.0


def read_traffic(prometheus: Prometheus, scope: Scope, *, at: float) -> Traffic:
    """Ask one server about all endpoints over a window that ends at a Unix time.

    Raises what `Prometheus.query` raises; an answer is whole or not at all. All queries together
    may take `TOTAL_TIMEOUTS` times what one may.
    """
    deadline = time.monotonic() + TOTAL_TIMEOUTS * prometheus.server.timeout_seconds
    pods: dict[EndpointKey, dict[str, PodTraffic]] = {}
    peaks: dict[EndpointKey, float] = {}
    warnings: list[str] = []
    for what, promql in vllm_metrics.queries(scope):
        if time.monotonic() > deadline:
            raise UnavailableError(f"Prometheus {prometheus.server.url} is too slow")
        answer = prometheus.query(promql, at=at)
        warnings += [text for text in answer.warnings if text not in warnings]
        for sample in answer.samples:
            key = _key(sample, scope)
            if what == "peak_rate":
                peaks[key] = sample.value
            else:
                pod = pods.setdefault(key, {}).setdefault(
                    sample.labels.get(POD_LABEL, ""), PodTraffic()
                )
                _note(pod, what, sample)
    return Traffic(scope, at, pods, peaks, tuple(warnings))


def _key(sample: Sample, scope: Scope) -> EndpointKey:
    return (
        sample.labels.get(NAMESPACE_LABEL, ""),
        sample.labels.get(scope.endpoint_label, ""),
    )


def _note(pod: PodTraffic, what: str, sample: Sample) -> None:
    if what == "cache_config" or (what == "cache_config_in_window" and pod.cache_config is None):
        pod.cache_config = dict(sample.labels)
    elif what in vllm_metrics.HISTOGRAMS:
        edge = _edge(sample.labels.get("le", ""))
        if edge is not None:
            pod.histograms.setdefault(what, {})[edge] = sample.value
    elif what != "cache_config_in_window":
        pod.numbers[what] = sample.value


def _edge(text: str) -> float | None:
    try:
        edge = float(text)
    except ValueError:
        return None
    return None if math.isnan(edge) else edge


def _number(text: str | None) -> float | None:
    """Read a number out of a label; `None` and other words are not one."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _total(pods: Iterable[PodTraffic], what: str) -> float | None:
    found = [pod.numbers[what] for pod in pods if what in pod.numbers]
    return sum(found) if found else None


def _first_total(pods: Collection[PodTraffic], *names: str) -> float | None:
    return next((total for name in names if (total := _total(pods, name)) is not None), None)


def _merged(pods: Iterable[PodTraffic], what: str) -> Edges:
    merged: Edges = {}
    for pod in pods:
        for edge, count in pod.histograms.get(what, {}).items():
            merged[edge] = merged.get(edge, 0.0) + count
    return merged


def histogram_of(pods: Collection[PodTraffic], what: str) -> RawHistogram | None:
    """Return one of the histograms of these pods added up; None where none has it."""
    merged = _merged(pods, f"{what}_buckets")
    if not merged:
        return None
    # The count comes with the buckets: a scrape may land between two queries, and a bucket with
    # more than all would look like nonsense.
    count = merged.get(math.inf, _total(pods, f"{what}_count"))
    return RawHistogram(tuple(sorted(merged.items())), _total(pods, f"{what}_sum"), count)


def _queued_percent(pods: Collection[PodTraffic]) -> float | None:
    merged = _merged(pods, "queue_buckets")
    total, at_once = merged.get(math.inf), merged.get(float(QUEUED_EDGE))
    if not total or at_once is None:
        return None
    return 100.0 * max(0.0, total - at_once) / total


def _tokens_per_step(pods: Collection[PodTraffic]) -> float | None:
    drafts, accepted = _total(pods, "drafts"), _total(pods, "accepted_tokens")
    return None if not drafts or accepted is None else 1.0 + accepted / drafts


def _with_in_flight(reading: WorkloadReading, pods: Collection[PodTraffic]) -> WorkloadReading:
    """Add the ratio of sums over all pods, expressed as means per scrape of one pod.

    Means of both over the same scrapes keep the ratio of sums. NaN passes through to the gate.
    """
    known = [
        (pod.numbers["running_sum"], pod.numbers.get("usage_sum", 0.0), pool, pod)
        for pod in pods
        if pod.numbers.get("running_sum") and (pool := pod.pool_tokens) is not None
    ]
    steps = sum(pod.numbers.get("busy_steps", 0.0) for *_, pod in known)
    usage = sum(used for _, used, _, _ in known)
    scrapes = sum(pod.busy_scrapes for *_, pod in known)
    if steps <= 0 or usage <= 0:
        return reading
    return replace(
        reading,
        running=sum(running for running, *_ in known) / steps,
        kv_usage=usage / steps,
        pool_tokens=sum(used * pool for _, used, pool, _ in known) / usage,
        scrapes=round(scrapes) if math.isfinite(scrapes) else 0,
    )
