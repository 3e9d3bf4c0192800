"""The real operator in this process, with exactly the rights that it names."""

import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

from parkade import operator
from parkade.adapters import rbac
from parkade.adapters.kubeconfig import connect
from parkade.controller.process import Process
from parkade.controller.settings import OperatorSettings, read_settings
from testbed.waiting import wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
WRITES = frozenset({"create", "patch", "update", "delete", "deletecollection"})


def kubeconfig_with_rights(control_plane: Any, folder: Path) -> Path:
    """A kubeconfig of a service account that may do what `rbac.rules()` says, and nothing else."""
    http, name = control_plane.http, "parkade-under-test"
    _post(http, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    _post(http, f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rbac.rules()})
    _post(
        http,
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": name,
            },
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        },
    )
    token = http.post(
        f"/api/v1/namespaces/default/serviceaccounts/{name}/token",
        json={"spec": {"expirationSeconds": 7200}},
    ).json()["status"]["token"]
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text("utf-8"))
    config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
    path = folder / "operator.kubeconfig"
    path.write_text(yaml.safe_dump(config), "utf-8")
    return path


@contextmanager
def running(
    kubeconfig: Path,
    namespace: str,
    now: Callable[[], datetime] | None = None,
    **settings: Any,
) -> Iterator[Process]:
    """Run the operator for one namespace until the block ends; by another clock where one is named.

    It has that clock from its first pass on: else it would see times that are yet to come.
    """
    process = Process(connect(str(kubeconfig)), quick_settings(namespace, **settings))
    if now is not None:
        process.workers.now = now
    outcome: list[int | BaseException] = []

    def run() -> None:
        try:
            outcome.append(operator.run(process, None))
        except BaseException as error:  # noqa: BLE001 - told to the test below
            outcome.append(error)

    thread = threading.Thread(target=run, name="operator", daemon=True)
    thread.start()
    try:
        wait_until(lambda: process._watching.is_set() or outcome, "the watches to be up", 30)
        assert not outcome, outcome
        yield process
    finally:
        process.stopping.set()
        thread.join(30)
        process.cluster.close()
        _collect_sockets_of_ended_loop()
    assert outcome == [0], outcome


def _collect_sockets_of_ended_loop() -> None:
    """Kopf leaves the sockets of its watches to the end of the process; here it goes on."""
    for thread in threading.enumerate():
        if thread.name.startswith(("traffic", "hub", "nodes")):
            thread.join(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def quick_settings(namespace: str, **settings: Any) -> OperatorSettings:
    """Settings for tests: free ports, no hub, readings each second."""
    raw = {
        "namespaces": [namespace],
        "hub": {"url": ""},
        "healthAddress": "127.0.0.1:0",
        "metricsAddress": "127.0.0.1:0",
        "evaluationSeconds": 1,
        **settings,
    }
    return read_settings(raw)


def writes(control_plane: Any, namespace: str) -> list[str]:
    """What the operator wrote so far in a namespace: `patch deployments/contracts`."""
    return [
        f"{event['verb']} {_object(event['objectRef'])}"
        for event in control_plane.audit_events()
        if event["verb"] in WRITES
        and event.get("userAgent", "").startswith("parkade")
        and event.get("objectRef", {}).get("namespace") == namespace
        and event.get("stage") == "ResponseComplete"
    ]


def _object(reference: dict[str, str]) -> str:
    kind = reference["resource"]
    kind += f"/{reference['subresource']}" if reference.get("subresource") else ""
    return f"{kind} {reference.get('name', '')}".strip()


def _post(http: httpx.Client, path: str, body: dict[str, Any]) -> None:
    answer = http.post(path, json=body)
    if answer.status_code != httpx.codes.CONFLICT:
        answer.raise_for_status()
