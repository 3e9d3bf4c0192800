"""Families with field names of their own, most of them older than the names all others share."""

from __future__ import annotations

from parkade.sizing.architecture.attention import dense
from parkade.sizing.architecture.common import (
    Family,
    derived_head_size,
    hidden_size,
    num_heads,
    num_layers,
)
from parkade.sizing.architecture.fields import MAX_LAYERS, FieldError, Fields
from parkade.sizing.architecture.model import AttentionCache, DecoderLayer


def _plain(count: int, kv_heads: int, size: int) -> Family:
    cache = AttentionCache(kv_heads, size, size)
    return Family(((cache,),) * count, kv_heads, size)


def multi_head(fields: Fields, model_type: str) -> Family:
    """GPT-2, GPT-J and OPT: each head has its own keys and values."""
    del model_type
    return _plain(num_layers(fields), num_heads(fields), derived_head_size(fields))


def falcon(fields: Fields, model_type: str) -> Family:
    """Falcon: one head of keys and values (``multi_query``), or ``num_kv_heads`` in new ones.

    Its layers do not hear of a format for the cache.
    Source: FalconAttention (vllm/model_executor/models/falcon.py), 0.32.0.
    """
    del model_type
    heads = num_heads(fields)
    kv_heads = 1 if fields.flag("multi_query", default=True) else heads
    if fields.flag("new_decoder_architecture"):
        kv_heads = fields.optional_int("num_kv_heads", "n_head_kv") or heads
    size = derived_head_size(fields)
    cache = AttentionCache(kv_heads, size, size, own_dtype=True)
    return Family(((cache,),) * num_layers(fields), kv_heads, size)


def gpt_bigcode(fields: Fields, model_type: str) -> Family:
    """GPT BigCode (SantaCoder, StarCoder): one head, unless ``multi_query`` is false."""
    del model_type
    kv_heads = 1 if fields.flag("multi_query", default=True) else num_heads(fields)
    return _plain(num_layers(fields), kv_heads, derived_head_size(fields))


def bloom(fields: Fields, model_type: str) -> Family:
    """BLOOM, whose width has two names."""
    del model_type
    width = fields.integer("n_embed", "hidden_size")
    heads = num_heads(fields)
    if width < heads:
        raise FieldError(f"{fields.path('n_embed')} is {width}, less than {heads} attention heads")
    return _plain(num_layers(fields), heads, width // heads)


def dbrx(fields: Fields, model_type: str) -> Family:
    """DBRX: ``attn_config`` has the heads of keys and values."""
    del model_type
    section = fields.child("attn_config")
    heads = num_heads(fields)
    kv_heads = 1 if section is None else section.integer("kv_n_heads", default=1)
    count = fields.integer("n_layers", high=MAX_LAYERS)
    return _plain(count, kv_heads, hidden_size(fields) // heads)


def chatglm(fields: Fields, model_type: str) -> Family:
    """ChatGLM 2 to 4: ``multi_query_group_num`` heads where ``multi_query_attention`` is set."""
    del model_type
    kv_heads = num_heads(fields)
    if fields.flag("multi_query_attention"):
        kv_heads = fields.integer("multi_query_group_num")
    return _plain(num_layers(fields), kv_heads, derived_head_size(fields))


def minicpm3(fields: Fields, model_type: str) -> Family:
    """MiniCPM3: latent attention that the engine caches as plain keys and values.

    Source: MiniCPM3Attention (vllm/model_executor/models/minicpm3.py), 0.32.0.
    """
    del model_type
    size = fields.integer("qk_nope_head_dim") + fields.integer("qk_rope_head_dim")
    return _plain(num_layers(fields), num_heads(fields), size)


def step3_text(fields: Fields, model_type: str) -> Family:
    """Step 3: all query heads share one head of keys and values."""
    del model_type
    return _plain(num_layers(fields), 1, fields.integer("head_dim"))


def loop_coder(fields: Fields, model_type: str) -> Family:
    """IQuest LoopCoder: each layer runs ``loop_num`` times, after the first within a window.

    Source: LoopCoderAttention (vllm/model_executor/models/iquest_loopcoder.py), 0.32.0.
    """
    first = dense(fields, model_type)
    heads, size = first.num_kv_heads, derived_head_size(fields)
    window = fields.integer("loop_window_size", default=64)
    loops = fields.integer("loop_num", default=2, high=64)
    again = AttentionCache(heads, size, size, sliding_window=window)
    layers: tuple[DecoderLayer, ...] = tuple(
        (*layer, *((again,) * (loops - 1))) for layer in first.layers
    )
    return Family(layers, heads, size)


def pangu_embedded(fields: Fields, model_type: str) -> Family:
    """OpenPangu Embedded: plain attention, with windows in a list that repeats.

    Source: OpenPanguEmbeddedAttention (vllm/model_executor/models/openpangu.py), 0.32.0.
    """
    family = dense(fields, model_type)
    windows = fields.raw("interleaved_sliding_window")
    if windows is None:
        return family
    if isinstance(windows, int):
        windows = [windows]
    if not isinstance(windows, list) or not windows:
        raise FieldError(f"{fields.path('interleaved_sliding_window')} is no window and no list")
    heads, size = family.num_kv_heads, family.head_size
    checked = Fields({"interleaved_sliding_window": windows}, None, fields.where)
    kinds = [
        (AttentionCache(heads, size, size, sliding_window=window or None),)
        for window in checked.integers("interleaved_sliding_window") or ()
    ]
    return Family(
        tuple(kinds[index % len(kinds)] for index in range(len(family.layers))), heads, size
    )
