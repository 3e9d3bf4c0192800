"""A candidate is judged on one new pod, and whatever happens meanwhile leaves the good pods alone.

The deployment controller, the ReplicaSet controller, the garbage collector and the scheduler are
real; the tests write what a kubelet would write of the pods.

| while a candidate of tuning is unjudged | what follows |
|---|---|
| its pod serves for the soak | only then the rest follow; its pod is not restarted |
| its pod crashes             | the good pods are the same, nothing else was started |
| it restarts too often while it soaks | the same, with the number of restarts in the message |
| it is not ready at the start deadline | withdrawn, inconclusive, not quarantined |
| 2 -> 3, 2 -> 1, 2 -> 0      | withdrawn, inconclusive, not quarantined; good pods stay |
| 0 and back                  | the last good settings come back; the candidate may too |
| an HPA writes /scale        | followed at once, and nothing fights over the number |
"""

import pytest

from support.place import (
    OUT_OF_MEMORY,
    REVISION,
    SOAK_SECONDS,
    START_SETTINGS,
    is_ready,
    settings_of,
    uid,
)
from testbed.waiting import wait_until

RUN_TIME_OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 178.35 GiB of which 1.25 GiB is free."
)


def uids(found):
    return {uid(pod) for pod in found}


def test_one_new_pod_is_judged_before_the_rest_follow_and_is_never_restarted(place, kubeconfig):
    with place.operator(kubeconfig):
        good = place.starts_well(2)
        canary = place.tunes()
        before, after = settings_of(good[0]), settings_of(canary)
        assert sum(before[knob] != after[knob] for knob in before) == 1
        place.runs(canary, ready=True)
        wait_until(lambda: place.status().get("readyReplicas") == 3, "three ready pods", 20)
        told = place.wait_condition("SettingsApplied", "False", "CandidateInProgress")
        assert "is believed after 60 s" in told["message"]
        assert place.deployment()["status"]["updatedReplicas"] == 1
        assert uids(place.pods()) == uids(good) | {uid(canary)}

        place.later(SOAK_SECONDS + 1)  # now it has soaked: the rest follow
        wait_until(lambda: not place.is_held(), "the rest to follow", 20)
        assert place.status()["lastGood"]["maxNumSeqs"] == START_SETTINGS["maxNumSeqs"]
        revision = canary["metadata"]["labels"][REVISION]

        def all_follow():
            for pod in place.pods():
                if pod["spec"].get("nodeName") and not is_ready(pod):
                    place.runs(pod, ready=True)
            return {pod["metadata"]["labels"][REVISION] for pod in place.pods()} == {revision}

        wait_until(all_follow, "all pods to run the candidate", 20)
        assert uid(canary) in uids(place.pods())
        place.later(SOAK_SECONDS + 1)
        place.wait_last_good(after["maxNumSeqs"])
        assert len(place.pods()) == 2


def test_a_canary_that_crashes_costs_no_good_pod(place, kubeconfig):
    with place.operator(kubeconfig):
        good = place.starts_well(2)
        canary = place.tunes()
        place.crashes(canary, OUT_OF_MEMORY)
        place.wait_condition("SettingsApplied", "False", "CandidateRejected")
        place.wait_condition("Ready", "True", "Serving")
        wait_until(lambda: uids(place.pods()) == uids(good), "only the good pods", 20)
        rejected = place.status()["rejected"]
    assert rejected[0]["maxNumSeqs"] == settings_of(canary)["maxNumSeqs"]
    assert "Free memory on device" in rejected[0]["message"]


