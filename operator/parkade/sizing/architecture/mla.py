"""Multi-head latent attention: one vector per token, replicated on every rank."""

from __future__ import annotations

from parkade.sizing.architecture.common import Family, attention_cache, num_heads, num_layers
from parkade.sizing.architecture.fields import (
    MAX_LAYERS,
    FieldError,
    Fields,
    NotUnderstoodError,
    shown,
)
from parkade.sizing.architecture.model import (
    AttentionCache,
    DecoderLayer,
    IndexerCache,
    MLACache,
)


def latent_size(fields: Fields) -> int:
    """Return values per token of the latent vector and its rotary part."""
    rope = fields.integer("qk_rope_head_dim", default=0, low=0)
    return fields.integer("kv_lora_rank") + rope


def deepseek(fields: Fields, model_type: str) -> Family:
    """DeepSeek V2, V3, R1, Kimi K2 and kin; with ``index_topk`` the sparse V3.2 and GLM 5.

    Source: DeepseekV2MLAAttention (vllm/model_executor/models/deepseek_v2.py) and
    DeepseekV32 (vllm/models/deepseek_v32/attention.py). Without ``kv_lora_rank`` the engine
    runs it as plain attention.
    """
    del model_type
    if fields.optional_int("kv_lora_rank") is None:
        return _without_latent(fields)
    count = num_layers(fields)
    sparse = fields.optional_int("index_topk") is not None
    modules = fields.optional_int("num_nextn_predict_layers", low=0, high=64) or 0
    own, shared = (_layer(fields, sparse=sparse, leads=leads) for leads in (True, False))
    layers = tuple(
        own if not sparse or _has_indexer(fields, index) else shared for index in range(count)
    )
    drafter = (own,) * modules
    return Family(
        layers=layers,
        num_kv_heads=1,
        head_size=latent_size(fields),
        uses_mla=True,
        mtp_layers=drafter,
        num_mtp_modules=modules,
    )


def longcat(fields: Fields, model_type: str) -> Family:
    """LongCat Flash: two latent attentions in each layer, one in the MTP layer.

    Source: vllm/model_executor/models/longcat_flash.py, 0.32.0.
    """
    del model_type
    cache = MLACache(latent_size(fields))
    count = fields.integer("num_layers", high=MAX_LAYERS)
    modules = fields.integer("num_nextn_predict_layers", default=1, low=0, high=64)
    return Family(
        layers=((cache, cache),) * count,
        num_kv_heads=1,
        head_size=cache.head_size,
        uses_mla=True,
        mtp_layers=((cache,),),
        num_mtp_modules=modules,
    )


def _layer(fields: Fields, *, sparse: bool, leads: bool) -> DecoderLayer:
    size = latent_size(fields)
    if not sparse:
        return (MLACache(size),)
    indexer = IndexerCache(fields.integer("index_head_dim", default=128), shared=not leads)
    return (indexer, MLACache(size, sparse=True, leads_index_group=leads))


def _has_indexer(fields: Fields, index: int) -> bool:
    """Whether a layer has the indexer itself, as those of the drafter always do.

    ``indexer_types`` is what the configuration class makes of the other fields, for files that
    carry only the result.
    """
    pattern = fields.raw("index_topk_pattern")
    if pattern is not None:
        if not isinstance(pattern, str | list):
            raise FieldError(f"{fields.path('index_topk_pattern')} is {shown(pattern)}")
        return index >= len(pattern) or pattern[index] != "S"
    if fields.raw("index_topk_freq") is None and fields.raw("indexer_types") is not None:
        kinds = fields.words("indexer_types", num_layers(fields), ("full", "shared"))
        return kinds is None or kinds[index] == "full"
    every = fields.integer("index_topk_freq", default=1)
    offset = fields.integer("index_skip_topk_offset", default=2, low=0)
    return max(index - offset + 1, 0) % every == 0


def _without_latent(fields: Fields) -> Family:
    nope = fields.optional_int("qk_nope_head_dim", low=0) or 0
    rope = fields.optional_int("qk_rope_head_dim", low=0) or 0
    if nope + rope == 0:
        cache = attention_cache(fields)
    elif fields.optional_int("kv_lora_rank") is None and nope:
        raise NotUnderstoodError(f"{fields.path('kv_lora_rank')} is missing")
    else:
        cache = AttentionCache(num_heads(fields), nope + rope, nope + rope)
    return Family(((cache,),) * num_layers(fields), cache.num_kv_heads, cache.head_size)
