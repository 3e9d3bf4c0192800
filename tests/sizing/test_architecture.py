"""Configurations of every family, and what is refused and why."""

import json
import math
from pathlib import Path

import pytest

from parkade.sizing.architecture import (
    ModelArchitecture,
    UnsupportedArchitecture,
    parse_architecture,
)
from parkade.sizing.architecture.model_types import MODEL_TYPES, WRAPPER_TYPES, WRAPPERS
from parkade.sizing.architecture.registry import ARCHITECTURES

DATA = Path(__file__).parents[1] / "data"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "hidden_size": 512,
    "vocab_size": 1000,
}
HUGE = 10**30


def kinds_of(config):
    model = parse_architecture(config)
    assert isinstance(model, ModelArchitecture), str(model)
    return [type(cache).__name__ for cache in model.caches]


@pytest.mark.parametrize(
    "path", sorted((DATA / "models").glob("*.json")), ids=lambda path: path.stem
)
def test_published_configurations_are_read_or_refused_by_name(path):
    found = parse_architecture(json.loads(path.read_text()))
    if isinstance(found, UnsupportedArchitecture):
        assert path.stem in {
            "DeepSeek-V4-Flash",  # a compressed cache that is not modelled
            "Qwen3.5-9B",  # these three are notes, not configurations
            "Qwen3.5-family-92L-GB300",
            "Qwen3.8-27B",
        }
        assert found.name
        assert found.reason
    else:
        assert found.caches


@pytest.mark.parametrize(
    ("name", "layers", "caches", "kv_cache_dtype"),
    [
        pytest.param("Kimi-K2.6-NVFP4", 61, 61, "fp8_e4m3", id="a wrapper with a KV scheme"),
        pytest.param("Kimi-Linear-48B-A3B", 27, 27, None, id="KDA without architectures"),
        pytest.param("Kimi-K3", 93, 93, None, id="KDA in a wrapper"),
        pytest.param("GLM-5.2", 78, 156, None, id="a sparse indexer that layers share"),
        pytest.param("gpt-oss-20b", 24, 24, None, id="alternating windows"),
        pytest.param("Nemotron-3-Nano-30B-A3B-NVFP4", 52, 29, None, id="experts in between"),
        pytest.param("Qwen2.5-VL-7B", 28, 28, None, id="a flat wrapper"),
        pytest.param("gemma-3-27b-it", 62, 62, None, id="class defaults"),
    ],
)
def test_models_have_the_caches_of_their_family(name, layers, caches, kv_cache_dtype):
    model = parse_architecture(json.loads((DATA / "models" / f"{name}.json").read_text()))
    assert isinstance(model, ModelArchitecture), str(model)
    assert model.num_hidden_layers == layers
    assert len(model.caches) == caches
    assert model.kv_cache_dtype == kv_cache_dtype


@pytest.mark.parametrize(
    ("more", "window"),
    [
        pytest.param({"sliding_window": 4096}, 4096, id="one window for the whole model"),
        pytest.param({"sliding_window": None}, None, id="null is no window"),
        pytest.param({"sliding_window": 0}, None, id="zero is no window"),
        pytest.param({}, 4096, id="the class's default of Mistral"),
    ],
)
def test_a_window_of_the_whole_model(more, window):
    config = LLAMA | {"architectures": ["MistralForCausalLM"], "model_type": "mistral"} | more
    model = parse_architecture(config)
    assert {cache.sliding_window for cache in model.caches} == {window}


@pytest.mark.parametrize(
    ("more", "windows"),
    [
        pytest.param({}, [None, None], id="not switched on"),
        pytest.param({"use_sliding_window": True}, [1024, 1024], id="on all layers"),
        pytest.param(
            {"use_sliding_window": True, "max_window_layers": 2}, [None, None], id="on none"
        ),
    ],
)
def test_qwen_has_one_window_for_all_layers_or_none(more, windows):
    config = LLAMA | {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "sliding_window": 1024,
        "max_window_layers": 0,
    }
    model = parse_architecture(config | more)
    assert [cache.sliding_window for cache in model.caches] == windows


def test_qwen_with_windows_on_some_layers_is_refused_as_by_the_engine():
    found = parse_architecture(
        LLAMA
        | {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "sliding_window": 1024,
            "use_sliding_window": True,
            "max_window_layers": 1,
        }
    )
    assert isinstance(found, UnsupportedArchitecture)
    assert "max_window_layers gives some layers a window" in found.reason


def test_shared_caches_are_not_counted():
    config = LLAMA | {
        "architectures": ["Gemma4ForCausalLM"],
        "model_type": "gemma4_text",
        "num_hidden_layers": 12,
        "num_kv_shared_layers": 6,
        "sliding_window": 512,
    }
    model = parse_architecture(config)
    assert (model.num_hidden_layers, len(model.caches)) == (12, 6)


def test_a_granite_without_mamba_is_no_hybrid():
    config = LLAMA | {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "model_type": "granitemoehybrid",
        "layer_types": ["attention", "attention"],
    }
    model = parse_architecture(config)
    assert not model.is_hybrid
    assert kinds_of(config) == ["AttentionCache", "AttentionCache"]


def test_jamba_attends_on_every_eighth_layer():
    config = LLAMA | {
        "architectures": ["JambaForCausalLM"],
        "model_type": "jamba",
        "num_hidden_layers": 16,
    }
    assert [index for index, kind in enumerate(kinds_of(config)) if kind == "AttentionCache"] == [
        4,
        12,
    ]


