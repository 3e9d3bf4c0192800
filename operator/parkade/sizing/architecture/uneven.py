"""Families whose attention layers differ from each other in more than their window."""

from __future__ import annotations

from parkade.sizing.architecture.attention import dense
from parkade.sizing.architecture.common import (
    Family,
    attention_cache,
    head_size,
    num_heads,
    num_kv_heads,
    num_layers,
)
from parkade.sizing.architecture.fields import Fields, NotUnderstoodError
from parkade.sizing.architecture.model import AttentionCache, DecoderLayer, IndexerCache
from parkade.sizing.architecture.windows import FULL, SLIDING, window_of


def mimo_v2(fields: Fields, model_type: str) -> Family:
    """MiMo V2: windows have heads of their own, and values narrower than keys.

    Source: MiMoV2FlashDecoderLayer and MiMoV2MTPLayer (mimo_v2.py, mimo_v2_mtp.py); the engine
    uses one MTP layer, a windowed one.
    """
    del model_type
    count = num_layers(fields)
    keys = fields.integer("head_dim")
    full = AttentionCache(num_kv_heads(fields), keys, fields.optional_int("v_head_dim") or keys)
    local_keys = fields.integer("swa_head_dim")
    window = window_of(fields, "sliding_window_size")
    local = AttentionCache(
        fields.integer("swa_num_key_value_heads"),
        local_keys,
        fields.optional_int("swa_v_head_dim") or local_keys,
        sliding_window=window,
    )
    pattern = fields.integers("hybrid_layer_pattern", count)
    if pattern is None:
        raise NotUnderstoodError(f"{fields.path('hybrid_layer_pattern')} is missing")
    return Family(
        tuple((local if flag == 1 else full,) for flag in pattern),
        full.num_kv_heads,
        head_size(fields),
        mtp_layers=((local,),),
        num_mtp_modules=1,
    )


def nemotron_nas(fields: Fields, model_type: str) -> Family:
    """Llama-Nemotron of NAS: each block says how many heads share one, or has no attention.

    Source: DeciLMDecoderLayer (vllm/model_executor/models/nemotron_nas.py), 0.32.0.
    """
    del model_type
    count, heads = num_layers(fields), num_heads(fields)
    size = head_size(fields)
    caches: dict[int, DecoderLayer] = {}
    layers: list[DecoderLayer] = []
    for block in fields.objects("block_configs", count):
        attention = block.child("attention")
        if attention is None:
            raise NotUnderstoodError(f"{block.path('attention')} is missing")
        if attention.flag("no_op"):
            layers.append(())
            continue
        shared = attention.integer("n_heads_in_group", high=heads)
        kv_heads = heads // shared
        layers.append(caches.setdefault(kv_heads, (AttentionCache(kv_heads, size, size),)))
    return Family(tuple(layers), min(caches, default=heads), size)


def step3p5(fields: Fields, model_type: str) -> Family:
    """Step 3.5: ``layer_types`` name windows, and one kind may have heads of its own.

    Source: Step3p5DecoderLayer and Step3p5MTP (vllm/model_executor/models/step3p5.py and
    step3p5_mtp.py), 0.32.0.
    """
    del model_type
    count = num_layers(fields)
    modules = fields.optional_int("num_nextn_predict_layers", low=0, high=64) or 0
    kinds = fields.words("layer_types", count, (FULL, SLIDING))
    if kinds is None:
        raise NotUnderstoodError(f"{fields.path('layer_types')} is missing")
    every = fields.words("layer_types", count + modules, (FULL, SLIDING)) if modules else kinds
    plain = attention_cache(fields)
    window = window_of(fields)
    other = fields.child("attention_other_setting")
    layers = [(_step3p5_cache(plain, other, kind, window),) for kind in every or kinds]
    return Family(
        tuple(layers[:count]),
        plain.num_kv_heads,
        plain.head_size,
        mtp_layers=tuple(layers[count:]),
        num_mtp_modules=modules,
    )


def _step3p5_cache(
    plain: AttentionCache, other: Fields | None, kind: str, window: int | None
) -> AttentionCache:
    heads, size = plain.num_kv_heads, plain.head_size
    if other is not None and other.text("attention_type") == kind:
        heads = other.optional_int("num_attention_groups") or heads
        size = other.optional_int("head_dim") or size
    return AttentionCache(heads, size, size, sliding_window=window if kind == SLIDING else None)


def minimax_m3(fields: Fields, model_type: str) -> Family:
    """MiniMax M3: some layers choose blocks through an indexer with a bf16 cache of its own.

    Source: MiniMaxM3SparseAttention (vllm/models/minimax_m3/nvidia/model.py), its indexer
    (vllm/models/minimax_m3/common/indexer.py) and mtp.py, 0.32.0.
    """
    del model_type
    cache = attention_cache(fields)
    count = num_layers(fields)
    section = fields.child("sparse_attention_config")
    chosen = None if section is None else section.integers("sparse_attention_freq", count)
    if section is None or chosen is None:
        path = fields.path("sparse_attention_config")
        raise NotUnderstoodError(f"{path}.sparse_attention_freq is missing")
    indexer = IndexerCache(
        section.integer("sparse_index_dim"),
        quant_block=None,
        kernel_block=section.integer("sparse_block_size", default=128),
    )
    modules = fields.optional_int("num_mtp_modules", low=0, high=64) or 0
    return Family(
        tuple((indexer, cache) if flag else (cache,) for flag in chosen),
        cache.num_kv_heads,
        cache.head_size,
        mtp_layers=((indexer, cache),) * modules,
        num_mtp_modules=modules,
    )


def exaone_with_mtp(fields: Fields, model_type: str) -> Family:
    """EXAONE MoE and 4.5: MTP layers look back as the first layers do, in the model's own type.

    Source: ExaoneMoeAttention and ExaoneMoeMultiTokenPredictor
    (vllm/model_executor/models/exaone_moe.py, exaone_moe_mtp.py), exaone4_5_mtp.py, 0.32.0.
    """
    family = dense(fields, model_type)
    modules = fields.optional_int("num_nextn_predict_layers", low=0, high=64) or 0
    kinds = fields.words("mtp_layer_types", modules, (FULL, SLIDING))
    each = fields.integers("mtp_sliding_windows", modules)
    window = window_of(fields)
    heads, size = family.num_kv_heads, family.head_size
    layers: list[DecoderLayer] = []
    for index in range(modules):
        own = family.layers[min(index, len(family.layers) - 1)][0]
        found = own.sliding_window if isinstance(own, AttentionCache) else None
        if kinds is not None:
            found = None if kinds[index] == FULL else window
        if each is not None and found is not None:
            found = each[index] or None
        layers.append((AttentionCache(heads, size, size, sliding_window=found, own_dtype=True),))
    return Family(family.layers, heads, size, mtp_layers=tuple(layers), num_mtp_modules=modules)
