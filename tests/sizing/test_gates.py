"""Each way in which an answer can be wrong has its outcome, and none of them is zero or fine."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.api.conditions import Reason
from parkade.sizing.gates import RawHistogram, WorkloadReading, gate
from parkade.sizing.workload import CannotTell, Workload


def lengths(count: float = 600.0, mean: float = 900.0) -> RawHistogram:
    return RawHistogram(((500.0, count / 2), (1000.0, count)), count * mean, count)


GOOD = WorkloadReading(14400.0, lengths(), lengths())

REFUSED = [
    pytest.param(
        {"prompt_tokens": None, "pods": 0}, Reason.NO_SERIES, "are scraped", id="no series"
    ),
    pytest.param({"prompt_tokens": None}, Reason.NO_SERIES, "--disable-log-stats", id="no lengths"),
    pytest.param(
        {"prompt_tokens": lengths(0.0)}, Reason.NO_TRAFFIC, "No request", id="an empty window"
    ),
    pytest.param(
        {"prompt_tokens": lengths(499.0)},
        Reason.INSUFFICIENT_REQUESTS,
        "499 requests finished in the window, fewer than minRequests 500",
        id="one request too few",
    ),
    pytest.param({"age_seconds": 301.0}, Reason.STALE_DATA, "301 s", id="an old sample"),
    pytest.param({"age_seconds": math.nan}, Reason.STALE_DATA, "nan", id="an age that is NaN"),
    pytest.param(
        {"warnings": ("query timed out",)}, Reason.PARTIAL_DATA, "timed out", id="own warnings"
    ),
    pytest.param(
        {"age_seconds": 301.0, "missing_pods": 1, "pods": 0},
        Reason.STALE_DATA,
        "301 s",
        id="scraping has ended",
    ),
    pytest.param({"missing_pods": 2}, Reason.PARTIAL_DATA, "2 of 3 pods", id="pods missing"),
    pytest.param(
        {"max_model_lens": (262144, 1048576)},
        Reason.MIXED_MODEL_LENGTHS,
        "end at 262,144, 1,048,576",
        id="pods with different max_model_len",
    ),
    pytest.param({"lost_share": 0.6}, Reason.COUNTER_RESET, "60 %", id="mostly counter resets"),
    pytest.param({"lost_share": math.nan}, Reason.COUNTER_RESET, "nan", id="resets not known"),
    pytest.param(
        {"prompt_tokens": RawHistogram(((500.0, math.nan),), 5.0, 600.0)},
        Reason.INVALID_DATA,
        "prompt lengths",
        id="NaN in a bucket",
    ),
    pytest.param(
        {"output_tokens": RawHistogram(((500.0, 600.0),), None, 600.0)},
        Reason.INVALID_DATA,
        "no sum",
        id="no sum of tokens",
    ),
    pytest.param(
        {"output_tokens": RawHistogram((), 0.0, 0.0)},
        Reason.INVALID_DATA,
        "no output",
        id="requests without any output",
    ),
    pytest.param({"queued_percent": math.inf}, Reason.INVALID_DATA, "inf", id="an infinite share"),
    pytest.param({"queued_percent": 101.0}, Reason.INVALID_DATA, "above 100", id="over 100 %"),
    pytest.param({"kv_usage": 1.2}, Reason.INVALID_DATA, "above 1", id="a pool more than full"),
    pytest.param({"running": -1.0}, Reason.INVALID_DATA, "running", id="negative requests"),
    pytest.param(
        {"time_per_output_token": RawHistogram(((0.01, 5.0), (0.02, 1.0)), 1.0, 5.0)},
        Reason.INVALID_DATA,
        "time per output token",
        id="token times that fall",
    ),
]


@pytest.mark.parametrize(("changes", "reason", "words"), REFUSED)
def test_a_wrong_answer_is_refused_with_its_reason(changes, reason, words):
    outcome = gate(replace(GOOD, **changes), min_requests=500)
    assert isinstance(outcome, CannotTell)
    assert outcome.reason is reason
    assert words in outcome.message


def test_a_good_answer_becomes_a_workload():
    outcome = gate(
        replace(GOOD, running=3.0, kv_usage=0.2, pool_tokens=1e6, scrapes=150, pods=2),
        min_requests=500,
    )
    assert isinstance(outcome, Workload)
    assert outcome.requests == 600
    assert outcome.in_flight.tokens_per_request == pytest.approx(0.2 * 1e6 / 3.0)
    assert outcome.pods == 2


NUMBERS = st.one_of(st.none(), st.floats(), st.integers(-5, 5))
PAIRS = st.lists(st.tuples(st.floats(), st.floats()), max_size=6).map(tuple)
HISTOGRAMS = st.one_of(st.none(), st.builds(RawHistogram, PAIRS, NUMBERS, NUMBERS))


@given(
    st.builds(
        WorkloadReading,
        window_seconds=st.floats(),
        prompt_tokens=st.one_of(HISTOGRAMS, st.just(lengths())),
        output_tokens=st.one_of(HISTOGRAMS, st.just(lengths())),
        requests=NUMBERS,
        prefix_cached_tokens=NUMBERS,
        peak_requests_per_second=NUMBERS,
        queued_percent=NUMBERS,
        running=NUMBERS,
        kv_usage=NUMBERS,
        pool_tokens=NUMBERS,
        preemptions=NUMBERS,
        time_per_output_token=HISTOGRAMS,
        tokens_per_step=NUMBERS,
        age_seconds=NUMBERS,
        lost_share=st.floats(),
    )
)
def test_any_reading_has_an_outcome_and_a_workload_has_only_numbers(reading):
    outcome = gate(reading, min_requests=1)
    if isinstance(outcome, CannotTell):
        assert outcome.message
        return
    assert outcome.requests >= 1
    numbers = [outcome.window_seconds, outcome.mean_prompt_tokens, outcome.mean_output_tokens]
    numbers += [outcome.cached_share, outcome.tokens_per_step, outcome.queued_percent or 0.0]
    assert all(math.isfinite(one) and one >= 0 for one in numbers)


def test_nothing_running_is_no_footprint_rather_than_a_division_by_zero():
    outcome = gate(replace(GOOD, running=0.0, kv_usage=0.0, pool_tokens=1e6), min_requests=500)
    assert isinstance(outcome, Workload)
    assert outcome.in_flight is None


def test_an_empty_optional_histogram_is_left_out():
    outcome = gate(
        replace(GOOD, time_to_first_token=RawHistogram(((1.0, 0.0),), 0.0, 0.0)), min_requests=500
    )
    assert isinstance(outcome, Workload)
    assert outcome.time_to_first_token is None
