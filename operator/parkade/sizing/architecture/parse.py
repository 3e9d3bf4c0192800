"""``parse_architecture``: a ``config.json`` becomes a model that the planner understands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from parkade.sizing.architecture.common import (
    Family,
    feed_of,
    hidden_size,
    max_positions,
    num_heads,
)
from parkade.sizing.architecture.fields import FieldError, Fields, NotUnderstoodError, shown
from parkade.sizing.architecture.model import ModelArchitecture, UnsupportedArchitecture
from parkade.sizing.architecture.model_types import MODEL_TYPES, WRAPPER_TYPES, WRAPPERS
from parkade.sizing.architecture.quantization import (
    forced_kv_cache_dtype,
    quantization_method,
    quantization_of,
)
from parkade.sizing.architecture.registry import ARCHITECTURES, Reader

_DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16"}
_DOWNCAST = ("float32", "float", "float64", "double")


def parse_architecture(config: Mapping[str, Any]) -> ModelArchitecture | UnsupportedArchitecture:
    """Read a configuration; what is not understood is refused with its name and the reason.

    Missing fields take the defaults of the model's configuration class (transformers 5.19, or
    the engine's own class); where there is none, the refusal names the field. Nothing is guessed.
    """
    name = "unnamed"
    try:
        name = _name(config)
        return _parsed(config, name)
    except NotUnderstoodError as error:
        return UnsupportedArchitecture(name, str(error))
    except FieldError as error:
        return UnsupportedArchitecture(name, str(error), malformed=True)


def _parsed(config: Mapping[str, Any], name: str) -> ModelArchitecture:
    text, where = _text_config(config)
    model_type = _model_type(config, text)
    reader = _reader(name, text, model_type)
    fields = Fields(text, _class_defaults().get(model_type), where)
    family = reader(fields, model_type)
    section = quantization_of(config, text)
    return ModelArchitecture(
        name=name,
        model_type=model_type,
        layers=family.layers,
        dtype=_dtype(config, text),
        num_attention_heads=_attention_heads(family, fields),
        num_kv_heads=family.num_kv_heads,
        head_size=family.head_size,
        hidden_size=hidden_size(fields),
        vocab_size=fields.integer("vocab_size", high=1 << 30),
        max_position_embeddings=max_positions(fields),
        feed=feed_of(fields),
        tie_word_embeddings=_tied(config, fields),
        uses_mla=family.uses_mla,
        is_hybrid=family.is_hybrid,
        kv_cache_dtype=forced_kv_cache_dtype(config, text),
        quantization=quantization_method(section),
        mamba_ssm_dtype=family.mamba_ssm_dtype,
        mtp_layers=family.mtp_layers,
        num_mtp_modules=family.num_mtp_modules,
        chunked_local_attention=family.chunked_local_attention,
        mamba_chunk_size=family.mamba_chunk_size,
        last_version=family.last_version,
    )


def _attention_heads(family: Family, fields: Fields) -> int:
    heads = family.num_attention_heads
    return num_heads(fields) if heads is None else heads


def _name(config: Mapping[str, Any]) -> str:
    """Return the architecture's name, from the file or by its ``model_type``."""
    if not isinstance(config, Mapping):
        raise FieldError(f"the configuration is {shown(config)}, not an object")
    names = config.get("architectures")
    if names is not None:
        if not isinstance(names, list) or not names or not isinstance(names[0], str):
            raise FieldError(f"architectures is {shown(names)}, not a list of names")
        return names[0]
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise FieldError("architectures and model_type are missing")
    if model_type in WRAPPER_TYPES:
        return WRAPPER_TYPES[model_type][0]
    return MODEL_TYPES.get(model_type, model_type)


def _text_config(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the part that describes the language model, and where it stands in the file."""
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping) and isinstance(thinker.get("text_config"), Mapping):
        return thinker["text_config"], "thinker_config.text_config"
    for name in ("text_config", "llm_config", "language_config"):
        section = config.get(name)
        if section is None:
            continue
        if not isinstance(section, Mapping):
            raise FieldError(f"{name} is {shown(section)}, not an object")
        return section, name
    return config, ""


def _model_type(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    model_type = text.get("model_type", config.get("model_type"))
    if model_type is None:
        return ""
    if not isinstance(model_type, str):
        raise FieldError(f"model_type is {shown(model_type)}, not text")
    own = text is not config and "model_type" in text
    return model_type if own or model_type not in WRAPPER_TYPES else WRAPPER_TYPES[model_type][1]


def _reader(name: str, text: Mapping[str, Any], model_type: str) -> Reader:
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    if name not in WRAPPERS:
        raise NotUnderstoodError("this architecture is not modelled")
    inner = MODEL_TYPES.get(model_type)
    if inner is None:
        inner = next(iter(text.get("architectures") or [""]), "")
    if inner not in ARCHITECTURES:
        raise NotUnderstoodError(
            f"its language model {model_type or 'without model_type'} is not modelled"
        )
    return ARCHITECTURES[inner]


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    """Return the type that the engine computes in: 32 bits are cut to bfloat16."""
    for source in (config, text, config.get("vision_config"), config.get("encoder_config")):
        if not isinstance(source, Mapping):
            continue
        for name in ("dtype", "torch_dtype"):
            value = source.get(name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise FieldError(f"{name} is {shown(value)}, not the name of a type")
            plain = value.removeprefix("torch.")
            if plain in _DOWNCAST:
                return "bfloat16"
            if plain not in _DTYPES:
                raise FieldError(f"{name} is {shown(value)}, a type that no model runs in")
            return _DTYPES[plain]
    return "bfloat16"


def _tied(config: Mapping[str, Any], fields: Fields) -> bool:
    for value in (config.get("tie_word_embeddings"), fields.raw("tie_word_embeddings")):
        if isinstance(value, bool):
            return value
    return False


@cache
def _class_defaults() -> dict[str, dict[str, Any]]:
    """Defaults of the configuration classes, by ``model_type`` (transformers 5.19)."""
    file = resources.files("parkade.sizing.architecture").joinpath("class_defaults.json")
    defaults: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return defaults
