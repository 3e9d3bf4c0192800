"""What is nobody's settings is never blamed on them: each cause has its reason and its remedy.

The quota admission, the taint manager (which evicts), the namespace and the garbage collector are
real; the tests write what a kubelet would.

| fault | candidate of tuning | user's change or first start |
|---|---|---|
| image can't be pulled  | withdrawn after the deadline | SpecRejected; first: told, recovers |
| quota used up          | one pod at a time, in the place of another | QuotaExceeded, recovers |
| quota below what runs  | withdrawn after the deadline | QuotaExceeded, recovers |
| no node fits           | -                            | SchedulingFailed, recovers |
| node lost, pod evicted | judged anew elsewhere        | - |
| Secret, ConfigMap gone | -                            | MissingSecret, recovers |
| namespace deleted      | few log lines, no error, an empty queue | - |
"""

import logging

import pytest

from support.place import MERGE, engine, settings_of, tuning, uid
from testbed.waiting import wait_until

AT_ONCE = {"tuning": tuning(cooldownSeconds=0), "rollout": {"soakSeconds": 1}}
DEADLINE_SECONDS = 1800
BACK_OFF = "Back-off pulling image: rpc error: not found"


def not_blamed(place):
    assert not place.status().get("rejected")
    assert not place.record()["quarantine"]


def test_an_image_that_can_not_be_pulled_takes_a_candidate_back_without_blame(place, kubeconfig):
    with place.operator(kubeconfig):
        (good,) = place.starts_well()
        canary = place.tunes()
        place.waits(canary, "ImagePullBackOff", BACK_OFF)
        wait_until(
            lambda: "ImagePullBackOff" in place.condition("SettingsApplied")["message"],
            "the cause to be told",
            20,
        )
        place.wait_condition("Ready", "True", "Serving")
        place.later(DEADLINE_SECONDS + 1)
        taken_back = place.wait_verdict("Inconclusive")
        assert taken_back["reason"] == "ImagePullFailed"
        wait_until(lambda: [uid(pod) for pod in place.pods()] == [uid(good)], "the good pod", 20)
        not_blamed(place)


def test_a_first_image_that_can_not_be_pulled_is_told_and_starts_when_it_is_there(
    place, kubeconfig
):
    with place.operator(kubeconfig):
        place.apply()
        wait_until(lambda: place.pods() and place.pods()[0]["spec"].get("nodeName"), "a node", 20)
        (pod,) = place.pods()
        place.waits(pod, "ImagePullBackOff", BACK_OFF)
        told = place.wait_condition("Reconciling", "True", "ImagePullFailed")
        assert BACK_OFF in told["message"]
        place.later(DEADLINE_SECONDS + 1)
        place.wait_condition("Stalled", "True", "ImagePullFailed")
        not_blamed(place)
        place.runs(pod, ready=True)
        place.later(61)
        place.wait_last_good(8)
        place.wait_condition("Stalled", "False", "AsExpected")


def test_a_user_s_image_that_can_not_be_pulled_is_taken_back_and_told(place, kubeconfig):
    with place.operator(kubeconfig):
        (good,) = place.starts_well()
        place.edit({"spec": {"engine": {"image": "vllm/vllm-openai:v0.99.0"}}})
        canary = place.candidate()
        place.waits(canary, "ErrImagePull", BACK_OFF)
        place.wait_condition("Reconciling", "True", "ImagePullFailed")
        place.later(DEADLINE_SECONDS + 1)
        told = place.wait_condition("Stalled", "True", "SpecRejected")
        assert BACK_OFF in told["message"]
        place.wait_condition("Ready", "True", "Serving")
        wait_until(lambda: [uid(pod) for pod in place.pods()] == [uid(good)], "the good pod", 20)
        not_blamed(place)
        place.edit({"spec": {"engine": {"image": "vllm/vllm-openai:v0.32.0"}}})
        place.wait_condition("Stalled", "False", "AsExpected")
        place.is_steady(1)
        assert [uid(pod) for pod in place.pods()] == [uid(good)]


def quota(place, pods):
    place.post(
        "resourcequotas", {"metadata": {"name": "team"}, "spec": {"hard": {"pods": str(pods)}}}
    )
    path = f"/api/v1/namespaces/{place.namespace}/resourcequotas/team"
    wait_until(lambda: place.get(path).get("status", {}).get("hard"), "the quota", 20)
    return path


def tunes_against_the_quota(place):
    """Tuning begins, and no further pod is let in."""
    place.later(3601)
    place.long_requests_queue()
    wait_until(
        lambda: "exceeded quota" in place.condition("SettingsApplied")["message"],
        "the quota to be named",
        20,
    )


def test_a_quota_that_is_used_up_is_told_and_heals(place, kubeconfig):
    path = quota(place, 0)
    with place.operator(kubeconfig):
        place.apply()
        told = place.wait_condition("Reconciling", "True", "QuotaExceeded")
        assert "exceeded quota: team" in told["message"]
        place.later(DEADLINE_SECONDS + 1)
        place.is_steady(1)
        not_blamed(place)
        place.merge(path, {"spec": {"hard": {"pods": "5"}}})
        place.serve(1)  # the ReplicaSet controller tries again by itself
        place.later(61)
        place.wait_last_good(8)


