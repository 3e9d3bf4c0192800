"""Linear attention beside full or latent attention: KDA and lightning attention."""

from __future__ import annotations

from parkade.sizing.architecture.common import (
    Family,
    attention_cache,
    head_size,
    num_heads,
    num_layers,
)
from parkade.sizing.architecture.fields import FieldError, Fields, NotUnderstoodError, shown
from parkade.sizing.architecture.mla import latent_size
from parkade.sizing.architecture.model import (
    KimiDeltaState,
    LinearAttentionState,
    MLACache,
)

# The head size of the one prefill kernel that can store states inside a prompt (FlashKDA).
_FLASH_KDA_HEAD = 128


def kimi_linear(fields: Fields, model_type: str) -> Family:
    """Kimi Linear and the language model of Kimi K3: KDA beside latent attention.

    Layers are counted from one in the file. FlashKDA needs a bounded gate, which K3 has; the
    engine then keeps one more block per state (vllm/models/kimi_k3/nvidia/kda.py).
    """
    del model_type
    section = fields.child("linear_attn_config")
    if section is None:
        raise NotUnderstoodError(f"{fields.path('linear_attn_config')} is missing")
    count = num_layers(fields)
    linear = set(section.integers("kda_layers") or ())
    full = set(section.integers("full_attn_layers") or ())
    if linear | full != set(range(1, count + 1)) or linear & full:
        raise FieldError(
            f"{section.path('kda_layers')} and full_attn_layers do not name each of {count} "
            "layers once"
        )
    size = section.integer("head_dim")
    bounded = section.raw("gate_lower_bound") is not None
    full_rank = section.flag("use_full_rank_gate")
    state = KimiDeltaState(
        num_heads=section.integer("num_heads"),
        head_dim=size,
        conv_kernel=section.integer("short_conv_kernel_size", default=4),
        exports_checkpoints=bounded and size == _FLASH_KDA_HEAD and full_rank,
        float32_only=not full_rank,
    )
    cache = MLACache(latent_size(fields))
    modules = fields.optional_int("num_nextn_predict_layers", low=0, high=64) or 0
    return Family(
        layers=tuple((state,) if index in linear else (cache,) for index in range(1, count + 1)),
        num_kv_heads=1,
        head_size=cache.head_size,
        uses_mla=True,
        is_hybrid=True,
        mtp_layers=((cache,),) * modules,
        num_mtp_modules=modules,
    )


def bailing_linear(fields: Fields, model_type: str) -> Family:
    """Ling 2.5: lightning attention, every ``layer_group_size``-th layer latent attention."""
    del model_type
    state = LinearAttentionState(num_heads(fields), head_size(fields))
    cache = MLACache(latent_size(fields))
    every = fields.integer("layer_group_size", default=1)
    layers = tuple(
        (cache,) if (index + 1) % every == 0 else (state,) for index in range(num_layers(fields))
    )
    modules = fields.optional_int("num_nextn_predict_layers", low=0, high=64) or 0
    return Family(
        layers=layers,
        num_kv_heads=1,
        head_size=cache.head_size,
        uses_mla=True,
        is_hybrid=True,
        mtp_layers=((cache,),) * modules,
        num_mtp_modules=modules,
    )


def minimax_text(fields: Fields, model_type: str) -> Family:
    """MiniMax Text 01 and M1: lightning attention beside full attention; engines before 0.23.

    Source: vllm/model_executor/models/minimax_text_01.py, 0.20.2.
    """
    del model_type
    cache = attention_cache(fields)
    state = LinearAttentionState(num_heads(fields), cache.head_size)
    full = _minimax_kinds(fields, num_layers(fields))
    return Family(
        layers=tuple((cache,) if attends else (state,) for attends in full),
        num_kv_heads=cache.num_kv_heads,
        head_size=cache.head_size,
        is_hybrid=True,
        last_version=(0, 22),
    )


def _minimax_kinds(fields: Fields, count: int) -> list[bool]:
    for name in ("attn_type_list", "decoder_attention_types"):
        flags = fields.integers(name, count)
        if flags is not None:
            if set(flags) - {0, 1}:
                raise FieldError(f"{fields.path(name)} is {shown(flags)}, not ones and zeros")
            return [flag == 1 for flag in flags]
    kinds = fields.words("layer_types", count, ("linear_attention", "full_attention"))
    if kinds is None:
        raise NotUnderstoodError(f"{fields.path('attn_type_list')} is missing")
    return [kind == "full_attention" for kind in kinds]
