"""What real engines printed: tokens and concurrency follow from the KV memory they named.

Memory was printed with two decimals and concurrency with two, so a case holds if both ends of the
memory's rounding enclose what was printed. Engines before 0.20 derived the printed tokens from
blocks in another way (`old_tokens`).
"""

import json
from pathlib import Path

import pytest

from parkade.sizing.architecture import parse_architecture
from parkade.sizing.planner import EngineOptions, KVLayout, plan_kv

DATA = Path(__file__).parents[1] / "data"
CASES = {
    case["id"]: case
    for case in map(json.loads, (DATA / "observations.jsonl").read_text().splitlines())
    if "available_kv_gib" in case["logged"]
    and case["logged"].keys() & {"kv_tokens", "max_concurrency", "kv_needed_gib"}
}

LAGUNA = {
    "architectures": ["LagunaForCausalLM"],
    "model_type": "laguna",
    "num_hidden_layers": 48,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 3072,
    "vocab_size": 100352,
    "sliding_window": 512,
    "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 12,
    "torch_dtype": "bfloat16",
}


def drafter(layers, kv_heads):
    return parse_architecture(
        {
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            "num_hidden_layers": layers,
            "num_attention_heads": 32,
            "num_key_value_heads": kv_heads,
            "head_dim": 128,
            "hidden_size": 2048,
            "vocab_size": 100352,
            "torch_dtype": "bfloat16",
        }
    )


DFLASH = {
    "spec_method": "dflash",
    "num_speculative_tokens": 15,
    "max_num_batched_tokens": 2048,
}
MTP3 = {"spec_method": "mtp", "num_speculative_tokens": 3}
# Case: the model's configuration, and options that its flags do not name.
MODELS = {
    "c001": ("Qwen3-4B", {}),
    "c006": ("Llama-3.1-8B-Instruct", {}),
    "c007": ("Qwen2.5-3B", {}),
    "c011": ("Qwen3-8B", {}),
    "c012": ("Qwen2.5-VL-7B", {}),
    "c013": ("Qwen2.5-VL-7B", {}),
    "c015": ("Qwen2.5-14B", {}),
    "c017": ("Qwen3-4B", {}),
    "c022": ("Qwen2.5-32B", {}),
    "c024": ("Qwen2.5-14B", {}),
    "c025": ("Qwen2.5-32B", {}),
    "c026": ("Qwen3.5-27B", {}),
    "c028": ("Qwen3.5-27B", {}),
    "c031": ("Llama-3.1-8B-Instruct", {}),
    "c032": ("Qwen2.5-3B", {}),
    "c034": ("gpt-oss-20b", {"max_num_batched_tokens": 2048}),  # the default of a small card
    "c036": ("Qwen3-8B", {}),
    "c037": ("Qwen3-8B", {}),
    "c048": ("Nemotron-3-Super-120B-A12B-NVFP4", MTP3),
    "c049": ("Qwen3.6-35B-A3B-NVFP4", {}),
    "c056": ("Qwen3.6-35B-A3B-NVFP4", MTP3),
    "c058": ("Qwen3.5-27B", MTP3 | {"kv_cache_dtype": "fp8"}),  # the NVFP4 checkpoint forces fp8
    # A drafter of six full layers like the target's, and the batch of a small card.
    "c060": ("Laguna", DFLASH | {"kv_cache_dtype": "fp8", "draft_architecture": drafter(6, 8)}),
    "c062": ("Laguna", DFLASH | {"draft_architecture": drafter(6, 8)}),
    # No other drafter of up to eight layers gives these tokens.
    "c065": (
        "Qwen3.6-35B-A3B-NVFP4",
        DFLASH | {"vllm_version": "0.25.0", "draft_architecture": drafter(8, 4)},
    ),
    "c069": ("GLM-5.1-NVFP4", {"block_size": 64}),
    "c070": ("GLM-5.1-NVFP4", MTP3 | {"block_size": 64}),
    "c081": ("GLM-5.2", {"block_size": 64, "vllm_version": "0.24.0"}),  # a branch on the way there
    "c087": ("Qwen2.5-7B", {}),
    "c089": ("Llama-3.1-70B-Instruct", {}),
    "c090": ("Llama-3.1-70B-Instruct", {}),
    "c091": ("Llama-3.1-70B-Instruct", {}),
    "c138": ("MiniMax-M2.5", {}),
    "c157": ("Qwen2.5-7B", {}),
    "c159": ("gemma-3-27b-it", {}),
    "c160": ("Mistral-7B-Instruct", {}),
    "c161": ("Qwen3.5-27B", {"enable_prefix_caching": False}),
    "c195": ("Qwen2-7B", {}),
    "c196": ("Qwen3-30B-A3B", {}),
    # The block size tells the format, the concurrency that prefixes were cached.
    "c199": (
        "Qwen3.5-35B-A3B",
        {"kv_cache_dtype": "fp8", "vllm_version": "0.20.0", "enable_prefix_caching": True},
    ),
    "c200": (
        "Qwen3.5-35B-A3B",
        {"kv_cache_dtype": "fp8", "vllm_version": "0.20.0", "enable_prefix_caching": True},
    ),
    "c201": (
        "Qwen3.5-27B",
        {"kv_cache_dtype": "fp8", "vllm_version": "0.20.0", "enable_prefix_caching": True},
    ),
}
ANOTHER_RANK = "the printed memory is of another rank than the printed tokens"
NO_CONFIG = "the model's configuration is not known"
CONTEXT_PARALLEL = "the cache was split over a decode context parallel group"
COMPRESSED = "DeepSeek V4's compressed cache is not modelled, and refused by name"
# Case: why the print does not follow from the memory beside it.
REASONS = {
    "c004": ANOTHER_RANK,
    "c041": NO_CONFIG,
    "c042": NO_CONFIG,
    "c047": NO_CONFIG,
    "c063": "a vendor's image, and the drafter's configuration is not known",
    "c071": CONTEXT_PARALLEL,
    "c072": CONTEXT_PARALLEL,
    "c076": CONTEXT_PARALLEL,
    "c078": ANOTHER_RANK,
    "c082": "the number of blocks was forced: the memory was negative",
    "c084": "the number of blocks was forced: exactly four requests",
    "c093": "the context length is not known",
    "c124": NO_CONFIG,
    "c125": NO_CONFIG,
    "c146": CONTEXT_PARALLEL,
    "c148": COMPRESSED,
    "c149": COMPRESSED,
    "c151": COMPRESSED,
    "c162": COMPRESSED,
    "c165": NO_CONFIG,
    "c166": NO_CONFIG,
    "c167": NO_CONFIG,
    "c168": NO_CONFIG,
    "c171": "the engine did not start; see the test of its estimate",
    "c174": NO_CONFIG,
    "c190": "a fork for another vendor's GPU, whose windows cost a little more",
    "c191": NO_CONFIG,
    "c204": NO_CONFIG,
}
FLAGS = ("kv_cache_dtype", "max_num_batched_tokens", "block_size", "enable_prefix_caching")


