"""Whole stories of an endpoint in the modelled cluster, told by the actions that were taken."""

from dataclasses import replace
from decimal import Decimal
from functools import cache

import pytest

from parkade.api.settings import Settings
from parkade.rollout import template
from parkade.rollout.actions import Action, Fleet
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause, Stage
from parkade.rollout.observed import DisruptionBudget
from parkade.rollout.record_json import to_json
from rollout.support.driver import Operator, leaves_headroom
from rollout.support.objects import GIB, body, settings
from rollout.support.stories import (
    INITIAL,
    NO_SUCH_FLAG,
    OUT_OF_MEMORY,
    crashes_above,
    image_fails,
    started,
    told,
)
from rollout.support.world import Fate, World


def test_first_deploy_is_ready_before_it_is_promoted_and_then_quiet() -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    first = operator.step()
    assert (first.action, first.message) == (
        Action.DEPLOY,
        "Starts with max_num_seqs 256, gpu_memory_utilization 0.9.",
    )
    assert operator.condition("Ready")[:2] == ("False", "RolloutInProgress")
    assert operator.condition("Reconciling")[:2] == ("True", "RolloutInProgress")
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")
    operator.run(40)
    assert operator.condition("Ready")[:2] == ("True", "RolloutInProgress")
    assert told(operator, 100) == [("Promote", "Applied")]
    assert operator.condition("Ready") == (
        "True",
        "Serving",
        "1 of 1 pods are ready; last good: max_num_seqs 256, gpu_memory_utilization 0.9.",
    )
    assert operator.condition("Reconciling")[:2] == ("False", "UpToDate")
    writes = operator.writes
    operator.run(600)
    assert operator.writes == writes


def test_tuning_turns_one_knob_at_a_time_with_a_canary_each() -> None:
    operator = started(replicas=2, gpus=3, seqs=32)
    assert told(operator, 2200) == [
        ("Deploy", "CandidateInProgress"),
        ("Widen", "RolloutInProgress"),
        ("Promote", "Applied"),
        ("Deploy", "CandidateInProgress"),
        ("Widen", "RolloutInProgress"),
        ("Promote", "Applied"),
    ]
    knobs = [
        (one.record.candidate.knob, one.record.candidate.revision.settings)
        for one in operator.plans
        if one.action is Action.DEPLOY and one.record.candidate.knob
    ]
    assert knobs == [
        (Knob.MAX_NUM_SEQS, settings(32, "0.9")),
        (Knob.HEADROOM, settings(32, "0.955")),
    ]
    assert operator.condition("SettingsApplied") == (
        "True",
        "Applied",
        "max_num_seqs 32, gpu_memory_utilization 0.955 runs.",
    )
    assert "Reconciling" not in {note.reason for note in operator.notes}


@pytest.mark.parametrize(
    ("log_tells", "consequence"),
    [
        pytest.param(True, "sizing goes on from what was measured.", id="the log tells of memory"),
        pytest.param(
            False,
            "and the engine's log does not tell where the memory went: sizing goes on from its "
            "estimate.",
            id="the log tells nothing",
        ),
    ],
)
def test_a_smaller_pool_than_predicted_is_promoted_with_both_figures(
    log_tells: bool, consequence: str
) -> None:
    operator = started(seqs=32)
    operator.measured_kv_tokens = 1_500_000
    if log_tells:
        record = operator.record()
        learned = record.with_learned(record.last_good.fingerprint, {"free_bytes": 170 * GIB})
        operator.record_text = to_json(learned)
    promoted = operator.until(Action.PROMOTE)
    figures, _, rest = promoted.message.partition(" That is short")
    assert figures.endswith("KV cache: 1,500,000 tokens, 2,100,000 were predicted.")
    assert rest.lstrip(";, ") == consequence
    entry = operator.raw["status"]["history"][0]
    assert (entry["predictedKVTokens"], entry["measuredKVTokens"]) == (2_100_000, 1_500_000)