def test_a_quota_below_what_runs_takes_a_candidate_back_without_blame(place, kubeconfig):
    """It must not wait for ever: other endpoints wait for their turn meanwhile."""
    with place.operator(kubeconfig):
        (good,) = place.starts_well()
        quota(place, 0)
        tunes_against_the_quota(place)
        place.wait_condition("Ready", "True", "Serving")
        place.later(DEADLINE_SECONDS + 1)
        taken_back = place.wait_verdict("Inconclusive")
        assert taken_back["reason"] == "QuotaExceeded"
        assert [uid(pod) for pod in place.pods()] == [uid(good)]
        not_blamed(place)


def test_a_quota_of_just_the_replicas_leads_to_one_pod_at_a_time(place, kubeconfig):
    with place.operator(kubeconfig):
        good = place.starts_well(2)
        quota(place, 2)
        tunes_against_the_quota(place)
        assert len(place.pods()) == 2
        place.later(31)
        canary = place.candidate()
        kept = {uid(pod) for pod in place.pods()} & {uid(pod) for pod in good}
        assert len(kept) == 1
        place.runs(canary, ready=True)
        place.later(61)
        wait_until(lambda: len(place.candidates()) == 2, "the other pod to follow", 20)
        place.serve(2)
        place.later(61)
        place.wait_last_good(settings_of(canary)["maxNumSeqs"])
        not_blamed(place)


def test_a_card_that_no_node_has_is_told_and_heals(place, kubeconfig):
    with place.operator(kubeconfig):
        selector = {"nodeSelector": {"zone": f"of-{place.namespace}"}}
        place.apply(engine=engine(place.namespace, podTemplate={"spec": selector}))
        told = place.wait_condition("Reconciling", "True", "SchedulingFailed")
        assert "node affinity/selector" in told["message"]
        not_blamed(place)
        node = f"/api/v1/nodes/{place.namespace}-gpus"
        place.merge(node, {"metadata": {"labels": {"zone": f"of-{place.namespace}"}}})
        place.serve(1)
        place.later(61)
        place.wait_last_good(8)


def test_a_lost_node_is_never_blamed_and_the_candidate_is_judged_elsewhere(place, kubeconfig):
    with place.operator(kubeconfig):
        (good,) = place.starts_well(**AT_ONCE)
        with place.node(1, "shaky") as shaky:
            place.merge(f"/api/v1/nodes/{place.namespace}-gpus", {"spec": {"unschedulable": True}})
            place.long_requests_queue()
            canary = place.candidate()
            wait_until(
                lambda: any(
                    pod["spec"].get("nodeName") == shaky
                    for pod in place.pods()
                    if uid(pod) == uid(canary)
                ),
                "the candidate on the shaky node",
                20,
            )
            place.merge(f"/api/v1/nodes/{place.namespace}-gpus", {"spec": {"unschedulable": False}})
            place.crashes(canary, "", exit_code=137)  # as a node that dies kills
            lost = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
            place.http.patch(
                f"/api/v1/nodes/{shaky}", json={"spec": {"taints": [lost]}}, headers=MERGE
            ).raise_for_status()

            def elsewhere():
                found = [pod for pod in place.candidates() if uid(pod) != uid(canary)]
                return next((pod for pod in found if pod["spec"].get("nodeName")), None)

            moved = wait_until(elsewhere, "a new pod of the candidate elsewhere", 25)
        assert settings_of(moved) == settings_of(canary)
        not_blamed(place)
        place.runs(moved, ready=True)
        place.wait_last_good(settings_of(moved)["maxNumSeqs"])
        assert not place.status().get("rejected")
    assert settings_of(good)["maxNumSeqs"] == 8


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param('secret "hf-token" not found', "MissingSecret", id="a Secret"),
        pytest.param('configmap "env" not found', "MissingConfigMap", id="a ConfigMap"),
    ],
)
def test_what_the_container_lacks_is_named_and_heals(place, kubeconfig, message, reason):
    with place.operator(kubeconfig):
        place.apply()
        wait_until(lambda: place.pods() and place.pods()[0]["spec"].get("nodeName"), "a node", 20)
        (pod,) = place.pods()
        place.waits(pod, "CreateContainerConfigError", message)
        told = place.wait_condition("Reconciling", "True", reason)
        assert message in told["message"]
        not_blamed(place)
        place.runs(pod, ready=True)
        place.later(61)
        place.wait_last_good(8)


def test_a_namespace_deleted_in_the_middle_of_a_rollout_leaves_no_error_loop(
    place, kubeconfig, caplog
):
    caplog.set_level(logging.WARNING)
    with place.operator(kubeconfig) as process:
        place.starts_well(2)
        place.tunes()
        place.http.delete(f"/api/v1/namespaces/{place.namespace}").raise_for_status()
        wait_until(lambda: place.endpoint() is None, "the endpoint to go", 30)
        wait_until(lambda: not process.views.endpoints(), "the view to be empty", 20)

        def idle():
            state = process.queue.state()
            return state.waiting + state.running + state.scheduled == 0

        wait_until(idle, "the queue to be empty", 20)
        assert process.metrics.passes.labels("error")._value.get() == 0
        lines = [one for one in caplog.records if one.name.startswith("parkade")]
        assert len(lines) < 10, [one.getMessage() for one in lines]
