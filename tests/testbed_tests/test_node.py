"""The whole real node: GPUs, real containers, Services, real crash loops, real Prometheus."""

import json
import textwrap

import httpx
import pytest

from testbed.images.build import BASE, build_image, export_archive
from testbed.waiting import wait_until

pytestmark = pytest.mark.node

SERVER = """
import http.server

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"answers_total 42\\n")

    def log_message(self, *arguments):
        print("asked for", self.path, flush=True)

http.server.HTTPServer(("", 8000), Answer).serve_forever()
"""
CLIENT = """
import ssl, sys, urllib.request
open_url = urllib.request.urlopen
print(open_url(sys.argv[1], timeout=5).read())
print(open_url("https://10.96.0.1/version", context=ssl._create_unverified_context()).status)
"""


def container(*command, **more):
    return {
        "name": "engine",
        "image": BASE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **more,
    }


def create(node, namespace, kind, name, spec, labels=None):
    manifest = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": spec,
    }
    node.kubectl("create", "-f", "-", stdin=json.dumps(manifest))


def pod_status(node, namespace, name):
    return node.http.get(f"/api/v1/namespaces/{namespace}/pods/{name}").json()["status"]


@pytest.fixture(scope="module")
def namespace(node):
    node.import_image(export_archive(BASE))
    node.kubectl("create", "namespace", "node-test")
    wait_until(
        lambda: node.kubectl("get", "serviceaccounts", "-n", "node-test", "-o", "name"),
        "the default service account",
    )
    yield "node-test"
    node.kubectl("delete", "namespace", "node-test", "--wait=false")


@pytest.fixture(scope="module")
def server(node, namespace):
    """A pod with a GPU that answers HTTP, behind a Service; its Service's URL."""
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            container(
                *("python3", "-c", SERVER),
                ports=[{"name": "http", "containerPort": 8000}],
                readinessProbe={"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1},
                resources={"limits": {"nvidia.com/gpu": "1"}},
            )
        ],
    }
    labels = {"app": "server", "serving.parkade.dev/endpoint": "chat"}
    create(node, namespace, "Pod", "server", spec, labels)
    port = {"name": "http", "port": 8000}
    create(node, namespace, "Service", "server", {"selector": {"app": "server"}, "ports": [port]})
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/server", "--timeout=60s")
    address = node.kubectl(
        "get", "service", "server", "-n", namespace, "-o", "jsonpath={.spec.clusterIP}"
    )
    return f"http://{address}:8000/"


def test_looks_like_a_machine_with_eight_b200s(node):
    found = node.http.get(f"/api/v1/nodes/{node.name}").json()
    assert found["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert found["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-B200"


def test_more_gpus_than_there_are_stay_pending(node, namespace):
    resources = {"limits": {"nvidia.com/gpu": "9"}}
    spec = {"containers": [container("sleep", "infinity", resources=resources)]}
    create(node, namespace, "Pod", "greedy", spec)
    condition = wait_until(
        lambda: pod_status(node, namespace, "greedy").get("conditions"), "the scheduler's word"
    )[0]
    assert condition["reason"] == "Unschedulable"
    assert "Insufficient nvidia.com/gpu" in condition["message"]


def test_a_pod_reaches_a_service_and_the_api_server(node, namespace, server):
    spec = {"containers": [container("sleep", "infinity")], "terminationGracePeriodSeconds": 0}
    create(node, namespace, "Pod", "client", spec)
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/client", "--timeout=60s")
    said = node.kubectl("exec", "-n", namespace, "client", "--", "python3", "-c", CLIENT, server)
    assert said.split("\n")[:2] == ["b'answers_total 42\\n'", "200"]


def test_logs_of_a_container_are_shown(node, namespace, server):
    wait_until(
        lambda: "asked for /health" in node.kubectl("logs", "-n", namespace, "server"), "the log"
    )


def test_prometheus_finds_engine_pods_with_the_labels_of_a_pod_monitor(
    prometheus, namespace, server
):
    (series,) = wait_until(lambda: prometheus.query("answers_total"), "the pod to be scraped")
    assert series["value"][1] == "42"
    labels = series["metric"]
    assert labels.items() >= {
        ("namespace", namespace),
        ("pod", "server"),
        ("container", "engine"),
        ("endpoint", "http"),
        ("serving_parkade_dev_endpoint", "chat"),
    }
    build = httpx.get(f"{prometheus.url}/api/v1/status/buildinfo", trust_env=False).json()
    assert build["data"]["version"] == "3.16.0"


def test_a_crash_loop_shows_error_and_message_long_before_the_word_crash_loop(node, namespace):
    text = "torch.OutOfMemoryError: CUDA out of memory."
    spec = {"containers": [container("sh", "-c", f"echo '{text}'; exit 1")]}
    create(node, namespace, "Pod", "crash", spec)
    seen = []

    def second_restart():
        (status,) = pod_status(node, namespace, "crash").get("containerStatuses") or [{}]
        (word,) = status.get("state") or ["nothing"]
        reason = status.get("state", {}).get(word, {}).get("reason")
        if (word, reason) not in seen:
            seen.append((word, reason))
        return status if status.get("restartCount") == 2 else None

    status = wait_until(second_restart, "two restarts", 90, interval_seconds=0.05)
    assert seen.index(("terminated", "Error")) < seen.index(("waiting", "CrashLoopBackOff"))
    last = status["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"], last["message"]) == (1, "Error", f"{text}\n")


def test_an_image_of_a_dockerfile_runs_without_a_registry(node, namespace, tmp_path):
    (tmp_path / "words.txt").write_text("built here\n")
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text(
        textwrap.dedent("""\
            ARG PYTHON_IMAGE=registry.invalid/none
            FROM ${PYTHON_IMAGE}
            COPY words.txt /words.txt
            RUN python3 -c "print(open('/words.txt').read() * 2)" > /twice.txt
            USER 65532
            ENTRYPOINT ["cat", "/twice.txt"]
            """)
    )
    tag = "localhost/parkade-test:words"
    build_image(dockerfile, tmp_path, tag, {"PYTHON_IMAGE": BASE})
    node.import_image(export_archive(tag))
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "words", "image": tag, "imagePullPolicy": "Never"}],
    }
    create(node, namespace, "Pod", "words", spec)
    wait_until(lambda: pod_status(node, namespace, "words")["phase"] == "Succeeded", "its end")
    assert node.kubectl("logs", "-n", namespace, "words") == "built here\nbuilt here\n\n"


def test_containers_run_on_while_the_api_server_restarts(node, namespace, server):
    pod = pod_status(node, namespace, "server")
    before = pod["containerStatuses"][0]["containerID"]
    node.control_plane.restart_apiserver()
    answer = httpx.get(f"http://{pod['podIP']}:8000/", trust_env=False)
    assert answer.text == "answers_total 42\n"
    status = pod_status(node, namespace, "server")["containerStatuses"][0]
    assert (status["containerID"], status["restartCount"]) == (before, 0)


def test_helm_reaches_the_cluster(node):
    assert "NAME" in node.helm("list", "--all-namespaces")
