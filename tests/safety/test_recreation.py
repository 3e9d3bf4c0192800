"""The resource re-created under the same name inherits nothing, and waits for the old children.

The garbage collector is real.

| deletion | what the new resource does |
|---|---|
| background, children stay a while | waits, takes nothing over; starts when they are gone |
| foreground                        | nothing is written while it goes; the next starts anew |
| orphan                            | Stalled, they are named; the command told helps |
| a child that was never Parkade's  | never taken over |
| between a pass and its status     | the old status does not land on the new resource |
"""

import shlex

import pytest

from parkade.adapters.errors import ConflictError
from parkade.adapters.kubeconfig import connect
from support.place import GROUP, NAME, OUT_OF_MEMORY, uid
from testbed.waiting import wait_until

HOLD = "test.parkade.dev/hold"
COLLECTOR_SECONDS = 90
"""The garbage collector looks for new kinds every 30 s, and at most twice until it has this one."""


@pytest.fixture(scope="session", autouse=True)
def collector(served):
    """The garbage collector knows the new kind: it finishes a foreground deletion."""
    path = f"{GROUP}/namespaces/default/inferenceendpoints"
    spec = {
        "model": {"name": "m", "maxModelLen": 1000},
        "engine": {"image": "vllm/vllm-openai:v0.32.0"},
        "accelerator": {"product": "NVIDIA-B200"},
    }
    body = {
        "apiVersion": "serving.parkade.dev/v1alpha1",
        "kind": "InferenceEndpoint",
        "metadata": {"name": "collected"},
        "spec": spec,
    }
    served.http.post(path, json=body).raise_for_status()
    options = {"propagationPolicy": "Foreground", "kind": "DeleteOptions"}
    served.http.request("DELETE", f"{path}/collected", json=options)
    wait_until(
        lambda: served.http.get(f"{path}/collected").status_code == 404,
        "the garbage collector to know the kind",
        COLLECTOR_SECONDS,
    )


def with_a_past(place):
    """An endpoint that has a last good template and a quarantine."""
    place.starts_well()
    place.crashes(place.tunes(), OUT_OF_MEMORY)
    place.wait_condition("SettingsApplied", "False", "CandidateRejected")
    wait_until(lambda: len(place.pods()) == 1, "the canary to go", 20)
    place.traffic.clear()
    return place.endpoint()


def delete(place, policy):
    answer = place.http.request(
        "DELETE", place.path(), json={"propagationPolicy": policy, "kind": "DeleteOptions"}
    )
    assert answer.is_success, answer.text


def is_new(place, old):
    """The new resource runs with children of its own and knows nothing of the old one."""
    new = place.endpoint()
    deployment = wait_until(place.deployment, "its Deployment", 30)
    wait_until(lambda: place.condition("Reconciling").get("reason") == "RolloutInProgress", "it")
    assert [one["uid"] for one in deployment["metadata"]["ownerReferences"]] == [uid(new)]
    assert uid(new) != uid(old)
    assert place.record()["uid"] == uid(new)
    status = place.status()
    assert not status.get("rejected")
    assert not status.get("lastGood")
    assert len(status["history"]) == 1


def test_children_of_the_old_resource_that_are_going_are_awaited(place, kubeconfig):
    with place.operator(kubeconfig):
        old = with_a_past(place)
        place.merge(place.deployment_path(), {"metadata": {"finalizers": [HOLD]}})
        delete(place, "Background")
        wait_until(lambda: place.endpoint() is None, "it to be gone", 20)
        new = place.apply()
        told = place.wait_condition("Reconciling", "True", "WaitingForOldChildren")
        assert f"deployment/{NAME}" in told["message"]
        place.wait_condition("Stalled", "False", "AsExpected")
        assert [one["uid"] for one in place.deployment()["metadata"]["ownerReferences"]] == [
            uid(old)
        ]
        wait_until(
            lambda: "deletionTimestamp" in place.deployment()["metadata"], "the collector", 20
        )
        place.merge(place.deployment_path(), {"metadata": {"finalizers": None}})
        wait_until(lambda: uid(new) in str(place.deployment()), "its own Deployment", 30)
        is_new(place, old)


def test_background_deletion_and_an_apply_at_once_start_anew(place, kubeconfig):
    with place.operator(kubeconfig):
        old = with_a_past(place)
        delete(place, "Background")
        new = place.apply()
        wait_until(lambda: uid(new) in str(place.deployment()), "its own Deployment", 30)
        is_new(place, old)


