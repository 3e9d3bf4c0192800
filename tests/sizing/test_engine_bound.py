"""Each of the engine's own limits, by name."""

import pytest
import sizing_cases as cases

from parkade.sizing.engine_bound import engine_bound, user_bound
from parkade.sizing.pool import Setup, pool_at, setup

SHORT = {"prompts": (200,) * 600, "outputs": (50,) * 600}


def memory_limit(size):
    container = {"name": "vllm", "resources": {"limits": {"memory": size}}}
    return {"podTemplate": {"spec": {"containers": [container]}}}


def bound(engine=None, **fields):
    spec = cases.endpoint(tuning={"initial": None}, engine=engine or {})
    at = setup(cases.inputs(spec, **fields))
    assert isinstance(at, Setup), at
    return engine_bound(at, pool_at(at, at.fraction_basis().utilization, 256))


@pytest.mark.parametrize(
    ("engine", "value", "words"),
    [
        pytest.param({}, 1024, "largest", id="nothing else limits"),
        pytest.param(
            {"speculativeConfig": None, "extraArgs": ["--max-num-batched-tokens=512"]},
            512,
            "max_num_batched_tokens 512",
            id="batch tokens",
        ),
        pytest.param(
            {"extraArgs": ["--max-num-batched-tokens=900"]},
            100,
            "drafts included",
            id="batch tokens of requests with eight drafts each",
        ),
        pytest.param(memory_limit("64Gi"), 1024, "largest", id="a memory limit that is ample"),
        pytest.param(memory_limit("1Gi"), 256, "memory limit", id="4 MiB of token ids each"),
        pytest.param(
            {**memory_limit("1Gi"), "version": "0.28.0"},
            128,
            "memory limit",
            id="twice before 0.29",
        ),
        pytest.param(memory_limit("plenty"), 1024, "largest", id="a limit that is no quantity"),
        pytest.param({"podTemplate": {"spec": {}}}, 1024, "largest", id="a template without"),
    ],
)
def test_the_engines_limit(engine, value, words):
    found = bound(engine)
    assert found.value == value
    assert words in found.why


def test_a_failure_that_was_seen_limits():
    assert bound(max_num_seqs_cap=7).value == 7
    assert bound(max_num_seqs_cap=0).value == 1


def test_constant_state_needs_a_block_for_each_request():
    found = bound(weights=cases.GIB * 115)
    assert found.value < 1024
    assert "constant state" in found.why


def test_the_users_range_is_a_bound():
    spec = cases.endpoint(tuning={"initial": None, "maxNumSeqs": {"min": 4, "max": 96}})
    at = setup(cases.inputs(spec))
    assert user_bound(at).value == 96
    sizing = cases.sized(spec, work=cases.workload(**SHORT))
    assert sizing.settings.max_num_seqs <= 96


def test_the_users_least_holds_against_every_bound_but_the_engines():
    spec = cases.endpoint(tuning={"initial": None, "maxNumSeqs": {"min": 64, "max": 96}})
    sizing = cases.sized(spec, work=cases.workload((800_000,) * 600, (2000,) * 600))
    assert sizing.unsnapped < 64
    assert sizing.settings.max_num_seqs == 64
    capped = cases.sized(spec, max_num_seqs_cap=12)
    assert capped.settings.max_num_seqs == 12