def layout_of(case, name, options):
    flags, logged = case["flags"], case["logged"]
    config = LAGUNA
    if name != "Laguna":
        config = json.loads((DATA / "models" / f"{name}.json").read_text())
    config = config | flags.get("hf_overrides", {})
    given = {flag: flags[flag] for flag in FLAGS if flag in flags}
    version = case["vllm_version"] or ""
    if version.startswith("0.") and ".dev" not in version[:6]:
        given["vllm_version"] = version
    layout = plan_kv(
        parse_architecture(config),
        EngineOptions(
            **{
                "max_model_len": logged.get("at_len") or flags["max_model_len"],
                "tensor_parallel_size": case["tp"] or 1,
            }
            | given
            | options
        ),
    )
    assert isinstance(layout, KVLayout), str(layout)
    return layout


def old_tokens(capacity):
    smallest = min(group.block_size for group in capacity.groups)
    return capacity.num_blocks // capacity.num_groups * smallest


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_print_follows_from_the_memory(name):
    case, logged = CASES[name], CASES[name]["logged"]
    layout = layout_of(case, *MODELS[name])
    low, high = (
        layout.capacity(int((logged["available_kv_gib"] + error) * 2**30))
        for error in (-0.005, 0.005)
    )
    assert (
        float(low.max_concurrency) - 0.005
        <= logged["max_concurrency"]
        <= float(high.max_concurrency) + 0.005
    )
    tokens = logged["kv_tokens"]
    assert low.kv_tokens <= tokens <= high.kv_tokens or (
        old_tokens(low) <= tokens <= old_tokens(high)
    )
    if "attention_block_size" in logged:
        assert layout.block_size == logged["attention_block_size"]


def test_the_estimated_length_follows_from_the_memory():
    case = CASES["c171"]
    layout = layout_of(case, "Qwen3-8B", {"vllm_version": "0.20.0"})
    capacity = layout.capacity(int(case["logged"]["available_kv_gib"] * 2**30))
    assert not capacity.fits_one_request
    assert capacity.estimated_max_model_len == case["logged"]["estimated_max_len"]
    needed = capacity.blocks_per_request_at_max_len * capacity.bytes_per_block
    assert round(needed / 2**30, 2) == pytest.approx(case["logged"]["kv_needed_gib"], abs=0.011)


def test_every_case_is_reproduced_or_has_its_reason():
    assert set(CASES) == set(MODELS) | set(REASONS)
    assert not set(MODELS) & set(REASONS)
