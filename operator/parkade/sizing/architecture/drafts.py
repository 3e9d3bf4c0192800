"""Configurations of drafters: a few layers of attention, beside a target that has its own.

Source: llama_eagle3.py, qwen3_eagle3.py, qwen3_dflash.py, gemma4_mtp.py
(vllm/model_executor/models/), 0.32.0.
"""

from __future__ import annotations

from parkade.sizing.architecture.common import Family, attention_cache, num_layers
from parkade.sizing.architecture.fields import Fields, NotUnderstoodError
from parkade.sizing.architecture.model import AttentionCache, DecoderLayer
from parkade.sizing.architecture.windows import FULL, SLIDING, own_window, window_of


def eagle(fields: Fields, model_type: str) -> Family:
    """EAGLE heads attend fully, but where ``layer_types`` names a window."""
    cache = attention_cache(fields)
    count = num_layers(fields)
    kinds = fields.words("layer_types", count, (FULL, SLIDING)) or [FULL] * count
    return _family(fields, cache, kinds, own_window(fields, model_type))


def dflash(fields: Fields, model_type: str) -> Family:
    """DFlash: windows by ``layer_types``, or on every layer with ``use_swa``."""
    cache = attention_cache(fields)
    count = num_layers(fields)
    section = fields.child("dflash_config") or Fields({})
    everywhere = section.flag("use_swa")
    kinds = fields.words("layer_types", count, (FULL, SLIDING))
    if kinds is None or (everywhere and SLIDING not in kinds):
        kinds = [SLIDING if everywhere else FULL] * count
    window = window_of(section, "swa_window_size") or own_window(fields, model_type)
    return _family(fields, cache, kinds, window)


def shared_with_target(fields: Fields, model_type: str) -> Family:
    """Gemma 4 assistants read the target's cache and keep none of their own."""
    del model_type
    cache = attention_cache(fields)
    return Family(((),) * num_layers(fields), cache.num_kv_heads, cache.head_size)


def _family(fields: Fields, cache: AttentionCache, kinds: list[str], window: int | None) -> Family:
    if SLIDING in kinds and window is None:
        raise NotUnderstoodError(f"{fields.path('sliding_window')} is missing for sliding layers")
    local = AttentionCache(
        cache.num_kv_heads, cache.head_size, cache.head_size_v, sliding_window=window
    )
    layers: tuple[DecoderLayer, ...] = tuple(
        (local if kind == SLIDING else cache,) for kind in kinds
    )
    return Family(layers, cache.num_kv_heads, cache.head_size)
