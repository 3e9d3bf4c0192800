"""The engine's block arithmetic, against what vLLM's own planner answered."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.engine import blocks
from testbed.engine.models import from_config

DATA = Path(__file__).parents[2] / "data" / "engine"
CONFIGS = json.loads((DATA / "oracle-configs.json").read_text())
CASES = [json.loads(line) for line in (DATA / "oracle-cases.jsonl").read_text().splitlines()]


def _layout(case):
    config = json.loads(json.dumps(CONFIGS[case["model"]]))
    for key, value in case["config_overrides"].items():
        (config.get("text_config") or config)[key] = value
    model = from_config(case["model"], config, 1.0)
    if case["mamba_ssm_dtype"] == "bfloat16":
        model = replace(model, deltanet=replace(model.deltanet, state_bytes=2))
    settings = blocks.CacheSettings(
        kv_cache_dtype=case["kv_cache_dtype"],
        tensor_parallel_size=case["tensor_parallel_size"],
        enable_prefix_caching=case["enable_prefix_caching"] is not False,
        spec_method=case["spec_method"],
        num_speculative_tokens=case["num_speculative_tokens"],
        alignment=case["align"],
        min_block_size=case["block_size_requested"] or case["default_block_size"],
    )
    return blocks.layout(model, settings)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_the_layout_and_the_capacity_are_those_of_vllm(case):
    plan, expected = _layout(case), case["expected"]
    pool = plan.pool(case["available_kv_bytes"])
    length = case["max_model_len"]
    assert plan.block_size == expected["block_size"]
    assert plan.full_groups + plan.state_groups == expected["num_groups"]
    assert plan.group_size == expected["group_size"]
    assert plan.bytes_per_block == expected["bytes_per_block"]
    assert pool == expected["num_blocks"]
    assert plan.blocks(length) == expected["blocks_per_request_at_max_len"]
    assert {k: plan.blocks(int(k)) for k in expected["blocks_per_request"]} == expected[
        "blocks_per_request"
    ]
    assert blocks.max_concurrency(plan, pool, length) == pytest.approx(expected["max_concurrency"])
    assert blocks.cache_tokens(plan, pool, length) == expected["kv_tokens"]
    assert (blocks.longest_request(plan, pool, length) == length) is expected["fits_one_request"]


def test_longest_request_is_the_greatest_length_that_fits():
    case = CASES[0]
    plan = _layout(case)
    longest = blocks.longest_request(plan, 1000, 1 << 20)
    assert plan.blocks(longest) <= 999 < plan.blocks(longest + 1)
    assert blocks.longest_request(plan, 0, 1 << 20) == 0
