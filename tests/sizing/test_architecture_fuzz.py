"""Whatever stands in a configuration, the answer is a value and never an exception."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from parkade.sizing.architecture import (
    ModelArchitecture,
    UnsupportedArchitecture,
    parse_architecture,
)
from parkade.sizing.architecture.model_types import MODEL_TYPES
from parkade.sizing.architecture.registry import ARCHITECTURES
from parkade.sizing.planner import EngineOptions, KVLayout, NotPlannable, plan_kv

DATA = Path(__file__).parents[1] / "data"
CONFIGS = [
    json.loads(path.read_text())
    for folder in ("models", "oracle/configs")
    for path in sorted((DATA / folder).glob("*.json"))
]
BASE = {
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "hidden_size": 512,
    "head_dim": 64,
    "vocab_size": 1000,
    "kv_lora_rank": 128,
    "qk_rope_head_dim": 64,
    "sliding_window": 128,
    "linear_attn_config": {
        "kda_layers": [1, 2, 3, 5, 6, 7],
        "full_attn_layers": [4, 8],
        "head_dim": 64,
        "num_heads": 8,
    },
    "hybrid_override_pattern": "M*M-M*ME",
    "layers_block_type": None,
}
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**30)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["full_attention", "sliding_attention", "mamba", "auto", "bfloat16"]),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
options = st.builds(
    EngineOptions,
    max_model_len=st.integers(1, 2**20),
    kv_cache_dtype=st.sampled_from(
        ["auto", "fp8", "nvfp4", "int4_per_token_head", "fp8_ds_mla", "bfloat16", "float32"]
    ),
    tensor_parallel_size=st.sampled_from([1, 2, 3, 8, 16]),
    pipeline_parallel_size=st.integers(1, 4),
    block_size=st.none() | st.integers(1, 300),
    enable_prefix_caching=st.none() | st.booleans(),
    disable_hybrid_kv_cache_manager=st.booleans(),
    spec_method=st.just("mtp"),
    num_speculative_tokens=st.integers(1, 4),
    kernel_block_alignment=st.integers(1, 130),
    vllm_version=st.sampled_from(["0.20.0", "0.24.0", "0.27.0", "0.29.0", "0.32.0", "0.33.0"]),
)


def check(config, engine):
    model = parse_architecture(config)
    assert isinstance(model, ModelArchitecture | UnsupportedArchitecture)
    if isinstance(model, UnsupportedArchitecture):
        assert model.reason
        assert "\n" not in str(model)
        return
    layout = plan_kv(model, engine)
    assert isinstance(layout, KVLayout | NotPlannable)
    if isinstance(layout, KVLayout):
        capacity = layout.capacity(10**11)
        assert capacity.num_blocks * capacity.bytes_per_block <= 10**11
        assert capacity.kv_tokens >= 0
        assert capacity.estimated_max_model_len is None or not capacity.fits_one_request
    else:
        assert "\n" not in str(layout)


@settings(max_examples=300)
@given(st.data(), st.sampled_from(CONFIGS), json_values, options)
def test_a_published_configuration_with_one_strange_field(data, config, value, engine):
    section = config
    if isinstance(config.get("text_config"), dict) and data.draw(st.booleans()):
        section = config["text_config"]
    field = data.draw(st.sampled_from(sorted(section)))
    changed = dict(section) | {field: value}
    check(config | {"text_config": changed} if section is not config else changed, engine)


@settings(max_examples=300)
@given(
    st.sampled_from(sorted(ARCHITECTURES)),
    st.sampled_from(sorted(MODEL_TYPES)),
    st.dictionaries(st.sampled_from(sorted(BASE)), json_values, max_size=2),
    options,
)
def test_any_architecture_with_any_model_type(name, model_type, strange, engine):
    check(BASE | {"architectures": [name], "model_type": model_type} | strange, engine)


@given(json_values, options)
def test_any_value_at_all(value, engine):
    check(value, engine)
