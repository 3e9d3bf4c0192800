"""What the simulated engine must know of a model: its layers, and how heavy it is.

Read from ``config.json`` as ``transformers`` would name the fields. Two families are understood:
plain attention with grouped queries (Llama and its relatives), and the hybrid of full attention and
Gated DeltaNet layers (Qwen3-Next, Qwen3.5, Qwen3.6). Anything else is refused by name, with vLLM's
own words.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GIB = 1 << 30
_CONFIGS = Path(__file__).parent / "configs"
_DENSE_TYPES = frozenset({"llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"})
_HYBRID_TYPES = frozenset(
    {"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"}
)
_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_QUANT_BYTES = {"fp8": 1.0, "modelopt": 0.5625, "compressed-tensors": 0.5625, "awq": 0.53125}


class UnsupportedModelError(ValueError):
    """The model's architecture is not one that the simulated engine understands."""


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Geometry of the constant-state layers, per layer over all ranks."""

    conv_kernel: int
    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    state_bytes: int  # of one value of the recurrent state


@dataclass(frozen=True, slots=True)
class Model:
    """The shape of a model; sizes are over all ranks."""

    name: str
    architecture: str
    hybrid: bool
    full_layers: int
    linear_layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    drafter_layers: int
    kv_scheme: str  # what `--kv-cache-dtype auto` resolves to
    weights_bytes: int
    deltanet: DeltaNet | None


def load_model(name: str, config_path: str | None, weights_gib: float | None) -> Model:
    """Find the model's configuration: the given path, a folder named by the flag, or a known id."""
    if config_path:
        return from_config(name, json.loads(_config_file(config_path).read_text()), weights_gib)
    if (Path(name) / "config.json").is_file():
        return from_config(name, json.loads(_config_file(name).read_text()), weights_gib)
    for path in sorted(_CONFIGS.glob("*.json")):
        known = json.loads(path.read_text())
        if known["id"].lower() == name.lower():
            return from_config(name, known["config"], weights_gib or known["weights_gib"])
    raise UnsupportedModelError(
        f"{name} is not a local folder and the simulated engine has no configuration of that "
        "name: mount one and set PARKADE_SIM_MODEL_CONFIG, or use one of "
        + ", ".join(sorted(json.loads(p.read_text())["id"] for p in _CONFIGS.glob("*.json")))
    )


def _config_file(path: str) -> Path:
    place = Path(path)
    return place / "config.json" if place.is_dir() else place


def from_config(name: str, config: Mapping[str, Any], weights_gib: float | None) -> Model:
    """Read the shape; raises UnsupportedModelError for families that are not understood."""
    text = config.get("text_config") or config
    kind = str(text.get("model_type") or config.get("model_type"))
    architecture = next(iter(config.get("architectures") or ["unknown"]))
    if kind not in _DENSE_TYPES | _HYBRID_TYPES or text.get("kv_lora_rank"):
        raise UnsupportedModelError(
            f"Model architectures ['{architecture}'] are not supported for now. "
            f"Supported model types of the simulated engine: {sorted(_DENSE_TYPES | _HYBRID_TYPES)}"
        )
    layers = int(text["num_hidden_layers"])
    hybrid = kind in _HYBRID_TYPES
    full = _full_layers(text, layers) if hybrid else layers
    heads = int(text["num_attention_heads"])
    model = Model(
        name=name,
        architecture=architecture,
        hybrid=hybrid,
        full_layers=full,
        linear_layers=layers - full,
        query_heads=heads,
        kv_heads=int(text.get("num_key_value_heads") or heads),
        head_dim=int(text.get("head_dim") or text["hidden_size"] // heads),
        hidden_size=int(text["hidden_size"]),
        intermediate_size=int(
            text.get("intermediate_size") or text.get("moe_intermediate_size") or 4096
        ),
        vocab_size=int(text["vocab_size"]),
        max_position_embeddings=int(text.get("max_position_embeddings") or 1 << 20),
        drafter_layers=int(
            text.get("mtp_num_hidden_layers") or text.get("num_nextn_predict_layers") or 1
        ),
        kv_scheme=_kv_scheme(config),
        weights_bytes=0,
        deltanet=_deltanet(text) if hybrid else None,
    )
    weights = weights_gib * GIB if weights_gib else _estimated_weights(model, config)
    return _with_weights(model, int(weights))


def _with_weights(model: Model, weights_bytes: int) -> Model:
    values = {field: getattr(model, field) for field in Model.__dataclass_fields__}
    return Model(**{**values, "weights_bytes": weights_bytes})


def _full_layers(text: Mapping[str, Any], layers: int) -> int:
    kinds = text.get("layer_types")
    if kinds:
        return sum(1 for kind in kinds if kind == "full_attention")
    return layers // int(text.get("full_attention_interval") or 4)


def _deltanet(text: Mapping[str, Any]) -> DeltaNet:
    dtype = str(text.get("dtype") or text.get("torch_dtype") or "bfloat16")
    state = str(text.get("mamba_ssm_dtype") or dtype)
    return DeltaNet(
        conv_kernel=int(text.get("linear_conv_kernel_dim") or 4),
        key_heads=int(text.get("linear_num_key_heads") or 16),
        value_heads=int(text.get("linear_num_value_heads") or 32),
        key_head_dim=int(text.get("linear_key_head_dim") or 128),
        value_head_dim=int(text.get("linear_value_head_dim") or 128),
        state_bytes=_DTYPE_BYTES.get(state, 2),
    )


def _kv_scheme(config: Mapping[str, Any]) -> str:
    quantization = config.get("quantization_config") or {}
    scheme = quantization.get("kv_cache_scheme") or {}
    if scheme.get("num_bits") == 8 or quantization.get("kv_cache_quant_algo") == "FP8":
        return "fp8"
    return "bfloat16"


def _estimated_weights(model: Model, config: Mapping[str, Any]) -> float:
    """Bytes of a dense transformer of this shape; embeddings stay in two bytes."""
    method = str((config.get("quantization_config") or {}).get("quant_method") or "")
    attention = model.hidden_size * model.head_dim * (2 * model.query_heads + 2 * model.kv_heads)
    layer = attention + 3 * model.hidden_size * model.intermediate_size
    layers = model.full_layers + model.linear_layers
    embeddings = 2 * model.vocab_size * model.hidden_size * 2
    return layers * layer * _QUANT_BYTES.get(method, 2.0) + embeddings
