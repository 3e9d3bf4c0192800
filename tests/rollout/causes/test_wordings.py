"""The engine's, the libraries' and the shippers' own words: one line or a few, one answer."""

import pytest

from parkade.rollout.causes import Blame, CauseClass, Stage, classify

C = CauseClass
SETTINGS, ENVIRONMENT, USER, UNKNOWN = (
    Blame.SETTINGS,
    Blame.ENVIRONMENT,
    Blame.USER,
    Blame.UNKNOWN,
)
LOADS = "INFO 11-29 10:00:00 [gpu_model_runner.py:1] Starting to load model acme/alpha..."
LOADED = "INFO 11-29 10:00:09 [gpu_model_runner.py:1] Model loading took 15.6 GiB and 3.1 seconds"
POOL = "INFO 11-29 10:00:19 [kv_cache_utils.py:1] GPU KV cache size: 88,000 tokens"
FATAL = "ERROR 11-29 10:00:29 [core.py:1] EngineCore encountered a fatal error."
SERVES = 'INFO:     10.0.0.1:80 - "POST /v1/completions HTTP/1.1" 200 OK'
HEAD = "Traceback (most recent call last):"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 50.00 MiB. GPU 0 has a total "
    "capacity of 23.56 GiB of which 26.88 MiB is free. Including non-PyTorch memory, this process "
    "has 23.28 GiB memory in use."
)


def code(path: str, name: str) -> str:
    return f'  File "/opt/lib/python3.12/site-packages/{path}", line 101, in {name}'


def row(name: str, cause_class: CauseClass, blame: Blame, *lines: str):
    return pytest.param("\n".join(lines), cause_class, blame, id=name)


ARGUMENTS = [
    row("a value that is not among those named", C.BAD_ARGUMENTS, USER, LOADS,
        "ValueError: moe_backend='triton' is not supported for NvFP4 MoE. Expected one of "
        "['cutlass', 'flashinfer_trtllm', 'marlin', 'emulation']."),
    row("a value beside those that are valid", C.BAD_ARGUMENTS, USER,
        "ValueError: Unknown Mamba SSU backend: 'CUDA'. Valid options are: TRITON, FLASHINFER.",
        "INFO:     Shutting down"),
    row("a backend that was asked for and does not fit", C.BAD_ARGUMENTS, USER, LOADS,
        "ValueError: NvFp4 MoE backend 'FLASHINFER_TRTLLM' does not support the deployment "
        "configuration since kernel does not support current device cuda."),
    row("a model as a flag", C.BAD_ARGUMENTS, USER,
        "ValueError: With `vllm serve`, you should provide the model as a positional argument or "
        "in a config file instead of via the `--model` option."),
    row("two flags that exclude each other", C.BAD_ARGUMENTS, USER,
        "TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser"),
    row("pydantic's reason without its headline", C.BAD_ARGUMENTS, USER,
        "  Value error, This model does not support `--runner generate`. [type=value_error, "
        "input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]"),
    row("pydantic's reason has a rule of its own", C.MISSING_MODEL, USER,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, Invalid repository ID or local directory specified: '/models/qwen3'.",
        "Please verify the following requirements:",
        "1. Provide a valid Hugging Face repository ID. [type=value_error, input_value={}]"),
    row("a parser that does not exist", C.BAD_ARGUMENTS, USER,
        "KeyError: 'invalid tool call parser: foo (chose from { deepseek_v3,hermes })'"),
    row("a chat template that is not there", C.BAD_ARGUMENTS, USER,
        "ValueError: The supplied chat template string (tool.jinja) appears path-like, but "
        "doesn't exist! Tried: tool.jinja"),
    row("a Service named like the engine's variable", C.BAD_ARGUMENTS, USER,
        "ValueError: VLLM_PORT 'tcp://169.169.193.120:6785' appears to be a URI. This may be "
        "caused by a Kubernetes service discovery issue"),
    row("a backend that was chosen and cannot", C.BAD_ARGUMENTS, USER,
        "ValueError: Selected backend AttentionBackendEnum.FLASHINFER is not valid for this "
        "configuration. Reason: ['kv_cache_dtype not supported']"),
    row("a split that quantised weights do not allow", C.BAD_ARGUMENTS, USER,
        "ValueError: Weight input_size_per_partition = 10944 is not divisible by min_thread_k = "
        "128. Consider reducing tensor_parallel_size or running with --quantization gptq."),
    row("an argument that a worker's error names", C.BAD_ARGUMENTS, USER,
        "ValueError: Chunked MM input disabled but max_tokens_per_mm_item (16384) is larger than "
        "max_num_batched_tokens (8192). Please increase max_num_batched_tokens."),
    row("words without a rule, raised where the configuration is checked", C.BAD_ARGUMENTS, USER,
        HEAD, code("vllm/engine/arg_utils.py", "create_engine_config"),
        "    raise ValueError(", "ValueError: The moon is in the wrong phase."),
    row("the same words elsewhere accuse nobody", C.UNKNOWN, UNKNOWN,
        HEAD, code("vllm/v1/engine/core.py", "step"),
        "    raise ValueError(", "ValueError: The moon is in the wrong phase."),
    row("the configuration judges what a worker measured", C.UNKNOWN, UNKNOWN,
        LOADED, HEAD, code("vllm/v1/executor/multiproc_executor.py", "worker_main"),
        code("vllm/config/compilation.py", "resolve"), "ValueError: The moon is in the wrong phas"),
    row("an argument in a sentence that the log cuts", C.UNKNOWN, UNKNOWN,
        "ValueError: max_num_batched_tokens (1024) must be gre"),
    row("a request that was too long, in the tail of a death", C.UNKNOWN, UNKNOWN,
        "ValueError: The decoder prompt (length 9000) is longer than the maximum model length of "
        "4096. Make sure that `max_model_len` is no smaller than the number of text tokens."),
    row("an unexpected keyword is a bug, not an argument", C.UNKNOWN, UNKNOWN,
        "TypeError: Worker.__init__() got an unexpected keyword argument 'kv_cache_dtype'"),
]  # fmt: skip

