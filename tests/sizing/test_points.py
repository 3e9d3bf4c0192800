"""Windows become points, points become citable or too old, and little of it is worth a write."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parkade.sizing.histograms import Histogram
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.points import (
    MAX_AGE,
    MAX_POINTS,
    MAX_VALUES,
    added,
    matters,
    merge_points,
    pooled,
    stamp,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WINDOW = 3600.0


def times(fast: float = 90.0, slow: float = 10.0) -> Histogram:
    return Histogram((0.01, 0.025), (fast, fast + slow), fast + slow, 0.008 * (fast + slow))


def window(hours: float, speed: float = 100.0, running: float = 16.0, **fields) -> SpeedPoint:
    """The window of one pod that ended so many hours before NOW."""
    found = fields.pop("found", times())
    return SpeedPoint(
        running,
        (speed,),
        (0.5,),
        time_per_output_token=found,
        newest_time_per_output_token=found,
        **{
            "pod": "a",
            "fingerprint": "f",
            "measured_at": stamp(NOW - timedelta(hours=hours)),
            **fields,
        },
    )


def after(*windows: SpeedPoint):
    """The ledger after these windows, each taken in by itself."""
    ledger = ()
    for one in windows:
        ledger = merge_points(ledger, (one,), NOW, WINDOW)
    return ledger


@pytest.mark.parametrize(
    ("windows", "values"),
    [
        pytest.param([window(2, 90), window(1, 110)], [(90, 110)], id="windows apart are appended"),
        pytest.param(
            [window(1.5, 90), window(1, 110)], [(110,)], id="an overlapping one replaces the newest"
        ),
        pytest.param(
            [window(3, 80), window(1.5, 90), window(1, 110)],
            [(80, 110)],
            id="only the newest is replaced",
        ),
        pytest.param([window(1, 90), window(1, 110)], [(90,)], id="the same reading counts once"),
        pytest.param([window(1, 90), window(2, 110)], [(90,)], id="an older reading says nothing"),
        pytest.param(
            [window(2, 90), window(1, 110, pod="b")], [(90,), (110,)], id="pods are kept apart"
        ),
        pytest.param(
            [window(2, 90), window(1, 300, 3.0)], [(90,), (300,)], id="rungs are kept apart"
        ),
        pytest.param(
            [window(2, 90), window(1, 90, fingerprint="g")],
            [(90,), (90,)],
            id="fingerprints are kept apart",
        ),
        pytest.param([window(24 * 14 + 1, 90)], [], id="two weeks are too old"),
        pytest.param([window(-24 * 15, 90)], [], id="a time far in the future is no time"),
        pytest.param([window(1, measured_at="soon")], [], id="a time that can't be read is none"),
        pytest.param([window(1, measured_at="")], [], id="no time is none"),
    ],
)
def test_windows_are_appended_replaced_or_dropped(windows, values):
    assert [one.output_tokens_per_second_per_request for one in after(*windows)] == values


def test_five_windows_that_do_not_overlap_are_citable():
    ledger = after(*(window(hours, 100 + hours) for hours in range(4, -1, -1)))
    assert [one.citable for one in ledger] == [True]
    assert ledger[0].time_per_output_token.total == pytest.approx(500)
    assert [one.citable for one in after(*(window(h / 2) for h in range(4, -1, -1)))] == [False]


def test_a_window_that_slides_is_one_window_while_nothing_is_written():
    kept = after(window(2))
    for minutes in range(1, 60):
        view = merge_points(kept, (window(2 - minutes / 60),), NOW, WINDOW)
        assert [len(one.output_tokens_per_second_per_request) for one in view] == [1]
        assert view[0].time_per_output_token == times()
    grown = merge_points(kept, (window(1),), NOW, WINDOW)
    assert len(grown[0].output_tokens_per_second_per_request) == 2


def test_the_buckets_of_the_replaced_window_go_with_it():
    ledger = after(window(3, found=times(100, 0)), window(1.5, found=times(0, 100)), window(1))
    assert ledger[0].time_per_output_token.cumulative == (190, 200)


def test_the_buckets_of_old_windows_fade():
    old = [window(hours, found=times(0, 100)) for hours in range(100, 50, -1)]
    new = [window(hours, found=times(100, 0)) for hours in range(50, 40, -1)]
    found = after(*old, *new)[0].time_per_output_token
    assert found.cumulative[0] / found.total > 0.75


@pytest.mark.parametrize(
    ("new", "matter"),
    [
        pytest.param([], False, id="nothing was measured"),
        pytest.param([window(2)], False, id="the same again"),
        pytest.param([window(1.5, 102)], False, id="a speed that moved by 2 percent"),
        pytest.param([window(1.5, 107)], True, id="a speed that moved by 7 percent"),
        pytest.param([window(1, 100)], True, id="a further window of a point not yet citable"),
        pytest.param([window(2, pod="b")], True, id="a pod that was not known"),
        pytest.param([window(2, running=30.0)], True, id="a rung that was not known"),
    ],
)
def test_only_what_may_change_a_decision_is_worth_a_write(new, matter):
    kept = after(window(2))
    assert matters(kept, merge_points(kept, new, NOW, WINDOW), NOW) is matter


def test_a_steady_endpoint_is_not_written_again_until_its_points_would_age():
    kept, writes = (), 0
    for hours in range(24 * 7):
        now = NOW + timedelta(hours=hours)
        view = merge_points(kept, (window(-hours),), now, WINDOW)
        if matters(kept, view, now):
            kept, writes = view, writes + 1
    assert writes == 5
    later = NOW + MAX_AGE / 2 + timedelta(hours=6)
    assert matters(kept, merge_points(kept, (window(-174),), later, WINDOW), later)


def test_what_only_ages_out_is_not_worth_a_write():
    kept = after(window(2))
    later = NOW + MAX_AGE
    gone = merge_points(kept, (), later, WINDOW)
    assert gone == ()
    assert not matters(kept, gone, later)


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        pytest.param((0.3, 0.95), (0.0, 0.6), (0.3, 0.95), id="calm while fewer run: it stays"),
        pytest.param((0.3, 0.9), (0.0, 0.95), (0.0, 0.95), id="calm in as full a pool: forgotten"),
        pytest.param((0.12, 0.8), (0.3, 0.97), (0.12, 0.8), id="the least full one is kept"),
        pytest.param((0.3, 0.97), (0.12, 0.8), (0.12, 0.8), id="whichever came first"),
        pytest.param((0.0, 0.6), (0.3, 0.95), (0.3, 0.95), id="they begin"),
        pytest.param((None, None), (0.0, 0.6), (0.0, 0.6), id="not known before"),
    ],
)
def test_the_share_of_the_pool_from_which_on_there_are_preemptions_is_kept(first, then, kept):
    one, other = (
        window(hours, preemptions_per_request=each, kv_share=share)
        for hours, (each, share) in ((3, first), (1, then))
    )
    (found,) = after(one, other)
    assert (found.preemptions_per_request, found.kv_share) == kept


def test_the_first_preemptions_are_worth_a_write():
    calm = after(*(window(hours) for hours in range(9, 2, -1)))
    new = merge_points(calm, (window(1, preemptions_per_request=0.5, kv_share=0.9),), NOW, WINDOW)
    assert matters(calm, new, NOW)


def test_pods_of_one_rung_are_pooled():
    both = pooled([window(2, 90, 15.0), window(1, 110, 17.0, pod="b")])
    assert (both.concurrency, both.speed) == (16.0, 100.0)
    assert both.time_per_output_token.total == 200


def test_buckets_with_other_edges_are_not_added():
    other = Histogram((0.02,), (5.0,), 5.0, 0.1)
    assert added(times(), other) is other
    assert added(None, other) is other


POINTS = st.builds(
    window,
    hours=st.floats(0, 400),
    speed=st.floats(1, 1000),
    running=st.floats(0.5, 1024),
    pod=st.sampled_from("abcdef"),
)


@given(st.lists(POINTS, max_size=40), st.lists(POINTS, max_size=10))
@settings(max_examples=60, deadline=None)
def test_merging_twice_is_merging_once_and_stays_bounded(old, new):
    ledger = after(*old)
    once = merge_points(ledger, new, NOW, WINDOW)
    assert merge_points(once, new, NOW, WINDOW) == once
    assert len(once) <= MAX_POINTS
    for one in once:
        assert 1 <= len(one.output_tokens_per_second_per_request) <= MAX_VALUES
        assert SpeedPoint.from_dict(one.to_dict()) == one
        found = one.time_per_output_token
        assert list(found.cumulative) == sorted(found.cumulative)
        assert found.total >= found.cumulative[-1] - 1e-9


def test_the_newest_points_are_kept_of_too_many():
    many = [window(100 - at, pod=f"pod-{at}") for at in range(MAX_POINTS + 10)]
    kept = after(*many)
    assert len(kept) == MAX_POINTS
    assert kept[-1].pod == f"pod-{MAX_POINTS + 9}"
    assert replace(kept[0]).pod == "pod-10"