def test_lightning_attention_is_read_from_its_list():
    config = LLAMA | {
        "architectures": ["MiniMaxText01ForCausalLM"],
        "model_type": "minimax_text_01",
        "num_hidden_layers": 8,
        "attn_type_list": [0] * 7 + [1],
        "head_dim": 64,
    }
    assert kinds_of(config) == ["LinearAttentionState"] * 7 + ["AttentionCache"]


REFUSALS = [
    pytest.param({"architectures": ["MadeUpForCausalLM"]}, "MadeUpForCausalLM", id="unknown name"),
    pytest.param({"architectures": []}, "architectures", id="no name"),
    pytest.param({"architectures": "LlamaForCausalLM"}, "architectures", id="a name without list"),
    pytest.param({"architectures": [7]}, "architectures", id="a number for a name"),
    pytest.param({"num_hidden_layers": 0}, "num_hidden_layers", id="no layers"),
    pytest.param({"num_hidden_layers": -1}, "num_hidden_layers", id="negative layers"),
    pytest.param({"num_hidden_layers": HUGE}, "num_hidden_layers", id="huge layers"),
    pytest.param({"num_hidden_layers": "32"}, "num_hidden_layers", id="layers as text"),
    pytest.param({"num_hidden_layers": 2.0}, "num_hidden_layers", id="layers as a fraction"),
    pytest.param({"num_hidden_layers": math.nan}, "num_hidden_layers", id="NaN layers"),
    pytest.param({"num_hidden_layers": math.inf}, "num_hidden_layers", id="infinite layers"),
    pytest.param({"num_hidden_layers": True}, "num_hidden_layers", id="layers of true"),
    pytest.param({"num_hidden_layers": [2]}, "num_hidden_layers", id="layers as a list"),
    pytest.param({"num_attention_heads": 0}, "num_attention_heads", id="no heads"),
    pytest.param({"num_key_value_heads": 3}, "num_key_value_heads", id="heads do not divide"),
    pytest.param({"num_key_value_heads": 16}, "num_key_value_heads", id="more KV heads than heads"),
    pytest.param({"num_key_value_heads": 0}, "num_key_value_heads", id="no KV heads"),
    pytest.param({"head_dim": -128}, "head_dim", id="a negative head"),
    pytest.param({"head_dim": HUGE}, "head_dim", id="a huge head"),
    pytest.param({"hidden_size": None}, "hidden_size", id="no width, and none in the class"),
    pytest.param({"hidden_size": 4}, "hidden_size", id="less width than heads"),
    pytest.param({"vocab_size": 0}, "vocab_size", id="no vocabulary"),
    pytest.param({"layer_types": ["full_attention"]}, "layer_types", id="too few layer types"),
    pytest.param({"layer_types": ["magic"] * 2}, "magic", id="an unknown layer type"),
    pytest.param({"layer_types": "full_attention"}, "layer_types", id="layer types as text"),
    pytest.param({"layer_types": [[]] * 2}, "layer_types", id="layer types as lists"),
    pytest.param(
        {"layer_types": ["sliding_attention"] * 2}, "sliding_window", id="windows without a size"
    ),
    pytest.param({"sliding_window": -1}, "sliding_window", id="a negative window"),
    pytest.param({"dtype": "int7"}, "int7", id="an unknown type"),
    pytest.param({"torch_dtype": 16}, "torch_dtype", id="a type as a number"),
    pytest.param({"quantization_config": "fp8"}, "quantization_config", id="a scheme as text"),
    pytest.param({"text_config": 7}, "text_config", id="a text configuration of 7"),
    pytest.param({"model_type": 7}, "model_type", id="a model type of 7"),
    pytest.param({"max_position_embeddings": "long"}, "max_position", id="a context as text"),
]


@pytest.mark.parametrize(("more", "reason"), REFUSALS)
def test_impossible_configurations_are_refused_with_the_field(more, reason):
    found = parse_architecture(LLAMA | more)
    assert isinstance(found, UnsupportedArchitecture)
    assert reason in str(found)
    assert "\n" not in str(found)
    assert len(str(found)) < 300


@pytest.mark.parametrize("value", [{}, [], None, 7, "text", {"model_type": "nothing_known"}])
def test_what_is_no_model_is_refused(value):
    found = parse_architecture(value)
    assert isinstance(found, UnsupportedArchitecture)


@pytest.mark.parametrize(
    "field",
    [
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
    ],
)
def test_a_missing_field_takes_the_default_of_its_class_unless_it_is_null(field):
    path = DATA / "oracle" / "configs" / "Qwen--Qwen3.5-35B-A3B.json"
    config = json.loads(path.read_text())
    whole = parse_architecture(config)
    del config["text_config"][field]
    assert parse_architecture(config) == whole
    config["text_config"][field] = None
    found = parse_architecture(config)
    assert isinstance(found, UnsupportedArchitecture)
    assert f"text_config.{field}" in found.reason


def test_the_tables_of_names_agree():
    assert set(MODEL_TYPES.values()) <= set(ARCHITECTURES)
    assert {name for name, _ in WRAPPER_TYPES.values()} <= WRAPPERS
    assert {inner for _, inner in WRAPPER_TYPES.values()} <= set(MODEL_TYPES)
    assert not WRAPPERS & set(ARCHITECTURES)
