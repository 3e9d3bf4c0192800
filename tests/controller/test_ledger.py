"""The ledger between traffic and record: what enters it, and when it is written."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from parkade.adapters.traffic import Traffic
from parkade.adapters.vllm_metrics import Scope
from parkade.api.conditions import ConditionStatus, Reason
from parkade.api.endpoint import parse_endpoint
from parkade.api.settings import Settings
from parkade.api.status import Origin
from parkade.controller import ledger
from parkade.controller.observe import Observation
from parkade.controller.observed_workload import observe_workload
from parkade.rollout.actions import Action, Finding, Plan, Target
from parkade.rollout.observed import PodState
from parkade.rollout.record import Candidate, Record
from parkade.rollout.render import render_revision
from parkade.sizing.points import stamp
from parkade.sizing.workload import CannotTell, Workload
from support.traffic import served

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WINDOW = 3600
OLD, NEW = Settings(256, Decimal("0.9")), Settings(16, Decimal("0.9"))
ENDPOINT = parse_endpoint(
    {
        "apiVersion": "serving.parkade.dev/v1alpha1",
        "kind": "InferenceEndpoint",
        "metadata": {"name": "chat", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {
            "model": {"name": "acme/hybrid-27b", "maxModelLen": 100_000},
            "engine": {"image": "vllm/vllm-openai:v0.32.0"},
            "accelerator": {"product": "NVIDIA-B200"},
            "workload": {"windowSeconds": WINDOW, "minRequests": 10},
        },
    }
)
GOOD, NEXT = render_revision(ENDPOINT, NEW), render_revision(ENDPOINT, OLD)
TARGET = Target(GOOD, replicas=1, surge=True)


def traffic(at=NOW, **pods):
    found = {name: served(at, *what) for name, what in pods.items()}
    return Traffic(Scope(WINDOW), at.timestamp(), {("ns", "chat"): found}, {})


def pod(name, settings, fingerprint=GOOD.fingerprint):
    return PodState(name, name, "rs", "r", settings=settings, fingerprint=fingerprint)


def seen(points=(), now=NOW, pods=(), **record):
    kept = Record("u", last_good=GOOD, ledger=tuple(one.to_dict() for one in points), **record)
    return Observation(ENDPOINT, now, kept, None, None, None, (), tuple(pods), (), ())


def measured(look, answer):
    return ledger.merged(look, answer, observe_workload(look, answer), GOOD.fingerprint)


def decided(look, action=Action.HOLD, target=TARGET, **record):
    finding = Finding(ConditionStatus.TRUE, Reason.APPLIED, "")
    return Plan(action, Reason.APPLIED, "", replace(look.record, **record), target, finding)


PODS = (pod("old", OLD), pod("new", NEW), pod("alien", OLD, "another"))
BUSY = {"old": (130, 45), "new": (16, 7), "alien": (60, 30)}


def test_each_pod_of_the_fingerprint_is_a_point_of_its_own():
    found = measured(seen(pods=PODS), traffic(**BUSY))
    assert [(one.pod, one.concurrency, one.cap_binding) for one in found] == [
        ("new", 16.0, True),
        ("old", 130.0, False),
    ]


def test_times_of_the_settings_in_force_alone_judge_them():
    workload = observe_workload(seen(pods=PODS), traffic(**BUSY))
    assert isinstance(workload, Workload)
    assert workload.time_per_output_token.mean == pytest.approx(0.007)
    assert workload.requests == 900


def test_an_answer_that_may_not_decide_adds_nothing():
    partial = replace(traffic(**BUSY), warnings=("a store is down",))
    assert measured(seen(pods=PODS), partial) == ()
    nothing = CannotTell(Reason.PROMETHEUS_UNAVAILABLE, "down")
    kept = measured(seen(pods=PODS), traffic(**BUSY))
    assert measured(seen(kept, pods=PODS), nothing) == kept


def is_written(look, points, plan):
    return ledger.flushed(look, plan, points).record.ledger != plan.record.ledger


def test_a_first_measurement_is_written_and_the_same_again_is_not():
    first = seen(pods=PODS)
    points = measured(first, traffic(**BUSY))
    plan = ledger.flushed(first, decided(first), points)
    assert ledger.recorded(plan.record) == points
    again = seen(points, pods=PODS)
    assert not is_written(again, measured(again, traffic(**BUSY)), decided(again))


@pytest.mark.parametrize(
    ("minutes", "speed", "action", "written"),
    [
        pytest.param(10, 7.0, Action.HOLD, False, id="a steady minute"),
        pytest.param(10, 9.5, Action.HOLD, False, id="news within the hour waits"),
        pytest.param(61, 9.5, Action.HOLD, True, id="news after an hour"),
        pytest.param(61, 7.0, Action.HOLD, True, id="one more window of what is not yet citable"),
        pytest.param(10, 7.0, Action.PROMOTE, True, id="a promotion"),
        pytest.param(10, 7.0, Action.DEPLOY, True, id="a change by tuning"),
        pytest.param(10, 7.0, Action.REVERT, False, id="a revert does not wait for it"),
    ],
)
def test_the_record_is_written_when_it_matters(minutes, speed, action, written):
    kept = measured(seen(pods=PODS), traffic(new=(16, 7.0)))
    now = NOW + timedelta(minutes=minutes)
    look = seen(kept, now, PODS)
    points = measured(look, traffic(now, new=(16, speed)))
    candidate = Candidate(NEXT, Origin.TUNING, now) if action is Action.DEPLOY else None
    assert is_written(look, points, decided(look, action, candidate=candidate)) is written


@pytest.mark.parametrize(
    ("points", "target"),
    [
        pytest.param(None, TARGET, id="sizing could not be asked"),
        pytest.param((), TARGET, id="nothing was measured"),
        pytest.param("measured", None, id="no child may be written: suspended or being deleted"),
    ],
)
def test_it_is_not_written(points, target):
    look = seen(pods=PODS)
    found = measured(look, traffic(**BUSY)) if points == "measured" else points
    assert not is_written(look, found, decided(look, target=target))


@pytest.mark.parametrize(
    ("measured_at", "written"),
    [
        pytest.param("yesterday", True, id="no time at all"),
        pytest.param("", True, id="empty"),
        pytest.param("2026-03-01T11:30:00", False, id="without a zone: half an hour ago in UTC"),
        pytest.param("2026-03-01T09:00:00", True, id="without a zone: three hours ago"),
        pytest.param("9999-99-99T00:00:00Z", True, id="no such day"),
    ],
)
def test_a_time_that_somebody_edited_holds_nothing_up(measured_at, written):
    kept = measured(seen(pods=PODS), traffic(new=(16, 7.0)))
    look = seen([replace(one, measured_at=measured_at) for one in kept], pods=PODS)
    points = measured(look, traffic(old=(130, 45)))
    assert is_written(look, points, decided(look)) is written


def test_a_steady_endpoint_is_written_until_its_points_are_citable_and_then_no_more():
    kept, writes = (), 0
    for minutes in range(0, 24 * 60, 20):
        now = NOW + timedelta(minutes=minutes)
        look = seen(kept, now, PODS)
        plan = ledger.flushed(look, decided(look), measured(look, traffic(now, new=(16, 7.0))))
        writes += plan.record.ledger != look.record.ledger
        kept = ledger.recorded(plan.record)
    assert writes == 5
    assert [one.citable for one in kept] == [True]
    assert kept[0].measured_at == stamp(NOW + timedelta(hours=4))
