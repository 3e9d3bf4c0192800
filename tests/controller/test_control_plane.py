"""The real operator on a real control plane: what `kubectl apply` leads to, and what it never does.

The deployment controller, the garbage collector and the scheduler are real; pods' states are
written by the tests. `tests/safety` has what rollouts and faults lead to.
"""

import contextlib
import threading

import pytest

from parkade.adapters.vllm_metrics import DeploymentScope
from support.metrics_server import prometheus_with
from support.place import (
    NAME,
    OUT_OF_MEMORY,
    START_SETTINGS,
    WINDOW_SECONDS,
    report_traffic,
    settings_of,
    tuning,
)
from support.servers import Reply, serving
from testbed.waiting import wait_until


def named(url, timeout_seconds=10):
    """The operator's setting of a Prometheus."""
    return [{"name": "default", "url": url, "timeoutSeconds": timeout_seconds}]


def test_an_applied_endpoint_becomes_a_deployment_and_a_service(place, kubeconfig):
    with place.operator(kubeconfig, prometheus=[]):
        applied = place.apply()
        deployment = wait_until(place.deployment, "the Deployment", 20)
        service = wait_until(place.service, "the Service", 20)
        place.wait_condition("WorkloadObserved", "Unknown", "UnknownPrometheus")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    arguments = container["args"]
    assert container["name"] == "vllm"
    assert arguments[arguments.index("--max-num-seqs") + 1] == str(START_SETTINGS["maxNumSeqs"])
    owner = deployment["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (applied["metadata"]["uid"], True)
    assert service["spec"]["ports"][0]["name"] == "http"
    kinds = [one["type"] for one in place.endpoint()["status"]["conditions"]]
    assert kinds == [
        "Ready", "Reconciling", "Stalled", "WorkloadObserved", "SettingsApplied", "ObjectivesMet",
    ]  # fmt: skip
    assert not place.endpoint()["metadata"].get("finalizers")
    assert not place.endpoint()["metadata"].get("annotations")


def test_the_record_is_written_before_the_deployment(place, kubeconfig):
    with place.operator(kubeconfig):
        place.apply()
        wait_until(place.service, "the Service", 20)
        done = place.is_steady(1.0)
    assert done.index("patch configmaps contracts-parkade-record") < done.index(
        "patch deployments contracts"
    )


def test_a_second_apply_and_a_steady_endpoint_cause_no_write(place, kubeconfig):
    with place.operator(kubeconfig):
        place.starts_well()
        before = place.is_steady()
        place.apply()
        assert place.is_steady() == before


def test_a_deleted_child_comes_back_and_an_edited_one_is_put_right(place, kubeconfig):
    with place.operator(kubeconfig):
        place.starts_well()
        place.http.delete(f"/api/v1/namespaces/{place.namespace}/services/{NAME}")
        wait_until(place.service, "the Service to be back", 20)
        place.http.patch(
            place.deployment_path(),
            headers={"Content-Type": "application/strategic-merge-patch+json"},
            json={
                "spec": {
                    "template": {
                        "spec": {"containers": [{"name": "vllm", "image": "somebody/elses:1"}]}
                    }
                }
            },
        ).raise_for_status()

        def put_right():
            container = place.deployment()["spec"]["template"]["spec"]["containers"][0]
            return container["image"] == "vllm/vllm-openai:v0.32.0"

        wait_until(put_right, "the image to be put right", 20)


def test_a_deleted_endpoint_goes_at_once_and_takes_its_children(place, kubeconfig):
    with place.operator(kubeconfig):
        place.apply()
        wait_until(place.service, "the Service", 20)
    # The operator is down now: nothing may wait for it.
    place.http.delete(place.path())
    assert place.endpoint() is None
    wait_until(lambda: place.deployment() is None, "the Deployment to be collected", 30)
    wait_until(lambda: place.service() is None, "the Service to be collected", 30)
    wait_until(lambda: place.record() is None, "the record to be collected", 30)


def test_a_restart_of_the_operator_changes_nothing(place, kubeconfig):
    with place.operator(kubeconfig):
        place.starts_well()
        before = place.is_steady()
    with place.operator(kubeconfig) as process:
        wait_until(lambda: process.metrics.passes.labels("done")._value.get() > 0, "a pass", 20)
        assert place.is_steady() == before


def test_settings_that_can_not_start_are_told_with_the_engine_s_own_words(place, kubeconfig):
    with place.operator(kubeconfig):
        place.apply(tuning=tuning(initial={"maxNumSeqs": 256, "gpuMemoryUtilization": "0.99"}))
        place.crashes(place.wait_pods()[0], OUT_OF_MEMORY)

        def smaller():
            settings = settings_of(place.deployment()["spec"]["template"])
            return settings["gpuMemoryUtilization"] != "0.99"

        wait_until(smaller, "smaller settings", 20)
        rejected = wait_until(lambda: place.status().get("rejected"), "the status", 20)
    assert rejected[0]["gpuMemoryUtilization"] == "0.99"
    assert "Free memory on device" in rejected[0]["message"]


LOGIN_PAGE = Reply(200, "<html>Please log in</html>")
WORDS_FOR_NUMBERS = {
    "status": "success",
    "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, "many"]}]},
}


@contextlib.contextmanager
def nobody_listens():
    yield named("http://127.0.0.1:9")


@contextlib.contextmanager
def slow():
    answered = threading.Event()
    with serving(lambda _asked: Reply(body=LOGIN_PAGE.body, stall=answered)) as server:
        yield named(server.url, timeout_seconds=1)
        answered.set()


@contextlib.contextmanager
def a_login_page():
    with serving(lambda _asked: LOGIN_PAGE) as server:
        yield named(server.url)


@contextlib.contextmanager
def words_for_numbers():
    with serving(lambda _asked: Reply(body=WORDS_FOR_NUMBERS)) as server:
        yield named(server.url)


@contextlib.contextmanager
def nothing_known():
    with prometheus_with({}) as server:
        yield named(server.url)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        pytest.param(nobody_listens, "PrometheusUnavailable", id="nobody listens"),
        pytest.param(slow, "PrometheusUnavailable", id="slow"),
        pytest.param(a_login_page, "PrometheusUnavailable", id="a login page"),
        pytest.param(words_for_numbers, "PrometheusUnavailable", id="words for numbers"),
        pytest.param(nothing_known, "NoSeries", id="it knows nothing of these pods"),
    ],
)
def test_a_prometheus_that_does_not_help_keeps_the_settings_and_is_told(
    place, kubeconfig, server, reason
):
    with server() as settings, place.operator(kubeconfig, prometheus=settings):
        place.starts_well()
        place.wait_condition("WorkloadObserved", "Unknown", reason)
        before = place.is_steady()
        assert place.is_steady(2) == before
    recommended = place.status()["recommendation"]
    assert (recommended["maxNumSeqs"], recommended["gpuMemoryUtilization"]) == (8, "0.9")


