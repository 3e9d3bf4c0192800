"""One namespace with a model and GPUs of its own, and what tests do and see in it.

The nodes carry a label of the namespace that its endpoints select, so that tests which run on one
control plane at the same time never take each other's GPUs. The operator's clock can be moved on.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from parkade.adapters.vllm_metrics import Scope
from parkade.cli.crd import manifest
from parkade.controller.process import Process
from support import operators, pods
from support.metrics_server import buckets, of_pod, prometheus_with
from testbed.cluster.gpus import Gpus
from testbed.waiting import wait_until

DATA = Path(__file__).parents[1] / "data"
GROUP = "/apis/serving.parkade.dev/v1alpha1"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
NAME = "contracts"
OWN_NODES = "test.parkade.dev/namespace"
REVISION = "serving.parkade.dev/revision"
SETTINGS = "serving.parkade.dev/settings"
WINDOW_SECONDS = 3600
COOLDOWN_SECONDS = 3600
SOAK_SECONDS = 60
START_SETTINGS = {"maxNumSeqs": 8, "gpuMemoryUtilization": "0.90"}
OUT_OF_MEMORY = (
    "ValueError: Free memory on device cuda:0 (175.81/178.35 GiB) on startup is less than desired "
    "GPU memory utilization (0.99, 176.57 GiB). Decrease GPU memory utilization or reduce GPU "
    "memory used by other processes."
)


def with_crd(control_plane):
    """Install the CRD and wait until it is served."""
    control_plane.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest()
    )
    wait_until(
        lambda: control_plane.http.get(f"{GROUP}/inferenceendpoints").is_success, "the CRD", 30
    )
    return control_plane


@dataclass(frozen=True, slots=True)
class OwnGpus(Gpus):
    """GPUs of a node for one namespace's endpoints."""

    namespace: str = ""

    def labels(self) -> dict[str, str]:
        return {**Gpus.labels(self), OWN_NODES: self.namespace}