MODELS = [
    row("remote code, the older words", C.UNSUPPORTED_MODEL, USER,
        "ValueError: Loading acme/alpha requires you to execute the configuration file in that "
        "repo on your local machine."),
    row("remote code, the newer words", C.UNSUPPORTED_MODEL, USER,
        "ValueError: The repository /models/kimi contains custom code which must be executed to "
        "correctly load the model.", "Please pass the argument `trust_remote_code=True`"),
    row("a tokenizer of a later library", C.UNSUPPORTED_MODEL, USER,
        "ValueError: Tokenizer class TokenizersBackend does not exist or is not currently "
        "imported."),
    row("a tokenizer file of a later library", C.UNSUPPORTED_MODEL, USER,
        "Exception: data did not match any variant of untagged enum ModelWrapper at line 757479"),
    row("a weight that the engine has no place for", C.UNSUPPORTED_MODEL, USER,
        LOADS, HEAD, code("vllm/model_executor/models/gpt_oss.py", "load_weights"),
        "KeyError: 'layers.0.mlp.experts.w13_bias'"),
    row("a key that is no weight", C.UNKNOWN, UNKNOWN,
        LOADS, HEAD, code("vllm/distributed/kv_connector.py", "register_kv_caches"),
        "KeyError: 'UCX'"),
    row("an inspection that failed says why above", C.BROKEN_BUILD, ENVIRONMENT,
        "ModuleNotFoundError: No module named 'triton.compiler'; 'triton' is not a package",
        "ValueError: Model architectures ['GraniteForCausalLM'] failed to be inspected. Please "
        "check the logs for more details."),
    row("a bucket that is not there", C.MISSING_MODEL, USER,
        "botocore.errorfactory.NoSuchBucket: An error occurred (NoSuchBucket) when calling the "
        "ListObjectsV2 operation: The specified bucket does not exist"),
    row("a tokenizer that is not there", C.MISSING_MODEL, USER,
        "OSError: Can't load tokenizer for '/models/x'. If you were trying to load it from "
        "'https://huggingface.co/models', make sure you don't have a local directory"),
    row("a segment of shared memory is no model", C.UNKNOWN, UNKNOWN,
        "FileNotFoundError: [Errno 2] No such file or directory: '/psm_8bd9cd3f'"),
    row("a compiler's file is no model", C.UNKNOWN, UNKNOWN,
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/.triton/cache/de/fused.json"
        ".tmp.pid_1_2'"),
]  # fmt: skip

