"""The texts with which a start fails: the cause in the engine's process, then the wrappers.

Frames and messages follow vLLM 0.32. What matters to a reader of the log: the cause stands in the
first EngineCore traceback, and the last line is always a wrapper.
"""

from dataclasses import dataclass

from testbed.engine.logs import LogLine, torch_size
from testbed.engine.memory import Budget

_SITE = "/usr/local/lib/python3.12/dist-packages/vllm"
_CONSERVING = (
    "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
)
_CORE_FRAMES = (
    ("v1/engine/core.py", 1482, "run_engine_core", "engine_core = EngineCoreProc("),
    ("v1/engine/core.py", 1194, "__init__", "super().__init__("),
)
_STAGES = {
    "init_device": (
        ("v1/engine/core.py", 144, "__init__", "self.model_executor = executor_class(vllm_config)"),
        ("v1/executor/abstract.py", 126, "__init__", "self._init_executor()"),
        ("v1/worker/gpu_worker.py", 561, "init_device", "self.requested_memory = request_memory("),
    ),
    "load_model": (
        ("v1/engine/core.py", 144, "__init__", "self.model_executor = executor_class(vllm_config)"),
        ("v1/executor/abstract.py", 126, "__init__", "self._init_executor()"),
        ("v1/worker/gpu_worker.py", 600, "load_model", "self.model_runner.load_model("),
    ),
    "profile": (
        ("v1/engine/core.py", 160, "__init__", "kv_cache_config = self._initialize_kv_caches("),
        ("v1/executor/abstract.py", 147, "determine_available_memory",
         'self.collective_rpc("determine_available_memory")'),
        ("v1/worker/gpu_worker.py", 693, "determine_available_memory",
         "self.model_runner.profile_run("),
    ),
    "kv_cache": (
        ("v1/engine/core.py", 160, "__init__", "kv_cache_config = self._initialize_kv_caches("),
        ("v1/core/kv_cache_utils.py", 2644, "get_kv_cache_configs",
         "_check_enough_kv_cache_memory("),
    ),
    "capture": (
        ("v1/engine/core.py", 160, "__init__", "kv_cache_config = self._initialize_kv_caches("),
        ("v1/executor/abstract.py", 121, "initialize_from_config",
         'self.collective_rpc("compile_or_warm_up_model")'),
        ("v1/worker/gpu_worker.py", 962, "compile_or_warm_up_model",
         "cuda_graph_memory_bytes = self.model_runner.capture_model()"),
        ("v1/worker/gpu/model_runner.py", 1101, "capture_model", "self.cudagraph_manager.capture("),
    ),
}  # fmt: skip
_API_FRAMES = (
    ("entrypoints/cli/main.py", 76, "main", "args.dispatch_function(args)"),
    ("entrypoints/cli/serve.py", 121, "cmd", "uvloop.run(run_server(args))"),
    ("entrypoints/launchers/api_server/entry.py", 177, "run_server", "await run_server_worker("),
    ("v1/engine/async_llm.py", 184, "__init__",
     "self.engine_core = EngineCoreClient.make_async_mp_client("),
    ("v1/engine/utils.py", 1431, "wait_for_engine_startup", "raise RuntimeError("),
)  # fmt: skip
_CONFIG_FRAMES = (
    ("entrypoints/cli/main.py", 76, "main", "args.dispatch_function(args)"),
    ("engine/arg_utils.py", 2210, "create_engine_config", "config = VllmConfig("),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the engine did not start: the stage of the traceback, and the error's own text."""

    stage: str
    error: str


def free_memory(budget: Budget, utilization: float) -> Failure:
    """The check at the first snapshot (``v1/worker/utils.py::request_memory``)."""
    gib = 1 << 30
    return Failure(
        "init_device",
        "ValueError: Free memory on device cuda:0 "
        f"({round(budget.free_at_start / gib, 2)}/{round(budget.total / gib, 2)} GiB) on startup "
        f"is less than desired GPU memory utilization ({utilization}, "
        f"{round(budget.requested / gib, 2)} GiB). Decrease GPU memory utilization or reduce GPU "
        "memory used by other processes.",
    )


def out_of_memory(stage: str, budget: Budget, tried: int, free: int) -> Failure:
    """Torch's allocator, with the sizes from which the shortfall follows."""
    used = budget.free_at_start - free
    torch = max(used - budget.non_torch, 0)
    reserved = min(torch // 200, 512 << 20)
    return Failure(
        stage,
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {torch_size(tried)}. "
        f"GPU 0 has a total capacity of {torch_size(budget.total)} of which {torch_size(free)} is "
        f"free. Including non-PyTorch memory, this process has {torch_size(used)} memory in use. "
        f"Of the allocated memory {torch_size(torch - reserved)} is allocated by PyTorch, and "
        f"{torch_size(reserved)} is reserved by PyTorch but unallocated. If reserved but "
        "unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to "
        "avoid fragmentation.  See documentation for Memory Management  "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
    )


def no_cache_blocks() -> Failure:
    """Nothing is left of the budget for the KV cache."""
    return Failure(
        "kv_cache",
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine (this flag also controls CPU "
        f"memory reservation on the CPU backend, despite its name). {_CONSERVING}",
    )


def below_one_request(
    max_model_len: int, needed: int, available: int, estimated_max_len: int
) -> Failure:
    """The KV cache cannot hold one request of the greatest length."""
    gib = 1 << 30
    estimate = (
        "Based on the available memory, the estimated maximum model length is "
        f"{estimated_max_len}. "
        if estimated_max_len > 0
        else ""
    )
    return Failure(
        "kv_cache",
        "ValueError: To serve at least one request with the model's max seq len "
        f"({max_model_len}), ({round(needed / gib, 2)} GiB KV cache is needed, which is larger "
        f"than the available KV cache memory ({round(available / gib, 2)} GiB). {estimate}Try "
        "increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) "
        f"or decreasing `max_model_len` when initializing the engine. {_CONSERVING}",
    )


def mamba_blocks(max_num_seqs: int, num_blocks: int) -> Failure:
    """More sequences than blocks of state."""
    return Failure(
        "capture",
        f"ValueError: max_num_seqs ({max_num_seqs}) exceeds available Mamba cache blocks "
        f"({num_blocks}). Each decode sequence requires one Mamba cache block, so CUDA graph "
        f"capture cannot proceed. Please lower max_num_seqs to at most {num_blocks} or increase "
        "gpu_memory_utilization.",
    )


def engine_lines(failure: Failure, at: float, worker: str = "EngineCore") -> tuple[LogLine, ...]:
    """A failure in the engine's process: its traceback twice, then the API server's wrapper.

    Where the card is driven by a process of its own (`Worker_TP0`), the cause is in that one, and
    the engine's traceback is a wrapper too.
    """
    error = failure.error
    before: tuple[LogLine, ...] = ()
    if worker != "EngineCore" and failure.stage != "kv_cache":
        error, before = _from_worker(failure, at, worker)
    trace = _traceback(_CORE_FRAMES + _STAGES[failure.stage], error)
    wrapper = (
        "RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}"
    )
    return (
        *before,
        LogLine(at, "EngineCore", "EngineCore failed to start.", "ERROR", "core.py:1510"),
        LogLine(at, "EngineCore", trace, "ERROR", "core.py:1510"),
        LogLine(at, "", "Process EngineCore:\n" + trace),
        LogLine(at, "", _traceback(_API_FRAMES, wrapper)),
    )


def _from_worker(failure: Failure, at: float, worker: str) -> tuple[str, tuple[LogLine, ...]]:
    """What the worker says, and what the engine then makes of it."""
    source = "multiproc_executor.py:953"
    trace = _traceback(_STAGES[failure.stage][2:], failure.error)
    if failure.stage in {"init_device", "load_model"}:
        told = "WorkerProc failed to start."
        error = (
            "Exception: WorkerProc initialization failed due to an exception in a background "
            "process. See stack trace for root cause."
        )
    else:
        told = "WorkerProc hit an exception."
        message = failure.error.partition(": ")[2]
        error = (
            f"RuntimeError: Worker failed with error '{message}', please check the stack trace "
            "above for the root cause"
        )
    lines = (
        LogLine(at, worker, told, "ERROR", source),
        LogLine(at, worker, trace, "ERROR", source),
    )
    return error, lines


def configuration_lines(config: str, message: str, at: float) -> tuple[LogLine, ...]:
    """A value that the configuration refuses: the API server ends before an engine starts."""
    error = (
        f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}\n"
        f"  Value error, {message} [type=value_error, input_value=ArgsKwargs((), {{}}), "
        "input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.12/v/value_error"
    )
    return (LogLine(at, "", _traceback(_CONFIG_FRAMES, error)),)


def _traceback(frames: tuple[tuple[str, int, str, str], ...], error: str) -> str:
    rows = ["Traceback (most recent call last):"]
    for file, line, function, code in frames:
        rows += [f'  File "{_SITE}/{file}", line {line}, in {function}', f"    {code}"]
    return "\n".join([*rows, error])
