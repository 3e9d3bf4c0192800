"""GPU memory: what the two knobs can cause, and what only looks like it.

Texts: ``vllm/v1/worker/utils.py`` (request_memory), ``vllm/v1/core/kv_cache_utils.py`` and since
0.33 ``kv_cache_planning.py``, ``vllm/v1/worker/gpu_model_runner.py`` (sampler and pooler
warm-up), ``vllm/config/compilation.py`` (Mamba blocks), ``vllm/config/scheduler.py``, read from
0.10.2 to 0.33.0, and the older V0 ones.
"""

import re

from parkade.rollout.causes.cause import Blame, CauseClass, Knob, RootCause, Stage
from parkade.rollout.causes.figures import count, gib, number
from parkade.rollout.causes.rules import Finding, Rule, Weight, rule, says
from parkade.rollout.causes.stages import Scene
from parkade.rollout.causes.torch_memory import (
    MIN_FREE_SHARE,
    TRIED,
    held_by_others,
    is_whole,
    tried_minus_free,
)

_MAPPED = re.compile(r"CUDA Error: out of memory at |cumem_allocator")
"""The allocator of sleep mode (``csrc/cumem_allocator.cpp``); at run time only waking asks it."""

_NEEDED = re.compile(r"([\d.]{1,15}) ?GiB KV cache is needed")
_AVAILABLE = re.compile(r"available KV cache memory \((-?[\d.]{1,15}) ?GiB")
_POOL = re.compile(r"(?:Available KV cache memory: |reserved for KV Cache is )(-?[\d.]{1,15}) ?GiB")

OUT_OF_MEMORY = re.compile(
    r"(?:CUDA|HIP|XPU) (?:error: |Error: )?out of memory|Tried to allocate [\d.]+ ?[KMGT]?i?B"
    r"|Cuda failure (?:\d+ )?'out of memory'|cudaErrorMemoryAllocation"
    r"|(?<!ray\.exceptions\.)\bOutOfMemoryError\b|CUDA driver error: out of memory"
    r"|OUT_OF_DEVICE_MEMORY"
    r"|Cuda error \S{1,200} 'out of memory'"
    r"|Triton Error \[(?:CUDA|HIP)\]: out of memory|hipErrorOutOfMemory|CUDA_ERROR_OUT_OF_MEMORY"
)
_DISPATCH = r'torch_call_dispatcher\( ?"aten::(?:new_)?(?:empty|zeros|full)'

_BY_STAGE = {
    Stage.LOAD: (CauseClass.OOM_WEIGHTS, Blame.USER, None),
    Stage.PROFILE: (CauseClass.OOM_DURING_PROFILE, Blame.SETTINGS, Knob.MAX_NUM_SEQS),
    Stage.KV: (CauseClass.OOM_KV_ALLOCATION, Blame.SETTINGS, Knob.HEADROOM),
    Stage.GRAPHS: (CauseClass.OOM_CUDAGRAPH_CAPTURE, Blame.SETTINGS, Knob.HEADROOM),
    Stage.WARMUP: (CauseClass.OOM_SAMPLER_WARMUP, Blame.SETTINGS, Knob.MAX_NUM_SEQS),
    Stage.RUNTIME: (CauseClass.STARTED_THEN_OOM_AT_RUNTIME, Blame.SETTINGS, Knob.HEADROOM),
}


def free_memory(finding: Finding, scene: Scene) -> RootCause:
    """Less free than requested: settings, unless the card was not ours to begin with."""
    seen = (finding.match, *finding.siblings)
    shares = [share for match in seen if (share := _free_share(match)) is not None]
    if scene.container.predecessor_on_gpu or any(share < MIN_FREE_SHARE for share in shares):
        blame = Blame.ENVIRONMENT
    else:
        blame = Blame.SETTINGS if shares else Blame.UNKNOWN
    short = [difference(match["requested"], match["free"]) for match in seen]
    return RootCause(
        CauseClass.FREE_MEMORY_BELOW_UTILIZATION,
        blame,
        stage=Stage.INIT,
        knob=Knob.HEADROOM if blame is Blame.SETTINGS else None,
        shortfall_bytes=max((value for value in short if value is not None), default=None),
    )


def _free_share(match: re.Match[str]) -> float | None:
    free, total = number(match["free"]), number(match["total"])
    if free is None or not total or free < 0 or free > total:
        return None
    return free / total


def difference(larger: str | None, smaller: str | None) -> int | None:
    """Return the bytes by which one figure in GiB exceeds another, if it does."""
    high, low = gib(larger), gib(smaller, signed=True)
    return high - low if high is not None and low is not None and high > low else None


