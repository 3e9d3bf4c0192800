"""What is written where nothing is good, and where nothing may be written but status."""

import pytest

from parkade.rollout.actions import Action, Desired
from parkade.rollout.record_json import from_json
from rollout.support.driver import Operator
from rollout.support.objects import body
from rollout.support.stories import INITIAL, crashes_above, started, told
from rollout.support.world import Fate, World


def given_up(mode: str = "Auto", **spec) -> Operator:
    """Every setting ran out of memory."""
    operator = Operator(World(), body({"tuning": {"initial": INITIAL, "mode": mode}, **spec}))
    operator.world.fate = crashes_above("0.5")
    operator.run(600)
    assert operator.condition("Stalled")[:2] == ("True", "NoKnownGoodSettings")
    return operator


@pytest.mark.parametrize("mode", ["Auto", "RecommendOnly"])
def test_the_last_verdict_is_in_the_record_that_a_restart_reads(mode: str) -> None:
    operator = given_up(mode)
    record = from_json(operator.record_text, "uid-1")
    assert record.candidate is None
    assert record.history[0].verdict.value == "Failed"
    assert len(record.quarantine) == (4 if mode == "Auto" else 1)


def test_a_steady_endpoint_is_not_written_to() -> None:
    operator = given_up()
    status, writes = operator.raw["status"], operator.writes
    operator.run(900)
    assert (operator.raw["status"], operator.writes) == (status, writes)


def test_the_retry_that_the_message_names_is_made() -> None:
    operator = given_up("RecommendOnly")
    key = operator.raw["status"]["rejected"][0]["hash"]
    assert f"ask for a retry of {key}" in operator.condition("Stalled")[2]
    operator.world.fate = lambda _settings, _image: Fate()
    operator.retry(f"{key} the node was broken")
    assert told(operator, 600) == [("Deploy", "RolloutInProgress"), ("Promote", "Applied")]


def test_zero_replicas_free_the_gpus_of_its_crash_loop() -> None:
    operator = given_up(replicas=2)
    assert len(operator.world.pods) == 2
    operator.change(replicas=0)
    assert told(operator, 60) == []
    assert operator.world.pods == []
    operator.change(replicas=1)
    operator.run(60)
    assert len(operator.world.pods) == 1


def test_its_deployment_is_not_changed_otherwise() -> None:
    operator = given_up()
    before = operator.world.deployment.raw["spec"]
    operator.change(replicas=3)
    operator.run(60)
    assert operator.world.deployment.raw["spec"] == {**before, "replicas": 3}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"suspend": True}, "Suspended", id="suspended"),
        pytest.param(
            {"engine": None, "targetRef": {"name": "theirs"}}, "AdviseOnly", id="only advised on"
        ),
    ],
)
def test_nothing_but_status_is_written_where_it_may_not_act(spec: dict, reason: str) -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    operator.size = lambda *_: Desired(None)
    operator.raw["spec"] = {
        key: value for key, value in (operator.raw["spec"] | spec).items() if value is not None
    }
    found = operator.step()
    assert (found.action, found.reason.value) == (Action.HOLD, reason)
    assert (operator.record_text, operator.world.deployment) == (None, None)


def test_a_retry_while_suspended_is_not_told_before_it_is_recorded() -> None:
    operator = started(seqs=256, gpus=3)
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.REVERT)
    operator.run(10)
    key = operator.raw["status"]["rejected"][0]["hash"]
    operator.change(suspend=True)
    operator.retry(key)
    operator.run(30)
    assert operator.raw["status"]["rejected"][0]["hash"] == key
    operator.change(suspend=False)
    assert ("Deploy", "CandidateInProgress") in told(operator, 30)
