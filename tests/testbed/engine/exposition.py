"""The text of /metrics, family by family in the order of the real page (0.32)."""

from collections.abc import Iterable, Iterator

from testbed.engine import blocks
from testbed.engine.arguments import EngineArguments
from testbed.engine.metrics import FAMILIES, Histogram
from testbed.engine.scheduler import Scheduler
from testbed.engine.startup import Started

Values = Iterable[tuple[dict[str, str], float]]
_CACHE_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
_HISTOGRAMS = tuple(FAMILIES)


def page(scheduler: Scheduler, engine: Started, arguments: EngineArguments, created: float) -> str:
    """The whole page; `created` is the wall time in seconds since 1970 at which serving began."""
    labels = {"engine": "0", "model_name": arguments.served_model_names[0]}
    rows: list[str] = [*_process(created)]
    for name in ("estimated_flops", "estimated_read_bytes", "estimated_write_bytes"):
        rows += _counter(f"{name}_per_gpu", "Kept at zero.", [(labels, 0.0)], created)
    rows += _gauges(scheduler, labels)
    rows += _counters(scheduler, labels, created)
    for name in _HISTOGRAMS:
        rows += _histogram(name, scheduler.metrics.histograms[name], labels, created)
    rows += _speculation(scheduler, arguments, labels, created)
    rows += _gauge(
        "cache_config_info", "The cache's configuration.", _cache_info(engine, arguments)
    )
    return "\n".join(rows) + "\n"


def _process(created: float) -> Iterator[str]:
    yield "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds."
    yield "# TYPE process_start_time_seconds gauge"
    yield f"process_start_time_seconds {created!r}"


def _gauges(scheduler: Scheduler, labels: dict[str, str]) -> Iterator[str]:
    waiting = float(len(scheduler.waiting))
    running = float(len(scheduler.running))
    yield from _gauge("num_requests_running", "Requests in the batch.", [(labels, running)])
    yield from _gauge("num_requests_waiting", "Requests that wait.", [(labels, waiting)])
    reasons = {"capacity": waiting, "deferred": 0.0}
    by_reason = [({**labels, "reason": key}, value) for key, value in reasons.items()]
    yield from _gauge("num_requests_waiting_by_reason", "Requests that wait, and why.", by_reason)
    states = {"awake": 1.0, "weights_offloaded": 0.0, "discard_all": 0.0}
    sleep = [({**labels, "sleep_state": key}, value) for key, value in states.items()]
    yield from _gauge("engine_sleep_state", "Whether the engine sleeps.", sleep)
    usage = [(labels, scheduler.kv_cache_usage())]
    yield from _gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage)


def _counters(scheduler: Scheduler, labels: dict[str, str], created: float) -> Iterator[str]:
    metrics = scheduler.metrics

    def one(name: str, text: str, value: float) -> Iterator[str]:
        return _counter(name, text, [(labels, float(value))], created)

    def many(name: str, text: str, label: str, values: dict[str, float]) -> Iterator[str]:
        pairs = [({**labels, label: key}, float(value)) for key, value in values.items()]
        return _counter(name, text, pairs, created)

    queries, hits = metrics.prefix_cache_queries, metrics.prefix_cache_hits
    yield from one("prefix_cache_queries", "Tokens looked up in the prefix cache.", queries)
    yield from one("prefix_cache_hits", "Tokens found in the prefix cache.", hits)
    for name in ("external_prefix_cache_queries", "external_prefix_cache_hits",
                 "mm_cache_queries", "mm_cache_hits"):  # fmt: skip
        yield from one(name, "Kept at zero.", 0)
    yield from one("num_preemptions", "Preemptions.", metrics.num_preemptions)
    yield from one("prompt_tokens", "Prefill tokens processed.", metrics.prompt_tokens)
    cached = metrics.prompt_tokens_cached
    sources = {
        "local_compute": metrics.prompt_tokens - cached,
        "local_cache_hit": cached,
        "external_kv_transfer": 0.0,
    }
    yield from many("prompt_tokens_by_source", "Prompt tokens by source.", "source", sources)
    yield from one("prompt_tokens_cached", "Cached prompt tokens.", cached)
    tiers = {tier: cached if tier == "device" else 0.0 for tier in _CACHE_TIERS}
    yield from many("prompt_tokens_cached_by_source", "Cached tokens by tier.", "source", tiers)
    tokens = scheduler.generation_tokens()
    yield from one("generation_tokens", "Generation tokens processed.", tokens)
    success = {reason: float(count) for reason, count in metrics.success.items()}
    yield from many("request_success", "Finished requests.", "finished_reason", success)
    model = {"model_name": labels["model_name"]}
    rejected = [
        ({**model, "reason": reason}, 0.0)
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens")
    ]
    yield from _counter("admission_rejections", "Rejected by a queue limit.", rejected, created)


