"""Bytes of the cache formats that the engine knows.

Source: ``STR_DTYPE_TO_TORCH_DTYPE`` (vllm/utils/torch_utils.py) and the ``customize_spec`` of the
attention backends (triton_attn.py, flashinfer.py, mla_attention.py), 0.32.0.
"""

from __future__ import annotations

DTYPE_BYTES = {
    "float32": 4,
    "float": 4,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
    "fp8_ds_mla": 1,
    "nvfp4_ds_mla": 1,
    "int8_per_token_head": 1,
    "fp8_per_token_head": 1,
    "int4_per_token_head": 1,
    "nvfp4": 1,
    "nvfp4_4over6": 1,
}

# One packed row per token of the DeepSeek sparse layouts (flashmla_sparse.py): data, scales, RoPE.
DS_MLA_ROW_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}


def is_quantized(kv_cache_dtype: str) -> bool:
    """Whether a resolved format is narrower than a floating-point model type."""
    return kv_cache_dtype not in ("float32", "float", "float16", "half", "bfloat16")


def attention_token_bytes(
    num_kv_heads: int, head_size: int, head_size_v: int, kv_cache_dtype: str
) -> int | None:
    """Return the bytes of one token in one attention layer, or None where no kernel stores it.

    The plain rule is heads x (K + V) x bytes of the type. ``*_per_token_head`` appends one fp32
    scale to K and one to V; nvfp4 stores half a byte per value and one fp8 scale per 16.
    """
    if kv_cache_dtype.endswith("_per_token_head"):
        packed = 2 if kv_cache_dtype.startswith("int4") else 1
        return num_kv_heads * (head_size // packed + head_size_v // packed + 8)
    if kv_cache_dtype.startswith("nvfp4"):
        if head_size != head_size_v:
            return None
        return num_kv_heads * 2 * (head_size // 2 + head_size // 16)
    return num_kv_heads * (head_size + head_size_v) * DTYPE_BYTES[kv_cache_dtype]


def mla_token_bytes(head_size: int, kv_cache_dtype: str, *, sparse: bool) -> int | None:
    """Return the bytes of one token in one MLA layer, or None where the engine refuses.

    Sparse layers serve any quantized type but nvfp4_ds_mla in the 656-byte layout
    (``_canonicalize_sparse_mla_kv_cache_dtype``, mla_attention.py).
    """
    if sparse and is_quantized(kv_cache_dtype) and kv_cache_dtype != "nvfp4_ds_mla":
        kv_cache_dtype = "fp8_ds_mla"
    if kv_cache_dtype in DS_MLA_ROW_BYTES:
        return DS_MLA_ROW_BYTES[kv_cache_dtype]
    if kv_cache_dtype.startswith("nvfp4"):
        return None
    if kv_cache_dtype.endswith("_per_token_head"):
        packed = 2 if kv_cache_dtype.startswith("int4") else 1
        return head_size // packed + 8
    return head_size * DTYPE_BYTES[kv_cache_dtype]