def test_foreground_deletion_is_left_alone_and_the_next_one_starts_anew(place, kubeconfig):
    with place.operator(kubeconfig):
        old = with_a_past(place)
        place.merge(place.deployment_path(), {"metadata": {"finalizers": [HOLD]}})
        delete(place, "Foreground")
        wait_until(lambda: place.endpoint()["metadata"].get("deletionTimestamp"), "it to go", 20)
        before = place.is_steady(1)
        place.later(60)
        assert place.is_steady(1) == before  # nothing is written for it
        place.merge(place.deployment_path(), {"metadata": {"finalizers": None}})
        wait_until(lambda: place.endpoint() is None, "it to be gone", 30)
        new = place.apply()
        wait_until(lambda: uid(new) in str(place.deployment()), "its own Deployment", 30)
        is_new(place, old)


def test_orphans_that_stay_are_named_and_the_command_in_the_message_helps(place, kubeconfig):
    with place.operator(kubeconfig):
        old = with_a_past(place)
        delete(place, "Orphan")
        wait_until(lambda: place.endpoint() is None, "it to be gone", 20)
        new = place.apply()
        told = place.wait_condition("Stalled", "True", "ForeignChild")
        assert f"deployment/{NAME}" in told["message"]
        place.wait_condition("Ready", "False", "ForeignChild")
        assert "ownerReferences" not in place.deployment()["metadata"]  # never taken over

        def helped():
            command = place.condition("Stalled")["message"].partition("Remove with: ")[2]
            if command:
                _kubectl, *words = shlex.split(command)
                place.control_plane.kubectl(*words, "--ignore-not-found", "--wait=false")
            place.later(0)
            return uid(new) in str(place.deployment())

        wait_until(helped, "its own Deployment", 40, interval_seconds=1)
        place.wait_condition("Stalled", "False", "AsExpected")
        is_new(place, old)


def test_a_deployment_of_somebody_else_is_never_taken_over(place, kubeconfig):
    labels = {"app": "theirs"}
    theirs = place.post(
        "deployments",
        {
            "metadata": {"name": NAME},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "theirs", "image": "theirs"}]},
                },
            },
        },
        "/apis/apps/v1",
    )
    with place.operator(kubeconfig):
        place.apply()
        told = place.wait_condition("Stalled", "True", "ForeignChild")
        assert f"deployment/{NAME}" in told["message"]
        place.is_steady(1)
    left = place.deployment()
    assert uid(left) == uid(theirs)
    assert left["spec"]["template"]["spec"]["containers"][0]["name"] == "theirs"
    assert not left["metadata"].get("ownerReferences")


def test_a_service_of_somebody_else_is_never_taken_over(place, kubeconfig):
    theirs = {"selector": {"app": "theirs"}, "ports": [{"name": "web", "port": 80}]}
    place.post("services", {"metadata": {"name": NAME}, "spec": theirs})
    with place.operator(kubeconfig):
        place.apply()
        told = place.wait_condition("Stalled", "True", "ForeignChild")
        assert f"service/{NAME}" in told["message"]
        place.is_steady(1)
    left = place.service()
    assert left["spec"]["selector"] == {"app": "theirs"}
    assert not left["metadata"].get("ownerReferences")


@pytest.mark.parametrize("changed_since", [False, True], ids=["unchanged", "changed meanwhile"])
def test_a_status_lands_on_the_resource_that_was_seen(place, kubeconfig, changed_since):
    cluster = connect(str(kubeconfig))
    seen = place.apply()["metadata"]
    if changed_since:
        place.scale(3)
    stored = cluster.apply_status(
        place.namespace, NAME, seen["uid"], {"observedGeneration": 1}, seen["resourceVersion"]
    )
    cluster.close()
    assert stored["metadata"]["uid"] == seen["uid"]
    assert place.status()["observedGeneration"] == 1


def test_a_status_never_lands_on_a_namesake(place, kubeconfig):
    """A uid in an apply to /status is ignored by the API server; a resourceVersion is not."""
    cluster = connect(str(kubeconfig))
    seen = place.apply()["metadata"]
    delete(place, "Background")
    place.apply()
    with pytest.raises(ConflictError, match="another resource of this name"):
        cluster.apply_status(
            place.namespace, NAME, seen["uid"], {"observedGeneration": 7}, seen["resourceVersion"]
        )
    cluster.close()
    assert place.status()["observedGeneration"] == -1
