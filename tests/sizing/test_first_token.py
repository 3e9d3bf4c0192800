"""The bound from below: too few at a time make requests queue at the peak."""

import pytest
import sizing_cases as cases

from parkade.sizing.first_token import (
    first_token_bound,
    first_token_seconds,
    replicas_needed,
    service,
)
from parkade.sizing.histograms import read_histogram
from parkade.sizing.speed_curve import speed_curve

CURVE = speed_curve(cases.ladder(), 90)


def times(work):
    return service(work, CURVE)


def test_littles_law_gives_the_least_number():
    work = cases.workload(peak_requests_per_second=4.0)
    found, sentences = first_token_bound(work, times(work), pods=2)
    stay = times(work).residence_seconds(found.value)
    assert found.value == pytest.approx(2.0 * stay, rel=1e-6)
    assert [one.split(":")[0].split(" with ")[0] for one in sentences] == [
        "Peak on one pod",
        "Time per token",
        "Time per token",
        "Prefill",
        "Stay",
        "First-token bound",
    ]


def test_a_rate_that_nothing_keeps_up_with_is_above_all_rungs():
    work = cases.workload(peak_requests_per_second=10_000.0)
    found, _ = first_token_bound(work, times(work), pods=1)
    assert found.value > 1024
    assert replicas_needed(work, times(work), 40.0) > 100
    assert replicas_needed(work, times(work), 0.0) is None


@pytest.mark.parametrize(
    ("fields", "curve"),
    [
        pytest.param({"peak_requests_per_second": None}, CURVE, id="no rate"),
        pytest.param({"peak_requests_per_second": 2.0}, None, id="no time per token"),
        pytest.param({"peak_requests_per_second": 0.0}, CURVE, id="a rate of zero"),
    ],
)
def test_what_is_not_known_gives_no_bound(fields, curve):
    work = cases.workload(**fields)
    found, sentences = first_token_bound(work, service(work, curve), pods=1)
    assert found is None
    assert sentences == ()


def test_the_windows_own_mean_serves_where_no_points_are_known():
    histogram = read_histogram({"0.025": 600}, 600, 12.0)
    work = cases.workload(peak_requests_per_second=1.0, time_per_output_token=histogram)
    found, _ = first_token_bound(work, service(work, None), pods=1)
    assert found.value == pytest.approx(500 * 0.02 + 0.01 * 2000 * 0.02, rel=1e-3)


@pytest.mark.parametrize(
    ("running", "seconds"),
    [
        pytest.param(8, 0.8, id="at a point"),
        pytest.param(20, 2.95, id="between two points"),
        pytest.param(1000, 30.1, id="beyond the last"),
        pytest.param(1, 0.8, id="below the first"),
    ],
)
def test_the_measured_first_token_time(running, seconds):
    assert first_token_seconds(cases.ladder(), running) == pytest.approx(seconds)
    assert first_token_seconds((), running) is None
