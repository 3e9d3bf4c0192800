"""The values of the root-cause classifier: what it is given, and what it answers.

The judge, the event, the history and ``parkade classify`` all speak these words. The names of
the classes are the ones that operators of engines use for the failure, one per remedy.
"""

from dataclasses import dataclass
from enum import StrEnum


class Blame(StrEnum):
    """Who can make it go away. Only ``settings`` may quarantine anything."""

    SETTINGS = "settings"
    """The two knobs and what they imply: another value starts."""

    ENVIRONMENT = "environment"
    """Node, driver, image, cluster, neighbour: the same settings may start later or elsewhere."""

    USER = "user"
    """Model, arguments, secrets: the specification has to change."""

    UNKNOWN = "unknown"
    """Cannot tell. Blames nothing."""


class Stage(StrEnum):
    """How far the engine had come. ``None`` in a cause means that the text does not say."""

    INIT = "init"
    """Before the weights: arguments, devices, the check of free memory."""

    LOAD = "load"
    """Weights are being loaded."""

    PROFILE = "profile"
    """The profile run; the size of the KV cache is not yet known."""

    KV = "kv"
    """The KV cache is planned or allocated."""

    GRAPHS = "graphs"
    """CUDA graphs and kernels are captured or warmed up beside the full KV cache."""

    WARMUP = "warmup"
    """The sampler's or pooler's warm-up, the last step of a start."""

    RUNTIME = "runtime"
    """After the start."""


class Knob(StrEnum):
    """The knob whose change helps. ``None`` in a cause: neither does."""

    HEADROOM = "headroom"
    """More headroom, that is a smaller ``gpu_memory_utilization``."""

    MAX_NUM_SEQS = "max_num_seqs"
    """A smaller ``max_num_seqs``."""


class CauseClass(StrEnum):
    """What happened. Each class has one blame, unless its docstring says when it differs."""

    FREE_MEMORY_BELOW_UTILIZATION = "free_memory_below_utilization"
    """Less was free at start than asked for. Settings; environment where less than 85 % of the
    card was free, or where a predecessor is known to hold the GPU."""

    KV_BELOW_ONE_REQUEST = "kv_below_one_request"
    """The KV cache cannot hold one request of the maximum length. Settings, but no knob of
    tuning makes it fit: the user chooses a shorter length or less headroom."""

    MAX_LEN_EXCEEDS_KV_TOKENS = "max_len_exceeds_kv_tokens"
    """The same, in the words of the older engine. Settings."""

    NO_CACHE_BLOCKS = "no_cache_blocks"
    """Nothing is left for the KV cache. Settings."""

    MAX_NUM_SEQS_EXCEEDS_MAMBA_BLOCKS = "max_num_seqs_exceeds_mamba_blocks"
    """More sequences than blocks of constant state. Settings."""

    MAX_NUM_SEQS_EXCEEDS_BATCHED_TOKENS = "max_num_seqs_exceeds_batched_tokens"
    """``max_num_seqs`` above ``max_num_batched_tokens``. Settings."""

    MAX_NUM_SEQS_BELOW_ACTIVE_SEQS = "max_num_seqs_below_active_seqs"
    """``max_num_seqs`` below the user's ``max_num_active_seqs``. Settings; a larger value helps."""

    OOM_WEIGHTS = "oom_weights"
    """Out of GPU memory while loading. User: the model does not fit this card."""

    OOM_DURING_PROFILE = "oom_during_profile"
    """Out of GPU memory in the profile run. Settings: fewer sequences help, headroom does not."""

    OOM_KV_ALLOCATION = "oom_kv_allocation"
    """Out of GPU memory while the planned KV cache was allocated. Settings."""

    OOM_CUDAGRAPH_CAPTURE = "oom_cudagraph_capture"
    """Out of GPU memory between the KV cache and the end of graph capture. Settings."""

    OOM_SAMPLER_WARMUP = "oom_sampler_warmup"
    """Out of GPU memory in the sampler's or pooler's warm-up. Settings."""

    STARTED_THEN_OOM_AT_RUNTIME = "started_then_oom_at_runtime"
    """Out of GPU memory while serving. Settings."""

    STARTED_THEN_OOM_AT_WAKE_UP = "started_then_oom_at_wake_up"
    """Out of GPU memory on waking from sleep mode: a neighbour took it. Environment."""

    KERNEL_ERROR_IN_PROFILE_RUN = "kernel_error_in_profile_run"
    """A kernel could not be built or run during the start. Environment."""

    STARTED_THEN_KERNEL_ERROR_AT_FIRST_REQUEST = "started_then_kernel_error_at_first_request"
    """The same, while serving. Environment."""

    CUDA_ERROR_IN_ENGINE_INIT = "cuda_error_in_engine_init"
    """The device or its driver refused. Environment."""

    CUBLAS_FAILURE_IN_PROFILE_RUN = "cublas_failure_in_profile_run"
    """A cuBLAS call failed during the start. Environment."""

    ILLEGAL_MEMORY_ACCESS_IN_PROFILE_RUN = "illegal_memory_access_in_profile_run"
    """A kernel touched memory that is not its own, during the start. Environment."""

    NCCL_FAILURE = "nccl_failure"
    """The GPUs could not talk to each other. Environment."""

    BROKEN_BUILD = "broken_build"
    """A library or an extension of the image is missing or does not match. Environment."""

    NATIVE_CRASH = "native_crash"
    """Segmentation fault, illegal instruction, bus error. Environment."""

    MEMORY_CHANGED_WHILE_PROFILING = "memory_changed_while_profiling"
    """Another process freed GPU memory during the profile run. Environment."""

    DISK_FULL = "disk_full"
    """No space left on a volume or in shared memory. Environment."""

    ADDRESS_IN_USE = "address_in_use"
    """The port is taken. Environment."""

    START_TIMED_OUT = "start_timed_out"
    """The engine gave up waiting for its own processes. Environment."""

    BAD_ARGUMENTS = "bad_arguments"
    """Arguments that the engine refuses. User."""

    UNSUPPORTED_MODEL = "unsupported_model"
    """An architecture or a format that this engine does not know. User."""

    MISSING_MODEL = "missing_model"
    """The model, its revision or its files are not there. User."""

    PERMISSION_DENIED = "permission_denied"
    """A file or directory (cache, home, model) may not be read or written. User."""

    MISSING_SECRET = "missing_secret"  # noqa: S105  the name of a class, not a secret
    """A Secret or ConfigMap that the pod names is not there. User."""

    LICENCE_OR_HUB = "licence_or_hub"
    """The hub refused (licence, token: user) or could not be reached (environment)."""

    IMAGE_PULL = "image_pull"
    """The image could not be pulled. Environment; user where the name is not valid."""

    CONTAINER_START = "container_start"
    """The runtime could not create or start the container. Environment."""

    SCHEDULING = "scheduling"
    """No node takes the pod. Environment."""

    QUOTA = "quota"
    """A quota or a limit range refused the pod. Environment."""

    EVICTION = "eviction"
    """The pod was evicted or preempted. Environment."""

    NODE_LOST = "node_lost"
    """The node went away or shut down. Environment."""

    PROBE_KILLED = "probe_killed"
    """A probe, not the engine, ended it. Environment."""

    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    """The kernel killed it for the memory of the host or the container. Environment."""

    STOPPED_BY_REQUEST = "stopped_by_request"
    """Deletion of the pod had been asked for. Environment: nothing failed."""

    UNKNOWN = "unknown"
    """The evidence does not say."""