def test_a_canary_leaves_the_old_pods_alone_until_it_soaked() -> None:
    operator = started(replicas=2, gpus=3, seqs=32)
    deploy = operator.until(Action.DEPLOY)
    old = deploy.record.last_good.hash
    for _ in range(10):
        operator.run(5)
        pods = [pod for pod in operator.world.pods if pod.deleted is None]
        assert sorted(pod.owner.revision == old for pod in pods) == [False, True, True]
    assert operator.condition("Reconciling")[:2] == ("False", "UpToDate")
    assert operator.condition("SettingsApplied")[:2] == ("False", "CandidateInProgress")
    assert operator.raw["status"]["applied"]["revision"] == old


def test_too_little_headroom_crashes_is_reverted_and_named_and_the_next_try_is_smaller() -> None:
    operator = started(seqs=256)
    operator.run(2000)
    operator.world.fate = crashes_above("0.982")
    operator.change(tuning={"headroom": "256Mi"})
    operator.until(Action.DEPLOY)
    revert = operator.until(Action.REVERT)
    assert revert.reason.value == "CandidateRejected"
    assert revert.message == (
        "max_num_seqs 256 with gpu_memory_utilization 0.9873 failed: CUDA out of memory while "
        "capturing graphs. 1.0 GiB short: headroom 0.25 -> 1.5 GiB."
    )
    assert operator.condition("Ready")[:2] == ("True", "Serving")
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")
    operator.run(30)
    status, reason, message = operator.condition("SettingsApplied")
    assert (status, reason) == ("False", "CandidateRejected")
    assert message.startswith(revert.message)
    rejected = operator.raw["status"]["rejected"][0]
    assert rejected["shortfall"] == "1024Mi"
    assert rejected["cause"] == "oom_cudagraph_capture"
    again = operator.until(Action.DEPLOY)
    assert again.record.candidate.revision.settings == settings(256, "0.9803")
    operator.until(Action.PROMOTE)
    assert told(operator, 5000) == []


def test_a_failure_is_told_as_long_as_it_is_why_what_runs_is_what_is_recommended() -> None:
    operator = started(seqs=256)
    operator.run(2000)
    operator.world.fate = crashes_above(
        "0.955", replace(OUT_OF_MEMORY, shortfall_bytes=46 * GIB // 10)
    )
    operator.change(tuning={"headroom": "256Mi"})
    revert = operator.until(Action.REVERT)
    assert revert.message.endswith("4.6 GiB short: headroom 0.25 -> 6 GiB.")
    assert told(operator, 7200) == []
    assert operator.condition("SettingsApplied") == (
        "False",
        "CandidateRejected",
        f"{revert.message} max_num_seqs 256, gpu_memory_utilization 0.955 runs on.",
    )
    operator.change(tuning={"headroom": "6Gi"})
    operator.run(30)
    assert operator.condition("SettingsApplied")[:2] == ("True", "Applied")


def test_pods_that_run_the_old_settings_are_not_disturbed_by_a_revert() -> None:
    operator = started(replicas=2, gpus=3, seqs=256)
    before = {pod.uid for pod in operator.world.pods}
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.REVERT)
    operator.run(120)
    assert {pod.uid for pod in operator.world.pods} == before


def test_a_person_asks_for_a_retry_with_a_note_and_gets_it_once() -> None:
    operator = started(seqs=256)
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.REVERT)
    key = operator.raw["status"]["rejected"][0]["hash"]
    operator.world.fate = lambda _some, _image: Fate()
    operator.retry(f"{key} new driver installed")
    retried = operator.until(Action.DEPLOY, seconds=20)
    assert retried.record.candidate.revision.settings == settings(256, "0.955")
    assert operator.raw["status"]["history"][0]["message"].endswith(
        "(asked for: new driver installed)"
    )
    operator.until(Action.PROMOTE)
    assert told(operator, 5000) == []


def test_a_retry_of_what_nobody_knows_changes_nothing() -> None:
    operator = started(seqs=None)
    operator.retry("cafe")
    assert operator.step().action is Action.HOLD
    assert told(operator, 500) == []


