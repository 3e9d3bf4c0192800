"""Saved `/metrics` pages of vLLM: one since the engine's start, or the difference of two.

Names and buckets: vllm/v1/metrics/loggers.py and buckets.py, vLLM 0.20 to 0.33. Series of several
data-parallel engines or models on a page are added up.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field

from parkade.cli.errors import UsageError
from parkade.sizing.gates import RawHistogram, WorkloadReading

_QUEUED_SECONDS = 0.3

PROMPT = "vllm:request_prompt_tokens"
OUTPUT = "vllm:request_generation_tokens"
QUEUE = "vllm:request_queue_time_seconds"
TOKEN_TIME = "vllm:request_time_per_output_token_seconds"  # noqa: S105 - a metric
FIRST_TOKEN = "vllm:time_to_first_token_seconds"  # noqa: S105 - a metric
_HISTOGRAMS = (PROMPT, OUTPUT, QUEUE, TOKEN_TIME, FIRST_TOKEN)
_COUNTERS = (
    "vllm:prompt_tokens_cached",
    "vllm:prefix_cache_hits",
    "vllm:num_preemptions",
    "vllm:spec_decode_num_drafts",
    "vllm:spec_decode_num_accepted_tokens",
)
_GAUGES = ("vllm:num_requests_running", "vllm:kv_cache_usage_perc")
_STARTS = ("process_start_time_seconds", f"{PROMPT}_created")
"""When this engine began to count, Unix time; the first that a page has counts."""
_SAME_START_SECONDS = 1.0
_PAGE = re.compile(r"^(# (HELP|TYPE) |vllm:\w+[{ ])", re.MULTILINE)


@dataclass
class Page:
    """One page, series added up."""

    buckets: dict[str, dict[float, float]] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    pool_tokens: float | None = None
    starts: dict[str, float] = field(default_factory=dict)


def is_metrics_page(text: str) -> bool:
    """Whether a text is a page of metrics rather than a traffic file."""
    return _PAGE.search(text) is not None


def parse_page(text: str, path: str) -> Page:
    """Return the page's vLLM series."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    page = Page()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                _take(page, sample.name, dict(sample.labels), float(sample.value))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UsageError(f"metrics page {path!r} cannot be read: {reason}") from error
    if PROMPT not in page.buckets or OUTPUT not in page.buckets:
        raise UsageError(
            f"metrics page {path!r} has no {PROMPT} and {OUTPUT}: save the page of a vLLM that "
            "runs without --disable-log-stats"
        )
    return page


def _is_used(name: str) -> bool:
    return name in _GAUGES or name.rpartition("_")[0] in (*_HISTOGRAMS, *_COUNTERS)


def _take(page: Page, name: str, labels: dict[str, str], value: float) -> None:
    if _is_used(name) and not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}, not a number from 0 on")
    base, _, part = name.rpartition("_")
    if base in _HISTOGRAMS and part == "bucket":
        edges = page.buckets.setdefault(base, defaultdict(float))
        edges[_edge(name, labels.get("le", ""))] += value
    elif base in _HISTOGRAMS and part == "sum":
        page.sums[base] += value
    elif base in _HISTOGRAMS and part == "count":
        page.counts[base] += value
    elif base in _COUNTERS and part == "total":
        page.counters[base] = page.counters.get(base, 0.0) + value
    elif name in _GAUGES:
        page.gauges[name].append(value)
    elif name == "vllm:cache_config_info":
        page.pool_tokens = _positive(labels.get("kv_cache_size_tokens"))
    elif name in _STARTS:
        page.starts[name] = max(value, page.starts.get(name, 0.0))


def _edge(name: str, text: str) -> float:
    try:
        edge = float(text)
    except ValueError:
        edge = math.nan
    if math.isnan(edge):
        raise ValueError(f"{name} has the label le={text[:40]!r}, which is not an upper edge")
    return edge


