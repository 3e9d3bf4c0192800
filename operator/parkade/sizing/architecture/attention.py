"""Families whose every layer is attention with keys and values."""

from __future__ import annotations

from parkade.sizing.architecture.common import (
    Family,
    attention_cache,
    derived_head_size,
    num_layers,
)
from parkade.sizing.architecture.fields import MAX_TOKENS, FieldError, Fields
from parkade.sizing.architecture.model import AttentionCache, DecoderLayer
from parkade.sizing.architecture.windows import attention_layers, layer_windows, window_of

# Models that derive the size of a head and do not look at ``head_dim``
# (vllm/model_executor/models/, 0.32.0).
_DERIVED = frozenset(
    {
        "dots_ocr",
        "granitemoe",
        "granitemoe_swa",
        "granitemoeshared",
        "internlm2",
        "mimo",
        "minicpm",
        "olmoe",
        "orion",
        "qwen2",
        "qwen2_5_omni_text",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "qwen2_moe",
        "qwen2_vl",
        "qwen2_vl_text",
        "stablelm",
    }
)
# Families whose MTP layers the engine can draft with; they attend like the others.
_WITH_MTP = frozenset({"mimo", "glm4_moe", "glm4v_moe_text", "ernie4_5_moe", "hy_v3"})


def dense(fields: Fields, model_type: str) -> Family:
    """GQA or MQA on every layer, with or without windows; experts do not matter here."""
    cache = attention_cache(fields)
    if model_type in _DERIVED:
        size = derived_head_size(fields)
        cache = AttentionCache(cache.num_kv_heads, size, size)
    layers = attention_layers(fields, model_type, num_layers(fields), cache)
    modules = 0
    if model_type in _WITH_MTP:
        modules = fields.optional_int("num_nextn_predict_layers", low=0, high=64) or 0
    return Family(
        layers=layers,
        num_kv_heads=cache.num_kv_heads,
        head_size=cache.head_size,
        mtp_layers=((cache,),) * modules,
        num_mtp_modules=modules,
    )


def unwindowed(fields: Fields, model_type: str) -> Family:
    """Return plain attention on every layer, for wrappers whose file is flat."""
    del model_type
    cache = attention_cache(fields)
    return Family(((cache,),) * num_layers(fields), cache.num_kv_heads, cache.head_size)


def gemma4(fields: Fields, model_type: str) -> Family:
    """Gemma 4: full layers have heads of their own; the last layers may share a cache.

    Source: Gemma4Attention (vllm/model_executor/models/gemma4.py).
    """
    local = attention_cache(fields)
    size = fields.optional_int("global_head_dim") or local.head_size
    heads = local.num_kv_heads
    if fields.flag("attention_k_eq_v"):
        heads = fields.optional_int("num_global_key_value_heads") or heads
    window = window_of(fields)
    full = AttentionCache(heads, size, size)
    sliding = AttentionCache(
        local.num_kv_heads, local.head_size, local.head_size, sliding_window=window
    )
    layers: list[DecoderLayer] = [
        (full if window is None else sliding,)
        for window in layer_windows(fields, model_type, num_layers(fields))
    ]
    return Family(_without_shared(fields, layers), local.num_kv_heads, local.head_size)


def gemma3n(fields: Fields, model_type: str) -> Family:
    """Gemma 3n: the last layers share the cache of earlier ones."""
    family = dense(fields, model_type)
    return Family(
        _without_shared(fields, list(family.layers)), family.num_kv_heads, family.head_size
    )


def _without_shared(fields: Fields, layers: list[DecoderLayer]) -> tuple[DecoderLayer, ...]:
    shared = fields.optional_int("num_kv_shared_layers", low=0) or 0
    if shared >= len(layers):
        raise FieldError(
            f"{fields.path('num_kv_shared_layers')} is {shared} of {len(layers)} hidden layers"
        )
    own = len(layers) - shared
    return (*layers[:own], *(((),) * shared))


def llama4(fields: Fields, model_type: str) -> Family:
    """Llama 4: layers with rotary positions look back within one chunk.

    Source: Llama4Attention (vllm/model_executor/models/llama4.py).
    """
    del model_type
    cache = attention_cache(fields)
    count = num_layers(fields)
    chunk = fields.optional_int("attention_chunk_size", low=0, high=MAX_TOKENS) or None
    rotary = fields.integers("no_rope_layers", count) if fields.raw("no_rope_layers") else None
    if rotary is None:
        every = fields.integer("no_rope_layer_interval", default=4)
        rotary = [int((index + 1) % every != 0) for index in range(count)]
    local = AttentionCache(
        cache.num_kv_heads, cache.head_size, cache.head_size, attention_chunk_size=chunk
    )
    layers = tuple((local if chunk and rotates else cache,) for rotates in rotary)
    return Family(
        layers,
        cache.num_kv_heads,
        cache.head_size,
        chunked_local_attention=chunk is not None,
    )
