"""If the last good template fails too, nothing more is tried, and it recovers by itself.

| what broke it                          | what is seen |
|---|---|
| the engine crashes (a driver update)   | Stalled/LastGoodFailing with its words, one event |
| a crash loop goes on for long          | no write, no second event, no new ReplicaSet |
| its image is gone, then there again    | Stalled with what to do; gone when the pod serves |
"""

from support.place import REVISION, uid
from testbed.waiting import wait_until

DRIVER = "RuntimeError: CUDA driver version is insufficient for CUDA runtime version"


def crash_loop(place, pod, rounds):
    """Restarts of one container, as a kubelet shows them; the pod never becomes ready."""
    for restarts in rounds:
        place.runs(pod, restarts=restarts)
        place.crashes(pod, DRIVER, restarts=restarts)


def revisions(place):
    return {one["metadata"]["labels"][REVISION] for one in place.replica_sets()}


def test_a_last_good_template_that_fails_stalls_once_and_recovers_by_itself(place, kubeconfig):
    with place.operator(kubeconfig):
        (pod,) = place.starts_well()
        known = revisions(place)
        crash_loop(place, pod, (0, 1))
        told = place.wait_condition("Stalled", "True", "LastGoodFailing")
        assert "goes on by itself when the cause is gone" in told["message"]
        place.wait_condition("Ready", "False", "LastGoodFailing")
        place.wait_condition("Reconciling", "False")
        place.is_steady(1)
        assert len(place.events("LastGoodFailing")) == 1

        before = place.condition("Stalled")["lastTransitionTime"]
        crash_loop(place, pod, range(2, 7))
        place.is_steady(1)
        after = place.wait_condition("Stalled", "True", "LastGoodFailing")
        assert after["lastTransitionTime"] == before
        assert len(place.events("LastGoodFailing")) == 1
        assert place.events("LastGoodFailing")[0].get("count", 1) == 1
        assert revisions(place) == known
        assert [uid(one) for one in place.pods()] == [uid(pod)]
        assert not place.status().get("rejected")

        place.runs(pod, ready=True, restarts=7)
        place.wait_condition("Stalled", "False", "AsExpected")
        place.wait_condition("Ready", "True", "Serving")


def test_a_last_good_image_that_can_not_be_pulled_any_more_is_told_and_recovers(place, kubeconfig):
    with place.operator(kubeconfig):
        (pod,) = place.starts_well()
        place.http.delete(
            f"/api/v1/namespaces/{place.namespace}/pods/{pod['metadata']['name']}"
        ).raise_for_status()
        new = wait_until(
            lambda: next((one for one in place.pods() if uid(one) != uid(pod)), None), "it", 20
        )
        wait_until(lambda: place.pods()[0]["spec"].get("nodeName"), "a node", 20)
        place.waits(new, "ImagePullBackOff", "manifest unknown")
        place.wait_condition("Ready", "False", "NoReadyPods")
        place.later(3600)
        told = place.wait_condition("Stalled", "True", "LastGoodFailing")
        assert "ImagePullBackOff" in told["message"]
        assert "manifest unknown" in told["message"]
        place.runs(new, ready=True)
        place.wait_condition("Stalled", "False", "AsExpected")
        place.wait_condition("Ready", "True", "Serving")
    assert len(place.record()["history"]) == 1


def test_one_crash_of_the_last_good_template_is_no_reason_to_call_a_person(place, kubeconfig):
    with place.operator(kubeconfig):
        (pod,) = place.starts_well()
        place.crashes(pod, DRIVER)
        place.wait_condition("Ready", "False", "NoReadyPods")
        place.is_steady(1)
        place.wait_condition("Stalled", "False", "AsExpected")
        place.runs(pod, ready=True, restarts=1)
        place.wait_condition("Ready", "True", "Serving")
        assert not place.events("LastGoodFailing")
