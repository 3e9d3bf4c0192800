"""The lines of a start that goes well, stage by stage, in the words of vLLM 0.32."""

from testbed.engine import blocks
from testbed.engine.arguments import EngineArguments
from testbed.engine.logs import VERSION, LogLine, format_gib
from testbed.engine.memory import GIB, MIB, Budget, capture_sizes
from testbed.engine.models import Model

# Shares of the start time at which each stage ends, as a large model spends it on a warm cache.
AT_CONFIG, AT_LOADED, AT_PROFILED, AT_CAPTURED, AT_END = 0.1, 0.5, 0.75, 0.95, 1.0


def banner(arguments: EngineArguments) -> list[LogLine]:
    """The logo with version and model, and the arguments that were given."""
    source = "api_utils.py:347"
    logo = (
        "",
        "       █     █     █▄   ▄█",
        f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {VERSION}",
        f"  █▄█▀ █     █     █     █  model   {arguments.model}",
        "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
        "",
    )
    lines = [LogLine(0.0, "APIServer", row, source=source) for row in logo]
    given = f"non-default args: {arguments.non_default}"
    return [*lines, LogLine(0.0, "APIServer", given, source="api_utils.py:286")]


def configured(
    model: Model, arguments: EngineArguments, plan: blocks.Layout, max_model_len: int
) -> list[LogLine]:
    """What the API server and the engine say before any memory is taken."""
    cache = arguments.cache

    def api(text: str, source: str) -> LogLine:
        return LogLine(AT_CONFIG / 2, "APIServer", text, source=source)

    lines = [
        api(f"Resolved architecture: {model.architecture}", "model.py:733"),
        api(f"Using max model len {max_model_len}", "model.py:2152"),
        api(
            "Chunked prefill is enabled with max_num_batched_tokens="
            f"{arguments.max_num_batched_tokens}.",
            "scheduler.py:252",
        ),
    ]
    if model.hybrid and cache.enable_prefix_caching:
        text = (
            f"Mamba cache mode is set to 'align' for {model.architecture} by default when prefix "
            "caching is enabled"
        )
        lines.append(api(text, "config.py:688"))
    if plan.state_bytes:
        text = (
            f"Setting attention block size to {plan.block_size} tokens to ensure that attention "
            "page size is >= mamba page size."
        )
        lines.append(api(text, "interface.py:1096"))
        percent = 100 * (plan.page_bytes - plan.state_bytes) / plan.state_bytes
        text = (
            f"Padding mamba page size by {percent:.2f}% to ensure that mamba page size and "
            "attention page size are exactly equal."
        )
        lines.append(api(text, "interface.py:1120"))
    text = (
        f"Initializing a V1 LLM engine (v{VERSION}) with config: model='{model.name}', "
        f"dtype=torch.bfloat16, max_seq_len={max_model_len}, "
        f"tensor_parallel_size={cache.tensor_parallel_size}, "
        f"pipeline_parallel_size={cache.pipeline_parallel_size}, "
        f"kv_cache_dtype={cache.kv_cache_dtype}, device_config=cuda, "
        f"served_model_name={arguments.served_model_names[0]}, "
        f"enable_prefix_caching={cache.enable_prefix_caching}, enable_chunked_prefill=True"
    )
    at = AT_CONFIG
    return [
        *lines,
        LogLine(at, "EngineCore", text),
        LogLine(at, "EngineCore", "Using V2 Model Runner", source="gpu_worker.py:518"),
    ]


def worker(arguments: EngineArguments) -> str:
    """The process that drives the card: the engine's own where there is one card."""
    cache = arguments.cache
    many = cache.tensor_parallel_size * cache.pipeline_parallel_size > 1
    return "Worker_TP0" if many else "EngineCore"


def loaded(arguments: EngineArguments, parts: Budget, seconds: float) -> list[LogLine]:
    """The size of the weights on the device."""
    text = f"Model loading took {format_gib(parts.weights)} GiB memory and {seconds:.6f} seconds"
    return [LogLine(AT_LOADED, worker(arguments), text, source="model_runner.py:425")]


def profiled(
    arguments: EngineArguments, parts: Budget, available: int, seconds: float
) -> list[LogLine]:
    """What the profile left for the KV cache."""

    def line(text: str, source: str) -> LogLine:
        return LogLine(AT_PROFILED, worker(arguments), text, source=source)

    if arguments.kv_cache_memory_bytes is not None:
        text = (
            f"Initial free memory {format_gib(parts.free_at_start)} GiB, reserved "
            f"{format_gib(available)} GiB memory for KV Cache as specified by "
            "kv_cache_memory_bytes config and skipped memory profiling."
        )
        return [line(text, "gpu_worker.py:669")]
    share = parts.graphs_estimated / parts.total
    utilization = arguments.gpu_memory_utilization
    advice = (
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
        f"--gpu-memory-utilization={utilization:.4f} is equivalent to "
        f"--gpu-memory-utilization={utilization - share:.4f} without CUDA graph memory profiling. "
        "To maintain the same effective KV cache size as before, increase "
        f"--gpu-memory-utilization to {min(utilization + share, 1):.4f}. To disable, set "
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0."
    )
    return [
        line(_graphs_text(parts.graphs_estimated, seconds * 0.02), "model_runner.py:1128"),
        line(f"Available KV cache memory: {format_gib(available)} GiB", "gpu_worker.py:760"),
        line(advice, "gpu_worker.py:774"),
    ]


