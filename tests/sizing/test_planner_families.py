"""Every family against the engine's planner (0.32.0), called on layers that its own models built.

The models of `families.jsonl` are shaped like published ones with few experts and words; what a
cache needs is real. Those of `classes.jsonl` are published configurations, and such as leave
fields to the configuration classes (transformers 5.19), under settings drawn at random: what was
found by comparing the two planners and then mended. Both were computed with the engine's own
model, specification and planner classes of vLLM 0.32.0.
"""

import json
from pathlib import Path

import pytest

from parkade.sizing.architecture import ModelArchitecture, parse_architecture
from parkade.sizing.planner import EngineOptions, KVLayout, plan_kv

DATA = Path(__file__).parents[1] / "data" / "oracle"
CASES = [
    json.loads(line)
    for name in ("families.jsonl", "classes.jsonl")
    for line in (DATA / name).read_text().splitlines()
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_the_plan_is_the_engines(case):
    model = parse_architecture(case["config"])
    assert isinstance(model, ModelArchitecture), str(model)
    draft = case["draft_config"]
    layout = plan_kv(
        model,
        EngineOptions(
            **case["options"], draft_architecture=parse_architecture(draft) if draft else None
        ),
    )
    assert isinstance(layout, KVLayout), str(layout)
    found = layout.capacity(case["available_kv_bytes"])
    expected = case["expected"]
    assert float(found.max_concurrency) == expected["max_concurrency"]
    for name in set(expected) - {"groups", "blocks_per_request", "max_concurrency"}:
        assert getattr(found, name) == expected[name], name
    for length, blocks in expected.get("blocks_per_request", {}).items():
        assert found.blocks(int(length)) == blocks
    for group, wanted in zip(found.groups, expected.get("groups", found.groups), strict=True):
        if wanted is not group:
            assert {
                "kind": str(group.kind),
                "layers": group.layers,
                "block_size": group.block_size,
                "page_size_bytes": list(group.page_sizes_bytes),
                "blocks_at_max_len": group.blocks(layout.max_model_len),
            } == wanted
