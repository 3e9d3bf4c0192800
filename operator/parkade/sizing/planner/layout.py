"""``plan_kv``: layers and engine options become groups of pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import TypeGuard

from parkade.sizing.architecture.model import (
    AttentionCache,
    Cache,
    DecoderLayer,
    GatedDeltaState,
    IndexerCache,
    KimiDeltaState,
    Mamba2State,
    MLACache,
    ModelArchitecture,
    State,
)
from parkade.sizing.planner.capacity import KVLayout
from parkade.sizing.planner.dtypes import (
    attention_token_bytes,
    mla_token_bytes,
)
from parkade.sizing.planner.grouping import GroupingError, PlacedLayer, group_layers
from parkade.sizing.planner.options import (
    ASYNC_METHODS,
    DEFAULT_BLOCK_SIZE,
    DRAFT_MODEL_METHODS,
    EAGLE_METHODS,
    EngineOptions,
)
from parkade.sizing.planner.specs import Kind, LayerSpec, cdiv
from parkade.sizing.planner.states import SplitError, StateLayout, state_layout
from parkade.sizing.planner.versions import Rules, rules_for


@dataclass(frozen=True, slots=True)
class NotPlannable:
    """These options do not go with this model: the engine would not start, or we cannot tell."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class _Refused(Exception):  # noqa: N818 - internal way out, turned into a NotPlannable
    pass


@dataclass(frozen=True, slots=True)
class _Setting:
    """Options with every choice made that the engine makes before it looks at layers."""

    options: EngineOptions
    rules: Rules
    model: ModelArchitecture
    kv_cache_dtype: str
    mamba_cache_mode: str
    in_flight_tokens: int
    block_size: int
    mamba_page_size_padded: int | None = None

    @property
    def checkpoints_assumed(self) -> bool:
        """Whether the plan depends on the prefill kernel of Gated DeltaNet."""
        return (
            self.mamba_cache_mode == "align"
            and self.rules.gated_delta_checkpoint_alignment is not None
            and any(isinstance(cache, GatedDeltaState) for cache in self.model.caches)
        )

    @property
    def tp(self) -> int:
        return self.options.tensor_parallel_size


def plan_kv(architecture: ModelArchitecture, options: EngineOptions) -> KVLayout | NotPlannable:
    """Return the cache's layout on one GPU, or why the engine would not have one.

    Reproduces ``get_kv_cache_configs`` (vllm/v1/core/kv_cache_utils.py) and the block alignment
    of ``Platform.update_block_size_for_backend`` (vllm/platforms/interface.py).
    """
    problem = options.problem()
    if problem is not None:
        return NotPlannable(architecture.name, problem)
    try:
        return _planned(architecture, options)
    except (_Refused, SplitError, GroupingError) as refusal:
        return NotPlannable(architecture.name, str(refusal))


def _planned(model: ModelArchitecture, options: EngineOptions) -> KVLayout:
    setting = _setting(model, options)
    layers = _placed_layers(setting)
    if not layers:
        raise _Refused("no layer keeps a cache")
    groups = group_layers(
        layers,
        stages=options.pipeline_parallel_size,
        promote_local=_promotes_local(setting),
        rules=setting.rules,
    )
    return KVLayout(
        groups=groups,
        block_size=setting.block_size,
        max_model_len=options.max_model_len,
        kv_cache_dtype=setting.kv_cache_dtype,
        mamba_cache_mode=setting.mamba_cache_mode if model.is_hybrid else None,
        lookahead_tokens=_lookahead_tokens(options),
        reserved_blocks=1 if setting.rules.reserves_null_block else 0,
        warnings=_warnings(setting),
    )


def _warnings(setting: _Setting) -> tuple[str, ...]:
    found = [setting.rules.warning] if setting.rules.warning else []
    last = setting.model.last_version
    if last is not None and setting.rules.version > last:
        found.append(
            f"vLLM after {last[0]}.{last[1]} no longer runs {setting.model.name}; "
            "the plan is what it would be"
        )
    if setting.checkpoints_assumed:
        found.append(
            "assumes the FlashInfer prefill of Gated DeltaNet (Hopper, or Blackwell with CUDA "
            "13): blocks are multiples of 64 tokens and each state costs one block more"
        )
    return tuple(found)


def _setting(model: ModelArchitecture, options: EngineOptions) -> _Setting:
    rules = rules_for(options.vllm_version)
    if rules is None:
        raise _Refused(f"vllm_version {options.vllm_version!r} is no version")
    _check_split(model, options.tensor_parallel_size)
    alignment = options.kernel_block_alignment
    default = DEFAULT_BLOCK_SIZE if DEFAULT_BLOCK_SIZE % alignment == 0 else alignment
    setting = _Setting(
        options=options,
        rules=rules,
        model=model,
        kv_cache_dtype=_resolved_dtype(model, options.kv_cache_dtype),
        mamba_cache_mode=_mamba_cache_mode(model, options, rules),
        in_flight_tokens=_in_flight_tokens(options, rules),
        block_size=options.block_size or default,
    )
    return _aligned(setting) if model.is_hybrid else setting


