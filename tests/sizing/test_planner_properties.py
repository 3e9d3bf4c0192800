"""What holds for every model and every amount of memory."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.sizing.architecture import ModelArchitecture, parse_architecture
from parkade.sizing.planner import EngineOptions, KVLayout, NotPlannable, plan_kv

powers = st.sampled_from([1, 2, 4, 8])
memory = st.integers(min_value=-(2**40), max_value=2**48)
lengths = st.integers(min_value=1, max_value=2**21)


def dense(layers=32, kv_heads=8, head_dim=128, **more):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_size": 4096,
        "vocab_size": 32000,
        "torch_dtype": "bfloat16",
    } | more


def windowed(layers=32, **more):
    kinds = ["full_attention" if index % 4 == 3 else "sliding_attention" for index in range(layers)]
    return dense(layers, layer_types=kinds, sliding_window=1024, **more)


def hybrid(layers=32, kv_heads=4, head_dim=256, **more):
    return {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "hidden_size": 4096,
        "vocab_size": 32000,
        "torch_dtype": "bfloat16",
    } | more


def latent(layers=32, **more):
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "hidden_size": 4096,
        "vocab_size": 32000,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "torch_dtype": "bfloat16",
    } | more


FAMILIES = [dense, windowed, hybrid, latent]
families = st.sampled_from(FAMILIES)
layer_counts = st.integers(min_value=1, max_value=24).map(lambda count: 4 * count)


def planned(config, max_model_len=8192, **options):
    model = parse_architecture(config)
    assert isinstance(model, ModelArchitecture), str(model)
    layout = plan_kv(model, EngineOptions(max_model_len=max_model_len, **options))
    assert isinstance(layout, KVLayout), str(layout)
    return layout


@given(families, layer_counts, memory, lengths)
def test_capacity_is_never_negative_and_never_above_what_the_bytes_allow(
    family, layers, available, length
):
    capacity = planned(family(layers), length).capacity(available)
    assert capacity.num_blocks >= 0
    assert capacity.kv_tokens >= 0
    assert capacity.max_requests(length) >= 0
    assert capacity.num_blocks * capacity.bytes_per_block <= max(0, available)
    assert (capacity.num_blocks + 1) * capacity.bytes_per_block > available


@given(families, memory, memory, lengths)
def test_less_memory_never_holds_more(family, one, other, length):
    layout = planned(family(), length)
    less, more = layout.capacity(min(one, other)), layout.capacity(max(one, other))
    assert less.num_blocks <= more.num_blocks
    assert less.kv_tokens <= more.kv_tokens
    assert less.fits_one_request <= more.fits_one_request
    assert less.max_requests(length) <= more.max_requests(length)


@given(families, lengths, lengths, st.sampled_from([None, True, False]))
def test_a_longer_request_never_holds_fewer_blocks(family, one, other, caching):
    layout = planned(family(), 2**21, enable_prefix_caching=caching)
    assert 1 <= layout.blocks(min(one, other)) <= layout.blocks(max(one, other))


@given(families, layer_counts, layer_counts, memory, lengths)
def test_more_layers_never_hold_more(family, one, other, available, length):
    few = planned(family(min(one, other)), length).capacity(available)
    many = planned(family(max(one, other)), length).capacity(available)
    assert many.num_blocks <= few.num_blocks
    assert many.max_requests(length) <= few.max_requests(length)


@given(families, powers, memory, lengths)
def test_a_larger_format_never_holds_more(family, tp, available, length):
    formats = ["fp8", "bfloat16", "float32"]
    held = [
        planned(family(), length, kv_cache_dtype=name, tensor_parallel_size=tp)
        .capacity(available)
        .max_requests(length)
        for name in formats
    ]
    assert held == sorted(held, reverse=True)


@given(st.sampled_from([dense, windowed]), memory, lengths)
def test_four_bits_hold_at_least_what_eight_do(family, available, length):
    four, eight = (
        planned(family(), length, kv_cache_dtype=name).capacity(available).max_requests(length)
        for name in ("nvfp4", "fp8")
    )
    assert four >= eight


@given(families, powers, powers, lengths)
def test_more_ranks_never_hold_less(family, one, other, length):
    few, many = (
        planned(family(), length, tensor_parallel_size=tp).capacity(10**11)
        for tp in sorted((one, other))
    )
    assert few.max_requests(length) <= many.max_requests(length)


@given(families, memory, lengths)
def test_the_estimated_length_is_the_longest_that_fits(family, available, length):
    layout = planned(family(), length)
    capacity = layout.capacity(available)
    estimate = capacity.estimated_max_model_len
    assert (estimate is None) == capacity.fits_one_request
    if estimate is None:
        return
    assert 0 <= estimate < length
    fits = replace(layout, max_model_len=estimate + 1).capacity(available).fits_one_request
    assert not fits
    if estimate:
        assert replace(layout, max_model_len=estimate).capacity(available).fits_one_request


@given(st.integers(1, 8), st.sampled_from(FAMILIES))
def test_pipeline_stages_share_the_layers(stages, family):
    whole = planned(family(32))
    parted = planned(family(32), pipeline_parallel_size=stages)
    assert sum(group.layers for group in parted.groups) == sum(g.layers for g in whole.groups)
    assert parted.bytes_per_block <= whole.bytes_per_block
    assert len(parted.stage_bytes_per_block) == stages


def test_heads_are_replicated_below_one_a_rank():
    eight = planned(dense(kv_heads=8), tensor_parallel_size=8).bytes_per_block
    sixteen = planned(dense(kv_heads=8), tensor_parallel_size=16).bytes_per_block
    assert eight == sixteen


def test_the_drafter_trap_divides_the_layers_into_small_groups():
    target = hybrid(64, head_dim=256, kv_heads=4)
    draft = dense(5, kv_heads=8, head_dim=128, architectures=["LlamaForCausalLMEagle3"])
    plain = planned(target, 131072)
    trapped = planned(
        target,
        131072,
        spec_method="eagle3",
        num_speculative_tokens=3,
        draft_architecture=parse_architecture(draft),
    )
    assert (plain.num_groups, plain.group_size) == (4, 16)
    assert (trapped.num_groups, trapped.group_size) == (15, 5)


def test_chunked_attention_with_a_drafter_keeps_all_tokens():
    config = dense(8, architectures=["Llama4ForCausalLM"], attention_chunk_size=1024)
    config["model_type"] = "llama4_text"
    draft = parse_architecture(dense(1, architectures=["LlamaForCausalLMEagle3"]))
    alone = planned(config, 65536)
    drafted = planned(
        config,
        65536,
        spec_method="eagle3",
        num_speculative_tokens=2,
        draft_architecture=draft,
    )
    assert {str(group.kind) for group in alone.groups} == {
        "full_attention",
        "chunked_local_attention",
    }
    assert [str(group.kind) for group in drafted.groups] == ["full_attention"]


def test_a_drafter_inherits_the_window_of_the_whole_model():
    target = dense(32, sliding_window=4096)
    draft = parse_architecture(dense(1, architectures=["LlamaForCausalLMEagle3"]))
    layout = planned(
        target, 65536, spec_method="eagle3", num_speculative_tokens=2, draft_architecture=draft
    )
    assert [(str(group.kind), group.layers) for group in layout.groups] == [("sliding_window", 33)]


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        pytest.param("0.20.0", False, id="the oldest known version"),
        pytest.param("0.33.1", False, id="the newest known version"),
        pytest.param("v0.32.0", False, id="a tag's spelling"),
        pytest.param("0.29.1rc1.dev3+gabc", False, id="a development version"),
        pytest.param("0.12.0", True, id="an older version"),
        pytest.param("0.40.0", True, id="a newer version"),
        pytest.param("1.0.0", True, id="a version after 1"),
    ],
)
def test_a_version_without_known_rules_is_accepted_with_a_warning(version, warned):
    layout = planned(dense(), vllm_version=version)
    assert bool(layout.warnings) == warned
    assert all("rules" in warning for warning in layout.warnings)


@pytest.mark.parametrize(
    ("version", "blocks"),
    [
        pytest.param("0.25.0", 578, id="one batch in flight"),
        pytest.param("0.26.0", 1090, id="two batches in flight since 0.26"),
    ],
)
def test_windows_pay_for_the_tokens_in_flight(version, blocks):
    layout = planned(windowed(), 131072, max_num_batched_tokens=8192, vllm_version=version)
    sliding = next(group for group in layout.groups if group.kind == "sliding_window")
    assert sliding.blocks(131072) == blocks - 1


@pytest.mark.parametrize(
    ("version", "caching", "mode"),
    [
        pytest.param("0.27.0", None, "none", id="off by default before 0.28"),
        pytest.param("0.28.0", None, "align", id="on by default since 0.28"),
        pytest.param("0.32.0", False, "none", id="switched off"),
    ],
)
def test_prefix_caching_of_hybrids_depends_on_the_version(version, caching, mode):
    layout = planned(hybrid(), vllm_version=version, enable_prefix_caching=caching)
    assert layout.mamba_cache_mode == mode


def test_gated_delta_blocks_are_multiples_of_64_since_0_33():
    old = planned(hybrid(), vllm_version="0.32.0")
    new = planned(hybrid(), vllm_version="0.33.0")
    assert new.block_size % 64 == 0
    assert new.block_size >= old.block_size
    assert any("FlashInfer" in warning for warning in new.warnings)


REFUSED_OPTIONS = [
    pytest.param({"tensor_parallel_size": 5}, "tensor_parallel_size 5", id="heads do not divide"),
    pytest.param({"pipeline_parallel_size": 64}, "32 layers", id="more stages than layers"),
    pytest.param({"kv_cache_dtype": "fp3"}, "fp3", id="an unknown format"),
    pytest.param({"vllm_version": "latest"}, "latest", id="a version that is none"),
    pytest.param({"max_model_len": 0}, "max_model_len", id="no length"),
    pytest.param({"max_model_len": True}, "max_model_len", id="a length of true"),
    pytest.param({"block_size": 0}, "block_size", id="a block of nothing"),
    pytest.param({"num_speculative_tokens": 2}, "spec method", id="drafts without a drafter"),
    pytest.param(
        {"spec_method": "mtp", "num_speculative_tokens": 2}, "no MTP layers", id="no MTP layers"
    ),
    pytest.param(
        {"spec_method": "eagle3", "num_speculative_tokens": 2}, "draft model", id="no draft model"
    ),
    pytest.param({"spec_method": "mtp"}, "num_speculative_tokens", id="a drafter without drafts"),
    pytest.param({"spec_method": "guess"}, "guess", id="an unknown drafter"),
    pytest.param({"mamba_cache_dtype": "int3"}, "int3", id="an unknown state type"),
]


@pytest.mark.parametrize(("options", "reason"), REFUSED_OPTIONS)
def test_options_that_do_not_go_together_are_a_value_with_the_reason(options, reason):
    found = plan_kv(parse_architecture(dense()), EngineOptions(**{"max_model_len": 8192} | options))
    assert isinstance(found, NotPlannable)
    assert reason in str(found)
    assert "\n" not in str(found)


def test_latent_attention_does_not_go_with_four_bits():
    found = plan_kv(
        parse_architecture(latent()), EngineOptions(max_model_len=8192, kv_cache_dtype="nvfp4")
    )
    assert isinstance(found, NotPlannable)
    assert "MLA" in found.reason


def test_kimi_linear_keeps_its_state_in_float32():
    config = latent(
        4,
        architectures=["KimiLinearForCausalLM"],
        model_type="kimi_linear",
        linear_attn_config={
            "kda_layers": [1, 2, 3],
            "full_attn_layers": [4],
            "head_dim": 128,
            "num_heads": 32,
        },
    )
    narrow = plan_kv(
        parse_architecture(config),
        EngineOptions(max_model_len=8192, mamba_ssm_cache_dtype="bfloat16"),
    )
    assert isinstance(narrow, NotPlannable)
    assert "float32" in narrow.reason
    wide = planned(config, mamba_ssm_cache_dtype="float32")
    assert wide.groups == planned(config).groups
