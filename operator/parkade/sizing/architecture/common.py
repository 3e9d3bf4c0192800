"""Sizes that every family reads alike.

Source: ``ModelArchConfigConvertorBase`` (vllm/transformers_utils/model_arch_config_convertor.py)
and ``get_num_experts`` there, 0.32.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from parkade.sizing.architecture.fields import MAX_LAYERS, MAX_TOKENS, FieldError, Fields
from parkade.sizing.architecture.model import AttentionCache, DecoderLayer, Feed

_KV_HEAD_FIELDS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
_EXPERT_FIELDS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
_EXPERT_USE_FIELDS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
)
_LENGTH_FIELDS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)


@dataclass(frozen=True, slots=True)
class Family:
    """What a family's reader makes of a configuration."""

    layers: tuple[DecoderLayer, ...]
    num_kv_heads: int
    head_size: int
    uses_mla: bool = False
    is_hybrid: bool = False
    mamba_ssm_dtype: str | None = None
    mtp_layers: tuple[DecoderLayer, ...] = ()
    num_mtp_modules: int = 0
    chunked_local_attention: bool = False
    mamba_chunk_size: int | None = None
    last_version: tuple[int, int] | None = None
    num_attention_heads: int | None = None


def num_layers(fields: Fields) -> int:
    """Return the number of decoder layers."""
    return fields.integer("num_hidden_layers", "n_layer", "num_layers", high=MAX_LAYERS)


def num_heads(fields: Fields) -> int:
    """Return the number of attention heads."""
    return fields.integer("num_attention_heads", "n_head", "n_heads", high=1 << 16)


def num_kv_heads(fields: Fields) -> int:
    """Return the number of key-value heads; without a field each head has its own."""
    heads = num_heads(fields)
    kv_heads = fields.optional_int(*_KV_HEAD_FIELDS, high=1 << 16) or heads
    if heads % kv_heads:
        raise FieldError(
            f"{fields.path('num_key_value_heads')} is {kv_heads}, which does not divide "
            f"{heads} attention heads"
        )
    return kv_heads


def hidden_size(fields: Fields) -> int:
    """Return the width of the residual stream."""
    return fields.integer("hidden_size", "n_embd", "d_model", "n_embed")


def head_size(fields: Fields) -> int:
    """Return ``head_dim``, else the width divided by the heads."""
    size = fields.optional_int("head_dim", "hidden_size_per_head", low=0)
    if size:
        return size
    return derived_head_size(fields)


def derived_head_size(fields: Fields) -> int:
    """Return the width divided by the heads."""
    width, heads = hidden_size(fields), num_heads(fields)
    if width < heads:
        raise FieldError(
            f"{fields.path('hidden_size')} is {width}, less than {heads} attention heads"
        )
    return width // heads


def attention_cache(fields: Fields) -> AttentionCache:
    """Return the cache of one plain attention layer."""
    size = head_size(fields)
    return AttentionCache(num_kv_heads(fields), size, size)


def max_positions(fields: Fields) -> int | None:
    """Return the longest context that the file names, the smallest of its fields."""
    values = [fields.optional_int(name, high=MAX_TOKENS) for name in _LENGTH_FIELDS]
    return min((value for value in values if value is not None), default=None)


def feed_of(fields: Fields) -> Feed:
    """Return the feed-forward sizes; what is absent is 0. They only feed estimates."""
    experts = fields.raw("num_experts")
    if isinstance(experts, list):
        experts = experts[0] if experts else 0
    width = _loose(fields, "intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner")
    return Feed(
        intermediate_size=width,
        num_experts=_loose(fields, *_EXPERT_FIELDS),
        num_experts_per_token=_loose(fields, *_EXPERT_USE_FIELDS),
        moe_intermediate_size=_loose(fields, "moe_intermediate_size", "expert_ffn_hidden_size"),
        shared_intermediate_size=_loose(fields, "shared_expert_intermediate_size"),
    )


def _loose(fields: Fields, *names: str) -> int:
    """Return the first usable number: estimates must not refuse what the planner can plan."""
    for name in names:
        value = fields.raw(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 30:
            return value
    return 0
