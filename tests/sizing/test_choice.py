"""What is in force, or was recommended, is not given up for noise."""

from dataclasses import replace

import pytest
import sizing_cases as cases

from parkade.api.conditions import Reason
from parkade.api.settings import Settings, fraction
from parkade.sizing.histograms import read_histogram
from parkade.sizing.ledger import PointSource

POOL = 4_315_354.0
TIMES = read_histogram({"0.01": 1000, "0.025": 1000}, 1000, 9.0)


def sized(bound, in_force, *, queued_percent=50.0, points=(), spec=None, **told):
    """Size an endpoint whose pool holds so many requests, with a hysteresis of 10 %."""
    flight = cases.in_flight(bound / 4, 0.25, POOL, scrapes=400)
    work = cases.workload(in_flight=flight, queued_percent=queued_percent)
    endpoint = spec or cases.endpoint(objectives=None, tuning={"minGainPercent": 10})
    running = Settings(in_force, fraction("0.9521"))
    return cases.sized(endpoint, work=work, ledger=points, in_force=running, **told)


def seqs(*args, **kwargs) -> int:
    return sized(*args, **kwargs).settings.max_num_seqs


@pytest.mark.parametrize(
    ("bound", "in_force", "previous", "found"),
    [
        pytest.param(36.2, 32, None, 40, id="past the middle and the hysteresis: up"),
        pytest.param(35.8, 40, None, 32, id="a little below it: down"),
        pytest.param(35.8, 40, 32, 40, id="not back at once to what was left"),
        pytest.param(32.1, 40, 32, 40, id="nearly there"),
        pytest.param(31.9, 40, 32, 32, id="back when the bound reaches it"),
        pytest.param(38.5, 32, 40, 32, id="nor back up"),
        pytest.param(40.1, 32, 40, 40, id="back up when the bound reaches it"),
        pytest.param(20.0, 40, 32, 20, id="further down than what was left"),
        pytest.param(46.5, 40, 256, 48, id="towards what was left, but not to it"),
        pytest.param(46.5, 40, 32, 48, id="away from what was left"),
    ],
)
def test_the_rung_that_was_left_is_gone_back_to_when_the_bound_reaches_it(
    bound, in_force, previous, found
):
    assert seqs(bound, in_force, previous_max_num_seqs=previous) == found


def test_what_keeps_it_is_told():
    sizing = sized(35.8, 40, previous_max_num_seqs=32)
    assert sizing.held is Reason.WITHIN_HYSTERESIS
    assert sizing.held_message == (
        "Change: 100 × (35.73 / 40 in force - 1) = -10.7 %, but 32 was left for 40, and is gone "
        "back to when the bound reaches it: 40 stays."
    )


def test_a_hard_bound_is_obeyed_though_it_leads_back():
    """40 tok/s were asked for and 30 are given: the rung that was left is right again."""
    points = tuple(
        cases.point(at, speed, source=PointSource.LEDGER, cap_binding=True)
        for at, speed in ((16, 80), (40, 30))
    )
    spec = cases.endpoint(
        objectives={"minOutputTokensPerSecond": 40}, tuning={"minGainPercent": 10}
    )
    free = sized(300, 40, points=points, spec=spec)
    kept = sized(300, 40, points=points, spec=spec, previous_max_num_seqs=28)
    assert free.settings.max_num_seqs == kept.settings.max_num_seqs == 28