def _kv_short(finding: Finding, scene: Scene) -> RootCause:
    """One request of the maximum length needs more than the pool."""
    text = scene.lines[finding.index].text
    needed, available = _NEEDED.search(text), _AVAILABLE.search(text)
    length = re.search(r"estimated maximum model length is (\d{1,15})", text)
    return RootCause(
        CauseClass.KV_BELOW_ONE_REQUEST,
        Blame.SETTINGS,
        stage=Stage.KV,
        shortfall_bytes=difference(needed[1], available[1]) if needed and available else None,
        estimated_max_model_len=count(length[1]) if length else None,
    )


def _no_blocks(finding: Finding, scene: Scene) -> RootCause:
    """Nothing is left for the pool."""
    _ = finding
    return empty_pool(scene)


def empty_pool(scene: Scene) -> RootCause:
    """By how much follows from the pool's own line, which is then negative."""
    short = pool_bytes(scene)
    return RootCause(
        CauseClass.NO_CACHE_BLOCKS,
        Blame.SETTINGS,
        stage=Stage.KV,
        shortfall_bytes=-short if short is not None and short < 0 else None,
    )


def pool_bytes(scene: Scene) -> int | None:
    """Return the smallest pool that a rank printed."""
    found = (_POOL.search(line.text) for line in scene.lines)
    pools = [gib(match[1], signed=True) for match in found if match]
    return min((pool for pool in pools if pool is not None), default=None)


def _mamba(finding: Finding, scene: Scene) -> RootCause:
    """More sequences than state blocks; the engine names the bound."""
    _ = scene
    return RootCause(
        CauseClass.MAX_NUM_SEQS_EXCEEDS_MAMBA_BLOCKS,
        Blame.SETTINGS,
        stage=Stage.GRAPHS,
        knob=Knob.MAX_NUM_SEQS,
        max_num_seqs_at_most=count(finding.match["blocks"]),
    )


def _batched_tokens(finding: Finding, scene: Scene) -> RootCause:
    _ = scene
    return RootCause(
        CauseClass.MAX_NUM_SEQS_EXCEEDS_BATCHED_TOKENS,
        Blame.SETTINGS,
        stage=Stage.INIT,
        knob=Knob.MAX_NUM_SEQS,
        max_num_seqs_at_most=count(finding.match["tokens"]),
    )


def _sampler(finding: Finding, scene: Scene) -> RootCause:
    """Find the figures, which stand in the chained error before the warm-up's own text."""
    near = scene.lines[max(0, finding.index - 400) : finding.index]
    texts = [line.text for line in near if TRIED.search(line.text)]
    return RootCause(
        CauseClass.OOM_SAMPLER_WARMUP,
        Blame.SETTINGS,
        stage=Stage.WARMUP,
        knob=Knob.MAX_NUM_SEQS,
        shortfall_bytes=tried_minus_free(texts[-1]) if texts else None,
    )


def _out_of_memory(finding: Finding, scene: Scene) -> RootCause | None:
    """Let the stage decide what a bare out-of-memory means; else nothing does."""
    text = scene.lines[finding.index].text
    stage = scene.stage_at(finding.index)
    every = (finding.match, *finding.siblings)
    short = max((x for m in every if (x := tried_minus_free(m.string))), default=None)
    mapped = stage is Stage.RUNTIME and _MAPPED.search(text)
    if mapped or "wake_up" in scene.frames(finding.index):
        return RootCause(
            CauseClass.STARTED_THEN_OOM_AT_WAKE_UP,
            Blame.ENVIRONMENT,
            stage=Stage.RUNTIME,
            shortfall_bytes=short,
        )
    if stage is Stage.INIT:
        return RootCause(CauseClass.CUDA_ERROR_IN_ENGINE_INIT, Blame.ENVIRONMENT, stage=stage)
    if "Cuda failure" in text and scene.is_teardown(finding.index):
        return None
    if "Cuda failure" in text and stage in {Stage.LOAD, None}:
        # NCCL sets up before the weights: what it misses, somebody else holds.
        return RootCause(CauseClass.NCCL_FAILURE, Blame.ENVIRONMENT, stage=Stage.INIT)
    if stage is None:
        return RootCause(CauseClass.UNKNOWN, Blame.UNKNOWN, shortfall_bytes=short)
    cause_class, blame, knob = _BY_STAGE[stage]
    if held_by_others(text) or scene.container.predecessor_on_gpu:
        blame, knob = Blame.ENVIRONMENT, None
    elif _is_cut(finding, scene):
        blame, knob = Blame.UNKNOWN, None
    return RootCause(cause_class, blame, stage=stage, knob=knob, shortfall_bytes=short)