def test_a_canary_that_restarts_too_often_while_it_soaks_is_reverted(place, kubeconfig):
    with place.operator(kubeconfig):
        (good,) = place.starts_well(rollout={"soakSeconds": SOAK_SECONDS, "maxRestarts": 1})
        canary = place.tunes()
        place.runs(canary)
        place.later(20)
        place.runs(canary, ready=True)
        place.later(20)
        place.crashes(canary, RUN_TIME_OUT_OF_MEMORY)
        wait_until(lambda: place.record()["candidate"]["terminations"], "its end to be seen", 20)
        place.runs(canary, ready=True, restarts=1)
        place.is_steady(1)
        assert uids(place.pods()) == {uid(good), uid(canary)}  # one restart is allowed
        place.later(20)
        place.crashes(canary, RUN_TIME_OUT_OF_MEMORY, restarts=1)
        told = place.wait_condition("SettingsApplied", "False", "CandidateRejected")
        assert "CUDA out of memory" in told["message"]
        assert "headroom 6 ->" in told["message"]
        wait_until(lambda: uids(place.pods()) == {uid(good)}, "only the good pod", 20)
        place.wait_condition("Ready", "True", "Serving")


def test_a_canary_that_is_not_ready_at_the_start_deadline_is_withdrawn(place, kubeconfig):
    with place.operator(kubeconfig):
        (good,) = place.starts_well(rollout={"soakSeconds": SOAK_SECONDS})
        canary = place.tunes()
        place.runs(canary)
        place.later(1700)
        place.is_steady(1)
        assert uid(canary) in uids(place.pods())
        place.later(101)  # startDeadlineSeconds: 1800
        taken_back = place.wait_verdict("Inconclusive")
        assert taken_back["reason"] == "StartDeadlineExceeded"
        wait_until(lambda: uids(place.pods()) == {uid(good)}, "only the good pod", 20)
        place.wait_condition("SettingsApplied", "False", "CandidateWithdrawn")
    assert not place.status().get("rejected")


@pytest.mark.parametrize(
    ("replicas", "survivors"),
    [
        pytest.param(3, 2, id="2 to 3 does not multiply the candidate"),
        pytest.param(1, 1, id="2 to 1 does not keep the candidate instead of a good pod"),
        pytest.param(0, 0, id="2 to 0"),
    ],
)
def test_a_new_number_of_pods_takes_an_unjudged_candidate_back(
    place, kubeconfig, replicas, survivors
):
    with place.operator(kubeconfig):
        good = place.starts_well(2)
        canary = place.tunes()
        place.runs(canary, ready=True)
        place.scale(replicas)
        taken_back = place.wait_verdict("Inconclusive")
        assert f"2 -> {replicas} replicas" in taken_back["message"]
        wait_until(lambda: place.deployment()["spec"]["replicas"] == replicas, "the new number", 20)
        wait_until(lambda: len(place.pods()) == replicas, f"{replicas} pods", 20)
        left = place.pods()
        assert uid(canary) not in uids(left)
        assert len(uids(left) & uids(good)) == survivors
        assert {settings_of(pod)["maxNumSeqs"] for pod in left} <= {8}
        assert not place.status().get("rejected")


def test_an_endpoint_scaled_to_zero_comes_back_with_the_last_good_settings(place, kubeconfig):
    with place.operator(kubeconfig):
        place.starts_well(2)
        canary = place.tunes()
        tried = settings_of(canary)
        place.scale(0)
        place.wait_no_pods()
        place.wait_condition("Ready", "True", "ScaledToZero")
        place.traffic.clear()
        place.scale(2)
        back = place.serve(2)
        assert {settings_of(pod)["maxNumSeqs"] for pod in back} == {8}
        place.wait_condition("Ready", "True", "Serving")
        again = place.tunes()  # nothing was blamed, so it is tried again
    assert settings_of(again) == tried


def test_an_autoscaler_that_writes_scale_is_followed_and_never_fought(place, kubeconfig):
    with place.operator(kubeconfig):
        place.starts_well(1)
        for replicas in (2, 4, 3):
            place.scale(replicas)
            place.serve(replicas)
        seen = wait_until(lambda: place.get(f"{place.path()}/scale"), "/scale", 5)
        wait_until(lambda: place.status().get("readyReplicas") == 3, "three ready pods", 20)
        place.is_steady()
        seen = place.get(f"{place.path()}/scale")
        assert seen["spec"]["replicas"] == 3
        assert seen["status"]["replicas"] == 3
        assert seen["status"]["selector"] == "serving.parkade.dev/endpoint=contracts"
        assert place.endpoint()["spec"]["replicas"] == 3
        assert len(place.record()["history"]) == 1  # no revision came of it
