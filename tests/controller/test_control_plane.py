"""The real operator on a real control plane: what `kubectl apply` leads to, and what it never does.

The deployment controller, the garbage collector and the scheduler are real; pods' states are
written by the tests.
"""

import contextlib
import json
import threading
import time
from pathlib import Path

import pytest

from parkade.adapters.vllm_metrics import DeploymentScope, Scope
from support import operators, pods
from support.metrics_server import buckets, of_pod, prometheus_with
from support.place import GROUP, with_crd
from support.servers import Reply, serving
from testbed.waiting import wait_until

DATA = Path(__file__).parents[1] / "data"
MERGE = {"Content-Type": "application/merge-patch+json"}
NAME = "contracts"
OUT_OF_MEMORY = (
    "ValueError: Free memory on device cuda:0 (175.81/178.35 GiB) on startup is less than desired "
    "GPU memory utilization (0.99, 176.57 GiB). Decrease GPU memory utilization or reduce GPU "
    "memory used by other processes."
)


@pytest.fixture(scope="session")
def served(control_plane):
    return with_crd(control_plane)


@pytest.fixture(scope="session")
def kubeconfig_of(tmp_path_factory):
    """The operator's credentials in a cluster: exactly the rights that it names."""
    return lambda cluster: operators.kubeconfig_with_rights(
        cluster, tmp_path_factory.mktemp("operator")
    )


@pytest.fixture(scope="session")
def kubeconfig(served, kubeconfig_of):
    return kubeconfig_of(served)


@pytest.fixture(scope="session")
def gpu_node(served):
    with pods.gpu_node(served.http, "gpu-1") as name:
        yield name


@pytest.fixture
def place(served, namespace):
    """A namespace with the model's configuration, and helpers that look into it."""
    return Place(served, namespace).with_model()


class Place:
    """One namespace, and what tests do and see in it."""

    def __init__(self, control_plane, namespace):
        self.control_plane = control_plane
        self.http = control_plane.http
        self.namespace = namespace

    def with_model(self):
        """Add the model's configuration."""
        config = (DATA / "qwen3.6-27b-config.json").read_text("utf-8")
        self.http.post(
            f"/api/v1/namespaces/{self.namespace}/configmaps",
            json={"metadata": {"name": "model"}, "data": {"config.json": config}},
        ).raise_for_status()
        return self

    def apply(self, name=NAME, **spec):
        body = {
            "apiVersion": "serving.parkade.dev/v1alpha1",
            "kind": "InferenceEndpoint",
            "metadata": {"name": name},
            "spec": {k: v for k, v in {**endpoint_spec(), **spec}.items() if v is not None},
        }
        answer = self.http.patch(
            f"{GROUP}/namespaces/{self.namespace}/inferenceendpoints/{name}",
            params={"fieldManager": "user", "force": "true"},
            headers={"Content-Type": "application/apply-patch+yaml"},
            content=json.dumps(body),
        )
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path):
        answer = self.http.get(path)
        return answer.json() if answer.is_success else None

    def endpoint(self, name=NAME):
        return self.get(f"{GROUP}/namespaces/{self.namespace}/inferenceendpoints/{name}")

    def deployment(self, name=NAME):
        return self.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}")

    def service(self, name=NAME):
        return self.get(f"/api/v1/namespaces/{self.namespace}/services/{name}")

    def record(self, name=NAME):
        return self.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}-parkade-record")

    def pods(self, name=NAME):
        return pods.pods_of(self.http, self.namespace, name)

    def condition(self, kind, name=NAME):
        found = (self.endpoint(name) or {}).get("status", {}).get("conditions", [])
        return next((one for one in found if one["type"] == kind), {})

    def wait_condition(self, kind, status, reason, name=NAME, seconds=20):
        def holds():
            seen = self.condition(kind, name)
            assert (seen.get("status"), seen.get("reason")) == (status, reason), seen
            return seen

        return wait_until(holds, f"{kind}={status}/{reason}", seconds)

    def wait_pods(self, count=1, name=NAME):
        def there():
            found = self.pods(name)
            return found if len(found) == count else None

        return wait_until(there, f"{count} pods", 20)

    def serve(self, name=NAME, count=1):
        """All pods of the endpoint become ready."""
        found = self.wait_pods(count, name)
        for pod in found:
            pods.run(self.http, pod, ready=True)
        return found

    def operator(self, kubeconfig, prometheus_url):
        """The operator, with a Prometheus."""
        server = {"name": "default", "url": prometheus_url, "timeoutSeconds": 1}
        return operators.running(kubeconfig, self.namespace, prometheus=[server])

    def writes(self):
        return operators.writes(self.control_plane, self.namespace)

    def is_steady(self, seconds=3.0):
        """Wait until nothing was written for a while; return what was written before."""
        last, since = self.writes(), time.monotonic()

        def quiet():
            nonlocal last, since
            now = self.writes()
            if now != last:
                last, since = now, time.monotonic()
            return time.monotonic() - since > seconds

        wait_until(quiet, "the writes to end", 30, interval_seconds=0.25)
        return last