def test_a_quota_of_just_the_replicas_leads_to_one_pod_at_a_time() -> None:
    operator = started(replicas=2, gpus=8, seqs=32)
    operator.world.quota = 2
    assert told(operator, 1000) == [
        ("Deploy", "CandidateInProgress"),
        ("Deploy", "RolloutInProgress"),
        ("Widen", "RolloutInProgress"),
        ("Promote", "Applied"),
    ]
    assert operator.plans[-1].record.surge is False


def test_a_quota_of_just_one_pod_takes_a_candidate_back_and_says_how_to_allow_it() -> None:
    operator = started(gpus=8, seqs=32, tuning={"interruption": "Never"})
    operator.world.quota = 1
    withdrawn = operator.until(Action.WITHDRAW)
    assert withdrawn.message == (
        "The quota takes no further pod, and replacing the only ready one would interrupt "
        "serving. To allow it, set tuning.interruption: Allowed, add a replica, or make room for "
        "one more pod."
    )


def test_a_users_change_goes_through_a_canary_at_once() -> None:
    operator = started(replicas=2, gpus=3, tuning={"cooldownSeconds": 36000})
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.0"})
    deploy = operator.step()
    assert (deploy.action, deploy.reason.value) == (Action.DEPLOY, "RolloutInProgress")
    assert deploy.message == ("The spec changed: max_num_seqs 256, gpu_memory_utilization 0.955.")
    assert operator.condition("Reconciling")[:2] == ("True", "RolloutInProgress")
    assert told(operator, 400) == [("Widen", "RolloutInProgress"), ("Promote", "Applied")]
    assert operator.condition("Reconciling")[:2] == ("False", "UpToDate")


@pytest.mark.parametrize(
    ("cause", "quarantined"),
    [
        pytest.param(NO_SUCH_FLAG, False, id="bad arguments reject the spec at the first crash"),
        pytest.param(None, True, id="an unknown crash rejects the spec at the second"),
        pytest.param(OUT_OF_MEMORY, True, id="settings reject the spec at the first crash"),
    ],
)
def test_a_users_change_that_breaks_is_reverted_and_stalls(
    cause: RootCause | None, quarantined: bool
) -> None:
    operator = started(replicas=2, gpus=3)
    operator.world.fate = image_fails(cause)
    operator.change(engine={"image": "broken:1"})
    revert = operator.until(Action.REVERT)
    assert revert.reason.value == "SpecRejected"
    assert bool(operator.raw["status"].get("rejected")) is quarantined
    operator.run(300)
    status, reason, message = operator.condition("Stalled")
    assert (status, reason) == ("True", "SpecRejected")
    assert message.startswith("Generation 2 of the spec broke the endpoint; the last good ")
    assert operator.condition("Ready")[:2] == ("True", "Serving")
    assert operator.raw["status"]["applied"]["generation"] == 1
    assert told(operator, 5000) == []
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.1"})
    assert operator.step().action is Action.DEPLOY
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")
    operator.until(Action.PROMOTE)


def test_a_rejected_spec_is_tried_again_on_request() -> None:
    operator = started()
    operator.world.fate = image_fails(None)
    operator.change(engine={"image": "broken:1"})
    operator.until(Action.REVERT)
    operator.world.fate = lambda _some, _image: Fate()
    operator.retry(f"{operator.raw['status']['rejected'][0]['hash']} the registry was mended")
    assert operator.step().action is Action.DEPLOY
    operator.until(Action.PROMOTE)
    assert operator.raw["status"]["applied"]["generation"] == 2


def test_a_label_that_breaks_the_pods_does_not_quarantine_settings_that_are_known_good() -> None:
    operator = started(replicas=2, gpus=3)
    label = {"metadata": {"labels": {"team": "legal"}}}
    operator.change(engine={"podTemplate": label})
    good = operator.plans[-1].record.last_good
    operator.step()
    operator.world.fate = lambda _some, _image: Fate(5, unknown_crash=True)
    operator.until(Action.REVERT)
    record = operator.plans[-1].record
    assert record.last_good == good
    assert not record.quarantine
    assert operator.condition("Stalled")[:2] == ("True", "SpecRejected")


