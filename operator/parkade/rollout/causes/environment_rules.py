"""What node, driver, image, network and cluster do to an engine, in the engine's own log."""

from collections.abc import Callable

from parkade.rollout.causes.cause import Blame, CauseClass, RootCause, Stage
from parkade.rollout.causes.rules import Answer, Finding, Rule, Weight, rule, says
from parkade.rollout.causes.stages import Scene

_EARLY = frozenset({Stage.INIT, Stage.LOAD, None})


def _gpu(by_stage: Callable[[Stage | None], CauseClass]) -> Answer:
    """Return an answer whose class depends on the stage, and that blames the environment."""

    def answer(finding: Finding, scene: Scene) -> RootCause:
        stage = scene.stage_at(finding.index)
        cause_class = (
            CauseClass.STARTED_THEN_KERNEL_ERROR_AT_FIRST_REQUEST
            if stage is Stage.RUNTIME
            else by_stage(stage)
        )
        return RootCause(cause_class, Blame.ENVIRONMENT, stage=stage)

    return answer


def _device(stage: Stage | None) -> CauseClass:
    if stage in _EARLY:
        return CauseClass.CUDA_ERROR_IN_ENGINE_INIT
    return CauseClass.KERNEL_ERROR_IN_PROFILE_RUN


def _always(cause_class: CauseClass) -> Callable[[Stage | None], CauseClass]:
    return lambda _stage: cause_class


_CUDA = r"(?:CUDA|HIP|XPU)"
_KERNEL_ERRORS = (
    r"no kernel image is available|device kernel image is invalid|unspecified launch failure"
    r"|invalid device function|device-side assert|misaligned address|too many resources requested"
    r"|PTX was compiled|unsupported toolchain|named symbol not found|invalid configuration argument"
)

