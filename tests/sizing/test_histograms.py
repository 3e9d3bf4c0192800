"""Histograms: what is read, what is refused, and that nothing is claimed beyond the buckets."""

import math
import random

import pytest
import sizing_cases as cases
from hypothesis import given
from hypothesis import strategies as st

from parkade.sizing.histograms import Histogram, quantile_inside, read_histogram

VALUES = st.lists(st.integers(1, 400_000), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("buckets", "total", "sum_", "words"),
    [
        pytest.param({"1": 5, "2": 4}, 5, 9, "fall from 5", id="counts that fall"),
        pytest.param({"1": 5, "2": math.nan}, 5, 9, "finite", id="a count that is NaN"),
        pytest.param({"1": 5}, math.inf, 9, "finite", id="an infinite total"),
        pytest.param({"1": -1}, 5, 9, "negative", id="a negative count"),
        pytest.param({"1": 5}, 5, -1, "negative", id="a negative sum"),
        pytest.param({"0": 5}, 5, 9, "positive", id="an edge at zero"),
        pytest.param({"nan": 5}, 5, 9, "positive", id="an edge that is NaN"),
        pytest.param({"1": 5, "1.0": 5}, 5, 9, "twice", id="an edge given twice"),
        pytest.param({"one": 5}, 5, 9, "not an edge", id="an edge in words"),
        pytest.param({"1": 7}, 5, 9, "more than all", id="more in buckets than there are"),
    ],
)
def test_impossible_histograms_are_refused_with_the_reason(buckets, total, sum_, words):
    refused = read_histogram(buckets, total, sum_)
    assert isinstance(refused, str)
    assert words in refused


def test_the_total_is_the_last_count_where_it_is_not_given():
    read = read_histogram({"1": 2, "+Inf": 5}, None, 30.0)
    assert isinstance(read, Histogram)
    assert read.total == 5
    assert read.quantile(0.9) == (1.0, math.inf)


def test_an_empty_histogram_has_no_mean_and_no_buckets():
    read = read_histogram({}, 0, 0.0)
    assert isinstance(read, Histogram)
    assert read.mean is None
    assert read.buckets() == ()
    assert read.share_at_most(5) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("limit", "share"),
    [
        pytest.param(0.01, (0.5, 0.5), id="at an edge the share is exact"),
        pytest.param(0.02, (0.5, 0.9), id="inside a bucket it is an interval"),
        pytest.param(0.005, (0.0, 0.5), id="below the first edge"),
        pytest.param(9.0, (0.9, 1.0), id="above the last edge"),
    ],
)
def test_the_share_below_a_limit(limit, share):
    read = read_histogram({"0.01": 50, "0.025": 90}, 100, None)
    assert read.share_at_most(limit) == share


@given(VALUES, st.floats(0.01, 1.0))
def test_a_quantile_is_the_bucket_that_holds_it(values, share):
    low, high = cases.histogram(values).quantile(share)
    true = sorted(values)[math.ceil(share * len(values) - 1e-9) - 1]
    assert low < true <= high


@given(VALUES)
def test_points_lie_in_their_buckets_and_give_the_exact_sum(values):
    read = cases.histogram(values)
    buckets = read.buckets()
    assert sum(one.count for one in buckets) == pytest.approx(len(values))
    assert sum(one.count * one.point for one in buckets) == pytest.approx(sum(values))
    assert all(one.low <= one.point <= one.high for one in buckets)


@given(VALUES, st.integers(1, 500_000))
def test_the_share_interval_holds_the_true_share(values, limit):
    low, high = cases.histogram(values).share_at_most(float(limit))
    true = sum(1 for one in values if one <= limit) / len(values)
    assert low - 1e-9 <= true <= high + 1e-9


@pytest.mark.parametrize(
    ("buckets", "total", "mean", "low", "high"),
    [
        pytest.param(
            {"0.01": 0, "0.025": 500}, 500, 0.020, 0.0199, 0.0215, id="all in one wide bucket"
        ),
        pytest.param(
            {"0.01": 499, "0.025": 500}, 500, 0.004, 0.0039, 0.006, id="one slow answer of many"
        ),
        pytest.param(
            {"0.01": 300, "0.025": 500}, 500, 0.0098, 0.01, 0.0125, id="the mean beside an edge"
        ),
        pytest.param(
            {"0.01": 250, "0.1": 500}, 500, 0.05, 0.01, 0.1, id="two groups stay in their bucket"
        ),
        pytest.param({"0.01": 100, "0.025": 500}, 500, 0.2, 0.01, 0.025, id="a sum that lies"),
    ],
)
def test_the_mean_places_a_quantile_in_its_bucket(buckets, total, mean, low, high):
    read = read_histogram(buckets, total, mean * total)
    assert low <= quantile_inside(read, 0.9) <= high


@given(st.floats(0.001, 0.4), st.floats(0.0, 0.5), st.integers(0, 100))
def test_the_place_of_a_quantile_is_in_its_bucket_and_near_the_truth(mean, width, seed):
    generator = random.Random(seed)
    edges = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 5.0)
    values = sorted(generator.lognormvariate(math.log(mean), width) for _ in range(400))
    counts = [(edge, sum(one <= edge for one in values)) for edge in edges]
    found = read_histogram(counts, 400, sum(values))
    place = quantile_inside(found, 0.9)
    low, high = found.quantile(0.9)
    assert low <= place <= high
    assert place == pytest.approx(values[359], rel=0.6)
