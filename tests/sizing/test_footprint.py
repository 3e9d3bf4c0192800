"""The computed footprint against real joint lengths, which its two histograms do not show."""

import csv
import math

import pytest
import sizing_cases as cases
from hypothesis import given
from hypothesis import strategies as st

from parkade.sizing.footprint import (
    DEFAULT_PREFILL_RATIO,
    computed_footprint,
    effective_requests,
    prefill_ratio,
    standard_error_percent,
)
from parkade.sizing.histograms import read_histogram

TRACES = ("azure-code-2023", "mooncake-synthetic", "sharegpt-chat-lengths")


def trace(name: str) -> list[tuple[int, int]]:
    with (cases.ROOT / "tests" / "data" / "traffic" / f"{name}.csv").open() as file:
        return [
            (int(row["prompt_tokens"]), int(row["output_tokens"])) for row in csv.DictReader(file)
        ]


def blocks(length: int) -> int:
    return math.ceil(length / 16)


def truth(pairs: list[tuple[int, int]], ratio: float = DEFAULT_PREFILL_RATIO) -> float:
    held = time = 0.0
    for prompt, output in pairs:
        held += ratio * prompt * blocks(max(1, prompt // 2)) + output * blocks(prompt + output // 2)
        time += ratio * prompt + output
    return held / time


def workload_of(pairs):
    return cases.workload([one for one, _ in pairs], [one for _, one in pairs])


@pytest.mark.parametrize("name", TRACES)
def test_the_bracket_holds_the_truth_of_real_traffic(name):
    pairs = trace(name)
    computed = computed_footprint(workload_of(pairs), blocks)
    assert computed.low_blocks <= truth(pairs) <= computed.high_blocks
    assert computed.low_blocks <= computed.blocks <= computed.high_blocks


@pytest.mark.parametrize(
    ("name", "within"),
    [
        pytest.param("azure-code-2023", 0.10, id="a code service"),
        pytest.param("sharegpt-chat-lengths", 0.10, id="chats"),
        pytest.param("mooncake-synthetic", 0.45, id="long documents, whose outputs are short"),
    ],
)
def test_the_point_is_near_the_truth_where_lengths_are_independent(name, within):
    pairs = trace(name)
    computed = computed_footprint(workload_of(pairs), blocks)
    assert computed.blocks == pytest.approx(truth(pairs), rel=within)


def test_a_mean_over_requests_would_be_another_number():
    pairs = [(100, 1)] * 900 + [(100_000, 1000)] * 100
    in_flight = truth(pairs)
    over_requests = sum(blocks(prompt + output) for prompt, output in pairs) / len(pairs)
    assert in_flight > 5 * over_requests


@pytest.mark.parametrize("name", TRACES)
def test_the_effective_sample_size_lies_in_its_interval(name):
    outputs = [one for _, one in trace(name)]
    true = sum(outputs) ** 2 / sum(one * one for one in outputs)
    low, high = effective_requests(cases.histogram(outputs))
    assert low <= true <= high
    assert high <= len(outputs)


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=200))
def test_the_effective_sample_size_of_any_outputs_lies_in_its_interval(outputs):
    true = sum(outputs) ** 2 / sum(one * one for one in outputs)
    low, high = effective_requests(cases.histogram(outputs))
    assert low * 0.999 <= true <= high * 1.001


@given(
    st.lists(st.integers(1, 400_000), min_size=1, max_size=60),
    st.lists(st.integers(1, 50_000), min_size=1, max_size=60),
    st.floats(0, 1),
)
def test_any_lengths_give_a_finite_bracket_around_the_point(prompts, outputs, cached):
    outputs = (outputs * len(prompts))[: len(prompts)]
    work = cases.workload(prompts, outputs, prefix_cached_tokens=cached * sum(prompts))
    found = computed_footprint(work, blocks)
    assert 1 <= found.low_blocks <= found.blocks <= found.high_blocks < 1e6
    assert 0 <= found.length_spread < 1e3


@given(st.lists(st.integers(1, 100_000), min_size=2, max_size=40))
def test_a_larger_block_never_holds_more_blocks(prompts):
    work = cases.workload(prompts, [100] * len(prompts))
    fine = computed_footprint(work, blocks).blocks
    coarse = computed_footprint(work, lambda length: math.ceil(length / 1568)).blocks
    assert coarse <= fine


@pytest.mark.parametrize(
    ("queued", "ratio"),
    [
        pytest.param(0.5, 0.2 / 2000 / 0.01, id="measured where nobody waits in the queue"),
        pytest.param(20.0, DEFAULT_PREFILL_RATIO, id="assumed where the queue is in it"),
        pytest.param(None, DEFAULT_PREFILL_RATIO, id="assumed where the queue is not known"),
    ],
)
def test_the_time_of_prefill_against_decode(queued, ratio):
    work = cases.workload(
        queued_percent=queued,
        time_to_first_token=read_histogram({"0.25": 600}, 600, 120.0),
        time_per_output_token=read_histogram({"0.01": 600}, 600, 6.0),
    )
    assert prefill_ratio(work) == pytest.approx(ratio)


def test_few_effective_requests_are_all_uncertainty():
    assert standard_error_percent(0.5, 0.0) == 100.0
    assert standard_error_percent(0.5, 100.0) == pytest.approx(5.0)