def endpoint_spec():
    return {
        "model": {
            "name": "nvidia/Qwen3.6-27B-NVFP4",
            "maxModelLen": 245760,
            "configMapKeyRef": {"name": "model", "key": "config.json"},
            "weightsSize": "20Gi",
        },
        "engine": {"image": "vllm/vllm-openai:v0.32.0", "kvCacheDtype": "fp8"},
        "accelerator": {"product": "NVIDIA-B200"},
        "tuning": {"initial": {"maxNumSeqs": 256, "gpuMemoryUtilization": "0.90"}},
        "rollout": {"soakSeconds": 1},
    }


def test_an_applied_endpoint_becomes_a_deployment_and_a_service(place, kubeconfig):
    with operators.running(kubeconfig, place.namespace):
        applied = place.apply()
        deployment = wait_until(place.deployment, "the Deployment", 20)
        service = wait_until(place.service, "the Service", 20)
        place.wait_condition("WorkloadObserved", "Unknown", "UnknownPrometheus")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    arguments = " ".join(container["args"])
    assert container["name"] == "vllm"
    assert "--max-num-seqs=256" in arguments.replace("--max-num-seqs 256", "--max-num-seqs=256")
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
    with operators.running(kubeconfig, place.namespace):
        place.apply()
        wait_until(place.service, "the Service", 20)
        done = place.is_steady(1.0)
    assert done.index("patch configmaps contracts-parkade-record") < done.index(
        "patch deployments contracts"
    )


def test_a_second_apply_and_a_steady_endpoint_cause_no_write(place, kubeconfig, gpu_node):
    with operators.running(kubeconfig, place.namespace):
        place.apply()
        place.serve()
        place.wait_condition("Ready", "True", "Serving")
        before = place.is_steady()
        place.apply()
        assert place.is_steady() == before