RULES: tuple[Rule, ...] = (
    rule(
        r"CUBLAS_[A-Z]|cublas(?:Lt)?\w* (?:failed|error)|HIPBLAS_STATUS_\w+",
        _gpu(_always(CauseClass.CUBLAS_FAILURE_IN_PROFILE_RUN)),
    ),
    rule(
        r"an illegal memory access|cudaErrorIllegalAddress"
        r"|CUDA_ERROR_ILLEGAL_ADDRESS|Memory access fault by GPU",
        _gpu(_always(CauseClass.ILLEGAL_MEMORY_ACCESS_IN_PROFILE_RUN)),
    ),
    rule(
        rf"{_CUDA} (?:error|Error): (?:{_KERNEL_ERRORS})|Triton Error \[|CUDA_ERROR_(?:NO_BINARY"
        r"|INVALID_IMAGE|LAUNCH_FAILED|INVALID_PTX|UNSUPPORTED_PTX_VERSION|NOT_FOUND)"
        r"|ptxas (?:fatal|error)|PassManager::run failed|triton\.\w[\w.]*(?:OutOfResources"
        r"|CompilationError|PTXASError)|OutOfResources: out of resource|LLVM ERROR"
        r"|Failed to find C compiler|[Nn]inja build failed|Error compiling objects for extension"
        r"|nvcc fatal|NVRTC_ERROR|cutlass_\w+.{0,80}(?:fail|Error)|Cutlass error|Error Internal"
        r"|(?:Expected|Unexpected|Unsupported) head[ _](?:dim )?size|BatchPrefill\w* failed"
        r"|Error in function '\w+' at .{0,200}flashinfer|InductorError|BackendCompilerFailed"
        r"|Assertion (?:failed|error)[: ].{0,200}(?:deep_gemm|DeepGEMM|csrc|jit_kernels|\.[ch]pp:)"
        r"|[Hh]ead[ _]size \d+ is not supported|No valid attention backend|Triton is not available"
        r"|type fp8e4nv not supported|Could not find nvcc|cutlass_\w+, |torch\._dynamo\.exc\.",
        _gpu(_always(CauseClass.KERNEL_ERROR_IN_PROFILE_RUN)),
    ),
    rule(
        rf"{_CUDA} (?:error|Error): (?!out of)|AcceleratorError: |{_CUDA} driver (?:error"
        r"|version is insufficient|initialization failed)|The NVIDIA driver on"
        r"|Found no NVIDIA driver|no CUDA-capable device|No CUDA GPUs are available"
        r"|CUDA unknown error|CUDA initialization: |cudaGetDeviceCount\(\)|Failed to infer "
        r"device type"
        r"|Device string must not be empty|CUDA_ERROR_(?!OUT_OF_MEMORY)|NVMLError|uncorrectable ECC"
        r"|Cannot re-initialize CUDA|Xid \(PCI|invalid device ordinal|system not yet initialized"
        r"|GPU is lost"
        r"|fallen off the bus",
        _gpu(_device),
    ),
    rule(
        r"ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidUsage"
        r"|NCCL error: (?:unhandled|internal|invalid)",
        says(CauseClass.NCCL_FAILURE, Blame.ENVIRONMENT),
        Weight.LIKELY,
    ),
    rule(
        r"(?:NCCL error|ncclRemoteError|DistBackendError)(?!.*remote process exited)"
        r"|ProcessGroupNCCL.{0,200}(?:timed? ?out|terminated with exception)",
        says(CauseClass.NCCL_FAILURE, Blame.ENVIRONMENT),
        Weight.SYMPTOM,
    ),
    rule(
        r"Fatal Python error: |Segfault encountered|Segmentation fault|SIGSEGV|SIGILL|SIGBUS"
        r"|Illegal instruction|Bus error|core dumped",
        says(CauseClass.NATIVE_CRASH, Blame.ENVIRONMENT),
        Weight.LIKELY,
    ),
    rule(
        r"No space left on device|Errno 28\b|Disk quota exceeded",
        says(CauseClass.DISK_FULL, Blame.ENVIRONMENT),
        Weight.LIKELY,
    ),
    rule(
        r"[Aa]ddress already in use|error while attempting to bind on address|Errno 98\b",
        says(CauseClass.ADDRESS_IN_USE, Blame.ENVIRONMENT, Stage.INIT),
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        r"(?:ImportError|ModuleNotFoundError|OSError): .{0,200}(?:cannot open shared object file"
        r"|undefined symbol|version `\w[\w.]*' not found)|^(?:ImportError|ModuleNotFoundError): "
        r"|'_OpNamespace' '\w+' object has no attribute|operator \w+::\w+ does not exist"
        r"|exec format error|PackageNotFoundError|GLIBC\w*_[\d.]+' not found"
        r"|compiled using NumPy 1|numpy\.dtype size changed",
        says(CauseClass.BROKEN_BUILD, Blame.ENVIRONMENT),
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        r"MemoryError(?::|$)|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory"
        r"|Errno 12\b|std::bad_alloc|unable to (?:mmap|open shared memory object)",
        says(CauseClass.HOST_OUT_OF_MEMORY, Blame.ENVIRONMENT),
        Weight.LIKELY,
    ),
    rule(
        r"^Killed$|oom-kill|Out of memory: Killed process|Memory cgroup out of memory"
        r"|(?:exit code: |exitcode[=: ]+|'[\w.\- ]+': )-9\b",
        says(CauseClass.HOST_OUT_OF_MEMORY, Blame.ENVIRONMENT),
        Weight.SYMPTOM,
    ),
    rule(
        r"(?:exit code: |exitcode[=: ]+|'[\w.\- ]+': )-(?:4|6|7|8|11)\b",
        says(CauseClass.NATIVE_CRASH, Blame.ENVIRONMENT),
        Weight.SYMPTOM,
    ),
    rule(
        r"Timed out waiting for (?:new )?engine(?: core processes|s to send)",
        says(CauseClass.START_TIMED_OUT, Blame.ENVIRONMENT),
        Weight.SYMPTOM,
        at_runtime=False,
    ),
)
