"""The case of two endpoints with opposite answers, as `examples/` has it."""

import json
from decimal import Decimal

import pytest
import sizing_cases as cases
import yaml

from parkade.api.quantity import GIB
from parkade.api.settings import Settings
from parkade.api.status import LimitedBy
from parkade.cli.traffic_file import read_traffic
from parkade.sizing.gates import gate
from parkade.sizing.result import BoundKind
from parkade.sizing.workload import Workload


def example(name: str, kv_cache_dtype: str = "fp8", **objectives) -> cases.Sizing:
    body = yaml.safe_load((cases.ACCEPTANCE / f"{name}.yaml").read_text())
    body["spec"]["engine"]["kvCacheDtype"] = kv_cache_dtype
    body["spec"]["objectives"].update(objectives)
    spec = cases.parse_endpoint(body, strict=True)
    raw = yaml.safe_load((cases.ACCEPTANCE / f"{name}.traffic.yaml").read_text())
    traffic = gate(read_traffic(raw, name), min_requests=500)
    assert isinstance(traffic, Workload), traffic
    return cases.sized(spec, work=traffic, in_force=spec.spec.tuning.initial.settings)


def test_the_short_endpoint_is_bound_by_speed_between_the_measured_32_and_128():
    sizing = example("short")
    assert sizing.limited_by is LimitedBy.SPEED
    assert sizing.unsnapped == pytest.approx(42.3, abs=0.05)
    assert sizing.settings.max_num_seqs in {32, 40}


@pytest.mark.parametrize(
    ("wanted", "bound", "rungs"),
    [
        pytest.param(50, 104.4, {96}, id="half the speed allows more than twice as many"),
        pytest.param(100, 42.3, {32, 40}, id="the speed asked for is crossed at 42"),
        pytest.param(120, 32.0, {32}, id="a measured point that just holds is the bound"),
        pytest.param(300, 5.5, {5}, id="above all points the line is continued below the lowest"),
        pytest.param(2000, 1.0, {1}, id="an impossible speed leaves one at a time"),
    ],
)
def test_the_speed_bound_moves_with_the_objective(wanted, bound, rungs):
    sizing = example("short", minOutputTokensPerSecond=wanted)
    assert sizing.bounds[BoundKind.SPEED].value == pytest.approx(bound, abs=0.06)
    if wanted != 50:
        assert sizing.settings.max_num_seqs in rungs
    else:
        assert sizing.limited_by is LimitedBy.KV_CACHE


def test_the_long_endpoint_is_bound_by_the_cache_at_a_small_number():
    sizing = example("long")
    assert sizing.limited_by is LimitedBy.KV_CACHE
    assert sizing.settings.max_num_seqs == 28
    assert sizing.unsnapped == pytest.approx(26.6, abs=0.1)


def test_the_bound_of_the_long_endpoint_about_doubles_when_the_format_is_halved():
    ratio = example("long", "fp8").unsnapped / example("long", "bfloat16").unsnapped
    assert 1.9 < ratio < 2.1


def test_the_borrowed_256_is_wrong_for_both():
    for name in ("short", "long"):
        assert example(name).settings.max_num_seqs <= 40


def test_the_fraction_leaves_the_headroom_below_what_was_free_at_the_start():
    card = cases.b200(total_bytes=round(178.35 * GIB), free_bytes=round(175.81 * GIB))
    sizing = cases.sized(device=card)
    assert sizing.settings.gpu_memory_utilization == Decimal("0.9521")
    assert example("long").settings.gpu_memory_utilization == Decimal("0.9521")
    assert sizing.memory.left_bytes >= 6 * GIB


def test_a_fraction_in_force_moves_only_for_ten_percent_of_pool():
    spec = cases.endpoint(tuning={"minGainPercent": 10})
    held = cases.sized(spec, in_force=Settings(28, Decimal("0.90")))
    assert held.settings.gpu_memory_utilization == Decimal("0.90")
    assert held.target.gpu_memory_utilization == Decimal("0.9521")


def test_the_copied_configuration_is_the_hybrid_of_the_scenario():
    text = json.loads((cases.ACCEPTANCE / "config.json").read_text())["text_config"]
    assert text["layer_types"].count("full_attention") == 16
    assert text["layer_types"].count("linear_attention") == 48