def test_a_deleted_child_comes_back_and_an_edited_one_is_put_right(place, kubeconfig, gpu_node):
    with operators.running(kubeconfig, place.namespace):
        place.apply()
        place.serve()
        place.wait_condition("Ready", "True", "Serving")
        place.http.delete(f"/api/v1/namespaces/{place.namespace}/services/{NAME}")
        wait_until(place.service, "the Service to be back", 20)
        path = f"/apis/apps/v1/namespaces/{place.namespace}/deployments/{NAME}"
        place.http.patch(
            path,
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
    with operators.running(kubeconfig, place.namespace):
        place.apply()
        wait_until(place.service, "the Service", 20)
    # The operator is down now: nothing may wait for it.
    place.http.delete(f"{GROUP}/namespaces/{place.namespace}/inferenceendpoints/{NAME}")
    assert place.endpoint() is None
    wait_until(lambda: place.deployment() is None, "the Deployment to be collected", 30)
    wait_until(lambda: place.service() is None, "the Service to be collected", 30)
    wait_until(lambda: place.record() is None, "the record to be collected", 30)


def test_a_restart_of_the_operator_changes_nothing(place, kubeconfig, gpu_node):
    with operators.running(kubeconfig, place.namespace):
        place.apply()
        place.serve()
        place.wait_condition("Ready", "True", "Serving")
        before = place.is_steady()
    with operators.running(kubeconfig, place.namespace) as process:
        wait_until(lambda: process.metrics.passes.labels("done")._value.get() > 0, "a pass", 20)
        assert place.is_steady() == before


def test_a_namespace_deleted_in_the_middle_leaves_no_error_loop(place, kubeconfig):
    with operators.running(kubeconfig, place.namespace) as process:
        place.apply()
        wait_until(place.deployment, "the Deployment", 20)
        place.http.delete(f"/api/v1/namespaces/{place.namespace}")
        wait_until(lambda: place.endpoint() is None, "the endpoint to go", 30)
        wait_until(lambda: not process.views.endpoints(), "the view to be empty", 20)
        wait_until(
            lambda: process.queue.state().waiting + process.queue.state().scheduled == 0,
            "the queue to be empty",
            20,
        )
        passes = process.metrics.passes
        assert passes.labels("error")._value.get() == 0


def test_settings_that_can_not_start_are_told_with_the_engine_s_own_words(
    place, kubeconfig, gpu_node
):
    with operators.running(kubeconfig, place.namespace):
        place.apply(
            tuning={"initial": {"maxNumSeqs": 256, "gpuMemoryUtilization": "0.99"}},
        )
        found = place.wait_pods()
        pods.crash(place.http, found[0], OUT_OF_MEMORY)

        def smaller():
            settings = place.deployment()["spec"]["template"]["metadata"]["annotations"][
                "serving.parkade.dev/settings"
            ]
            return json.loads(settings)["gpuMemoryUtilization"] != "0.99"

        wait_until(smaller, "smaller settings", 20)
        rejected = wait_until(
            lambda: place.endpoint()["status"].get("rejected"), "the status, written last", 20
        )
    assert rejected[0]["gpuMemoryUtilization"] == "0.99"
    assert "Free memory on device" in rejected[0]["message"]


LOGIN_PAGE = Reply(200, "<html>Please log in</html>")
NOT_A_NUMBER = Reply(
    body={
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, "many"]}]},
    }
)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(None, "PrometheusUnavailable", id="nobody listens"),
        pytest.param(
            Reply(body=LOGIN_PAGE.body, stall=threading.Event()), "PrometheusUnavailable", id="slow"
        ),
        pytest.param(LOGIN_PAGE, "PrometheusUnavailable", id="a login page"),
        pytest.param(NOT_A_NUMBER, "PrometheusUnavailable", id="words for numbers"),
        pytest.param("nothing known", "NoSeries", id="it knows nothing of these pods"),
    ],
)
def test_a_prometheus_that_does_not_help_keeps_the_settings_and_is_told(
    place, kubeconfig, gpu_node, reply, reason
):
    with contextlib.ExitStack() as stack:
        url = "http://127.0.0.1:9"
        if isinstance(reply, Reply):
            url = stack.enter_context(serving(lambda _asked: reply)).url
        elif reply:
            url = stack.enter_context(prometheus_with({})).url
        stack.enter_context(place.operator(kubeconfig, url))
        place.apply()
        place.serve()
        place.wait_condition("Ready", "True", "Serving")
        place.wait_condition("WorkloadObserved", "Unknown", reason)
        before = place.is_steady()
        assert place.is_steady(2) == before
        if isinstance(reply, Reply) and reply.stall:
            reply.stall.set()
    recommended = place.endpoint()["status"]["recommendation"]
    assert (recommended["maxNumSeqs"], recommended["gpuMemoryUtilization"]) == (256, "0.9")


def settings_of(template):
    return json.loads(template["metadata"]["annotations"]["serving.parkade.dev/settings"])


