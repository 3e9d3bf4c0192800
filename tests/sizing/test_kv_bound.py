"""What the pool holds at a time, for every kind of cache."""

import json
from dataclasses import replace

import pytest
import sizing_cases as cases

from parkade.api.quantity import GIB
from parkade.api.status import FootprintBasis
from parkade.sizing.architecture import ModelArchitecture, parse_architecture
from parkade.sizing.kv_bound import held_blocks, kv_bound
from parkade.sizing.planner import EngineOptions, KVLayout, plan_kv
from parkade.sizing.pool import Setup, pool_at, setup
from parkade.sizing.recommend import NotSizable, Sizing, recommend

MODELS = sorted((cases.ROOT / "tests" / "data" / "models").glob("*.json"))


def layout_of(name: str, **options) -> KVLayout:
    path = next(one for one in MODELS if one.stem == name)
    architecture = parse_architecture(json.loads(path.read_text()))
    layout = plan_kv(architecture, EngineOptions(max_model_len=131072, **options))
    assert isinstance(layout, KVLayout), layout
    return layout


@pytest.mark.parametrize(
    ("name", "length", "less"),
    [
        pytest.param("Llama-3.1-8B-Instruct", 20_000, False, id="full attention keeps everything"),
        pytest.param("Qwen3.5-27B", 20_000, False, id="so do states"),
        pytest.param("gpt-oss-120b", 20_000, True, id="windows free what they left"),
        pytest.param("gpt-oss-120b", 50, False, id="a request within the window"),
        pytest.param("gemma-3-27b-it", 20_000, True, id="windows of 1024 tokens"),
        pytest.param("Llama-4-Scout-17B-16E-Instruct", 100_000, True, id="chunks, half filled"),
    ],
)
def test_a_request_holds_no_more_than_is_reserved_for_it(name, length, less):
    layout = layout_of(name)
    held, reserved = held_blocks(layout, length), layout.blocks(length)
    assert 0 < held <= reserved
    assert (held < reserved) is less


def test_gpt_oss_holds_its_full_layers_and_nine_blocks_of_its_windows():
    """Window 128 and blocks of 16: 8 blocks and one that is partly left, beside 1,250 full ones."""
    assert held_blocks(layout_of("gpt-oss-120b"), 20_000) == 1250 + 9


def test_drafts_are_held_too():
    plain, drafted = (
        layout_of("Llama-3.1-8B-Instruct", **options)
        for options in (
            {},
            {
                "spec_method": "draft_model",
                "num_speculative_tokens": 16,
                "draft_architecture": cases.architecture("dense"),
            },
        )
    )
    assert held_blocks(drafted, 16) > held_blocks(plain, 16)


def bound(**fields):
    at = setup(cases.inputs())
    assert isinstance(at, Setup)
    return kv_bound(pool_at(at, at.fraction_basis().utilization, 32), cases.workload(**fields))


def test_longer_requests_lower_the_bound():
    short = bound(prompts=(1000,) * 600).bound.value
    long = bound(prompts=(300_000,) * 600).bound.value
    assert long < short / 3


def test_the_bracket_is_around_the_bound_and_few_outputs_are_uncertain():
    mixed = bound(prompts=(500,) * 500 + (400_000,) * 100, outputs=(10,) * 590 + (5000,) * 10)
    assert mixed.bound.low < mixed.bound.value < mixed.bound.high
    assert mixed.standard_error_percent > bound().standard_error_percent


def test_the_measured_footprint_needs_no_histogram():
    flight = cases.in_flight(running=2.0, kv_usage=0.5, pool_tokens=1e6, scrapes=200)
    measured = bound(in_flight=flight)
    assert measured.footprint.basis is FootprintBasis.MEASURED
    assert measured.footprint.tokens == pytest.approx(250_000)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_model_is_sized_or_refused_with_a_reason(path):
    architecture = parse_architecture(json.loads(path.read_text()))
    if not isinstance(architecture, ModelArchitecture):
        return
    spec = cases.endpoint(
        tuning={"initial": None},
        model={"maxModelLen": 8192},
        engine={"speculativeConfig": None, "kvCacheDtype": "auto", "tensorParallelSize": 4},
    )
    made = replace(cases.inputs(spec, weights=200 * GIB), architecture=architecture)
    result = recommend(made)
    if isinstance(result, NotSizable):
        assert result.message
        return
    assert isinstance(result, Sizing)
    assert result.settings.max_num_seqs >= 1
    assert result.memory.available_kv_bytes > 0