def _load_failure(finding: Finding, scene: Scene) -> RootCause:
    """Read the V1 runner's own words (since 0.13), with torch's error in them."""
    text = scene.lines[finding.index].text
    others = held_by_others(text) or bool(scene.container.predecessor_on_gpu)
    return RootCause(
        CauseClass.OOM_WEIGHTS,
        Blame.ENVIRONMENT if others else Blame.USER,
        stage=Stage.LOAD,
        shortfall_bytes=tried_minus_free(text),
    )


def _is_cut(finding: Finding, scene: Scene) -> bool:
    """Whether the log ends inside this line's sentence, before it says who holds the memory."""
    text = scene.lines[finding.index].text.rstrip()
    last = finding.index == len(scene.lines) - 1
    return last and "OutOfMemoryError" in text and not is_whole(text)


def _dispatcher(finding: Finding, scene: Scene) -> RootCause | None:
    """Read what an extension says that could not get a new tensor."""
    return (
        _out_of_memory(finding, scene) if scene.stage_at(finding.index) is Stage.RUNTIME else None
    )


def _cublas(finding: Finding, scene: Scene) -> RootCause | None:
    """Read an allocation that cuBLAS could not get: beside a full pool that is want of memory."""
    stage = scene.stage_at(finding.index)
    if stage in {Stage.KV, Stage.GRAPHS, Stage.WARMUP, Stage.RUNTIME}:
        return _out_of_memory(finding, scene)
    return RootCause(CauseClass.CUBLAS_FAILURE_IN_PROFILE_RUN, Blame.ENVIRONMENT, stage=stage)


_FREE = r"Free memory on device (?:\S{1,20} )?\((?P<free>[\d.]{1,15})/(?P<total>[\d.]{1,15}) ?GiB\)"
_LESS = (
    r" on startup is less than(?: (?:desired GPU memory utilization|the engine's budget"
    r"(?: after excluding external process's weights)?) \([\d.]+, (?P<requested>[\d.]{1,15}) GiB)?"
)
_CUT_SHORT = r"(?! on startup\. )(?P<requested>(?!))?"

RULES: tuple[Rule, ...] = (
    rule(_FREE + _LESS, free_memory, at_runtime=False),
    rule("ValueError: " + _FREE + _CUT_SHORT, free_memory, at_runtime=False),
    rule(
        r"To serve at least one request|GiB KV cache is needed, which is larger",
        _kv_short,
        at_runtime=False,
    ),
    rule(
        r"Cannot auto-fit max_model_len",
        says(CauseClass.KV_BELOW_ONE_REQUEST, Blame.SETTINGS, Stage.KV),
        at_runtime=False,
    ),
    rule(
        r"max seq(?:uence)? len(?:gth)? \(\d+\) is larger than the maximum number of tokens",
        says(CauseClass.MAX_LEN_EXCEEDS_KV_TOKENS, Blame.SETTINGS, Stage.KV),
        at_runtime=False,
    ),
    rule(
        r"Externally held weights on device \S{1,20} \(.{1,60} exceed the desired",
        says(CauseClass.NO_CACHE_BLOCKS, Blame.SETTINGS, Stage.INIT),
        at_runtime=False,
    ),
    rule(
        r"No available memory for the c|ValueError: No available mem(?:ory(?: for(?: the)?)?)?\W*$",
        _no_blocks,
        at_runtime=False,
    ),
    rule(
        r"max_num_seqs \(\d+\) exceeds(?: available Mamba cache blocks \((?P<blocks>\d+)\))?",
        _mamba,
        at_runtime=False,
    ),
    rule(
        r"max_num_batched_tokens \((?P<tokens>\d+)\) must be greater than or equal to max_num_seqs",
        _batched_tokens,
        at_runtime=False,
    ),
    rule(
        r"max_num_active_seqs \(\d+\) cannot be greater than max_num_seqs",
        says(CauseClass.MAX_NUM_SEQS_BELOW_ACTIVE_SEQS, Blame.SETTINGS, Stage.INIT),
        at_runtime=False,
    ),
    rule(r"out of memory occurred when warming up (?:sampler|pooler)", _sampler, at_runtime=False),
    rule(
        r"Failed to load model - not enough GPU memory",
        _load_failure,
        at_runtime=False,
    ),
    rule(OUT_OF_MEMORY.pattern, _out_of_memory),
    rule(_DISPATCH, _dispatcher),
    rule(r"CUBLAS_STATUS_ALLOC_FAILED", _cublas),
    rule(
        r"Error in memory profiling\.",
        says(CauseClass.MEMORY_CHANGED_WHILE_PROFILING, Blame.ENVIRONMENT, Stage.PROFILE),
        Weight.LIKELY,
        at_runtime=False,
    ),
)
