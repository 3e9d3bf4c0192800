"""Every result that the engine's own planner (0.32.0) gave, reproduced to the block.

`planner` cases were computed by calling it, `engine` cases were printed by a live engine on a CPU.
"""

import json
from pathlib import Path

import pytest

from parkade.sizing.architecture import ModelArchitecture, parse_architecture
from parkade.sizing.planner import EngineOptions, KVLayout, plan_kv

DATA = Path(__file__).parents[1] / "data" / "oracle"
CASES = [json.loads(line) for line in (DATA / "cases.jsonl").read_text().splitlines()]
KINDS = {
    "FullAttentionSpec": "full_attention",
    "MLAAttentionSpec": "mla_attention",
    "SlidingWindowSpec": "sliding_window",
    "ChunkedLocalAttentionSpec": "chunked_local_attention",
    "MambaSpec": "mamba",
}


def config_of(case):
    config = json.loads((DATA / case["config"]).read_text())
    text = config.get("text_config", {})
    for name, value in case["config_overrides"].items():
        (text if name in text else config)[name] = value
    return config


def planned(case):
    model = parse_architecture(config_of(case))
    assert isinstance(model, ModelArchitecture), str(model)
    draft = case.get("draft_config")
    default = case["default_block_size"]
    layout = plan_kv(
        model,
        EngineOptions(
            max_model_len=case["max_model_len"],
            kv_cache_dtype=case["kv_cache_dtype"],
            tensor_parallel_size=case["tensor_parallel_size"],
            max_num_batched_tokens=case["max_num_batched_tokens"],
            block_size=case["block_size_requested"] or (None if default == 16 else default),
            enable_prefix_caching=case["enable_prefix_caching"],
            mamba_ssm_cache_dtype=case["mamba_ssm_dtype"] or "auto",
            disable_hybrid_kv_cache_manager=case["disable_hybrid_kv_cache_manager"],
            async_scheduling=case["max_concurrent_batches"] == 2,
            spec_method=case["spec_method"],
            num_speculative_tokens=case["num_speculative_tokens"],
            draft_architecture=parse_architecture(draft) if draft else None,
            kernel_block_alignment=case["align"],
            vllm_version=case["vllm_version"],
        ),
    )
    assert isinstance(layout, KVLayout), str(layout)
    return layout


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_the_plan_is_the_engines(case):
    layout = planned(case)
    found = layout.capacity(case["available_kv_bytes"])
    expected = case["expected"]
    assert {
        "fits_one_request": found.fits_one_request,
        "estimated_max_model_len": found.estimated_max_model_len,
        "block_size": found.block_size,
        "num_groups": found.num_groups,
        "group_size": found.group_size,
        "bytes_per_block": found.bytes_per_block,
        "num_blocks": found.num_blocks,
        "blocks_per_request_at_max_len": found.blocks_per_request_at_max_len,
        "max_concurrency": float(found.max_concurrency),
        "kv_tokens": found.kv_tokens,
        "blocks_per_request": {
            length: found.blocks(int(length)) for length in expected["blocks_per_request"]
        },
    } == {"estimated_max_model_len": None} | {
        name: value
        for name, value in expected.items()
        if name not in ("groups", "mamba_cache_mode", "mamba_page_size_padded")
    }


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_the_groups_are_the_engines(case):
    layout = planned(case)
    assert [
        (
            str(group.kind),
            group.layers,
            group.block_size,
            list(group.page_sizes_bytes),
            group.blocks(case["max_model_len"]),
        )
        for group in layout.groups
    ] == [
        (
            KINDS[group["spec"]],
            group["layers"],
            group["block_size"],
            group["page_size_bytes"],
            group["blocks_at_max_len"],
        )
        for group in case["expected"]["groups"]
    ]
    assert layout.mamba_cache_mode == case["expected"].get("mamba_cache_mode")


def test_every_kind_of_case_is_there():
    assert len(CASES) >= 157
    assert {case["kind"] for case in CASES} == {"planner", "engine"}
    assert {case["family"] for case in CASES} >= {"hybrid-gdn", "swa", "mla", "mla-sparse"}