def _check_split(model: ModelArchitecture, tp: int) -> None:
    if model.num_attention_heads % tp:
        raise _Refused(
            f"{model.num_attention_heads} attention heads cannot be divided by "
            f"tensor_parallel_size {tp}"
        )


def _resolved_dtype(model: ModelArchitecture, kv_cache_dtype: str) -> str:
    if kv_cache_dtype != "auto":
        return kv_cache_dtype
    return model.kv_cache_dtype or model.dtype


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


def _promotes_local(setting: _Setting) -> bool:
    """Chunked local attention and a drafter on hidden states exclude the hybrid manager."""
    options = setting.options
    drafted = options.spec_method in EAGLE_METHODS
    return options.disable_hybrid_kv_cache_manager or (
        setting.model.chunked_local_attention and drafted
    )


def _lookahead_tokens(options: EngineOptions) -> int:
    """Slots past the sequence that a drafter writes (``VllmConfig.num_lookahead_tokens``)."""
    if options.spec_method in ("dflash", "dspark"):
        return options.num_speculative_tokens + 1
    if options.spec_method in EAGLE_METHODS or options.spec_method == "draft_model":
        return options.num_speculative_tokens
    return 0


def _aligned(setting: _Setting) -> _Setting:
    """Grow the block until one page of attention holds the largest state.

    ``block = A * ceil(state / (A * bytes per token))`` with A the larger of the kernel's block
    and the configured one, at least 128 beside MLA (``_align_hybrid_block_size``).
    """
    states = {cache for cache in setting.model.caches if _is_state(cache)}
    largest = max((_state_layout(setting, cache).state_bytes for cache in states), default=0)
    if not largest:
        return setting
    token_bytes = _model_token_bytes(setting)
    block = max(setting.block_size, _covering_block(setting, largest, token_bytes))
    page = block * token_bytes
    return replace(
        setting, block_size=block, mamba_page_size_padded=page if page != largest else None
    )


def _covering_block(setting: _Setting, state_bytes: int, token_bytes: int) -> int:
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


def _model_token_bytes(setting: _Setting) -> int:
    """Bytes of one token in one attention layer, by the sizes of the model as a whole."""
    model = setting.model
    if model.uses_mla:
        size = mla_token_bytes(model.head_size, setting.kv_cache_dtype, sparse=False)
    else:
        size = attention_token_bytes(
            _local_heads(model.num_kv_heads, setting.tp),
            model.head_size,
            model.head_size,
            setting.kv_cache_dtype,
        )
    if not size:
        raise _Refused(f"{setting.kv_cache_dtype} cannot store the attention of this model")
    return size


def _is_state(cache: Cache) -> TypeGuard[State]:
    return not isinstance(cache, AttentionCache | MLACache | IndexerCache)


def _placed_layers(setting: _Setting) -> list[PlacedLayer]:
    stages = setting.options.pipeline_parallel_size
    known: dict[Cache, LayerSpec] = {}
    placed: list[PlacedLayer] = []

    def place(layer: DecoderLayer, stage: int) -> None:
        for cache in layer:
            if isinstance(cache, IndexerCache) and cache.shared and setting.rules.shares_indexers:
                continue
            spec = known.get(cache)
            if spec is None:
                spec = known[cache] = _spec(setting, cache)
            placed.append(PlacedLayer(spec, stage))

    for stage, count in enumerate(_partition(len(setting.model.layers), stages)):
        start = sum(_partition(len(setting.model.layers), stages)[:stage])
        for layer in setting.model.layers[start : start + count]:
            place(layer, stage)
    for layer in _draft_layers(setting):
        place(layer, stages - 1)
    return placed


