"""One line for each class: what a person can do."""

from parkade.rollout.causes.cause import CauseClass, RootCause

_C = CauseClass
_TEXTS: dict[CauseClass, str] = {
    _C.FREE_MEMORY_BELOW_UTILIZATION: "leave more headroom (a smaller gpu_memory_utilization)",
    _C.KV_BELOW_ONE_REQUEST: "lower max_model_len, leave less headroom, or use more GPUs a pod",
    _C.MAX_LEN_EXCEEDS_KV_TOKENS: "lower max_model_len, leave less headroom, or use more GPUs a "
    "pod",
    _C.NO_CACHE_BLOCKS: "leave less headroom, lower max_num_seqs or max_num_batched_tokens, or use "
    "more GPUs a pod: the weights and activations leave nothing for the KV cache",
    _C.MAX_NUM_SEQS_EXCEEDS_MAMBA_BLOCKS: "lower max_num_seqs",
    _C.MAX_NUM_SEQS_EXCEEDS_BATCHED_TOKENS: "lower max_num_seqs or raise max_num_batched_tokens",
    _C.MAX_NUM_SEQS_BELOW_ACTIVE_SEQS: "raise max_num_seqs or lower --max-num-active-seqs",
    _C.OOM_WEIGHTS: "the model does not fit this GPU: use more GPUs a pod (tensorParallelSize), a "
    "larger card, or a quantised checkpoint",
    _C.OOM_DURING_PROFILE: "lower max_num_seqs or max_num_batched_tokens; more headroom does not "
    "help",
    _C.OOM_KV_ALLOCATION: "leave more headroom (a smaller gpu_memory_utilization)",
    _C.OOM_CUDAGRAPH_CAPTURE: "leave more headroom for CUDA graphs and workspaces",
    _C.OOM_SAMPLER_WARMUP: "lower max_num_seqs, or leave more headroom",
    _C.STARTED_THEN_OOM_AT_RUNTIME: "leave more headroom, or lower max_num_batched_tokens",
    _C.STARTED_THEN_OOM_AT_WAKE_UP: "another process took the GPU's memory during sleep: keep the "
    "GPU to one engine, or start it again when the memory is free",
    _C.KERNEL_ERROR_IN_PROFILE_RUN: "check that image, driver and GPU match, or choose another "
    "attention backend; other settings do not help",
    _C.STARTED_THEN_KERNEL_ERROR_AT_FIRST_REQUEST: "check that image, driver and GPU match, or "
    "choose another attention backend; other settings do not help",
    _C.CUDA_ERROR_IN_ENGINE_INIT: "check the GPU and its driver on this node",
    _C.CUBLAS_FAILURE_IN_PROFILE_RUN: "check that image, driver and GPU match",
    _C.ILLEGAL_MEMORY_ACCESS_IN_PROFILE_RUN: "a kernel is at fault: try another engine version or "
    "attention backend",
    _C.NCCL_FAILURE: "check the links between the GPUs, /dev/shm and NCCL's settings",
    _C.BROKEN_BUILD: "the image lacks a library or holds one that does not match: use another "
    "image",
    _C.NATIVE_CRASH: "native code crashed: check image, driver, GPU and the size of /dev/shm",
    _C.MEMORY_CHANGED_WHILE_PROFILING: "another process freed GPU memory meanwhile: try again, and "
    "keep the GPU to one engine",
    _C.DISK_FULL: "free or enlarge the volume (cache, model, /dev/shm) that is full",
    _C.ADDRESS_IN_USE: "another process holds the port: give the engine its own",
    _C.START_TIMED_OUT: "a part of the engine did not come up in time: look for what it waits for",
    _C.BAD_ARGUMENTS: "correct the engine's arguments",
    _C.UNSUPPORTED_MODEL: "use an engine version that knows this model, or another model",
    _C.MISSING_MODEL: "correct the model's name, revision or path, and see that its files are "
    "there",
    _C.PERMISSION_DENIED: "give the engine's user a home and a cache that it may write (HOME, "
    "HF_HOME on a volume, fsGroup) and a model that it may read",
    _C.MISSING_SECRET: "create the Secret or ConfigMap that the pod names, or correct the name",
    _C.LICENCE_OR_HUB: "accept the model's licence and check the token; if the hub is down, wait "
    "or "
    "serve the model from a volume",
    _C.IMAGE_PULL: "check the image's name, its registry and the pull secrets",
    _C.CONTAINER_START: "the container runtime refused: check command, volumes and the GPU runtime",
    _C.SCHEDULING: "no node has room for the pod: free a GPU or add a node",
    _C.QUOTA: "raise the namespace's quota or lower the request",
    _C.EVICTION: "the node or a more important pod needed the room: check pressure and priorities",
    _C.NODE_LOST: "the node went away: wait, or replace it",
    _C.PROBE_KILLED: "it was ended from outside while it started or served: allow more time "
    "(rollout.startDeadlineSeconds; in a Deployment of your own, startupProbe.failureThreshold)",
    _C.HOST_OUT_OF_MEMORY: "give the pod more memory (it counts /dev/shm too); GPU settings do not "
    "help",
    _C.STOPPED_BY_REQUEST: "nothing: the pod was asked to stop",
    _C.UNKNOWN: "read the log above the key lines; nothing is blamed for it",
}
UNKNOWN_AT_RUNTIME = (
    "nothing in the log says why it ended; host memory is the usual reason, so look at the pod's "
    "memory and the node's kernel log"
)


def remedy(cause: RootCause) -> str:
    """Return what to do, with the engine's own bound where it named one."""
    text = _TEXTS[cause.cause_class]
    if cause.cause_class is _C.FREE_MEMORY_BELOW_UTILIZATION and cause.blame != "settings":
        return "something else holds the GPU's memory, often the predecessor: wait until it is gone"
    if cause.max_num_seqs_at_most is not None and cause.knob == "max_num_seqs":
        bound = f"lower max_num_seqs to at most {cause.max_num_seqs_at_most}"
        return text.replace("lower max_num_seqs", bound, 1)
    if cause.estimated_max_model_len is not None:
        return f"{text} (a length of {cause.estimated_max_model_len} tokens would fit)"
    return text
