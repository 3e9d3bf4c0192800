"""The traffic of an endpoint over a window, as one checked value, or why it can't be told.

`Workload` is what sizing believes; `sizing/gates.py` makes it from what was read.
"""

from __future__ import annotations

from dataclasses import dataclass

from parkade.api.conditions import Reason
from parkade.sizing.histograms import Histogram
from parkade.sizing.ledger import SpeedPoint


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The data does not decide; never zero and never fine. The running settings stay."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests in the engine at a time, per pod, over the scrapes that saw at least one running.

    `kv_usage` and `running` are sums over the same scrapes divided by their number, so that their
    ratio is the ratio of sums (a mean of ratios is off by up to 22 %).
    """

    running: float
    """Mean of vllm:num_requests_running; above 0."""
    kv_usage: float
    """Mean of vllm:kv_cache_usage_perc, 0 to 1, prefix sharing included."""
    pool_tokens: float
    """What the engine calls its KV cache size in tokens, while this was measured."""
    preemptions: float = 0.0
    """Preemptions of all pods in the window."""
    scrapes: int | None = None
    """How many scrapes; None where only the ratio is known (a traffic file)."""

    @property
    def tokens_per_request(self) -> float:
        """Mean footprint of a request in flight, in the engine's tokens."""
        return self.kv_usage * self.pool_tokens / self.running


@dataclass(frozen=True, slots=True)
class Workload:
    """What the endpoint got in the window. Counts are the endpoint's; `in_flight` is per pod."""

    window_seconds: float
    """0 where the source does not say (saved pages, assumed lengths)."""
    requests: float
    """Finished requests."""
    prompt_tokens: Histogram
    output_tokens: Histogram
    prefix_cached_tokens: float = 0.0
    """Of the prompt tokens, how many came from the prefix cache."""
    peak_requests_per_second: float | None = None
    """Highest rate of arrivals over a few minutes; None where not known."""
    queued_percent: float | None = None
    """Requests that waited for more than 0.3 s (the first edge of vLLM's queue histogram)."""
    in_flight: InFlight | None = None
    time_per_output_token: Histogram | None = None
    """Per request: seconds per token after the first."""
    time_to_first_token: Histogram | None = None
    """Per request: seconds."""
    speed: tuple[SpeedPoint, ...] = ()
    """Measured points of the traffic file; the ledger's are a separate input of sizing."""
    tokens_per_step: float = 1.0
    """1 + accepted / drafts: output tokens of one engine step of one request."""
    pods: int = 1
    """Pods that served the window."""

    @property
    def mean_prompt_tokens(self) -> float:
        """Exact mean, 0 where nothing was counted."""
        return self.prompt_tokens.mean or 0.0

    @property
    def mean_output_tokens(self) -> float:
        """Exact mean, 0 where nothing was counted."""
        return self.output_tokens.mean or 0.0

    @property
    def cached_share(self) -> float:
        """Share of prompt tokens that came from the prefix cache, 0 to 1."""
        total = self.prompt_tokens.sum or 0.0
        return min(1.0, self.prefix_cached_tokens / total) if total > 0 else 0.0
