"""What the engine decides before it looks at single layers: formats, modes, block size.

Source: vllm/config/vllm.py, vllm/model_executor/models/config.py and ``_align_hybrid_block_size``
(vllm/platforms/interface.py), 0.32.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import TypeGuard

from parkade.sizing.architecture.model import (
    AttentionCache,
    Cache,
    GatedDeltaState,
    IndexerCache,
    MLACache,
    ModelArchitecture,
    State,
)
from parkade.sizing.planner.dtypes import (
    DS_MLA_ROW_BYTES,
    attention_token_bytes,
    is_quantized,
    mla_token_bytes,
)
from parkade.sizing.planner.options import ASYNC_METHODS, DEFAULT_BLOCK_SIZE, EngineOptions
from parkade.sizing.planner.refusal import Refusal
from parkade.sizing.planner.specs import cdiv
from parkade.sizing.planner.states import StateLayout, state_layout
from parkade.sizing.planner.versions import Rules, rules_for


@dataclass(frozen=True, slots=True)
class Setting:
    """Options with every choice made that the engine makes before it looks at layers.

    ``checkpoints_assumed`` says that the plan depends on the prefill kernel of Gated DeltaNet.
    """

    options: EngineOptions
    rules: Rules
    model: ModelArchitecture
    kv_cache_dtype: str
    mamba_cache_mode: str
    in_flight_tokens: int
    block_size: int
    checkpoints_assumed: bool
    mamba_page_size_padded: int | None = None

    @property
    def tp(self) -> int:
        """Return the tensor parallel size."""
        return self.options.tensor_parallel_size


def resolve(model: ModelArchitecture, options: EngineOptions) -> Setting:
    """Make every choice that the options leave to the engine; raise Refusal where it stops."""
    rules = rules_for(options.vllm_version)
    if rules is None:
        raise Refusal(f"vllm_version {options.vllm_version!r} is no version")
    check_split(model, options.tensor_parallel_size)
    mode = _mamba_cache_mode(model, options, rules)
    setting = Setting(
        options=options,
        rules=rules,
        model=model,
        kv_cache_dtype=_resolved_dtype(model, options.kv_cache_dtype),
        mamba_cache_mode=mode,
        checkpoints_assumed=mode == "align"
        and rules.gated_delta_checkpoint_alignment is not None
        and any(isinstance(cache, GatedDeltaState) for cache in model.distinct_caches),
        in_flight_tokens=_in_flight_tokens(options, rules),
        block_size=options.block_size or _default_block_size(model, options),
    )
    return _aligned(setting) if model.is_hybrid else setting


def _default_block_size(model: ModelArchitecture, options: EngineOptions) -> int:
    """Return 16, or the smallest block that every kernel accepts.

    A sparse indexer reads blocks of one size, which the others then share
    (``_preferred_block_size_for_backends``, vllm/platforms/interface.py).
    """
    kernels = {cache.kernel_block for cache in model.distinct_caches if is_indexer(cache)}
    smallest = lcm(options.kernel_block_alignment, *kernels)
    return DEFAULT_BLOCK_SIZE if DEFAULT_BLOCK_SIZE % smallest == 0 else smallest


def check_split(model: ModelArchitecture, tp: int) -> None:
    """Refuse attention heads that tensor parallelism cannot divide, as the engine does."""
    if model.num_attention_heads % tp:
        raise Refusal(
            f"{model.num_attention_heads} attention heads cannot be divided by "
            f"tensor_parallel_size {tp}"
        )


def _resolved_dtype(model: ModelArchitecture, kv_cache_dtype: str) -> str:
    """Return the format in force, a drafter's layers included.

    The first sparse layer turns any quantized format but nvfp4_ds_mla into fp8_ds_mla, in the
    configuration that all layers share (``MLAAttention.__init__``, mla_attention.py).
    """
    dtype = kv_cache_dtype
    if dtype == "auto":
        dtype = model.kv_cache_dtype or model.dtype
    sparse = any(isinstance(cache, MLACache) and cache.sparse for cache in model.distinct_caches)
    if sparse and is_quantized(dtype) and dtype not in DS_MLA_ROW_BYTES:
        return "fp8_ds_mla"
    return dtype


def _mamba_cache_mode(model: ModelArchitecture, options: EngineOptions, rules: Rules) -> str:
    """Return what the engine makes of prefix caching (``MambaModelConfig``, models/config.py)."""
    caching = options.enable_prefix_caching
    if caching is None:
        caching = rules.caches_prefixes_of_hybrids and not model.is_attention_free
    if not caching:
        return "none"
    drafting = options.spec_method is not None and rules.aligns_instead_when_drafting
    every = rules.caches_every_state and model.mamba_chunk_size is not None and not drafting
    return "all" if every else "align"


def _in_flight_tokens(options: EngineOptions, rules: Rules) -> int:
    """Tokens that are scheduled but not settled (``VllmConfig.max_in_flight_tokens``)."""
    batches = 1
    if rules.counts_concurrent_batches:
        stages = options.pipeline_parallel_size
        batches = stages
        overlaps = options.spec_method is None or options.spec_method in ASYNC_METHODS
        if options.async_scheduling and overlaps and (rules.runs_v2_model_runner or stages == 1):
            batches = stages + 1
    return batches * options.max_num_batched_tokens


def _aligned(setting: Setting) -> Setting:
    """Grow the block until one page of attention holds the largest state.

    ``block = A * ceil(state / (A * bytes per token))`` with A the larger of the kernel's block
    and the configured one, at least 128 beside MLA (``_align_hybrid_block_size``).
    """
    states = [cache for cache in setting.model.distinct_caches if is_state(cache)]
    largest = max((state_layout_of(setting, cache).state_bytes for cache in states), default=0)
    if not largest:
        return setting
    token_bytes = _model_token_bytes(setting)
    block = max(setting.block_size, _covering_block(setting, largest, token_bytes))
    page = block * token_bytes
    return replace(
        setting, block_size=block, mamba_page_size_padded=page if page != largest else None
    )


def _covering_block(setting: Setting, state_bytes: int, token_bytes: int) -> int:
    kernel = setting.options.kernel_block_alignment
    alignment = max(kernel, setting.block_size)
    if setting.model.uses_mla:
        alignment = max(alignment, setting.rules.mla_alignment)
    chunk = setting.model.mamba_chunk_size
    if setting.mamba_cache_mode == "all" and chunk is not None:
        alignment = lcm(alignment, chunk)
    if setting.checkpoints_assumed:
        alignment = lcm(alignment, setting.rules.gated_delta_checkpoint_alignment or 1)
    block = alignment * cdiv(state_bytes, alignment * token_bytes)
    return kernel * cdiv(block, kernel) if setting.rules.rounds_to_kernel_block else block


def _model_token_bytes(setting: Setting) -> int:
    """Bytes of one token in one attention layer, by the sizes of the model as a whole."""
    model = setting.model
    if model.uses_mla:
        size = mla_token_bytes(model.head_size, setting.kv_cache_dtype, sparse=False)
    else:
        size = attention_token_bytes(
            local_heads(model.num_kv_heads, setting.tp),
            model.head_size,
            model.head_size,
            setting.kv_cache_dtype,
        )
    if not size:
        raise Refusal(f"{setting.kv_cache_dtype} cannot store the attention of this model")
    return size


def is_indexer(cache: Cache) -> TypeGuard[IndexerCache]:
    """Whether a cache holds the keys of a sparse indexer."""
    return isinstance(cache, IndexerCache)


def is_state(cache: Cache) -> TypeGuard[State]:
    """Whether a cache is a constant state, rather than one that grows."""
    return not isinstance(cache, AttentionCache | MLACache | IndexerCache)


def state_layout_of(setting: Setting, cache: State) -> StateLayout:
    """Return what one slot of a state holds, in the types that options and model ask for."""
    options = setting.options
    model = setting.model
    conv = options.mamba_cache_dtype
    ssm = options.mamba_ssm_cache_dtype
    return state_layout(
        cache,
        tensor_parallel_size=setting.tp,
        lookahead=options.num_speculative_tokens,
        conv_dtype=model.dtype if conv == "auto" else conv,
        ssm_dtype=(model.mamba_ssm_dtype or "auto") if ssm == "auto" else ssm,
    )


def local_heads(heads: int, tp: int) -> int:
    """Heads of one rank: below one a rank they are replicated."""
    if heads % tp if heads >= tp else tp % heads:
        raise Refusal(f"{heads} key-value heads do not go with tensor_parallel_size {tp}")
    return max(1, heads // tp)
