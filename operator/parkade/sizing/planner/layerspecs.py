"""From a cache of the model to what the engine's planner sees of it on one GPU.

Source: the ``get_kv_cache_spec`` of each layer (vllm/model_executor/layers/), 0.32.0.
"""

from __future__ import annotations

from dataclasses import replace

from parkade.sizing.architecture.model import (
    AttentionCache,
    Cache,
    GatedDeltaState,
    IndexerCache,
    KimiDeltaState,
    Mamba2State,
    MLACache,
    State,
)
from parkade.sizing.planner.dtypes import attention_token_bytes, mla_token_bytes
from parkade.sizing.planner.refusal import Refusal
from parkade.sizing.planner.setting import Setting, local_heads, state_layout_of
from parkade.sizing.planner.specs import Kind, LayerSpec


def layer_spec(setting: Setting, cache: Cache) -> LayerSpec:
    """Return one cache on one GPU; raise Refusal where the format or the split cannot be."""
    match cache:
        case AttentionCache():
            return _attention_spec(setting, cache)
        case MLACache():
            return _mla_spec(setting, cache)
        case IndexerCache():
            return LayerSpec(
                kind=Kind.MLA_ATTENTION,
                block_size=setting.block_size,
                identity=("indexer", cache.head_size, cache.quant_block),
                token_bytes=cache.bytes_per_token,
            )
        case _:
            return _state_spec(setting, cache)


def _attention_spec(setting: Setting, cache: AttentionCache) -> LayerSpec:
    heads = local_heads(cache.num_kv_heads, setting.tp)
    dtype = setting.model.dtype if cache.own_dtype else setting.kv_cache_dtype
    token_bytes = attention_token_bytes(heads, cache.head_size, cache.head_size_v, dtype)
    if not token_bytes:
        raise Refusal(
            f"{dtype} needs equal key and value heads, not "
            f"{cache.head_size} and {cache.head_size_v}"
        )
    spec = LayerSpec(
        kind=Kind.FULL_ATTENTION,
        block_size=setting.block_size,
        identity=(heads, cache.head_size, cache.head_size_v, dtype),
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


def _window_block_size(setting: Setting) -> int:
    """Return the largest kernel block within the configured one.

    (``_largest_kernel_block_within``, vllm/model_executor/layers/attention/attention.py)
    """
    if not setting.rules.fits_windows_to_kernel:
        return setting.block_size
    kernel = setting.options.kernel_block_alignment
    return max(kernel, setting.block_size // kernel * kernel)


def _window_cap(setting: Setting, window: int) -> int:
    return window - 1 + _extra_retained_tokens(setting) + setting.in_flight_tokens


def _extra_retained_tokens(setting: Setting) -> int:
    """Tokens that a chain of MTP modules may read again below the window."""
    options = setting.options
    if options.spec_method != "mtp" or not setting.rules.retains_for_mtp_chain:
        return 0
    modules = min(setting.model.num_mtp_modules, options.num_speculative_tokens)
    return options.num_speculative_tokens - 1 if modules > 1 else 0


def _mla_spec(setting: Setting, cache: MLACache) -> LayerSpec:
    token_bytes = mla_token_bytes(cache.head_size, setting.kv_cache_dtype, sparse=cache.sparse)
    if token_bytes is None:
        raise Refusal(f"{setting.kv_cache_dtype} is not supported with MLA")
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


def _state_spec(setting: Setting, cache: State) -> LayerSpec:
    """Slots: one, or two to align with blocks, and one per speculative token."""
    options = setting.options
    layout = state_layout_of(setting, cache)
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


def _prefill_checkpoints(setting: Setting, cache: State) -> int:
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
