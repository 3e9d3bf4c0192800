"""A candidate of tuning does not hold its turn for ever: other endpoints wait for it."""

from parkade.api.status import Verdict
from parkade.rollout.actions import Action, Fleet
from parkade.rollout.observed import DisruptionBudget
from rollout.support.driver import Operator
from rollout.support.stories import started, told

BLOCKED = ("False", "BlockedByDisruptionBudget")


def widening(**spec) -> Operator:
    """Two pods run; of a new setting one soaked, and the rest may follow now."""
    operator = started(**{"replicas": 2, "gpus": 3, "seqs": 32, **spec})
    operator.until(Action.WIDEN)
    return operator


def own(operator: Operator) -> list:
    candidate = operator.plans[-1].record.candidate
    return [one for one in operator.world.live if one.owner.revision == candidate.revision.hash]


def lose_all_but_one(operator: Operator) -> None:
    """Two nodes fail in the midst of it, and only one GPU is left."""
    served = own(operator)[0]
    operator.world.gpus = 1
    for pod in [one for one in operator.world.live if one is not served]:
        operator.world.lose_pod(pod, "DeletionByTaintManager")


def use_up_the_quota(operator: Operator) -> None:
    """It is lowered by one, and an old pod is evicted."""
    operator.world.quota = len(operator.world.live) - 1
    operator.world.lose_pod(
        next(one for one in operator.world.live if one not in own(operator)),
        "EvictionByEvictionAPI",
    )


def test_what_served_is_promoted_where_the_rest_finds_no_gpu() -> None:
    operator = widening()
    lose_all_but_one(operator)
    (served,) = own(operator)
    assert told(operator, 500) == [("Deploy", "RolloutInProgress")]  # one at a time from here on
    status, reason, message = operator.condition("SettingsApplied")
    assert (status, reason) == ("False", "WaitingForGPU")
    assert "1 of 2 pods have served long enough. Pod " in message
    found = operator.until(Action.PROMOTE, seconds=300)
    assert "1 pod served for 60 s" in found.message
    assert "The other pods find no room: Pod " in found.message
    assert operator.record().candidate is None
    assert told(operator, 3000) == []
    assert served.is_ready  # and was never touched
    operator.world.gpus = 3
    operator.run(120)
    assert operator.condition("Ready")[2].startswith("2 of 2 pods are ready")


def test_a_users_change_waits_for_the_gpus_that_it_asks_for() -> None:
    operator = started(replicas=2, gpus=3)
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.0"})
    operator.until(Action.WIDEN)
    lose_all_but_one(operator)
    assert told(operator, 4000) == [("Deploy", "RolloutInProgress")]
    assert operator.condition("Reconciling")[:2] == ("True", "WaitingForGPU")
    operator.world.gpus = 3
    assert operator.until(Action.PROMOTE)


def test_a_quota_that_is_used_up_meanwhile_leads_to_one_pod_at_a_time() -> None:
    operator = widening()
    use_up_the_quota(operator)
    found = operator.until(Action.DEPLOY, seconds=300)
    assert found.message == "The quota takes no further pod: pods are replaced one at a time."
    assert "2 pods served" in operator.until(Action.PROMOTE).message


def test_with_surge_alone_a_used_up_quota_takes_the_candidate_back() -> None:
    operator = widening(rollout={"strategy": "Surge"})
    use_up_the_quota(operator)
    found = operator.until(Action.WITHDRAW)
    assert "exceeded quota" in found.message
    assert operator.record().history[0].verdict is Verdict.INCONCLUSIVE


def blocked(**spec) -> Operator:
    """A budget comes to protect the old pods while the canary soaks."""
    operator = started(**{"replicas": 2, "seqs": 32, **spec})
    operator.until(Action.DEPLOY)
    operator.fleet = Fleet(budgets=(DisruptionBudget("keep-all", 0),))
    return operator


def test_a_budget_that_blocks_the_rest_takes_a_pod_beside_the_others_back() -> None:
    operator = blocked(gpus=3)
    old = [one for one in operator.world.live if one not in own(operator)]
    operator.run(500)
    assert operator.condition("SettingsApplied")[:2] == BLOCKED
    assert operator.record().candidate is not None
    found = operator.until(Action.WITHDRAW, seconds=900)
    assert "PodDisruptionBudget keep-all allows no disruption" in found.message
    assert told(operator, 8000) == []
    assert operator.condition("SettingsApplied")[:2] == BLOCKED
    assert all(one.is_ready for one in old)
    operator.fleet = Fleet()
    assert operator.until(Action.PROMOTE, seconds=20_000)


def test_a_pod_in_the_place_of_another_stays_since_going_back_would_disrupt() -> None:
    operator = started(replicas=2, gpus=2, seqs=32)
    operator.until(Action.DEPLOY)
    operator.run(60)
    assert operator.record().candidate.surge is False
    operator.fleet = Fleet(budgets=(DisruptionBudget("keep-all", 0),))
    operator.run(20_000)
    assert operator.condition("SettingsApplied")[:2] == BLOCKED
    assert operator.record().candidate is not None
    operator.fleet = Fleet()
    assert operator.until(Action.PROMOTE)


def test_the_last_old_pod_is_not_scaled_away_before_a_new_one_serves() -> None:
    """Of three pods that are replaced in their places one is left: none would serve for a while."""
    never = {"interruption": "Never"}
    operator = started(replicas=3, gpus=3, seqs=32, rollout={"strategy": "NoSurge"}, tuning=never)
    operator.until(Action.WIDEN)
    operator.change(replicas=1)
    operator.step()
    assert operator.world.deployment.raw["spec"]["replicas"] == 3
    assert "come when no old pod is left" in operator.condition("SettingsApplied")[2]
    while operator.record().candidate is not None:
        operator.run(5)
        assert any(pod.is_ready for pod in operator.world.live)
    operator.run(60)
    assert len(operator.world.live) == 1
    assert all(pod.is_ready for pod in operator.world.live)