def test_an_endpoint_that_starts_with_zero_replicas_is_done_at_once() -> None:
    operator = Operator(World(), body({"replicas": 0, "tuning": {"initial": INITIAL}}))
    operator.step()
    operator.run(10)
    assert operator.condition("Ready")[:2] == ("True", "ScaledToZero")
    assert operator.condition("Reconciling")[:2] == ("False", "UpToDate")
    operator.change(replicas=1)
    operator.until(Action.PROMOTE)


def test_putting_the_spec_back_withdraws_the_users_candidate() -> None:
    operator = started(replicas=2, gpus=3)
    image = operator.raw["spec"]["engine"]["image"]
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.0"})
    operator.run(20)
    operator.change(engine={"image": image})
    found = operator.step()
    assert (found.action, found.message) == (Action.WITHDRAW, "The spec is again what runs.")
    operator.run(60)
    assert operator.condition("Ready")[:2] == ("True", "Serving")
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")


def test_without_a_last_good_template_three_smaller_tries_and_then_a_person() -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    operator.world.fate = crashes_above("0.5")
    operator.run(600)
    deploys = [one for one in operator.plans if one.action is Action.DEPLOY]
    tried = [one.record.candidate.revision.settings for one in deploys]
    assert len(tried) == 4
    assert [one.gpu_memory_utilization for one in tried] == sorted(
        {one.gpu_memory_utilization for one in tried}, reverse=True
    )
    stalled = [one for one in operator.plans[:-100] if one.stalled is not None]
    assert all(one.reason.value == "NoKnownGoodSettings" for one in stalled)
    status, reason, message = operator.condition("Stalled")
    assert (status, reason) == ("True", "NoKnownGoodSettings")
    assert message.startswith("4 settings failed, the last: max_num_seqs 256 with ")
    operator.world.fate = lambda _some, _image: Fate()
    operator.change(tuning={"headroom": "8Gi"})
    assert operator.step().action is Action.DEPLOY
    operator.until(Action.PROMOTE)
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")


def test_recommend_only_makes_no_smaller_tries() -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL, "mode": "RecommendOnly"}}))
    operator.world.fate = crashes_above("0.5")
    operator.run(200)
    assert operator.condition("Stalled")[:2] == ("True", "NoKnownGoodSettings")
    assert sum(1 for one in operator.plans if one.action is Action.DEPLOY) == 1


def test_a_pool_below_one_request_stalls_at_once() -> None:
    too_small = RootCause(
        CauseClass.KV_BELOW_ONE_REQUEST,
        Blame.SETTINGS,
        Stage.KV,
        None,
        "To serve at least one request 51 GiB KV cache is needed, 47 GiB is available",
        4 * GIB,
    )
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    operator.world.fate = crashes_above("0.5", too_small)
    operator.run(100)
    assert sum(1 for one in operator.plans if one.action is Action.DEPLOY) == 1
    assert operator.condition("Stalled")[:2] == ("True", "DoesNotFit")


def test_a_failing_last_good_template_stops_everything_and_recovers_by_itself() -> None:
    operator = started(seqs=32)
    operator.run(2000)
    operator.world.fate = lambda _some, _image: Fate(5, unknown_crash=True)
    operator.world.crash(operator.world.pods[0], None)
    operator.size = leaves_headroom(128)
    actions = told(operator, 900)
    assert actions == []
    status, reason, message = operator.condition("Stalled")
    assert (status, reason) == ("True", "LastGoodFailing")
    assert message.startswith("The last good template fails on 1 of 1 pods: pod ")
    assert operator.condition("Ready")[:2] == ("False", "LastGoodFailing")
    assert sum(1 for note in operator.notes if note.reason == "LastGoodFailing") == 1
    operator.world.fate = lambda _some, _image: Fate()
    operator.run(700)
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")
    assert operator.condition("Ready")[:2] == ("True", "Serving")


