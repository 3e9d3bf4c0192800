"""What a checkpoint says about the format of weights and cache.

Source: ``get_kv_cache_quant_algo_string`` and ``resolve_kv_cache_dtype_string``
(vllm/utils/torch_utils.py), ``_normalize_quantization_config``
(vllm/transformers_utils/model_arch_config_convertor.py), and the ``kv_cache_scheme`` that
``Attention.__init__`` honours for compressed-tensors
(vllm/model_executor/layers/attention/attention.py), 0.32.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parkade.sizing.architecture.fields import FieldError, shown

_MODELOPT_FORMATS = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def quantization_of(config: Mapping[str, Any], text: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the quantization section, of the file or of its text configuration."""
    for source in (config, text):
        for name in ("quantization_config", "compression_config"):
            section = source.get(name)
            if section is None:
                continue
            if not isinstance(section, Mapping):
                raise FieldError(f"{name} is {shown(section)}, not an object")
            return dict(section)
    return None


def quantization_method(section: Mapping[str, Any] | None) -> str | None:
    """Return the method's name as the engine spells it, or None where nothing is quantized."""
    if section is None:
        return None
    method = section.get("quant_method")
    if isinstance(method, str) and method:
        return method.lower().replace("compressed_tensors", "compressed-tensors")
    return "modelopt" if _is_modelopt(section) else None


def forced_kv_cache_dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> str | None:
    """Return the cache format that ``auto`` becomes, or None for the model's own type.

    The layers read a compressed-tensors scheme wherever it stands; a ModelOpt one counts only
    at the top of the file, and only where the section names its method.
    """
    section = quantization_of(config, text)
    if section is None:
        return None
    method = quantization_method(section) or ""
    if method == "compressed-tensors":
        return "fp8" if section.get("kv_cache_scheme") is not None else None
    if config.get("quantization_config") is None or not _names_modelopt(section):
        return None
    inner = section.get("quantization")
    sources = (inner if isinstance(inner, Mapping) else section, section)
    for name in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for source in sources:
            if source.get(name):
                return _modelopt_format(source[name])
    return None


def _names_modelopt(section: Mapping[str, Any]) -> bool:
    """Whether the engine finds ``quant_method`` to be ModelOpt's, or writes it itself.

    It writes it for sections with a nested ``quantization`` that names its algorithm; a flat
    section of ModelOpt without a method keeps the model's own cache.
    """
    inner = section.get("quantization")
    if isinstance(inner, Mapping) and inner.get("quant_algo") is not None:
        legacy = "modelopt_quant_config" in inner
        if legacy or _is_modelopt(section):
            return True
    method = section.get("quant_method")
    return isinstance(method, str) and method.lower().startswith("modelopt")


def _is_modelopt(section: Mapping[str, Any]) -> bool:
    producer = section.get("producer")
    return isinstance(producer, Mapping) and producer.get("name") == "modelopt"


def _modelopt_format(scheme: Any) -> str | None:
    if isinstance(scheme, Mapping):
        bits, is_float = scheme.get("num_bits"), scheme.get("type") == "float"
        if bits == 8 and is_float and scheme.get("dynamic") is False:
            scheme = "fp8"
        elif bits == 4 and is_float:
            scheme = "nvfp4"
    return _MODELOPT_FORMATS.get(scheme.lower()) if isinstance(scheme, str) else None
