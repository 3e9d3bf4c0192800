"""Where time per token crosses the objective, from points with and without buckets."""

import pytest
import sizing_cases as cases
from hypothesis import given
from hypothesis import strategies as st

from parkade.sizing.histograms import quantile_inside, read_histogram
from parkade.sizing.ledger import PointSource, SpeedPoint
from parkade.sizing.speed_bound import overhead, speed_bound
from parkade.sizing.speed_curve import speed_curve

LEDGER = PointSource.LEDGER


def bound(points, wanted, attainment=90.0):
    curve = speed_curve(points, attainment)
    assert curve is not None
    return speed_bound(curve, wanted, attainment)


def shares(fast: int, of: int = 1000):
    return read_histogram({"0.01": fast, "0.025": of}, of, None)


def test_without_points_there_is_no_curve():
    assert speed_curve((), 90) is None


def test_citable_points_alone_count_where_there_are_any():
    noisy = SpeedPoint(16.0, (50.0, 300.0, 90.0), source=LEDGER)
    curve = speed_curve((*cases.ladder(), noisy), 90)
    assert [one.concurrency for one in curve.points] == [8, 32, 128, 256]
    assert speed_curve((noisy,), 90).citable is False


def test_points_whose_cap_was_binding_outrank_others_on_the_same_rung():
    bound_by_cap = cases.point(32, 120, source=LEDGER, cap_binding=True)
    loose = cases.point(33, 180, source=LEDGER)
    curve = speed_curve((bound_by_cap, loose), 90)
    assert [one.concurrency for one in curve.points] == [32]


def test_what_is_not_citable_counts_where_nothing_citable_is():
    """One window at a load that nobody measured since still says that more would be too many."""
    citable = cases.point(28, 101, source=LEDGER)
    beyond = SpeedPoint(130.0, (28.0,), source=LEDGER)
    beside = SpeedPoint(28.0, (20.0,), source=LEDGER, cap_binding=True)
    assert [one.concurrency for one in speed_curve((citable, beyond), 90).points] == [28, 130]
    assert speed_curve((citable, beside), 90).points[0].seconds == pytest.approx(1 / 101, rel=0.01)
    assert bound((citable, beyond), 100).bound.value == pytest.approx(28.4, abs=0.1)


def test_pods_that_ran_at_one_time_do_not_make_a_point_citable():
    pods = [SpeedPoint(16.0, (120.0,), source=LEDGER, pod=name) for name in "abcdef"]
    curve = speed_curve(pods, 90)
    assert curve.citable is False
    assert [one.spread_percent for one in curve.points] == [10.0]


def test_the_line_through_production_windows_ends_a_climb_where_it_crosses():
    points = [cases.point(3, 1000 / 3.75, source=LEDGER), cases.point(26, 105, source=LEDGER)]
    found = bound(points, 100)
    assert found.open_ended
    assert 27 < found.bound.value < 30
    near = [cases.point(20, 105.1, source=LEDGER), cases.point(26, 105, source=LEDGER)]
    assert bound(near, 100).bound.value == 52


def test_a_flat_line_makes_an_uncertain_crossing():
    steep = bound((cases.point(8, 250), cases.point(32, 50)), 100)
    flat = bound((cases.point(8, 101), cases.point(32, 99)), 100)
    assert steep.standard_error_percent < flat.standard_error_percent <= 25


def test_times_that_fall_with_load_are_pooled():
    curve = speed_curve((cases.point(8, 100), cases.point(16, 110), cases.point(32, 50)), 90)
    times = [one.seconds for one in curve.points]
    assert times == sorted(times)
    assert times[0] == pytest.approx((1 / 100 + 1 / 110) / 2)


def test_one_missed_point_lowers_in_proportion():
    found = bound((cases.point(64, 50, source=LEDGER),), 100)
    assert found.bound.value == pytest.approx(32.0)
    assert found.reachable


def test_every_point_holding_limits_raises_to_twice_the_highest():
    found = bound(cases.ladder(), 20)
    assert found.open_ended
    assert found.bound.value == 512


def test_a_share_at_the_edge_of_a_bucket_is_exact():
    """100 tok/s is vLLM's first edge, 0.01 s: 90 % at most 10 ms holds, 89 % does not."""
    holds = SpeedPoint(64.0, (150.0,) * 5, time_per_output_token=shares(900))
    misses = SpeedPoint(64.0, (150.0,) * 5, time_per_output_token=shares(890))
    assert bound((holds,), 100).open_ended
    assert not bound((misses,), 100).open_ended


