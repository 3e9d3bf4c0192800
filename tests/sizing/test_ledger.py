"""Which points are citable, and that points survive the record."""

import json
import math

import pytest
import sizing_cases as cases
from hypothesis import given
from hypothesis import strategies as st

from parkade.sizing.histograms import read_histogram
from parkade.sizing.ledger import Ledger, PointSource, SpeedPoint, median_interval, speed_point

LEDGER, BENCHMARK = PointSource.LEDGER, PointSource.BENCHMARK


@pytest.mark.parametrize(
    ("speeds", "source", "citable"),
    [
        pytest.param((255, 263, 270, 262, 266), BENCHMARK, True, id="five runs within 8 %"),
        pytest.param((255, 263, 270, 262), BENCHMARK, False, id="four runs are too few"),
        pytest.param((200, 263, 270, 262, 266), BENCHMARK, False, id="one run far off"),
        pytest.param((100, 104, 96, 102, 98), LEDGER, True, id="windows within 8 % of the median"),
        pytest.param((100, 140, 60, 120, 80), LEDGER, False, id="windows too far apart"),
        pytest.param(
            (100,) * 20 + (10,), LEDGER, True, id="one bad window of many does not spoil the median"
        ),
    ],
)
def test_code_decides_what_is_citable(speeds, source, citable):
    assert SpeedPoint(32.0, speeds, source=source).citable is citable


@pytest.mark.parametrize(
    ("count", "ranks"),
    [
        pytest.param(5, (0, 4), id="five values: the whole range (93.75 %)"),
        pytest.param(6, (0, 5), id="six values: still the range (96.9 %)"),
        pytest.param(9, (1, 7), id="nine values: the second and the eighth"),
        pytest.param(20, (5, 14), id="twenty values: the sixth and the fifteenth"),
    ],
)
def test_the_interval_of_the_median_is_that_of_the_order_statistics(count, ranks):
    assert median_interval([float(one) for one in range(count)]) == ranks


@pytest.mark.parametrize(
    ("concurrency", "speeds", "first", "words"),
    [
        pytest.param(0.0, (1.0,), (), "positive", id="no concurrency"),
        pytest.param(math.nan, (1.0,), (), "positive", id="NaN requests"),
        pytest.param(1.0, (), (), "no measured speed", id="no values"),
        pytest.param(1.0, (0.0,), (), "positive", id="a speed of zero"),
        pytest.param(1.0, (math.inf,), (), "positive", id="an infinite speed"),
        pytest.param(1.0, (1.0,), (-1.0,), "first token", id="a first token before the request"),
    ],
)
def test_impossible_points_are_refused(concurrency, speeds, first, words):
    refused = speed_point(concurrency, speeds, first, source=BENCHMARK)
    assert isinstance(refused, str)
    assert words in refused


@given(
    st.floats(0.1, 1e4),
    st.lists(st.floats(0.01, 1e5), min_size=1, max_size=30),
    st.booleans(),
    st.one_of(st.none(), st.floats(0, 1)),
)
def test_a_point_survives_the_record(concurrency, speeds, binding, share):
    point = SpeedPoint(
        concurrency,
        tuple(speeds),
        (0.5,),
        read_histogram({"0.01": 3, "0.025": 5}, 5, 0.1),
        cap_binding=binding,
        prefill_share=share or None,
        kv_share=share or None,
        preemptions_per_request=share or None,
        pod="a",
        fingerprint="f",
        measured_at="2026-01-02T03:04:05Z",
    )
    assert SpeedPoint.from_dict(json.loads(json.dumps(point.to_dict()))) == point


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a list"),
        pytest.param({}, id="no fields"),
        pytest.param({"concurrency": 1, "outputTokensPerSecondPerRequest": "fast"}, id="words"),
        pytest.param({"concurrency": 1, "outputTokensPerSecondPerRequest": [None]}, id="null"),
        pytest.param(
            {"concurrency": 1, "outputTokensPerSecondPerRequest": [1], "source": "Hearsay"},
            id="a source that does not exist",
        ),
    ],
)
def test_what_is_no_point_reads_as_none(raw):
    assert SpeedPoint.from_dict(raw) is None


def test_points_of_another_configuration_do_not_count():
    ours, other = cases.point(8, 250, fingerprint="a"), cases.point(16, 200, fingerprint="b")
    assert Ledger((ours, other)).of("a") == (ours,)
