"""Hybrids: some layers grow with length, the others hold a constant state."""

from __future__ import annotations

from parkade.sizing.architecture.common import Family, attention_cache, num_layers
from parkade.sizing.architecture.fields import Fields
from parkade.sizing.architecture.model import GatedDeltaState

_GDN_WORDS = ("linear_attention", "full_attention")


def gated_delta_net(fields: Fields, model_type: str) -> Family:
    """Qwen3-Next, Qwen3.5 and Qwen3.6: every fourth layer is full, unless the file says.

    Qwen3.5 asks for its own type of recurrent state (``mamba_ssm_dtype``); MTP layers are full
    attention with the same heads, one where the file does not say. Source: qwen3_next.py,
    qwen3_5.py, qwen3_next_mtp.py, models/config.py.
    """
    cache = attention_cache(fields)
    count = num_layers(fields)
    state = GatedDeltaState(
        num_k_heads=fields.integer("linear_num_key_heads"),
        num_v_heads=fields.integer("linear_num_value_heads"),
        head_k_dim=fields.integer("linear_key_head_dim"),
        head_v_dim=fields.integer("linear_value_head_dim"),
        conv_kernel=fields.integer("linear_conv_kernel_dim"),
    )
    kinds = fields.words("layer_types", count, _GDN_WORDS)
    if kinds is None:
        every = fields.integer("full_attention_interval", default=4)
        kinds = [_GDN_WORDS[(index + 1) % every == 0] for index in range(count)]
    own_dtype = model_type.startswith("qwen3_5")
    mtp_field = "mtp_num_hidden_layers" if own_dtype else "num_nextn_predict_layers"
    modules = fields.integer(mtp_field, default=1, low=0, high=64)
    return Family(
        layers=tuple((state if kind == "linear_attention" else cache,) for kind in kinds),
        num_kv_heads=cache.num_kv_heads,
        head_size=cache.head_size,
        is_hybrid=True,
        mamba_ssm_dtype=fields.text("mamba_ssm_dtype") if own_dtype else None,
        mtp_layers=((cache,),) * modules,
        num_mtp_modules=modules,
    )
