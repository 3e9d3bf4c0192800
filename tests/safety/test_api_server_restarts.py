"""The API server goes away in the middle of a rollout, as when the control plane is upgraded.

| when it goes                | what follows once it is back |
|---|---|
| a candidate starts          | the same pod is judged on: it crashes, and is reverted |
| a candidate has just served | it soaked meanwhile and is promoted, without a second rollout |
"""

import pytest

from support import operators
from support.place import OUT_OF_MEMORY, REVISION, SOAK_SECONDS, settings_of, uid, with_crd
from testbed.waiting import wait_until


@pytest.fixture
def served(own_control_plane):
    return with_crd(own_control_plane)


@pytest.fixture
def namespace(served):
    served.kubectl("create", "namespace", "upgraded")
    return "upgraded"


@pytest.fixture
def kubeconfig(served, tmp_path):
    return operators.kubeconfig_with_rights(served, tmp_path)


def goes_and_comes_back(place):
    """Passes that are made meanwhile fail; the operator lives on."""
    place.control_plane.stop_apiserver()
    place.later(5)
    place.control_plane.start_apiserver()
    place.look_again()


def test_a_candidate_that_starts_is_judged_on(place, kubeconfig):
    with place.operator(kubeconfig):
        (good,) = place.starts_well()
        canary = place.tunes()
        place.runs(canary)
        goes_and_comes_back(place)
        assert {uid(pod) for pod in place.pods()} == {uid(good), uid(canary)}
        place.crashes(canary, OUT_OF_MEMORY)
        place.wait_condition("SettingsApplied", "False", "CandidateRejected")
        wait_until(lambda: [uid(pod) for pod in place.pods()] == [uid(good)], "the revert", 20)
    status = place.status()
    assert [one["verdict"] for one in status["history"]] == ["Failed", "Successful"]
    assert [one["maxNumSeqs"] for one in status["rejected"]] == [settings_of(canary)["maxNumSeqs"]]


def test_a_candidate_that_serves_is_promoted_without_a_second_rollout(place, kubeconfig):
    with place.operator(kubeconfig):
        place.starts_well()
        canary = place.tunes()
        place.runs(canary, ready=True)
        goes_and_comes_back(place)
        place.later(SOAK_SECONDS + 1)
        place.wait_last_good(settings_of(canary)["maxNumSeqs"])
        wait_until(lambda: [uid(pod) for pod in place.pods()] == [uid(canary)], "it alone", 20)
    assert [one["verdict"] for one in place.status()["history"]] == ["Successful", "Successful"]
    assert {one["metadata"]["labels"][REVISION] for one in place.pods()} == {
        canary["metadata"]["labels"][REVISION]
    }
