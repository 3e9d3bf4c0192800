"""The part of a kubelet on a control plane without nodes: pod states are written by hand."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import httpx

from testbed.cluster.gpus import RESOURCE, Gpus

ENDPOINT_LABEL = "serving.parkade.dev/endpoint"
MERGE = {"Content-Type": "application/merge-patch+json"}
HEARTBEAT_SECONDS = 0.3


def stamp(moment: datetime | None = None) -> str:
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pods_of(http: httpx.Client, namespace: str, endpoint: str) -> list[dict[str, Any]]:
    """The endpoint's pods that are not on their way out, oldest first."""
    found = http.get(
        f"/api/v1/namespaces/{namespace}/pods",
        params={"labelSelector": f"{ENDPOINT_LABEL}={endpoint}"},
    ).json()["items"]
    alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return sorted(alive, key=lambda pod: pod["metadata"]["creationTimestamp"])


def run(
    http: httpx.Client,
    pod: dict[str, Any],
    *,
    ready: bool = False,
    restarts: int = 0,
    at: datetime | None = None,
) -> None:
    """The container runs, and is ready or not."""
    running = {"running": {"startedAt": stamp(at)}}
    container = _container(running, ready=ready, restarts=restarts)
    _write(http, pod, "Running", container, ready=ready, at=at)


def crash(
    http: httpx.Client,
    pod: dict[str, Any],
    message: str,
    *,
    exit_code: int = 1,
    restarts: int = 0,
    at: datetime | None = None,
) -> None:
    """The container ended; ten seconds later a real kubelet would say CrashLoopBackOff."""
    ended = {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "message": message,
            "startedAt": _running_since(http, pod) or stamp(at),
            "finishedAt": stamp(at),
        }
    }
    container = _container(ended, ready=False, restarts=restarts)
    _write(http, pod, "Running", container, ready=False, at=at)


def wait_for_image(
    http: httpx.Client,
    pod: dict[str, Any],
    reason: str,
    message: str,
    at: datetime | None = None,
) -> None:
    """The container waits, for example with ImagePullBackOff."""
    waiting = {"waiting": {"reason": reason, "message": message}}
    container = _container(waiting, ready=False, restarts=0)
    _write(http, pod, "Pending", container, ready=False, at=at)


@contextmanager
def gpu_node(http: httpx.Client, name: str, gpus: Gpus | None = None) -> Iterator[str]:
    """A node that looks alive: the real scheduler uses it, and pods that must go do go."""
    gpus = gpus or Gpus()
    capacity = {RESOURCE: str(gpus.count), "cpu": "64", "memory": "512Gi", "pods": "110"}
    http.post(
        "/api/v1/nodes", json={"metadata": {"name": name, "labels": gpus.labels()}}
    ).raise_for_status()
    stop = threading.Event()

    def live() -> None:
        while not stop.is_set():
            with suppress(httpx.TransportError):  # a kubelet outlives its API server
                _heartbeat(http, name, capacity)
                _let_go(http, name)
            stop.wait(HEARTBEAT_SECONDS)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield name
    finally:
        stop.set()
        thread.join()
        http.delete(f"/api/v1/nodes/{name}")


def _heartbeat(http: httpx.Client, name: str, capacity: dict[str, str]) -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": stamp(),
    }
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [condition]}
    http.patch(f"/api/v1/nodes/{name}/status", json={"status": status}, headers=MERGE)


def _let_go(http: httpx.Client, node: str) -> None:
    """A kubelet deletes for good what ended; without one such pods would stay."""
    pods = http.get("/api/v1/pods", params={"fieldSelector": f"spec.nodeName={node}"}).json()
    for pod in pods.get("items") or ():
        if "deletionTimestamp" in pod["metadata"]:
            http.delete(_path(pod), params={"gracePeriodSeconds": "0"})


def _container(state: dict[str, Any], *, ready: bool, restarts: int) -> dict[str, Any]:
    return {
        "name": "vllm",
        "image": "engine",
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
        "state": state,
    }


def _write(
    http: httpx.Client,
    pod: dict[str, Any],
    phase: str,
    container: dict[str, Any],
    *,
    ready: bool,
    at: datetime | None,
) -> None:
    now = stamp(at)
    live = http.get(_path(pod)).json().get("status", {})
    conditions = [
        _condition(kind, status, now, live)
        for kind, status in {
            "PodScheduled": "True",
            "Initialized": "True",
            "ContainersReady": str(ready),
            "Ready": str(ready),
        }.items()
    ]
    status = {
        "phase": phase,
        "startTime": live.get("startTime") or now,
        "podIP": "10.244.0.9",
        "podIPs": [{"ip": "10.244.0.9"}],
        "conditions": conditions,
        "containerStatuses": [container],
    }
    answer = http.patch(f"{_path(pod)}/status", json={"status": status}, headers=MERGE)
    answer.raise_for_status()


def _condition(kind: str, status: str, now: str, live: dict[str, Any]) -> dict[str, str]:
    """A condition that has its time from when its status last changed, as the kubelet's have."""
    same = {"type": kind, "status": status}
    known = (one for one in live.get("conditions") or () if {**one, **same} == one)
    since = next((one["lastTransitionTime"] for one in known), now)
    return {**same, "lastTransitionTime": since}


def _running_since(http: httpx.Client, pod: dict[str, Any]) -> str | None:
    status = http.get(_path(pod)).json().get("status", {})
    states = [one["state"] for one in status.get("containerStatuses") or ()]
    return next((one["running"]["startedAt"] for one in states if "running" in one), None)


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