HUB = [
    row("too many requests, httpx", C.LICENCE_OR_HUB, ENVIRONMENT,
        "httpx.HTTPStatusError: Client error '429 Too Many Requests' for url "
        "'https://huggingface.co/api/models/x/y/revision/main'"),
    row("no token, httpx", C.LICENCE_OR_HUB, USER,
        "httpx.HTTPStatusError: Client error '401 Unauthorized' for url "
        "'https://huggingface.co/api/models/x/y/revision/main'"),
    row("a certificate of one's own", C.LICENCE_OR_HUB, ENVIRONMENT,
        "httpx.ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable "
        "to get local issuer certificate (_ssl.c:1000)"),
    row("the store behind the hub is down", C.LICENCE_OR_HUB, ENVIRONMENT,
        "RuntimeError: Data processing error: CAS service error : Reqwest Error: HTTP status "
        "server error (503 Service Unavailable), domain: https://cas-server.xethub.hf.co/v1/"),
    row("no credentials for the bucket", C.LICENCE_OR_HUB, USER,
        "botocore.exceptions.NoCredentialsError: Unable to locate credentials"),
    row("a bucket that refuses", C.LICENCE_OR_HUB, USER,
        "botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the "
        "ListObjectsV2 operation: Access Denied"),
]  # fmt: skip

HOST = [
    row("a home that cannot be written", C.PERMISSION_DENIED, USER,
        "PermissionError: [Errno 13] Permission denied: '/.cache'"),
    row("a read-only volume", C.PERMISSION_DENIED, USER,
        "OSError: [Errno 30] Read-only file system: '/data/.cache/huggingface'"),
    row("a compiler passes the error of its cache on", C.PERMISSION_DENIED, USER,
        LOADED, "torch._inductor.exc.InductorError: PermissionError: [Errno 13] Permission "
        "denied: '/.triton'"),
    row("a compiler passes a full disk on", C.DISK_FULL, ENVIRONMENT,
        LOADED, "torch._inductor.exc.InductorError: RuntimeError: Failed to run autotuning code "
        "block: [Errno 122] Disk quota exceeded: '/data/.cache/vllm'"),
    row("the port, after the server said that it is up", C.ADDRESS_IN_USE, ENVIRONMENT,
        "INFO:     Application startup complete.",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 9000): "
        "address already in use", "INFO:     Application shutdown complete."),
    row("a shell reports a kill", C.HOST_OUT_OF_MEMORY, ENVIRONMENT,
        LOADS, "/start.sh: line 12:    37 Killed                  vllm serve x --port 8000"),
    row("Ray's watcher of the node's memory", C.HOST_OUT_OF_MEMORY, ENVIRONMENT,
        LOADS, "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on "
        "memory."),
    row("what Ray thinks of a dead actor is a list of guesses", C.UNKNOWN, UNKNOWN,
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
        "There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer "
        "due to high memory usage. (3) The worker is crashed unexpectedly due to SIGSEGV"),
    row("a container without its GPU runtime", C.CONTAINER_START, ENVIRONMENT,
        "docker: Error response from daemon: OCI runtime create failed: runc create failed"),
    row("a library is missed at the first request", C.BROKEN_BUILD, ENVIRONMENT,
        SERVES, FATAL, "ModuleNotFoundError: No module named 'cupy'"),
    row("a library that a serving engine does without", C.UNKNOWN, UNKNOWN,
        SERVES, "ImportError: No module named 'optional'", *[SERVES] * 6),
]  # fmt: skip