def test_a_deployment_of_somebody_else_is_advised_on_and_never_written(place, kubeconfig):
    """Its 8 should be something else, and why; neither it nor anything beside it is touched."""
    theirs = {
        "metadata": {"name": "qwen"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "qwen"}},
            "template": {
                "metadata": {"labels": {"app": "qwen"}},
                "spec": {
                    "containers": [
                        {
                            "name": "server",
                            "image": "vllm/vllm-openai:v0.32.0",
                            "args": ["--model=nvidia/Qwen3.6-27B-NVFP4", "--max-num-seqs=8",
                                     "--kv-cache-dtype=fp8", "--gpu-memory-utilization=0.9"],
                        }
                    ]
                },
            },
        },
    }  # fmt: skip
    place.post("deployments", theirs, "/apis/apps/v1")
    scope = DeploymentScope(WINDOW_SECONDS, namespaces=(place.namespace,), deployment="qwen")
    with (
        prometheus_with(place.traffic, scope) as server,
        place.operator(kubeconfig, prometheus=named(server.url)),
    ):
        place.apply(engine=None, tuning={}, targetRef={"name": "qwen"})
        place.wait_condition("Ready", "True", "AdviseOnly")
        place.wait_condition("WorkloadObserved", "Unknown", "NoSeries")
        report_traffic(place.traffic, place.namespace, "qwen-5d9c-x7k2p", endpoint="")
        place.wait_condition("WorkloadObserved", "True", "Observed")
        before = place.deployment("qwen")
        done = place.is_steady()
        advice = place.status()["recommendation"]
        assert (
            place.deployment("qwen")["metadata"]["generation"] == before["metadata"]["generation"]
        )
    assert advice["maxNumSeqs"] > 8
    assert {one.split()[1] for one in done} <= {"inferenceendpoints/status", "events"}


def test_a_target_that_is_not_there_is_told(place, kubeconfig):
    with place.operator(kubeconfig):
        place.apply(engine=None, tuning={}, targetRef={"name": "nobody"})
        place.wait_condition("Stalled", "True", "InvalidSpec")
        assert "Deployment nobody" in place.condition("Stalled")["message"]


def test_a_suspended_endpoint_has_nothing_but_status_written(place, kubeconfig):
    with place.operator(kubeconfig):
        place.apply(suspend=True)
        place.wait_condition("SettingsApplied", "False", "Suspended")
        done = place.is_steady(1.5)
    kinds = {one.split()[1] for one in done}
    assert kinds <= {"inferenceendpoints/status", "events"}
    assert place.deployment() is None