def test_traffic_turns_one_knob_at_a_time_behind_a_canary(place, kubeconfig, gpu_node):
    """The short endpoint of the measured case: the pool holds far more than 8, requests queue."""
    table = {}
    scope = Scope(3600, namespaces=(place.namespace,))
    with prometheus_with(table, scope) as served, place.operator(kubeconfig, served.url):
        place.apply(
            tuning={
                "initial": {"maxNumSeqs": 8, "gpuMemoryUtilization": "0.90"},
                "cooldownSeconds": 0,
            },
            workload={"windowSeconds": 3600, "minRequests": 100},
        )
        first = place.serve()[0]
        place.wait_condition("Ready", "True", "Serving")
        report_traffic(table, place, [first])
        canary = place.wait_pods(2)[-1]
        assert canary["metadata"]["uid"] != first["metadata"]["uid"]
        before, after = settings_of(first), settings_of(canary)
        assert sum(before[knob] != after[knob] for knob in before) == 1
        assert place.condition("SettingsApplied")["reason"] == "CandidateInProgress"
        assert place.deployment()["spec"]["minReadySeconds"] > 10**9
        pods.run(place.http, canary, ready=True)
        wait_until(
            lambda: (
                place.endpoint()["status"]["lastGood"]["maxNumSeqs"] == after["maxNumSeqs"]
                and place.endpoint()["status"]["lastGood"]["gpuMemoryUtilization"]
                == after["gpuMemoryUtilization"]
            ),
            "the candidate to become the last good revision",
            30,
        )


def test_an_operator_that_dies_between_any_two_writes_is_continued(place, kubeconfig):
    """For every number of writes before the end: the next operator leads to the same place."""
    for survived in range(4):
        name = f"{NAME}-{survived}"
        with operators.running(kubeconfig, place.namespace) as process:
            operators.dies_after(process, survived)
            place.apply(name)
            wait_until(lambda process=process: process.cluster.dead, "the end", 20)
        with operators.running(kubeconfig, place.namespace):
            wait_until(lambda name=name: place.service(name), "the Service", 20)
            # Without a node the scheduler's word follows sooner or later, so no reason is awaited.
            wait_until(
                lambda name=name: place.condition("Reconciling", name).get("status") == "True",
                "the start to be told",
                20,
            )
        record = json.loads(place.record(name)["data"]["record.json"])
        assert len(record["history"]) == 1


def test_a_deployment_of_somebody_else_is_advised_on_and_never_written(place, kubeconfig):
    """Its 256 should be something else, and why; neither it nor anything beside it is touched."""
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
    path = f"/apis/apps/v1/namespaces/{place.namespace}/deployments"
    place.http.post(path, json=theirs).raise_for_status()
    table = {}
    scope = DeploymentScope(3600, namespaces=(place.namespace,), deployment="qwen")
    with prometheus_with(table, scope) as served, place.operator(kubeconfig, served.url):
        place.apply(
            engine=None,
            tuning={},
            targetRef={"name": "qwen"},
            workload={"windowSeconds": 3600, "minRequests": 100},
        )
        place.wait_condition("Ready", "True", "AdviseOnly")
        place.wait_condition("WorkloadObserved", "Unknown", "NoSeries")
        report_traffic(table, place, [{"metadata": {"name": "qwen-5d9c-x7k2p"}}], endpoint="")
        place.wait_condition("WorkloadObserved", "True", "Observed")
        before = place.get(f"{path}/qwen")
        done = place.is_steady()
        advice = place.endpoint()["status"]["recommendation"]
        assert (
            place.get(f"{path}/qwen")["metadata"]["generation"] == before["metadata"]["generation"]
        )
    assert advice["maxNumSeqs"] > 8
    assert {one.split()[1] for one in done} <= {"inferenceendpoints/status", "events"}


def test_a_target_that_is_not_there_is_told(place, kubeconfig):
    with operators.running(kubeconfig, place.namespace):
        place.apply(engine=None, tuning={}, targetRef={"name": "nobody"})
        place.wait_condition("Stalled", "True", "InvalidSpec")
        assert "Deployment nobody" in place.condition("Stalled")["message"]


