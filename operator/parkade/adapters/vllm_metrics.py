"""vLLM's metrics in PromQL: names, and the queries that answer for all endpoints at once.

Names and buckets are those of vLLM 0.32 (`vllm/v1/metrics/loggers.py`, `buckets.py`); where an
older name carries the same data, both stand here. Every query groups by namespace, endpoint and
pod, sums data-parallel engines of a pod, and uses `increase`, which copes with counter resets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from parkade.api.names import MAX_GENERATED_BASE, generated_base

NAMESPACE_LABEL = "namespace"
POD_LABEL = "pod"
DEFAULT_ENDPOINT_LABEL = "serving_parkade_dev_endpoint"
"""The endpoint's label as a PodMonitor's `podTargetLabels` writes it into metrics."""

QUEUED_EDGE = "0.3"
"""First edge of vLLM's queue-time histogram: who waits longer counts as queued."""

MAX_STEPS = 2000
"""Evaluations of a subquery; longer windows are looked at more coarsely."""
PEAK_WINDOW_SECONDS = 300

RUNNING = "vllm:num_requests_running"
KV_USAGE = "vllm:kv_cache_usage_perc"
CACHE_CONFIG = "vllm:cache_config_info"
FINISHED = "vllm:request_success_total"

COUNTERS: Mapping[str, str] = {
    "requests": FINISHED,
    "prompt_sum": "vllm:request_prompt_tokens_sum",
    "prompt_count": "vllm:request_prompt_tokens_count",
    "output_sum": "vllm:request_generation_tokens_sum",
    "output_count": "vllm:request_generation_tokens_count",
    "cached_tokens": "vllm:prompt_tokens_cached_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
    "generated": "vllm:generation_tokens_total",
    "token_time_sum": "vllm:request_time_per_output_token_seconds_sum",
    "token_time_count": "vllm:request_time_per_output_token_seconds_count",
    "first_token_sum": "vllm:time_to_first_token_seconds_sum",
    "first_token_count": "vllm:time_to_first_token_seconds_count",
    "prefill_seconds": "vllm:request_prefill_time_seconds_sum",
    "decode_seconds": "vllm:request_decode_time_seconds_sum",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
}
"""What grew in the window, for each pod. `drafts` and its like exist only with a drafter."""