@pytest.mark.parametrize(
    ("bound", "recommended", "told", "found"),
    [
        pytest.param(35.0, None, {}, 32, id="within the hysteresis nothing is recommended"),
        pytest.param(35.0, 40, {}, 40, id="what was recommended stays within it"),
        pytest.param(33.7, 40, {}, 40, id="while half of it is left"),
        pytest.param(33.5, 40, {}, 32, id="and no longer"),
        pytest.param(31.0, 40, {}, 32, id="nor on the other side"),
        pytest.param(61.0, 40, {}, 64, id="a far higher one takes its place"),
        pytest.param(43.5, 48, {}, 48, id="between two recommendations the first stays"),
        pytest.param(35.0, 256, {}, 32, id="one that is far from the bound goes"),
        pytest.param(26.2, 24, {}, 24, id="lower ones stay too"),
        pytest.param(27.5, 24, {}, 28, id="until another is clearly nearer"),
        pytest.param(29.5, 24, {}, 32, id="or nothing is wanted"),
        pytest.param(29.5, 28, {}, 28, id="the next rung while half is left"),
        pytest.param(32.0, 24, {"queued_percent": 0.1}, 32, id="a quiet hour keeps no lower one"),
        pytest.param(300.0, 8, {"queued_percent": 0.1}, 32, id="however high the bound is"),
        pytest.param(35.0, 32, {}, 32, id="it runs by now"),
        pytest.param(35.0, 40, {"queued_percent": 0.9}, 40, id="the queue is a little shorter"),
        pytest.param(35.0, 40, {"queued_percent": 0.5}, 32, id="hardly anybody queues any more"),
        pytest.param(35.0, 40, {"queued_percent": None}, 40, id="the queue is not known"),
    ],
)
def test_a_recommendation_is_not_given_up_for_noise(bound, recommended, told, found):
    sizing = sized(bound, 32, recommended_max_num_seqs=recommended, **told)
    assert sizing.settings.max_num_seqs == found
    kept = found == recommended != 32
    if kept:
        assert sizing.held is None
        assert sizing.explanation[-1].startswith("Recommended before: ")


@pytest.mark.parametrize(
    ("bound", "recommended", "firm"),
    [
        pytest.param(36.5, 40, True, id="asked for at this moment"),
        pytest.param(26.2, 24, True, id="a change is, if not quite to this rung"),
        pytest.param(35.0, 40, False, id="half of the hysteresis is left"),
        pytest.param(33.0, 40, True, id="it was given up"),
    ],
)
def test_a_change_starts_only_where_it_is_asked_for_now(bound, recommended, firm):
    sizing = sized(bound, 32, recommended_max_num_seqs=recommended)
    assert sizing.firm is firm
    assert firm or sizing.held_message == sizing.explanation[-1]


def test_a_recommendation_gives_way_to_what_preemptions_ask_for():
    slow = read_histogram({"10": 1, "20": 600}, 600, 9000.0)
    flight = cases.in_flight(43.4 / 4, 0.25, POOL, preemptions=300.0, scrapes=400)
    work = cases.workload(in_flight=flight, time_to_first_token=slow, queued_percent=90.0)
    spec = cases.endpoint(
        objectives={"minOutputTokensPerSecond": None, "maxTimeToFirstTokenSeconds": 10}
    )
    running = Settings(40, fraction("0.9521"))
    found = cases.sized(spec, work=work, in_force=running, recommended_max_num_seqs=48)
    assert found.settings.max_num_seqs == 32


def test_a_recommendation_keeps_to_twice_what_was_measured():
    points = (cases.point(16, 80, source=PointSource.LEDGER, cap_binding=True),)
    spec = cases.endpoint(
        objectives={"minOutputTokensPerSecond": 40}, tuning={"minGainPercent": 10}
    )
    found = sized(300, 20, points=points, spec=spec, recommended_max_num_seqs=256)
    assert found.settings.max_num_seqs == 32


def test_a_recommendation_is_cut_to_what_is_allowed():
    spec = cases.endpoint(
        objectives=None,
        tuning={"minGainPercent": 10, "initial": None, "maxNumSeqs": {"min": 1, "max": 36}},
    )
    assert seqs(35.0, 32, spec=spec, recommended_max_num_seqs=40) == 32


def test_without_traffic_nothing_that_was_recommended_is():
    nothing = cases.inputs(
        cases.endpoint(), in_force=Settings(32, fraction("0.9521")), recommended_max_num_seqs=40
    )
    silent = replace(nothing, workload=cases.NOTHING)
    found = cases.recommend(silent)
    assert (found.settings.max_num_seqs, found.held) == (32, Reason.INSUFFICIENT_EVIDENCE)
