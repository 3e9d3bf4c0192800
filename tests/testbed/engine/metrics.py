"""What the engine counts: vLLM's families, with its names, labels and buckets (0.32).

Durations are in seconds of the engine's clock, which may run faster than the wall; times of
creation are the wall's.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40,
    80, 160, 640, 2560,
)  # fmt: skip
_TOKEN_LATENCY = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
)  # fmt: skip
_REQUEST_LATENCY = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip
_ITERATION_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_PARAMS_N = (1, 2, 5, 10, 20)
_PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)
# Each histogram's family: the key of `--custom-histogram-buckets`.
FAMILIES = {
    "request_prompt_tokens": "request_tokens",
    "request_generation_tokens": "request_tokens",
    "iteration_tokens_total": "iteration_tokens",
    "request_max_num_generation_tokens": "request_tokens",
    "request_params_n": "request_params_n",
    "request_params_max_tokens": "request_tokens",
    "time_to_first_token_seconds": "time_to_first_token",
    "inter_token_latency_seconds": "inter_token_latency",
    "request_time_per_output_token_seconds": "inter_token_latency",
    "e2e_request_latency_seconds": "request_latency",
    "request_queue_time_seconds": "request_latency",
    "request_inference_time_seconds": "request_latency",
    "request_prefill_time_seconds": "request_latency",
    "request_decode_time_seconds": "request_latency",
    "request_num_preemptions": "request_num_preemptions",
    "request_prefill_kv_computed_tokens": "request_tokens",
}


def one_two_five(largest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, ... up to and including what does not pass `largest`."""
    edges: list[float] = []
    power = 1
    while True:
        for mantissa in (1, 2, 5):
            if mantissa * power > largest:
                return tuple(edges)
            edges.append(float(mantissa * power))
        power *= 10


def default_buckets(max_model_len: int) -> dict[str, tuple[float, ...]]:
    """Edges by family."""
    return {
        "request_tokens": one_two_five(max_model_len),
        "iteration_tokens": _ITERATION_TOKENS,
        "request_params_n": _PARAMS_N,
        "request_num_preemptions": _PREEMPTIONS,
        "time_to_first_token": _FIRST_TOKEN,
        "inter_token_latency": _TOKEN_LATENCY,
        "request_latency": _REQUEST_LATENCY,
    }


class Histogram:
    """Counts by upper edge, with the sum; many equal observations cost as much as one."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = tuple(float(edge) for edge in edges)
        self.counts = [0] * (len(self.edges) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.edges, value)] += count
        self.total += value * count

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> Iterable[tuple[str, int]]:
        """Pairs of the `le` label and the count up to it."""
        running = 0
        for edge, count in zip((*map(str, self.edges), "+Inf"), self.counts, strict=True):
            running += count
            yield edge, running


@dataclass(slots=True)
class Metrics:
    """Counters and histograms of one engine."""

    histograms: dict[str, Histogram]
    success: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS, 0))
    num_preemptions: int = 0
    prompt_tokens: int = 0
    prompt_tokens_cached: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    generation_tokens_finished: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: float = 0.0

    @classmethod
    def create(
        cls, max_model_len: int, custom_buckets: dict[str, list[float]] | None = None
    ) -> "Metrics":
        """Empty metrics; custom edges replace those of their family."""
        edges = {**default_buckets(max_model_len), **(custom_buckets or {})}
        return cls({name: Histogram(edges[family]) for name, family in FAMILIES.items()})

    def observe(self, name: str, value: float, count: int = 1) -> None:
        """Add to a histogram by its name without the prefix."""
        self.histograms[name].observe(value, count)