@dataclass(frozen=True, slots=True)
class ContainerEvidence:
    """What Kubernetes says of one terminated (or waiting) engine container."""

    exit_code: int | None = None
    """``state.terminated.exitCode``."""

    reason: str = ""
    """``state.terminated.reason`` (OOMKilled, Error, Completed), else the pod's own reason."""

    message: str = ""
    """``state.terminated.message``: with FallbackToLogsOnError the last 2 KB of the log."""

    waiting_reason: str = ""
    """``state.waiting.reason`` (ImagePullBackOff, CreateContainerConfigError, ...)."""

    events: tuple[tuple[str, str], ...] = ()
    """(reason, message) of the pod's events, and of its ReplicaSet's where no pod came."""

    ready_before: bool = False
    """This very container had been Ready before it ended."""

    deletion_requested: bool = False
    """The pod carries a deletion timestamp: somebody asked for its end."""

    predecessor_on_gpu: bool | None = None
    """Another pod still held the GPU when this one started; ``None`` where it is not known."""


@dataclass(frozen=True, slots=True)
class RootCause:
    """The answer. Every text is one line, bounded, and free of secrets and control characters."""

    cause_class: CauseClass
    blame: Blame
    stage: Stage | None = None
    knob: Knob | None = None
    message: str = ""
    """The engine's (or the kubelet's) own error."""

    shortfall_bytes: int | None = None
    """By how much memory was too small, from the figures in the text; rounded as printed."""

    remedy: str = ""
    """What to do, in one line."""

    key_lines: tuple[str, ...] = ()
    """The lines that decided."""

    max_num_seqs_at_most: int | None = None
    """The bound that the engine itself names, where it does."""

    estimated_max_model_len: int | None = None
    """The length in tokens that would fit, where the engine names it."""


def unknown(message: str = "", remedy: str = "", key_lines: tuple[str, ...] = ()) -> RootCause:
    """Return the answer that decides nothing."""
    return RootCause(
        CauseClass.UNKNOWN, Blame.UNKNOWN, message=message, remedy=remedy, key_lines=key_lines
    )