def _speculation(
    scheduler: Scheduler, arguments: EngineArguments, labels: dict[str, str], created: float
) -> Iterator[str]:
    """Only with a drafter; the share accepted at a position falls geometrically."""
    proposals = arguments.cache.num_speculative_tokens
    if not proposals:
        return
    metrics = scheduler.metrics
    drafts, drafted = float(metrics.num_drafts), float(metrics.num_draft_tokens)
    accepted = float(round(metrics.num_accepted_tokens))
    yield from _counter("spec_decode_num_drafts", "Drafts.", [(labels, drafts)], created)
    yield from _counter("spec_decode_num_draft_tokens", "Drafted.", [(labels, drafted)], created)
    yield from _counter(
        "spec_decode_num_accepted_tokens", "Accepted.", [(labels, accepted)], created
    )
    weights = [0.75**position for position in range(proposals)]
    positions: Values = [
        ({**labels, "position": str(position)}, float(int(accepted * weight / sum(weights))))
        for position, weight in enumerate(weights)
    ]
    yield from _counter(
        "spec_decode_num_accepted_tokens_per_pos", "Accepted by position.", positions, created
    )


def _cache_info(engine: Started, arguments: EngineArguments) -> Values:
    plan, length = engine.layout, engine.max_model_len
    concurrency = blocks.max_concurrency(plan, engine.num_blocks, length)
    constant = {
        "_block_size_resolved": "True", "cache_hit_alignment_tokens": "None",
        "enable_mamba_shared_prefix_checkpoint": "False", "hash_block_size": "None",
        "is_attention_free": "False", "kv_cache_dtype_skip_layers": "[]",
        "kv_cache_layout": "None", "kv_offloading_backend": "native",
        "kv_offloading_size": "None", "kv_sharing_fast_prefill": "False",
        "mamba_cache_dtype": "auto", "mamba_page_size_padded": "None",
        "mamba_ssm_cache_dtype": "auto", "num_cpu_blocks": "None",
        "num_gpu_blocks_override": "None", "prefix_cache_retention_interval": "0",
        "prefix_caching_hash_algo": "sha256", "prefix_match_unit": "None",
        "replayssm_buffer_len": "16", "skip_page_size_padded": "None", "sliding_window": "None",
        "swa_bounded_replay": "True", "use_kda_recoverssm": "False", "use_replayssm": "False",
        "user_specified_block_size": "False",
    }  # fmt: skip
    aligned = engine.model.hybrid and arguments.cache.enable_prefix_caching
    values = {
        "block_size": plan.block_size,
        "cache_dtype": arguments.cache.kv_cache_dtype,
        "effective_attention_block_size": plan.block_size,
        "enable_prefix_caching": arguments.cache.enable_prefix_caching,
        "engine": "0",
        "gpu_memory_utilization": arguments.gpu_memory_utilization,
        "kv_cache_max_concurrency": concurrency,
        "kv_cache_memory_bytes": arguments.kv_cache_memory_bytes,
        "kv_cache_size_tokens": blocks.cache_tokens(plan, engine.num_blocks, length),
        "mamba_block_size": plan.block_size if aligned else None,
        "mamba_cache_mode": "align" if aligned else "none",
        "num_gpu_blocks": engine.num_blocks,
    }
    return [({**constant, **{key: str(value) for key, value in values.items()}}, 1.0)]


def _gauge(name: str, text: str, values: Values) -> Iterator[str]:
    yield f"# HELP vllm:{name} {text}"
    yield f"# TYPE vllm:{name} gauge"
    for labels, value in values:
        yield f"vllm:{name}{_labels(labels)} {value!r}"


def _counter(name: str, text: str, values: Values, created: float) -> Iterator[str]:
    pairs = list(values)
    yield f"# HELP vllm:{name}_total {text}"
    yield f"# TYPE vllm:{name}_total counter"
    for labels, value in pairs:
        yield f"vllm:{name}_total{_labels(labels)} {value!r}"
    yield from _gauge(f"{name}_created", text, [(labels, created) for labels, _ in pairs])


def _histogram(
    name: str, histogram: Histogram, labels: dict[str, str], created: float
) -> Iterator[str]:
    yield f"# HELP vllm:{name} Histogram."
    yield f"# TYPE vllm:{name} histogram"
    for edge, count in histogram.cumulative():
        yield f"vllm:{name}_bucket{_labels({**labels, 'le': edge})} {float(count)!r}"
    yield f"vllm:{name}_count{_labels(labels)} {float(histogram.count)!r}"
    yield f"vllm:{name}_sum{_labels(labels)} {histogram.total!r}"
    yield from _gauge(f"{name}_created", "Histogram.", [(labels, created)])


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