@pytest.mark.parametrize("replicas", [1, 3, 0], ids=["down", "up", "to zero"])
def test_scaling_takes_an_unjudged_candidate_back_first(replicas: int) -> None:
    operator = started(replicas=2, gpus=6, seqs=32)
    operator.until(Action.DEPLOY)
    operator.run(10)
    good = operator.plans[-1].record.last_good.hash
    operator.change(replicas=replicas)
    found = operator.step()
    assert (found.action, found.message) == (
        Action.WITHDRAW,
        f"2 -> {replicas} replicas were asked for before it was judged.",
    )
    assert found.target.replicas == 2
    operator.run(60)
    pods = [pod for pod in operator.world.pods if pod.deleted is None]
    assert len(pods) == replicas
    assert {pod.owner.revision for pod in pods} <= {good}
    assert not operator.raw["status"].get("rejected")
    assert operator.raw["status"]["history"][0]["verdict"] == "Inconclusive"


def test_scaling_alone_copies_the_number_and_disturbs_nothing() -> None:
    operator = started(gpus=4)
    before = {pod.uid for pod in operator.world.pods}
    operator.change(replicas=3)
    found = operator.step()
    assert (found.action, found.reason.value, found.message) == (
        Action.HOLD,
        "Scaling",
        "1 -> 3 replicas.",
    )
    operator.run(60)
    assert before < {pod.uid for pod in operator.world.pods}
    operator.change(replicas=0)
    operator.run(30)
    assert operator.condition("Ready")[:2] == ("True", "ScaledToZero")
    operator.change(replicas=1)
    operator.run(60)
    assert operator.condition("Ready")[:2] == ("True", "Serving")


def test_a_change_while_scaled_to_zero_is_what_starts_later() -> None:
    operator = started(gpus=4)
    operator.change(replicas=0)
    operator.run(30)
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.0"})
    operator.run(30)
    assert operator.condition("Ready")[:2] == ("True", "ScaledToZero")
    operator.change(replicas=2)
    operator.until(Action.PROMOTE)
    images = {pod.owner.template["spec"]["containers"][0]["image"] for pod in operator.world.pods}
    assert images == {"vllm/vllm-openai:v0.33.0"}


def test_no_spare_gpu_and_one_pod_holds_and_says_how_to_allow_it() -> None:
    operator = started(gpus=1, seqs=32, tuning={"interruption": "Never"})
    operator.until(Action.DEPLOY)
    found = operator.until(Action.WITHDRAW)
    assert found.reason.value == "WouldInterruptServing"
    assert found.message == (
        "No GPU is free for another pod, and replacing the only ready one would interrupt "
        "serving. To allow it, set tuning.interruption: Allowed, add a replica, or make room for "
        "one more pod."
    )
    operator.run(30)
    assert operator.condition("SettingsApplied")[:2] == ("False", "WouldInterruptServing")
    assert operator.condition("Ready")[:2] == ("True", "Serving")


def test_no_spare_gpu_is_no_obstacle_where_interruption_is_allowed() -> None:
    operator = started(gpus=1, seqs=32, tuning={"interruption": "Allowed"})
    operator.until(Action.DEPLOY)
    found = operator.until(Action.DEPLOY)
    assert found.message == "No GPU is free for another pod: pods are replaced one at a time."
    assert found.target.surge is False
    operator.until(Action.PROMOTE)


def test_no_spare_gpu_and_two_pods_replaces_one_at_a_time() -> None:
    operator = started(gpus=2, replicas=2, seqs=32, tuning={"interruption": "Never"})
    operator.until(Action.DEPLOY)
    operator.until(Action.DEPLOY)
    while operator.step().action is not Action.PROMOTE:
        operator.world.run(5)
        assert sum(1 for pod in operator.world.pods if pod.is_ready) >= 1


def test_a_revert_without_a_spare_gpu_takes_the_place_of_the_broken_pod() -> None:
    operator = started(gpus=1, seqs=256, tuning={"interruption": "Allowed"})
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.REVERT)
    operator.run(60)
    assert operator.condition("Ready")[:2] == ("True", "Serving")