def _positive(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def difference(first: Page, second: Page, paths: tuple[str, str]) -> Page:
    """Return what happened between two pages of one run of an engine."""
    _check_same_run(first, second, paths)
    between = Page(
        gauges={name: first.gauges[name] + second.gauges[name] for name in _GAUGES},
        pool_tokens=second.pool_tokens,
    )
    for name, edges in second.buckets.items():
        before = first.buckets.get(name, {})
        between.buckets[name] = {
            edge: count - before.get(edge, 0.0) for edge, count in edges.items()
        }
        between.sums[name] = second.sums[name] - first.sums[name]
        between.counts[name] = second.counts[name] - first.counts[name]
    for name, count in second.counters.items():
        between.counters[name] = count - first.counters.get(name, 0.0)
    fallen = [
        name
        for part in (between.counts, between.sums, between.counters)
        for name, count in part.items()
        if count < 0
    ]
    fallen += [name for name, edges in between.buckets.items() if min(edges.values()) < 0]
    if fallen:
        raise UsageError(
            f"{fallen[0]} counts less in {paths[1]!r} than in {paths[0]!r}: give the earlier page "
            "first; where the engine restarted in between, give the later page alone"
        )
    return between


def _check_same_run(first: Page, second: Page, paths: tuple[str, str]) -> None:
    """Refuse pages whose difference means nothing, though every count may have risen."""
    start = next((one for one in _STARTS if one in first.starts and one in second.starts), None)
    if start is not None and abs(second.starts[start] - first.starts[start]) > _SAME_START_SECONDS:
        raise UsageError(
            f"{paths[0]!r} and {paths[1]!r} are of two runs of the engine ({start} differs): give "
            "one page alone"
        )
    for name, edges in second.buckets.items():
        if name in first.buckets and set(first.buckets[name]) != set(edges):
            raise UsageError(
                f"{name} has other buckets in {paths[1]!r} than in {paths[0]!r}: the pages are of "
                "engines with different settings; give one page alone"
            )


def reading(page: Page, scrapes: int) -> WorkloadReading:
    """Return what a page says of the traffic. Gauges are those of `scrapes` moments.

    The window is 0, not known: a page does not say when it was saved.
    """
    running, usage = (_mean_while_running(page, name) for name in _GAUGES)
    drafts = page.counters.get("vllm:spec_decode_num_drafts", 0.0)
    accepted = page.counters.get("vllm:spec_decode_num_accepted_tokens", 0.0)
    cached = page.counters.get(
        "vllm:prompt_tokens_cached", page.counters.get("vllm:prefix_cache_hits")
    )
    return WorkloadReading(
        window_seconds=0.0,
        prompt_tokens=_histogram(page, PROMPT),
        output_tokens=_histogram(page, OUTPUT),
        prefix_cached_tokens=cached,
        queued_percent=_queued_percent(page),
        running=running,
        kv_usage=usage,
        pool_tokens=page.pool_tokens,
        preemptions=page.counters.get("vllm:num_preemptions"),
        scrapes=scrapes,
        time_per_output_token=_histogram(page, TOKEN_TIME),
        time_to_first_token=_histogram(page, FIRST_TOKEN),
        tokens_per_step=1.0 + accepted / drafts if drafts > 0 else None,
    )


def _histogram(page: Page, name: str) -> RawHistogram | None:
    if name not in page.buckets:
        return None
    return RawHistogram(
        tuple(sorted(page.buckets[name].items())), page.sums[name], page.counts[name]
    )


def _mean_while_running(page: Page, name: str) -> float | None:
    running = page.gauges["vllm:num_requests_running"]
    values = page.gauges[name]
    pairs = [value for value, now in zip(values, running, strict=False) if now > 0]
    return sum(pairs) / len(pairs) if pairs else None


def _queued_percent(page: Page) -> float | None:
    edges, total = page.buckets.get(QUEUE), page.counts[QUEUE]
    if edges is None or not total > 0 or _QUEUED_SECONDS not in edges:
        return None
    return min(100.0, max(0.0, 100.0 * (1 - edges[_QUEUED_SECONDS] / total)))