GPU = [
    row("NVML disagrees", C.CUDA_ERROR_IN_ENGINE_INIT, ENVIRONMENT,
        "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlDeviceGetHandleByPciBusId_v2_( pci_id,"
        ' &nvml_device) INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1139'),
    row("an extension that ends the process", C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT,
        LOADED, "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:364 'invalid argument'"),
    row("cuDNN", C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT,
        LOADED, "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No execution plans"),
    row("no compiler for kernels", C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT,
        "FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'"),
    row("a compiled graph that does not match", C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT,
        '  File "/data/.cache/vllm/torch_compile_cache/2b/inductor_cache/c.py", line 40, in call',
        "AttributeError: 'KernelMetadata' object has no attribute 'cluster_dims'"),
    row("a variable's name is no error of cuBLAS", C.UNKNOWN, UNKNOWN,
        "ERROR: CUBLAS_VER=12.3.4.1-1"),
    row("a warning of torch is no failure", C.UNKNOWN, UNKNOWN,
        "cuda/__init__.py:118: UserWarning: CUDA initialization: The NVIDIA driver on your system "
        "is too old (found version 12020)."),
    row("kernels that the image lacks", C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT, LOADS,
        "RuntimeError: DeepGEMM backend is not available or outdated. Please install or update "
        "the `deep_gemm` to a newer version to enable FP8 kernels."),
    row("processes that do not reach each other", C.NCCL_FAILURE, ENVIRONMENT,
        "RuntimeError: Gloo connectFullMesh failed with "
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"),
    row("a check in a kernel's own source", C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT, LOADED,
        HEAD, code("flashinfer/fused_moe/core.py", "trtllm_fp8_block_scale_moe"),
        '  File "/src/csrc/trtllm_fused_moe_kernel_launcher.cu", line 1645, in void run()',
        "RuntimeError: Check failed: routing_logits.dtype() == dl_bfloat16 (float32 vs. bfloat16) "
        ": routing_logits must be bfloat16."),
    row("a platform without unified addressing", C.CUDA_ERROR_IN_ENGINE_INIT, ENVIRONMENT,
        "RuntimeError: UVA is not available"),
    row("a front end that never answered", C.START_TIMED_OUT, ENVIRONMENT,
        "RuntimeError: Did not receive response from front-end process within 5 minutes"),
    row("a node that never joined", C.START_TIMED_OUT, ENVIRONMENT,
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 "
        "clients joined."),
    row("NCCL while the groups are taken down", C.UNKNOWN, UNKNOWN,
        HEAD, code("vllm/distributed/parallel_state.py", "destroy_model_parallel"),
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:133, unhandled cuda "
        "error", "ncclUnhandledCudaError: Call to CUDA function failed.",
        "Last error:", "Cuda failure 'out of memory'"),
]  # fmt: skip

MEMORY = [
    row("memory that changed, the older words", C.MEMORY_CHANGED_WHILE_PROFILING, ENVIRONMENT,
        "AssertionError: Error in memory profiling. This happens when the GPU memory was not "
        "properly cleaned up before initializing the vLLM instance."),
    row("cuBLAS finds no memory beside the pool", C.OOM_CUDAGRAPH_CAPTURE, SETTINGS,
        POOL, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
        "`cublasCreate(handle)`"),
    row("the same before there is a pool", C.CUBLAS_FAILURE_IN_PROFILE_RUN, ENVIRONMENT,
        LOADED, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
        "`cublasCreate(handle)`"),
    row("the driver's words in a compiled graph", C.OOM_CUDAGRAPH_CAPTURE, SETTINGS,
        POOL, "RuntimeError: CUDA driver error: out of memory"),
    row("an error that a person shortened", C.OOM_CUDAGRAPH_CAPTURE, SETTINGS,
        POOL, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has "
        "a total capacity of 22.36 GiB of which 120.88 MiB is free. ..."),
    row("the core's loop alone says that it served", C.STARTED_THEN_OOM_AT_RUNTIME, SETTINGS,
        HEAD, code("vllm/v1/engine/core.py", "run_busy_loop"), OOM),
    row("the old engine profiled with execute_model", C.OOM_DURING_PROFILE, SETTINGS,
        LOADED, HEAD, code("vllm/worker/enc_dec_model_runner.py", "execute_model"), OOM),
    row("the old engine captured while it warmed up", C.OOM_CUDAGRAPH_CAPTURE, SETTINGS,
        HEAD, code("vllm/worker/worker.py", "initialize_cache"),
        code("vllm/worker/worker.py", "_warm_up_model"), OOM),
    row("the old engine names the method in the line", C.OOM_DURING_PROFILE, SETTINGS,
        "ERROR 09-27 05:20:38 multiproc_worker_utils.py:233] Exception in worker VllmWorkerProcess "
        "while processing method determine_num_available_blocks: CUDA out of memory. Tried to "
        "allocate 1.00 GiB."),
    row("a start's refusal while it serves is a request's", C.UNKNOWN, UNKNOWN,
        SERVES, "ValueError: max_num_batched_tokens (16) must be greater than 32."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cause_class", "blame"), [*ARGUMENTS, *MODELS, *HUB, *HOST, *GPU, *MEMORY]
)
def test_a_wording_has_its_answer(text, cause_class, blame):
    cause = classify(text)
    assert (cause.cause_class, cause.blame) == (cause_class, blame)


PREFIXES = [
    pytest.param("Aug 19 18:34:27 node1 vllm[8727]: ", id="journald"),
    pytest.param("2026-06-09T14:01:54+00:00 node1 vllm[1]: ", id="rsyslog with ISO time"),
    pytest.param("[2025-03-10T15:07:20Z] ", id="a build's time in brackets"),
    pytest.param("  | [2025-03-10T15:07:20Z] ", id="a build's margin"),
    pytest.param("> ", id="a quotation"),
    pytest.param("2025-09-02T08:04:02.875067135-07:00 ", id="a shipper's time with its zone"),
    pytest.param("vllm-1  | ", id="compose"),
    pytest.param("2026-05-01 18:52:10.981 | ", id="a desktop's time and bar"),
    pytest.param("371:Aug 19 18:34:27 node1 vllm[8727]: ", id="a search's line number"),
    pytest.param(
        "INFO 2025-11-19T20:16:36.096674521Z [resource.labels.containerName: vllm] ",
        id="a cloud's level of the stream",
    ),
]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("process", ["", "(EngineCore pid=8727) ", "(Worker_TP0_EP0 pid=7) "])
def test_what_shippers_put_before_a_line_changes_nothing(prefix, process):
    lines = [
        "INFO 08-19 18:34:20 [gpu_model_runner.py:1] Starting to load model acme/alpha...",
        HEAD,
        code("vllm/v1/worker/gpu_worker.py", "load_model"),
        OOM,
    ]
    cause = classify("\n".join(f"{prefix}{process}{line}" for line in lines))
    assert (cause.cause_class, cause.stage) == (C.OOM_WEIGHTS, Stage.LOAD)
    assert cause.message == OOM


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("2026-06-09 14:01:54.604 [Info] (Process) (EngineCore pid=4) ", id="a host's"),
        pytest.param("job-7 #033[1;36m(EngineCore pid=4)#033[0;0m ", id="syslog's escapes"),
        pytest.param("ERROR 02-13 18:05 [core.py:852] ", id="a date without seconds"),
    ],
)
def test_the_message_begins_where_the_engine_speaks(line):
    assert classify(f"{line}{OOM}").message == OOM


