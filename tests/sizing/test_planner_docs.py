"""The numbers of docs/how-the-numbers-come-about.md, recomputed."""

import json
import re
from pathlib import Path

import pytest

from parkade.sizing.architecture import parse_architecture
from parkade.sizing.planner import EngineOptions, plan_kv

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-the-numbers-come-about.md").read_text()
MODEL = parse_architecture(
    json.loads((ROOT / "tests/data/oracle/configs/Qwen--Qwen3.5-27B.json").read_text())
)
MILLION = 1_048_576


def draft_of(layers):
    return parse_architecture(
        {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": 4096,
            "num_hidden_layers": layers,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 1024,
            "torch_dtype": "bfloat16",
        }
    )


def capacity(length=MILLION, **options):
    layout = plan_kv(MODEL, EngineOptions(max_model_len=length, **options))
    return layout.capacity(137_000_000_000)


def row(name):
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip().replace(",", "") for cell in line.split("|")[2:-1]]


def test_the_worked_hybrid():
    plain, half = capacity(), capacity(kv_cache_dtype="fp8")
    both = (plain, half)
    assert row("tokens per block") == [str(found.block_size) for found in both]
    assert row("blocks in the pool") == [str(found.num_blocks) for found in both]
    assert [cell.split()[-1] for cell in row("blocks of a request of 1,048,576 tokens")] == [
        str(found.blocks_per_request_at_max_len) for found in both
    ]
    assert row("such requests at once") == [f"{float(found.max_concurrency):.2f}" for found in both]
    assert row("tokens that the engine prints") == [str(found.kv_tokens) for found in both]
    assert f"{plain.bytes_per_block:,} bytes" in PAGE
    assert f"prints {capacity(262144, kv_cache_dtype='fp8').kv_tokens:,} tokens" in PAGE


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("no drafter layers (n-gram)", {"spec_method": "ngram"}),
        ("one MTP layer", {"spec_method": "mtp"}),
        (
            "one layer of 8 x 128 instead of 4 x 256",
            {"spec_method": "eagle3", "draft_architecture": draft_of(1)},
        ),
        ("five such layers", {"spec_method": "eagle3", "draft_architecture": draft_of(5)}),
    ],
)
def test_the_drafter_trap(name, options):
    found = capacity(num_speculative_tokens=3, **options)
    assert row(name) == [
        str(found.num_groups),
        str(found.blocks_per_request_at_max_len),
        f"{float(found.max_concurrency):.2f}",
    ]


def test_the_window_that_is_not_cheap():
    tokens = 1024 - 1 + 2 * 16384
    assert re.search(rf"holds up to {tokens} tokens", PAGE)