def _graphs_text(size: int, seconds: float) -> str:
    return f"Graph capturing finished in {seconds:.0f} secs, took {size / GIB:.2f} GiB"


def cache_line(plan: blocks.Layout, num_blocks: int, max_model_len: int) -> LogLine:
    """The capacity, in the one-line form since 0.30."""
    tokens = blocks.cache_tokens(plan, num_blocks, max_model_len)
    concurrency = blocks.max_concurrency(plan, num_blocks, max_model_len)
    text = (
        f"GPU KV cache size: {tokens:,} tokens, Maximum concurrency for {max_model_len:,} tokens "
        f"per request: {concurrency:.2f}x"
    )
    return LogLine(AT_PROFILED, "EngineCore", text, source="kv_cache_utils.py:2327")


def captured(
    arguments: EngineArguments, parts: Budget, available: int, seconds: float
) -> list[LogLine]:
    """The graphs, the hint, and the time that all of it took."""

    def line(text: str, source: str) -> LogLine:
        return LogLine(AT_CAPTURED, worker(arguments), text, source=source)

    sizes = capture_sizes(
        arguments.max_num_seqs,
        arguments.cache.num_speculative_tokens,
        arguments.max_num_batched_tokens,
    )
    difference = abs(parts.graphs_estimated - parts.graphs_actual)
    pool = (
        f"CUDA graph pool memory: {format_gib(parts.graphs_actual)} GiB (actual), "
        f"{format_gib(parts.graphs_estimated)} GiB (estimated), difference: "
        f"{format_gib(difference)} GiB ({100 * difference / parts.graphs_actual:.1f}%)."
    )
    lines = [
        LogLine(AT_CAPTURED, "", f"Capturing CUDA graphs (FULL): 100%|{'█' * 10}| {sizes}/{sizes}"),
        line(_graphs_text(parts.graphs_actual, seconds * 0.2), "model_runner.py:1128"),
        line(pool, "gpu_worker.py:971"),
    ]
    if arguments.kv_cache_memory_bytes is None:
        lines.append(line(_hint(arguments, parts, available), "gpu_worker.py:1034"))
    took = f"init engine (profile, create kv cache, warmup model) took {seconds * 0.45:.2f} s"
    return [*lines, LogLine(AT_CAPTURED, "EngineCore", took, source="core.py:402")]


def _hint(arguments: EngineArguments, parts: Budget, available: int) -> str:
    """The hint of 0.27 to 0.33: its peak already holds the graphs' estimate (#57936)."""
    peak = parts.peak_activation + parts.graphs_estimated
    used = parts.consumed + peak + parts.graphs_actual + 150 * MIB
    fit, full = parts.requested - used, parts.free_at_start - used
    return (
        f"Free memory on device ({format_gib(parts.free_at_start)}/{format_gib(parts.total)} GiB) "
        f"on startup. Desired GPU memory utilization is ({arguments.gpu_memory_utilization}, "
        f"{format_gib(parts.requested)} GiB). Actual usage is {format_gib(parts.consumed)} GiB "
        f"for consumed memory (weights + non-torch), {format_gib(peak)} GiB for peak activation, "
        f"and {format_gib(parts.graphs_actual)} GiB for CUDAGraph memory. Replace "
        f"gpu_memory_utilization config with `--kv-cache-memory={fit}` ({format_gib(fit)} GiB) to "
        f"fit into requested memory, or `--kv-cache-memory={full}` ({format_gib(full)} GiB) to "
        f"fully utilize gpu memory. Current kv cache memory in use is {format_gib(available)} GiB."
    )


def serving(arguments: EngineArguments) -> list[LogLine]:
    """The last lines before the socket listens."""
    address = f"http://{arguments.host}:{arguments.port}"
    return [
        LogLine(AT_END, "APIServer", "Supported tasks: ['generate']", source="entry.py:136"),
        LogLine(AT_END, "APIServer", f"Starting vLLM server on {address}", source="entry.py:140"),
        LogLine(AT_END, "APIServer", "Available routes are:", source="launcher.py:186"),
        LogLine(AT_END, "", "INFO:     Started server process [1]"),
        LogLine(AT_END, "", "INFO:     Waiting for application startup."),
    ]