HISTOGRAMS: Mapping[str, str] = {
    "prompt_buckets": "vllm:request_prompt_tokens_bucket",
    "output_buckets": "vllm:request_generation_tokens_bucket",
    "queue_buckets": "vllm:request_queue_time_seconds_bucket",
    "token_time_buckets": "vllm:request_time_per_output_token_seconds_bucket",
    "first_token_buckets": "vllm:time_to_first_token_seconds_bucket",
}
"""The same for buckets, each with its edge `le`."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is asked: how far back, and how the metrics are scraped and labelled."""

    window_seconds: int
    scrape_interval_seconds: int = 15
    endpoint_label: str = DEFAULT_ENDPOINT_LABEL
    namespaces: tuple[str, ...] = ()
    """Empty: all. Names are DNS labels, so none needs escaping in a regular expression."""

    @property
    def step_seconds(self) -> int:
        """Step of subqueries: each scrape, or coarser where the window is very long."""
        return max(self.scrape_interval_seconds, -(-self.window_seconds // MAX_STEPS), 1)

    @property
    def selector(self) -> str:
        """Series of engine pods that belong to an endpoint."""
        matchers = [f'{self.endpoint_label}!=""', f'{POD_LABEL}!=""']
        if self.namespaces:
            matchers.append(f'{NAMESPACE_LABEL}=~"{"|".join(self.namespaces)}"')
        return "{" + ",".join(matchers) + "}"

    @property
    def by_endpoint(self) -> str:
        """Grouping by endpoint."""
        return f"{NAMESPACE_LABEL}, {self.endpoint_label}"

    @property
    def by_pod(self) -> str:
        """Grouping by endpoint and pod."""
        return f"{self.by_endpoint}, {POD_LABEL}"

    @property
    def peak_window_seconds(self) -> int:
        """Over how long a rate is taken for its peak: minutes, or less in short windows."""
        shortest = max(4 * self.scrape_interval_seconds, 1)
        longest = min(PEAK_WINDOW_SECONDS, max(self.window_seconds // 4, 1))
        return max(shortest, longest)


_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"


@dataclass(frozen=True, slots=True)
class DeploymentScope(Scope):
    """The pods of a Deployment by their names, since nothing labels their metrics.

    The answer stands under the endpoint's name "", in its namespace.
    """

    deployment: str = ""

    @property
    def selector(self) -> str:
        """Series of the Deployment's pods: NAME-HASH-SUFFIX, not those of a StatefulSet or Job.

        A pod's name is generated from its ReplicaSet's, whose hash has at most ten characters.
        Both are of letters and digits that spell no words (apimachinery/pkg/util/rand).
        """
        of_name = generated_base(self.deployment)
        name = re.escape(of_name).replace("\\-", "-").replace("\\", "\\\\")
        pods = f"{name}{_SAFE}{{1,10}}-{_SAFE}{{5}}"
        cut = MAX_GENERATED_BASE - len(of_name)
        if cut < len("0123456789-"):
            pods += f"|{name}{_SAFE}{{{cut + 5}}}"
        matchers = [f'{POD_LABEL}=~"{pods}"']
        matchers.append(f'{NAMESPACE_LABEL}="{self.namespaces[0]}"')
        return "{" + ",".join(matchers) + "}"


def queries(scope: Scope) -> Iterator[tuple[str, str]]:
    """Yield (what, PromQL) for everything that is read of a window, in a fixed order."""
    window = f"[{scope.window_seconds}s]"
    for what, metric in COUNTERS.items():
        yield what, f"sum by ({scope.by_pod}) (increase({metric}{scope.selector}{window}))"
    for what, metric in HISTOGRAMS.items():
        edges = r'le=~"0\\.3|\\+Inf"' if what == "queue_buckets" else ""
        selector = _narrow(scope.selector, edges)
        yield what, f"sum by ({scope.by_pod}, le) (increase({metric}{selector}{window}))"
    yield from _gauges(scope, window)


def _gauges(scope: Scope, window: str) -> Iterator[tuple[str, str]]:
    """Yield what has to be looked at scrape by scrape.

    The footprint of those in flight is the ratio of sums over scrapes that saw any request.
    """
    window_part = max(scope.window_seconds // 20, 1)
    steps = f"[{scope.window_seconds}s:{scope.step_seconds}s]"
    running = f"sum by ({scope.by_pod}) ({RUNNING}{scope.selector})"
    usage = f"sum by ({scope.by_pod}) ({KV_USAGE}{scope.selector})"
    capacity = _narrow(scope.selector, 'reason="capacity"')
    waiting = f"sum by ({scope.by_pod}) (vllm:num_requests_waiting_by_reason{capacity})"
    newest = f"max by ({scope.by_pod}) (timestamp({RUNNING}{scope.selector}))"
    coarse = f"[{scope.window_seconds}s:{max(scope.step_seconds, min(60, window_part))}s]"
    rate = f"rate({FINISHED}{scope.selector}[{scope.peak_window_seconds}s])"
    peak = f"sum by ({scope.by_endpoint}) ({rate})"
    counted = f"{COUNTERS['prompt_count']}{scope.selector}{window}"
    yield "running_sum", f"sum_over_time(({running} > 0){steps})"
    yield "running_squares", f"sum_over_time((({running} > 0) ^ 2){steps})"
    yield "usage_sum", f"sum_over_time(({usage} and ({running} > 0)){steps})"
    yield "busy_steps", f"count_over_time(({running} > 0){steps})"
    yield "all_steps", f"count_over_time({running}{steps})"
    yield "running_max", f"max_over_time({running}{steps})"
    yield (
        "scrapes",
        f"max by ({scope.by_pod}) (count_over_time({RUNNING}{scope.selector}{window}))",
    )
    yield "waiting_steps", f"count_over_time(({waiting} > 0){steps})"
    yield "resets", f"max by ({scope.by_pod}) (resets({counted}))"
    yield "newest", newest
    yield "newest_in_window", f"max_over_time({newest}{coarse})"
    yield "peak_rate", f"max_over_time({peak}{coarse})"
    yield "cache_config", f"{CACHE_CONFIG}{scope.selector}"
    yield "cache_config_in_window", f"last_over_time({CACHE_CONFIG}{scope.selector}{window})"


def _narrow(selector: str, matcher: str) -> str:
    return f"{selector[:-1]},{matcher}}}" if matcher else selector