def test_a_gpu_that_another_pod_took_is_waited_for_and_blamed_on_nobody() -> None:
    operator = started(gpus=1, seqs=32, tuning={"interruption": "Allowed"})
    operator.until(Action.DEPLOY)
    operator.until(Action.DEPLOY)
    operator.world.taken = 1
    operator.run(1200)
    assert operator.condition("SettingsApplied")[:2] == ("False", "WaitingForGPU")
    assert operator.condition("Ready")[:2] == ("False", "WaitingForGPU")
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")
    assert not operator.raw["status"].get("rejected")
    operator.world.taken = 0
    operator.until(Action.PROMOTE)


def test_a_budget_that_allows_nothing_blocks_tuning_and_not_the_user() -> None:
    operator = started(replicas=2, gpus=3, seqs=32)
    operator.fleet = Fleet(budgets=(DisruptionBudget("keep-all", 0),))
    assert told(operator, 1500) == []
    assert operator.condition("SettingsApplied") == (
        "False",
        "BlockedByDisruptionBudget",
        "PodDisruptionBudget keep-all allows no disruption at present.",
    )
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.0"})
    assert operator.step().action is Action.DEPLOY
    operator.until(Action.PROMOTE)


def test_a_slow_start_is_withdrawn_without_blame_and_tried_again_ever_later() -> None:
    operator = started(seqs=32)
    operator.world.fate = lambda some, _image: Fate(stuck=some.max_num_seqs == 32)
    operator.until(Action.DEPLOY)
    found = operator.until(Action.WITHDRAW)
    assert "was not ready 600 s after its container started" in found.message
    assert not operator.raw["status"].get("rejected")
    operator.run(30)
    assert operator.condition("SettingsApplied")[:2] == ("False", "CandidateWithdrawn")
    first = operator.world.now
    operator.until(Action.DEPLOY)
    operator.until(Action.WITHDRAW)
    second = operator.world.now
    operator.until(Action.DEPLOY)
    assert operator.world.now - second > second - first


def test_crashes_while_soaking_are_counted_against_max_restarts() -> None:
    operator = started(seqs=32, rollout={"maxRestarts": 1, "soakSeconds": 120})

    def fate(some: Settings, _image: str) -> Fate:
        return Fate(5, crash_after_seconds=30 if some.max_num_seqs == 32 else None)

    operator.world.fate = fate
    operator.until(Action.DEPLOY)
    revert = operator.until(Action.REVERT)
    assert revert.record.history[0].message.startswith("max_num_seqs 32 with ")
    assert "restarted" not in operator.condition("Stalled")[2]
    assert operator.condition("Ready")[:2] == ("True", "Serving")


def test_suspend_takes_a_candidate_back_and_then_writes_nothing() -> None:
    operator = started(replicas=2, gpus=3, seqs=32)
    operator.until(Action.DEPLOY)
    operator.change(suspend=True)
    found = operator.step()
    assert (found.action, found.reason.value) == (Action.WITHDRAW, "Suspended")
    operator.run(30)
    generation = operator.world.deployment.generation
    operator.change(replicas=3)
    operator.world.edit(minReadySeconds=3)
    operator.run(60)
    assert operator.world.deployment.generation == generation + 1
    assert operator.condition("SettingsApplied")[:2] == ("False", "Suspended")
    assert operator.condition("Ready")[:2] == ("True", "Serving")
    operator.change(suspend=False)
    operator.run(30)
    assert operator.world.deployment.raw["spec"]["minReadySeconds"] == 0


def test_recommend_only_takes_new_initial_settings_and_nothing_else() -> None:
    operator = started(seqs=32, tuning={"mode": "RecommendOnly"})
    assert told(operator, 2000) == []
    assert operator.condition("SettingsApplied")[:2] == ("False", "RecommendOnly")
    operator.change(tuning={"initial": {"maxNumSeqs": 32, "gpuMemoryUtilization": "0.95"}})
    actions = [one for one, _ in told(operator, 2000)]
    assert actions == ["Deploy", "Widen", "Promote", "Deploy", "Widen", "Promote"]
    assert operator.plans[-1].record.last_good.settings == settings(32, "0.95")