@pytest.mark.parametrize("margin", [" " * 4, " " * 8])
def test_a_block_of_yaml_is_read_as_what_it_holds(margin):
    lines = [LOADS, HEAD, code("triton/runtime/jit.py", "run"), "    raise error", "KeyError: 'x'"]
    cause = classify("\n".join(margin + line for line in lines))
    assert cause.cause_class is C.KERNEL_ERROR_IN_PROFILE_RUN
    assert cause.message == "KeyError: 'x'"


CUT = "ValueError: max_num_batched_tokens is"


def test_a_sentence_that_the_log_cuts_blames_nobody_and_is_shown():
    cause = classify(CUT)
    assert (cause.cause_class, cause.blame) == (C.UNKNOWN, UNKNOWN)
    assert cause.message == CUT


def test_a_line_whose_end_was_seen_is_not_cut():
    assert classify(f"{CUT}\n").cause_class is C.BAD_ARGUMENTS


def test_a_headline_without_its_reason_is_shown():
    cause = classify("pydantic_core.ValidationError: 1 validation error for ModelConfig")
    assert (cause.cause_class, cause.blame) == (C.UNKNOWN, UNKNOWN)
    assert cause.message.endswith("1 validation error for ModelConfig")


def test_an_export_of_a_cloud_doubles_quotes():
    said = "(EngineCore_0 pid=75) ERROR 08-25 10:46:52 [core.py:1] "
    frame = code("vllm/v1/worker/gpu_model_runner.py", "load_model").replace('"', '""')
    rows = [
        f"1756144012300,(EngineCore_0 pid=75) {LOADS}#015",
        f'1756144012376,"{said}{HEAD}#015"',
        f'1756144012376,"{said}{frame}#015"',
        f'1756144012376,"{said}{OOM}#015"',
    ]
    cause = classify("\n".join(rows))
    assert (cause.cause_class, cause.blame) == (C.OOM_WEIGHTS, USER)
    assert cause.message == OOM


BANNER = "INFO 11-29 11:00:00 [api_server.py:1] vLLM API server version 0.32.0"
NO_BLOCKS = "ValueError: No available memory for the cache blocks."


@pytest.mark.parametrize(
    ("before", "banner"),
    [
        pytest.param("vllm serve: error: unrecognized arguments: --x 8", BANNER, id="a flag"),
        pytest.param(f"{BANNER}\n{OOM}", f"(APIServer pid=1) {BANNER}", id="an older engine"),
    ],
)
def test_a_later_start_is_not_blamed_for_an_earlier_one(before, banner):
    assert classify(f"{before}\n{banner}\n{NO_BLOCKS}").cause_class is C.NO_CACHE_BLOCKS