def test_a_crossing_between_buckets_is_an_interval_around_the_point():
    low = SpeedPoint(16.0, (220.0,) * 5, time_per_output_token=shares(990))
    high = SpeedPoint(64.0, (60.0,) * 5, time_per_output_token=shares(100))
    found = bound((low, high), 100).bound
    assert found.low <= found.value <= found.high
    assert 16 <= found.value < 64


def test_medians_alone_are_said_to_be_medians():
    assert "only medians were measured" in bound(cases.ladder(), 100).bound.why


@pytest.mark.parametrize(
    ("share", "place"),
    [
        pytest.param(0.5, 0.005, id="half way into the first bucket"),
        pytest.param(1.0, 0.01, id="all of it"),
    ],
)
def test_the_place_inside_a_bucket(share, place):
    assert quantile_inside(read_histogram({"0.01": 100}, 100, None), share) == pytest.approx(place)


def test_the_open_last_bucket_is_placed_beyond_its_edge():
    assert quantile_inside(read_histogram({"0.01": 1}, 100, None), 0.9) == pytest.approx(0.02)


@given(
    st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=6),
    st.floats(0.5, 3000.0),
    st.floats(1.01, 4.0),
)
def test_a_harder_objective_never_allows_more(speeds, wanted, harder):
    points = [cases.point(2 ** (index + 1), speed) for index, speed in enumerate(speeds)]
    easy, hard = bound(points, wanted).bound.value, bound(points, wanted * harder).bound.value
    assert 1 <= hard <= easy * (1 + 1e-9)


@given(st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=6), st.floats(0.5, 3000.0))
def test_the_bound_never_passes_twice_the_highest_measured(speeds, wanted):
    points = [cases.point(2 ** (index + 1), speed) for index, speed in enumerate(speeds)]
    assert bound(points, wanted).bound.value <= 2 * 2 ** len(speeds)


@pytest.mark.parametrize(
    ("points", "alarm"),
    [
        pytest.param(((16, 50), (32, 50.2)), True, id="stands still while concurrency doubles"),
        pytest.param(((16, 50), (32, 45)), False, id="moves by a tenth"),
        pytest.param(((2, 50), (4, 50)), False, id="few requests: a card reads its weights"),
        pytest.param(((16, 50), (24, 50)), False, id="concurrency did not double"),
        pytest.param(((8, 263), (32, 120), (128, 42)), False, id="the measured ladder"),
    ],
)
def test_the_alarm_of_overhead(points, alarm):
    assert (overhead([cases.point(*one) for one in points]) is not None) is alarm


def test_the_alarm_rests_on_citable_points_alone():
    noisy = [SpeedPoint(seqs, (50.0, 50.0), source=LEDGER) for seqs in (16.0, 32.0)]
    assert overhead(noisy) is None


@pytest.mark.parametrize(
    ("low_milliseconds", "expected"),
    [
        pytest.param(14.0, 12.0, id="a nearly level line goes down by half"),
        pytest.param(16.0, 12.0, id="also where it never meets the objective"),
        pytest.param(40.0, 6.0, id="less than half where proportion says less"),
    ],
)
def test_an_extrapolation_goes_down_by_one_step(low_milliseconds, expected):
    """Quantiles of wide buckets at two loads gave 1 in a run where 28 was right."""
    low = SpeedPoint(24.0, (1000 / low_milliseconds,), source=LEDGER)
    high = SpeedPoint(70.0, (1000 / (low_milliseconds + 3),), source=LEDGER)
    assert bound((low, high), 100).bound.value == pytest.approx(expected)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(SpeedPoint(8.0, (1.0, 2.0, 3.0, 4.0)), id="slower below the lowest"),
        pytest.param(SpeedPoint(512.0, (900.0,)), id="faster above the highest"),
    ],
)
def test_what_is_not_citable_never_contradicts_what_is(odd):
    """Pooled with it, four careless values made 1 of a ladder that crosses at 42."""
    ladder = tuple(one for one in cases.ladder() if one.concurrency != odd.concurrency)
    curve = speed_curve((*ladder, odd), 90)
    assert odd.concurrency not in [one.concurrency for one in curve.points]
    assert bound((*ladder, odd), 100).bound.value == pytest.approx(42.3, abs=0.1)


def test_the_mean_and_not_the_slow_share_says_how_long_requests_stay():
    times = read_histogram({"0.01": 100, "0.025": 860, "0.05": 1000}, 1000, 18.0)
    curve = speed_curve((SpeedPoint(12.0, (60.0,) * 5, time_per_output_token=times),), 90)
    assert curve.mean_seconds(1) == pytest.approx(0.018)
    assert curve.seconds(1) > 0.025