def test_rights_that_were_taken_away_are_told_and_nothing_hammers(
    place, kubeconfig, served, gpu_node
):
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/parkade-under-test"
    rules = served.http.get(role).json()["rules"]
    fewer = [rule for rule in rules if rule["resources"] != ["services"]]
    services = {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]}
    with operators.running(kubeconfig, place.namespace) as process:
        served.http.patch(role, json={"rules": [*fewer, services]}, headers=MERGE)
        try:
            place.apply()
            place.wait_condition("Stalled", "True", "AccessDenied")
            told = place.condition("Stalled")["message"]
            passes = process.metrics.passes.labels("unavailable")
            assert passes._value.get() < 10
        finally:
            served.http.patch(role, json={"rules": rules}, headers=MERGE)
        place.apply(suspend=True)
        place.apply(suspend=False)
        wait_until(place.service, "the Service once the rights are back", 20)
        place.wait_condition("Stalled", "False", "AsExpected")
    assert "services" in told


def test_a_suspended_endpoint_has_nothing_but_status_written(place, kubeconfig):
    with operators.running(kubeconfig, place.namespace):
        place.apply(suspend=True)
        place.wait_condition("SettingsApplied", "False", "Suspended")
        done = place.is_steady(1.5)
    kinds = {one.split()[1] for one in done}
    assert kinds <= {"inferenceendpoints/status", "events"}
    assert place.deployment() is None


def test_an_api_server_that_restarts_is_survived(kubeconfig_of, own_control_plane, tmp_path):
    with_crd(own_control_plane)
    place = Place(own_control_plane, "default").with_model()
    with operators.running(kubeconfig_of(own_control_plane), "default"):
        place.apply("before")
        wait_until(lambda: place.service("before"), "the Service", 30)
        own_control_plane.restart_apiserver()
        place.apply("after")
        wait_until(lambda: place.service("after"), "the Service after the restart", 60)


def test_a_budget_that_allows_nothing_holds_tuning(place, kubeconfig, gpu_node):
    table = {}
    scope = Scope(3600, namespaces=(place.namespace,))
    with prometheus_with(table, scope) as served, place.operator(kubeconfig, served.url):
        place.http.post(
            f"/apis/policy/v1/namespaces/{place.namespace}/poddisruptionbudgets",
            json={
                "metadata": {"name": "all-of-them"},
                "spec": {
                    "minAvailable": "100%",
                    "selector": {"matchLabels": {"serving.parkade.dev/endpoint": NAME}},
                },
            },
        ).raise_for_status()
        place.apply(
            tuning={
                "initial": {"maxNumSeqs": 8, "gpuMemoryUtilization": "0.90"},
                "cooldownSeconds": 0,
            },
            workload={"windowSeconds": 3600, "minRequests": 100},
        )
        first = place.serve()[0]
        place.wait_condition("Ready", "True", "Serving")
        report_traffic(table, place, [first])
        place.wait_condition("SettingsApplied", "False", "BlockedByDisruptionBudget")
        assert len(place.pods()) == 1


def report_traffic(table, place, of_pods, endpoint=NAME):
    """From now on Prometheus tells of short requests that queue, one hour of them."""
    for pod in of_pods:
        mine = {"namespace": place.namespace, "endpoint": endpoint}
        name = pod["metadata"]["name"]
        now = time.time()
        edges = {"1000.0": 9000, "2000.0": 10_000, "5000.0": 10_000, "+Inf": 10_000}
        table.update(
            {
                "prompt_sum": [of_pod(9e6, name, **mine)],
                "prompt_count": [of_pod(10_000, name, **mine)],
                "prompt_buckets": buckets(edges, pod=name, **mine),
                "output_sum": [of_pod(4e6, name, **mine)],
                "output_count": [of_pod(10_000, name, **mine)],
                "output_buckets": buckets(edges, pod=name, **mine),
                "queue_buckets": buckets({"0.3": 2000, "+Inf": 10_000}, pod=name, **mine),
                "newest": [of_pod(now, name, **mine)],
                "scrapes": [of_pod(240, name, **mine)],
            }
        )