def test_nothing_is_written_for_a_resource_that_is_being_deleted() -> None:
    operator = started(seqs=32)
    operator.raw["metadata"]["deletionTimestamp"] = "2026-03-02T13:00:00Z"
    record = operator.record_text
    found = operator.step()
    assert (found.action, found.target) == (Action.HOLD, None)
    assert operator.record_text == record


def test_an_upgrade_that_renders_differently_restarts_no_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = started(seqs=None)
    before = {pod.uid for pod in operator.world.pods}
    monkeypatch.setattr(template, "RENDERER_VERSION", "2")
    monkeypatch.setattr(template, "ENDPOINT_REMOVAL_SECONDS", 9)
    assert told(operator, 1000) == []
    assert {pod.uid for pod in operator.world.pods} == before
    operator.size = leaves_headroom(32)
    operator.until(Action.PROMOTE)
    pod = next(one for one in operator.world.pods if one.deleted is None)
    notes = pod.owner.template["metadata"]["annotations"]
    assert notes["serving.parkade.dev/renderer"] == "2"


def test_a_deleted_deployment_comes_back_as_the_last_good_one() -> None:
    operator = started(seqs=32)
    operator.until(Action.DEPLOY)
    operator.run(10)
    good = operator.plans[-1].record.last_good.hash
    operator.world.delete_deployment()
    found = operator.step()
    assert (found.action, found.message) == (
        Action.WITHDRAW,
        "The Deployment was deleted meanwhile.",
    )
    operator.run(60)
    assert {pod.owner.revision for pod in operator.world.pods} == {good}
    assert operator.condition("Ready")[:2] == ("True", "Serving")


def played(operator: Operator, lose: str = "", at_pass: int = -1) -> list[tuple[str, str]]:
    """The greedy story to its end, with something lost at one pass."""
    operator.world.fate = crashes_above("0.96")
    operator.size = leaves_headroom(32, free_gib=178)
    operator.change(tuning={"headroom": "1Gi", "cooldownSeconds": 120})
    done = []
    for number in range(110):
        operator.world.run(10, 5)
        if number == at_pass and lose == "record":
            operator.record_text = None
        if number == at_pass and lose == "status":
            operator.raw["status"] = {"observedGeneration": -1}
        stop = lose if number == at_pass and lose.startswith("after") else ""
        found = operator.step(stop_after=stop.removeprefix("after "))
        if found.action is not Action.HOLD:
            done.append((found.action.value, found.message))
    return done


@cache
def undisturbed() -> list[tuple[str, str]]:
    return played(started())


@pytest.mark.parametrize("lose", ["after record", "after children", "status"])
@pytest.mark.parametrize("at_pass", range(0, 100, 9))
def test_a_kill_between_any_two_writes_and_a_lost_status_change_nothing(
    lose: str, at_pass: int
) -> None:
    assert played(started(), lose, at_pass) == undisturbed()


@pytest.mark.parametrize("at_pass", range(1, 100, 11))
def test_a_lost_record_is_rebuilt_from_the_status(at_pass: int) -> None:
    operator = started()
    played(operator, "record", at_pass)
    operator.run(3600)
    record = operator.plans[-1].record
    assert record.candidate is None
    assert record.last_good.settings.max_num_seqs == 32
    assert record.last_good.settings.gpu_memory_utilization <= Decimal("0.96")
    assert operator.condition("Ready")[:2] == ("True", "Serving")
    tried = [
        one.record.candidate.revision.settings
        for one in operator.plans
        if one.action is Action.DEPLOY and one.record.candidate is not None
    ]
    greedy = [one for one in tried if one.gpu_memory_utilization > Decimal("0.96")]
    assert len(set(greedy)) == len(greedy)


def test_replacing_the_resource_under_the_same_name_inherits_nothing() -> None:
    operator = started(seqs=32)
    operator.raw = body({"tuning": {"initial": INITIAL}}, uid="uid-2")
    found = operator.step()
    assert (found.action, found.reason.value, found.target) == (
        Action.HOLD,
        "WaitingForOldChildren",
        None,
    )
    assert found.record == replace(found.record, last_good=None, candidate=None, history=())
    operator.world.delete_deployment()
    assert operator.until(Action.DEPLOY).message.startswith("Starts with ")
