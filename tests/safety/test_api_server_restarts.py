"""The API server goes away in the middle of a rollout, as when the control plane is upgraded.

| when it goes                | what follows once it is back |
|---|---|
| a candidate starts          | the same pod is judged on: it crashes, and is reverted |
| a candidate has just served | it soaked meanwhile and is promoted, without a second rollout |
"""

import pytest

from support import operators
from support.place import OUT_OF_MEMORY, REVISION, SOAK_SECONDS, settings_of, uid
from testbed.waiting import wait_until


@pytest.fixture
def own_kubeconfig(own_place, tmp_path):
    return operators.kubeconfig_with_rights(own_place.control_plane, tmp_path)


def goes_and_comes_back(place):
    """Passes that are made meanwhile fail; the operator lives on."""
    place.control_plane.stop_apiserver()
    place.later(5)
    place.control_plane.start_apiserver()
    place.look_again()


def test_a_candidate_that_starts_is_judged_on(own_place, own_kubeconfig):
    with own_place.operator(own_kubeconfig):
        (good,) = own_place.starts_well()
        canary = own_place.tunes()
        own_place.runs(canary)
        goes_and_comes_back(own_place)
        assert {uid(pod) for pod in own_place.pods()} == {uid(good), uid(canary)}
        own_place.crashes(canary, OUT_OF_MEMORY)
        own_place.wait_condition("SettingsApplied", "False", "CandidateRejected")
        wait_until(lambda: [uid(pod) for pod in own_place.pods()] == [uid(good)], "the revert", 20)
    status = own_place.status()
    assert [one["verdict"] for one in status["history"]] == ["Failed", "Successful"]
    assert [one["maxNumSeqs"] for one in status["rejected"]] == [settings_of(canary)["maxNumSeqs"]]


def test_a_candidate_that_serves_is_promoted_without_a_second_rollout(own_place, own_kubeconfig):
    with own_place.operator(own_kubeconfig):
        own_place.starts_well()
        canary = own_place.tunes()
        own_place.runs(canary, ready=True)
        goes_and_comes_back(own_place)
        own_place.later(SOAK_SECONDS + 1)
        own_place.wait_last_good(settings_of(canary)["maxNumSeqs"])
        wait_until(lambda: [uid(pod) for pod in own_place.pods()] == [uid(canary)], "it alone", 20)
    assert [one["verdict"] for one in own_place.status()["history"]] == ["Successful", "Successful"]
    assert {one["metadata"]["labels"][REVISION] for one in own_place.pods()} == {
        canary["metadata"]["labels"][REVISION]
    }