def _partition(layers: int, stages: int) -> list[int]:
    """Layers per stage; what is left over goes to the stages before the last."""
    if stages > layers:
        raise _Refused(f"{layers} layers cannot be spread over {stages} pipeline stages")
    counts = [layers // stages] * stages
    for index in range(2, layers % stages + 2):
        counts[-index] += 1
    return counts


def _draft_layers(setting: _Setting) -> tuple[DecoderLayer, ...]:
    options = setting.options
    if options.spec_method == "mtp" and options.draft_architecture is None:
        if not setting.model.mtp_layers:
            raise _Refused("this checkpoint has no MTP layers: choose another spec method")
        return setting.model.mtp_layers
    draft = options.draft_architecture
    if draft is None or options.spec_method not in DRAFT_MODEL_METHODS | {"mtp"}:
        return ()
    _check_split(draft, setting.tp)
    return draft.layers


def _spec(setting: _Setting, cache: Cache) -> LayerSpec:
    match cache:
        case AttentionCache():
            return _attention_spec(setting, cache)
        case MLACache():
            return _mla_spec(setting, cache)
        case IndexerCache():
            return LayerSpec(
                kind=Kind.MLA_ATTENTION,
                block_size=setting.block_size,
                identity=("indexer", cache.head_size),
                token_bytes=cache.bytes_per_token,
            )
        case _:
            return _state_spec(setting, cache)


def _local_heads(heads: int, tp: int) -> int:
    """Heads of one rank: below one a rank they are replicated."""
    if heads % tp if heads >= tp else tp % heads:
        raise _Refused(f"{heads} key-value heads do not go with tensor_parallel_size {tp}")
    return max(1, heads // tp)


def _attention_spec(setting: _Setting, cache: AttentionCache) -> LayerSpec:
    heads = _local_heads(cache.num_kv_heads, setting.tp)
    token_bytes = attention_token_bytes(
        heads, cache.head_size, cache.head_size_v, setting.kv_cache_dtype
    )
    if not token_bytes:
        raise _Refused(
            f"{setting.kv_cache_dtype} needs equal key and value heads, not "
            f"{cache.head_size} and {cache.head_size_v}"
        )
    spec = LayerSpec(
        kind=Kind.FULL_ATTENTION,
        block_size=setting.block_size,
        identity=(heads, cache.head_size, cache.head_size_v, setting.kv_cache_dtype),
        token_bytes=token_bytes,
    )
    if cache.attention_chunk_size is not None:
        return replace(
            spec,
            kind=Kind.CHUNKED_LOCAL_ATTENTION,
            attention_chunk_size=cache.attention_chunk_size,
            token_cap=cache.attention_chunk_size + setting.in_flight_tokens,
        )
    if cache.sliding_window is not None:
        return replace(
            spec,
            kind=Kind.SLIDING_WINDOW,
            block_size=_window_block_size(setting),
            sliding_window=cache.sliding_window,
            token_cap=_window_cap(setting, cache.sliding_window),
            extra_blocks=1,
        )
    return spec


def _window_block_size(setting: _Setting) -> int:
    """Return the largest kernel block within the configured one.

    (``_largest_kernel_block_within``, vllm/model_executor/layers/attention/attention.py)
    """
    if not setting.rules.fits_windows_to_kernel:
        return setting.block_size
    kernel = setting.options.kernel_block_alignment
    return max(kernel, setting.block_size // kernel * kernel)


def _window_cap(setting: _Setting, window: int) -> int:
    return window - 1 + _extra_retained_tokens(setting) + setting.in_flight_tokens


def _extra_retained_tokens(setting: _Setting) -> int:
    """Tokens that a chain of MTP modules may read again below the window."""
    options = setting.options
    if options.spec_method != "mtp" or not setting.rules.retains_for_mtp_chain:
        return 0
    modules = min(setting.model.num_mtp_modules, options.num_speculative_tokens)
    return options.num_speculative_tokens - 1 if modules > 1 else 0


def _mla_spec(setting: _Setting, cache: MLACache) -> LayerSpec:
    token_bytes = mla_token_bytes(cache.head_size, setting.kv_cache_dtype, sparse=cache.sparse)
    if token_bytes is None:
        raise _Refused(f"{setting.kv_cache_dtype} is not supported with MLA")
    window = cache.sliding_window
    return LayerSpec(
        kind=Kind.MLA_ATTENTION if window is None else Kind.SLIDING_WINDOW_MLA,
        block_size=setting.block_size,
        identity=("mla", cache, setting.kv_cache_dtype),
        token_bytes=token_bytes,
        sliding_window=window,
        token_cap=None if window is None else _window_cap(setting, window),
        extra_blocks=0 if window is None else 1,
    )


def _state_layout(setting: _Setting, cache: State) -> StateLayout:
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


def _state_spec(setting: _Setting, cache: State) -> LayerSpec:
    """Slots: one, or two to align with blocks, and one per speculative token."""
    options = setting.options
    layout = _state_layout(setting, cache)
    mode = setting.mamba_cache_mode
    spec = LayerSpec(
        kind=Kind.MAMBA,
        block_size=options.max_model_len if mode == "none" else setting.block_size,
        identity=(layout, type(cache).__name__),
        state_bytes=layout.state_bytes,
        page_size_padded=setting.mamba_page_size_padded,
    )
    drafts = options.num_speculative_tokens
    if mode == "all":
        return replace(spec, extra_blocks=drafts)
    slots = 1 if mode == "none" else 2 + _prefill_checkpoints(setting, cache)
    return replace(spec, constant_blocks=slots + drafts)


def _prefill_checkpoints(setting: _Setting, cache: State) -> int:
    """Blocks for states inside a prompt that the layer's prefill kernel can store."""
    rules = setting.rules
    match cache:
        case Mamba2State():
            return int(rules.mamba2_exports_checkpoints)
        case KimiDeltaState():
            return int(cache.exports_checkpoints and rules.kda_exports_checkpoints)
        case GatedDeltaState():
            return int(setting.checkpoints_assumed)
        case _:
            return 0
