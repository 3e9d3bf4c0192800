"""Attention with a window on some layers, or on all.

Which layer looks how far back is either said layer by layer (``layer_types``), or follows a
pattern that the model's configuration class would have made of it (transformers 5.19), or is one
window for the whole model (``EngineArgs.create_engine_config``, vllm/engine/arg_utils.py).
"""

from __future__ import annotations

from parkade.sizing.architecture.fields import MAX_TOKENS, FieldError, Fields
from parkade.sizing.architecture.model import AttentionCache, DecoderLayer

FULL = "full_attention"
SLIDING = "sliding_attention"
_WORDS = (FULL, SLIDING, "attention", "chunked_attention", "global_attention", "local_attention")

# Every n-th layer is full where the class makes the pattern: the field that sets n, and n.
_FULL_EVERY = {
    "gemma2": ("", 2),
    "gemma3_text": ("sliding_window_pattern", 6),
    "gemma3n_text": ("", 5),
    "gemma4_text": ("", 6),
    "cohere2": ("sliding_window_pattern", 4),
    "olmo3": ("", 4),
    "exaone4": ("sliding_window_pattern", 4),
    "exaone_moe": ("sliding_window_pattern", 4),
    "afmoe": ("global_attn_every_n_layers", 4),
}
# Classes that drop the window unless `use_sliding_window` is set, then keep it from
# `max_window_layers` on.
_GATED = frozenset(
    {
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen2_vl",
        "qwen2_vl_text",
        "dots_ocr",
        "qwen2_5_omni_text",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "smollm3",
    }
)
# Classes that drop the window unless `use_sliding_window` is set, then keep it on all layers.
_GATED_WHOLE = frozenset({"qwen3_moe"})
# The kernel's window counts the token itself (commandr.py, cohere2_moe.py).
_ONE_MORE = frozenset({"cohere2", "cohere2_moe"})


def window_of(fields: Fields, name: str = "sliding_window") -> int | None:
    """Return the window in tokens; zero and ``null`` mean none."""
    return fields.optional_int(name, low=0, high=MAX_TOKENS) or None


def layer_windows(fields: Fields, model_type: str, layers: int) -> list[int | None]:
    """Return the window of each layer, None where the layer keeps every token."""
    window = window_of(fields)
    if model_type in _GATED | _GATED_WHOLE and not fields.flag("use_sliding_window"):
        return [None] * layers
    if window is not None and model_type in _ONE_MORE:
        window += 1
    if model_type == "gpt_oss":
        kinds = [SLIDING if index % 2 == 0 else FULL for index in range(layers)]
    else:
        kinds = _kinds(fields, model_type, layers, window)
    if SLIDING in kinds and window is None and fields.sequence("layer_types") is not None:
        raise FieldError(f"{fields.path('sliding_window')} is missing for sliding layers")
    return [window if kind == SLIDING else None for kind in kinds]


def _kinds(fields: Fields, model_type: str, layers: int, window: int | None) -> list[str]:
    named = fields.words("layer_types", layers, _WORDS)
    if named is not None:
        return named
    if model_type in _FULL_EVERY:
        field, every = _FULL_EVERY[model_type]
        every = fields.optional_int(field) or every if field else every
        kinds = [FULL if (index + 1) % every == 0 else SLIDING for index in range(layers)]
        if model_type in ("gemma4_text", "exaone4"):
            kinds[-1] = FULL
        return kinds
    if window is None:
        return [FULL] * layers
    if model_type in _GATED:
        start = fields.integer("max_window_layers", default=0, low=0)
        return [SLIDING if index >= start else FULL for index in range(layers)]
    return [SLIDING] * layers


def attention_layers(
    fields: Fields, model_type: str, layers: int, cache: AttentionCache
) -> tuple[DecoderLayer, ...]:
    """Return ``layers`` layers with the same heads and their own windows."""
    local: dict[int, DecoderLayer] = {}
    layer = (cache,)
    return tuple(
        layer if window is None else local.setdefault(window, (_within(cache, window),))
        for window in layer_windows(fields, model_type, layers)
    )


def _within(cache: AttentionCache, window: int) -> AttentionCache:
    return AttentionCache(
        cache.num_kv_heads, cache.head_size, cache.head_size_v, sliding_window=window
    )
