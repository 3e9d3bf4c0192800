"""What GPU, driver, kernels, links between GPUs and native code do to an engine, in its log."""

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


def _nccl(finding: Finding, scene: Scene) -> RootCause | None:
    """Tell that the GPUs could not talk, unless the groups were being taken down already."""
    if scene.is_teardown(finding.index):
        return None
    return RootCause(CauseClass.NCCL_FAILURE, Blame.ENVIRONMENT)


_CUDA = r"(?:CUDA|HIP|XPU)"
_KERNEL_ERRORS = (
    r"no kernel image is available|device kernel image is invalid|unspecified launch failure"
    r"|invalid device function|device-side assert|misaligned address|too many resources requested"
    r"|PTX was compiled|unsupported toolchain|named symbol not found|invalid configuration argument"
)

RULES: tuple[Rule, ...] = (
    rule(
        r"CUBLAS_STATUS_\w+|cublas(?:Lt)?\w* (?:failed|error)|HIPBLAS_STATUS_\w+",
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
        r"|Error in function '\w+' at .{0,200}flashinfer"
        r"|Assertion (?:failed|error)[: ].{0,200}(?:deep_gemm|DeepGEMM|csrc|jit_kernels|\.[ch]pp:)"
        r"|[Hh]ead[ _]size \d+ is not supported|No valid attention backend|Triton is not available"
        r"|cuDNN (?:Frontend )?error|CUDNN_STATUS_\w+"
        r"|[Ff]lash ?[Aa]ttention(?:-\d)? (?:only supports|requires|build does not support)"
        r"|No operator found for `|unable to find an engine to execute"
        r"|DeepGEMM backend is not available|No \w{1,20} MoE backend supports|Failed: Cuda error "
        r"|type fp8e4nv not supported|Could not find nvcc|cutlass_\w+, ",
        _gpu(_always(CauseClass.KERNEL_ERROR_IN_PROFILE_RUN)),
    ),
    rule(
        r"InductorError|BackendCompilerFailed|torch\._dynamo\.exc\.",
        _gpu(_always(CauseClass.KERNEL_ERROR_IN_PROFILE_RUN)),
        Weight.LIKELY,
    ),
    rule(
        rf"{_CUDA} (?:error|Error): (?!out of)|AcceleratorError: |{_CUDA} driver (?:error"
        r"|version is insufficient|initialization failed)|The NVIDIA driver on"
        r"|Found no NVIDIA driver|no CUDA-capable device|No CUDA GPUs are available"
        r"|CUDA unknown error|CUDA initialization: |cudaGetDeviceCount\(\)|Failed to infer "
        r"device type"
        r"|Device string must not be empty|CUDA_ERROR_(?!OUT_OF_MEMORY)|NVMLError|uncorrectable ECC"
        r"|Cannot re-initialize CUDA|Xid \(PCI|invalid device ordinal|system not yet initialized"
        r"|GPU is lost|NVML_SUCCESS|Driver/library version mismatch"
        r"|libcuda\.so cannot found|has no [GT]PU available|UVA is not available"
        r"|fallen off the bus",
        _gpu(_device),
    ),
    rule(
        r"ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidUsage"
        r"|Gloo connectFullMesh failed|NCCL error: (?:unhandled|internal|invalid)",
        _nccl,
        Weight.LIKELY,
    ),
    rule(
        r"(?:NCCL error|ncclRemoteError|DistBackendError)(?!.*remote process exited)"
        r"|ProcessGroupNCCL.{0,200}(?:timed? ?out|terminated with exception)",
        _nccl,
        Weight.SYMPTOM,
    ),
    rule(
        r"Fatal Python error: |Segfault encountered|Segmentation fault|SIGSEGV|SIGILL|SIGBUS"
        r"|Illegal instruction|Bus error|core dumped",
        says(CauseClass.NATIVE_CRASH, Blame.ENVIRONMENT),
        Weight.LIKELY,
    ),
    rule(
        r"(?:exit code: |exitcode[=: ]+|'[\w.\- ]+': )-(?:4|6|7|8|11)\b",
        says(CauseClass.NATIVE_CRASH, Blame.ENVIRONMENT),
        Weight.SYMPTOM,
    ),
    rule(
        r"Timed out waiting for (?:new )?engine(?: core processes|s to send)"
        r"|Timed out after \d+ seconds waiting for clients"
        r"|Did not receive response from front-end process",
        says(CauseClass.START_TIMED_OUT, Blame.ENVIRONMENT),
        Weight.SYMPTOM,
        at_runtime=False,
    ),
)