class Clock:
    """The wall's time, moved on by tests."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Place:
    """One namespace, and what tests do and see in it."""

    def __init__(self, control_plane: Any, namespace: str) -> None:
        self.control_plane = control_plane
        self.http = control_plane.http
        self.namespace = namespace
        self.clock = Clock()
        self.process: Process | None = None
        self.traffic: dict[str, Any] = {}

    def give_model(self) -> None:
        """The ConfigMap with the model's configuration."""
        config = (DATA / "qwen3.6-27b-config.json").read_text("utf-8")
        self.post("configmaps", {"metadata": {"name": "model"}, "data": {"config.json": config}})

    # What is there

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        return answer.json() if answer.is_success else None

    def endpoint(self, name: str = NAME) -> Any:
        return self.get(self.path(name))

    def path(self, name: str = NAME) -> str:
        return f"{GROUP}/namespaces/{self.namespace}/inferenceendpoints/{name}"

    def status(self, name: str = NAME) -> Any:
        return (self.endpoint(name) or {}).get("status") or {}

    def deployment(self, name: str = NAME) -> Any:
        return self.get(self.deployment_path(name))

    def deployment_path(self, name: str = NAME) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"

    def is_held(self, name: str = NAME) -> bool:
        """Whether the Deployment stops after its first new pod."""
        return bool(self.deployment(name)["spec"].get("minReadySeconds", 0) > 10**9)

    def service(self, name: str = NAME) -> Any:
        return self.get(f"/api/v1/namespaces/{self.namespace}/services/{name}")

    def record_path(self, name: str = NAME) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{name}-parkade-record"

    def record(self, name: str = NAME) -> Any:
        found = self.get(self.record_path(name))
        return None if found is None else json.loads(found["data"]["record.json"])

    def pods(self, name: str = NAME) -> list[dict[str, Any]]:
        return pods.pods_of(self.http, self.namespace, name)

    def replica_sets(self) -> list[dict[str, Any]]:
        found = self.get(f"/apis/apps/v1/namespaces/{self.namespace}/replicasets")
        return list(found["items"])

    def condition(self, kind: str, name: str = NAME) -> dict[str, Any]:
        found = self.status(name).get("conditions", [])
        return next((one for one in found if one["type"] == kind), {})

    def events(self, reason: str) -> list[dict[str, Any]]:
        found = self.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        kind = "InferenceEndpoint"
        ours = [one for one in found if one["involvedObject"].get("kind") == kind]
        return [one for one in ours if one["reason"] == reason]

    def writes(self) -> list[str]:
        return operators.writes(self.control_plane, self.namespace)

    # What people and other controllers do

    def apply(self, name: str = NAME, **spec: Any) -> Any:
        """Apply the usual spec with these keys instead; None leaves one out."""
        all_of_it = {**endpoint_spec(self.namespace), **spec}
        body = {
            "apiVersion": "serving.parkade.dev/v1alpha1",
            "kind": "InferenceEndpoint",
            "metadata": {"name": name},
            "spec": {k: v for k, v in all_of_it.items() if v is not None},
        }
        answer = self.http.patch(
            self.path(name),
            params={"fieldManager": "user", "force": "true"},
            headers=APPLY,
            content=json.dumps(body),
        )
        assert answer.is_success, answer.text
        return answer.json()

    def edit(self, patch: dict[str, Any], name: str = NAME) -> None:
        """Change the resource as `kubectl patch` does."""
        self.merge(self.path(name), patch)

    def scale(self, replicas: int, name: str = NAME) -> None:
        """Write /scale, as `kubectl scale`, an HPA and KEDA do."""
        self.merge(f"{self.path(name)}/scale", {"spec": {"replicas": replicas}})

    def merge(self, path: str, patch: dict[str, Any]) -> None:
        answer = self.http.patch(path, json=patch, headers=MERGE)
        assert answer.is_success, answer.text

    def post(self, plural: str, body: dict[str, Any], group: str = "/api/v1") -> Any:
        answer = self.http.post(f"{group}/namespaces/{self.namespace}/{plural}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    @contextlib.contextmanager
    def node(self, gpus: int = 8, name: str = "gpus") -> Iterator[str]:
        """A node that only endpoints of this namespace use; the real scheduler fills it."""
        own = OwnGpus(count=gpus, namespace=self.namespace)
        with pods.gpu_node(self.http, f"{self.namespace}-{name}", own) as node:
            yield node

    def other_pod(self, name: str, **spec: Any) -> Any:
        """Somebody else's pod that wants one of our GPUs."""
        container = {
            "name": "main",
            "image": "elsewhere",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        selector = {OWN_NODES: self.namespace}
        body = {"containers": [container], "nodeSelector": selector, **spec}
        return self.post("pods", {"metadata": {"name": name}, "spec": body})

    def budget(self, min_available: str | int = "100%") -> None:
        """A PodDisruptionBudget; the real controller computes what it allows."""
        self.post(
            "poddisruptionbudgets",
            {
                "metadata": {"name": "all-of-them"},
                "spec": {
                    "minAvailable": min_available,
                    "selector": {"matchLabels": {"serving.parkade.dev/endpoint": NAME}},
                },
            },
            "/apis/policy/v1",
        )

    # What a kubelet says, at the operator's time

    def runs(self, pod: dict[str, Any], *, ready: bool = False, restarts: int = 0) -> None:
        pods.run(self.http, pod, ready=ready, restarts=restarts, at=self.clock())

    def crashes(self, pod: dict[str, Any], message: str, **more: Any) -> None:
        pods.crash(self.http, pod, message, at=self.clock(), **more)

    def waits(self, pod: dict[str, Any], reason: str, message: str) -> None:
        pods.wait_for_image(self.http, pod, reason, message, at=self.clock())

    # The operator

    @contextlib.contextmanager
    def prometheus(self) -> Iterator[dict[str, Any]]:
        """A Prometheus that tells of `traffic`; yields the operator's settings that name it."""
        scope = Scope(WINDOW_SECONDS, namespaces=(self.namespace,))
        with prometheus_with(self.traffic, scope) as served:
            yield {"prometheus": [{"name": "default", "url": served.url, "timeoutSeconds": 10}]}

    @contextlib.contextmanager
    def operator(self, kubeconfig: Path, **settings: Any) -> Iterator[Process]:
        """The operator with our clock, and with this Prometheus unless `prometheus` names one."""
        with contextlib.ExitStack() as stack:
            named = {} if "prometheus" in settings else stack.enter_context(self.prometheus())
            running = operators.running(kubeconfig, self.namespace, self.clock, **named, **settings)
            process = stack.enter_context(running)
            self.process = process
            stack.callback(self._ended)
            yield process

    def _ended(self) -> None:
        self.process = None

    def look_again(self) -> None:
        """Let the operator of this process do a pass; one of its own looks each second."""
        if self.process is not None:
            self.process.mark_all()

    def later(self, seconds: float) -> None:
        """Move the operator's clock on."""
        self.clock.ahead += timedelta(seconds=seconds)
        self.look_again()

    def long_requests_queue(self) -> None:
        """From now on Prometheus tells of requests that queue on all pods: 8 are too few."""
        for pod in self.pods():
            report_traffic(self.traffic, self.namespace, pod["metadata"]["name"])
        self.look_again()

    # Stories

    def starts_well(self, replicas: int = 1, **spec: Any) -> list[dict[str, Any]]:
        """An endpoint is applied, serves, and its first settings become the last good ones."""
        self.apply(replicas=replicas, **spec)
        found = self.serve(replicas)
        self.wait_condition("Ready", "True")
        self.later(spec.get("rollout", {}).get("soakSeconds", SOAK_SECONDS) + 1)
        self.wait_last_good(START_SETTINGS["maxNumSeqs"])
        return found

    def candidate(self, name: str = NAME) -> dict[str, Any]:
        """Wait for a pod of a revision that is not the last good one."""
        return wait_until(lambda: next(iter(self.candidates(name)), None), "a candidate's pod", 20)

    def candidates(self, name: str = NAME) -> list[dict[str, Any]]:
        good = (self.status(name).get("lastGood") or {}).get("revision")
        return [pod for pod in self.pods(name) if pod["metadata"]["labels"][REVISION] != good]

    def tunes(self) -> dict[str, Any]:
        """The cooldown is over and requests queue: return the pod of tuning's candidate."""
        self.clock.ahead += timedelta(seconds=COOLDOWN_SECONDS + 1)
        self.long_requests_queue()
        return self.candidate()

    def serve(self, count: int = 1, name: str = NAME) -> list[dict[str, Any]]:
        """All pods of the endpoint are scheduled and become ready; another may replace one."""
        if count == 0:
            self.wait_no_pods(name)
            return []

        def served() -> list[dict[str, Any]] | None:
            found = self.pods(name)
            if len(found) != count or not all(pod["spec"].get("nodeName") for pod in found):
                return None
            for pod in found:
                if not is_ready(pod):
                    self.runs(pod, ready=True)
            now = self.pods(name)
            return now if [uid(pod) for pod in now] == [uid(pod) for pod in found] else None

        gone = (AssertionError, httpx.HTTPStatusError)
        return wait_until(served, f"{count} pods to serve", 40, not_yet=gone)

    # Waiting

    def wait_pods(self, count: int = 1, name: str = NAME) -> list[dict[str, Any]]:
        def there() -> list[dict[str, Any]] | None:
            found = self.pods(name)
            return found if len(found) == count else None

        return [] if count == 0 and not self.pods(name) else wait_until(there, f"{count} pods", 20)

    def wait_no_pods(self, name: str = NAME) -> None:
        wait_until(lambda: not self.pods(name), "no pods", 20)

    def wait_condition(
        self,
        kind: str,
        status: str,
        reason: str | None = None,
        name: str = NAME,
        seconds: float = 25,
    ) -> dict[str, Any]:
        def holds() -> dict[str, Any]:
            seen = self.condition(kind, name)
            assert seen.get("status") == status, seen
            assert reason is None or seen.get("reason") == reason, seen
            return seen

        return wait_until(holds, f"{kind}={status}/{reason}", seconds)

    def wait_last_good(self, max_num_seqs: Any, name: str = NAME) -> dict[str, Any]:
        def holds() -> dict[str, Any]:
            good: dict[str, Any] = self.status(name).get("lastGood") or {}
            assert good.get("maxNumSeqs") == max_num_seqs, self.status(name)
            return good

        return wait_until(holds, f"last good: {max_num_seqs}", 25)

    def wait_verdict(self, verdict: str, name: str = NAME) -> dict[str, Any]:
        """Wait until the newest revision has this verdict."""

        def holds() -> dict[str, Any]:
            newest: dict[str, Any] = (self.status(name).get("history") or [{}])[0]
            assert newest.get("verdict") == verdict, newest
            return newest

        return wait_until(holds, f"the verdict {verdict}", 25)

    def is_steady(self, seconds: float = 3.0) -> list[str]:
        """Wait until nothing was written for a while; return what was written before."""
        last, since = self.writes(), time.monotonic()

        def quiet() -> bool:
            nonlocal last, since
            now = self.writes()
            if now != last:
                last, since = now, time.monotonic()
            return time.monotonic() - since > seconds

        wait_until(quiet, "the writes to end", 30, interval_seconds=0.25)
        return last


def is_ready(pod: dict[str, Any]) -> bool:
    found = pod.get("status", {}).get("conditions", [])
    return any((one["type"], one["status"]) == ("Ready", "True") for one in found)


def uid(one: dict[str, Any]) -> str:
    return str(one["metadata"]["uid"])


def settings_of(one: dict[str, Any]) -> dict[str, Any]:
    """The two knobs of a pod."""
    found: dict[str, Any] = json.loads(one["metadata"]["annotations"][SETTINGS])
    return found


def endpoint_spec(namespace: str) -> dict[str, Any]:
    """A spec with hour-long cooldowns: tests move the operator's clock."""
    return {
        "model": {
            "name": "nvidia/Qwen3.6-27B-NVFP4",
            "maxModelLen": 245760,
            "configMapKeyRef": {"name": "model", "key": "config.json"},
            "weightsSize": "20Gi",
        },
        "engine": engine(namespace),
        "accelerator": {"product": "NVIDIA-B200"},
        "workload": {"windowSeconds": WINDOW_SECONDS, "minRequests": 100},
        "tuning": tuning(),
        "rollout": {"soakSeconds": SOAK_SECONDS},
    }


def engine(namespace: str, **changes: Any) -> dict[str, Any]:
    return {
        "image": "vllm/vllm-openai:v0.32.0",
        "kvCacheDtype": "fp8",
        "podTemplate": {"spec": {"nodeSelector": {OWN_NODES: namespace}}},
        **changes,
    }


def tuning(**changes: Any) -> dict[str, Any]:
    return {"initial": START_SETTINGS, "cooldownSeconds": COOLDOWN_SECONDS, **changes}


def report_traffic(table: dict[str, Any], namespace: str, pod: str, endpoint: str = NAME) -> None:
    """Short requests of one pod that queue, one hour of them."""
    mine = {"namespace": namespace, "endpoint": endpoint}
    edges = {"1000.0": 9000, "2000.0": 10_000, "5000.0": 10_000, "+Inf": 10_000}
    new = {
        "prompt_sum": [of_pod(9e6, pod, **mine)],
        "prompt_count": [of_pod(10_000, pod, **mine)],
        "prompt_buckets": buckets(edges, pod=pod, **mine),
        "output_sum": [of_pod(4e6, pod, **mine)],
        "output_count": [of_pod(10_000, pod, **mine)],
        "output_buckets": buckets(edges, pod=pod, **mine),
        "queue_buckets": buckets({"0.3": 2000, "+Inf": 10_000}, pod=pod, **mine),
        "newest": [of_pod(time.time() + 86_400, pod, **mine)],
        "scrapes": [of_pod(240, pod, **mine)],
    }
    for what, samples in new.items():
        kept = [one for one in table.get(what, ()) if one["metric"]["pod"] != pod]
        table[what] = [*kept, *samples]
