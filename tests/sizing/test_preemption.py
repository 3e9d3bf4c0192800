"""Below the KV bound only where requests pushed one another out and an objective is missed."""

from dataclasses import replace

import pytest
import sizing_cases as cases

from parkade.api.settings import Settings, fraction
from parkade.sizing.histograms import read_histogram
from parkade.sizing.ledger import PointSource

FAST = read_histogram({"10": 600, "20": 600}, 600, 600.0)
SLOW = read_histogram({"10": 1, "20": 600}, 600, 9000.0)


def known(each, share):
    """A point of the ledger with so many preemptions for each request in so full a pool."""
    point = cases.point(48, 50, source=PointSource.LEDGER)
    return replace(point, preemptions_per_request=each, kv_share=share)


def sized(in_force, *points, first_token=SLOW, preemptions=0.0, **spec):
    """Size an endpoint whose pool holds 40 requests, all slots of it taken."""
    flight = cases.in_flight(
        9.6, 0.24, 4_315_354.0, preemptions=preemptions, scrapes=400
    )  # 9.6 / 0.24 = 40
    work = cases.workload(in_flight=flight, time_to_first_token=first_token, queued_percent=90.0)
    asked = {"minOutputTokensPerSecond": None, "maxTimeToFirstTokenSeconds": 10}
    endpoint = cases.endpoint(**{"objectives": asked, **spec})
    running = Settings(in_force, fraction("0.9521"))
    return cases.sized(endpoint, work=work, ledger=points, in_force=running)


@pytest.mark.parametrize(
    ("in_force", "fields", "rung"),
    [
        pytest.param(40, {"preemptions": 60.0}, 32, id="one for every tenth request"),
        pytest.param(40, {"preemptions": 59.0}, 40, id="fewer"),
        pytest.param(40, {"preemptions": 300.0, "first_token": FAST}, 40, id="nothing is missed"),
        pytest.param(40, {"preemptions": 300.0, "objectives": None}, 40, id="nothing is asked for"),
        pytest.param(128, {"preemptions": 300.0}, 40, id="far above the bound: the bound first"),
        pytest.param(
            40, {"preemptions": 300.0, "tuning": {"maxNumSeqs": {"min": 40}}}, 40, id="the least"
        ),
    ],
)
def test_many_preemptions_and_a_missed_objective_go_one_rung_down(in_force, fields, rung):
    sizing = sized(in_force, **fields)
    assert sizing.settings.max_num_seqs == rung
    assert any(one.startswith("Preemptions: ") for one in sizing.explanation) == (rung < in_force)


@pytest.mark.parametrize(
    ("in_force", "points", "fields", "rung"),
    [
        pytest.param(32, [known(0.3, 0.95)], {}, 32, id="no raise to where they were"),
        pytest.param(32, [known(0.3, 0.95)], {"first_token": FAST}, 32, id="nor when all is well"),
        pytest.param(32, [known(0.3, 1.0)], {}, 32, id="a full pool"),
        pytest.param(32, [known(0.3, 0.7), known(0.3, 0.95)], {}, 32, id="what runs is not lower"),
        pytest.param(16, [known(0.3, 0.95)], {}, 32, id="a raise to well below"),
        pytest.param(24, [known(0.3, 0.83)], {}, 28, id="and not to just below, as noise would"),
        pytest.param(128, [known(0.3, 0.95)], {}, 32, id="on the way down at once"),
        pytest.param(128, [known(0.3, 0.95)], {"first_token": FAST}, 40, id="not where all is met"),
        pytest.param(32, [known(0.09, 0.95)], {}, 40, id="they were few"),
        pytest.param(32, [known(0.3, None)], {}, 40, id="how full the pool was is not known"),
        pytest.param(32, [known(None, 0.95)], {}, 40, id="not known at all"),
        pytest.param(32, [known(0.3, 0.95)], {"objectives": None}, 40, id="nothing is asked for"),
        pytest.param(40, [known(0.3, 0.95)], {}, 40, id="what runs and preempts no more stays"),
    ],
)
def test_what_preempted_is_remembered(in_force, points, fields, rung):
    assert sized(in_force, *points, **fields).settings.max_num_seqs == rung


def test_the_arithmetic_is_told():
    (sentence,) = (one for one in sized(32, known(0.3, 0.95)).explanation if "Preempt" in one)
    assert sentence == (
        "Preemptions: 39.9708 requests × 0.95 of the pool / 1.05 = 36.1641 requests "
        "(minGainPercent below it); with so much of the pool held there were 0.3 for each request, "
        "so 32 and not 40."
    )


@pytest.mark.parametrize("usage", [0.25, 0.26, 0.28, 0.3])
def test_a_bound_below_what_runs_is_taken_at_once_where_they_are_many(usage):
    """The hysteresis and what was left before hold nothing while requests push one another out."""
    flight = cases.in_flight(9.6, usage, 4_315_354.0, preemptions=300.0, scrapes=400)
    work = cases.workload(in_flight=flight, time_to_first_token=SLOW, queued_percent=90.0)
    asked = {"minOutputTokensPerSecond": None, "maxTimeToFirstTokenSeconds": 10}
    spec = cases.endpoint(objectives=asked, tuning={"minGainPercent": 20})
    running = Settings(40, fraction("0.9521"))
    found = cases.sized(spec, work=work, in_force=running, previous_max_num_seqs=32)
    assert found.settings.max_num_seqs <= 32


def test_a_step_within_the_hysteresis_is_not_called_beyond_it():
    sizing = sized(40, preemptions=300.0, tuning={"minGainPercent": 30})
    assert sizing.explanation[-1] == (
        "Change: 100 × (32 / 40 in force - 1) = -20 %, and the hysteresis does not hold it: 32."
    )
