"""The machine room of the demo: a real node, Prometheus, images, the chart, traffic."""

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from testbed.cluster.node import Node
from testbed.cluster.prometheus import Prometheus
from testbed.cluster.signals import end_in_order_when_told
from testbed.demo import resources
from testbed.demo.traffic import Traffic
from testbed.images.build import build_image, ensure_base, export_archive
from testbed.waiting import wait_until

ROOT = Path(__file__).parents[3]
GROUP = "/apis/serving.parkade.dev/v1alpha1"


class World:
    """A running node with the operator installed as a user installs it."""

    def __init__(self, node: Node, prometheus: Prometheus) -> None:
        self.node = node
        self.prometheus = prometheus
        self.traffic: dict[str, Traffic] = {}

    @classmethod
    def on(cls, node: Node, prometheus: Prometheus, archives: Iterable[Path]) -> "World":
        """A world on a node that runs already, with the images of `build_images()`."""
        for archive in archives:
            node.import_image(archive)
        return cls(node, prometheus)

    @classmethod
    @contextmanager
    def started(cls, *, keep: bool = False) -> Iterator["World"]:
        """Build what is missing, start the node, and take it down at the end unless kept."""
        end_in_order_when_told()
        archives = build_images()
        node = Node.start(kept=keep)
        world = None
        try:
            world = cls.on(node, Prometheus.start(node), archives)
            yield world
        finally:
            if world is not None:
                world.stop_traffic()
            if not keep:
                node.stop()

    def install_operator(self, image: str = resources.OPERATOR_IMAGE) -> None:
        """Install or upgrade the chart with real helm and wait until the operator is ready."""
        self.apply(resources.system_namespace())
        values = resources.operator_values(self.prometheus.url, image)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(values, file)
            file.flush()
            self.node.helm(
                *("upgrade", "--install", "parkade", ROOT / "charts" / "parkade"),
                *("--namespace", resources.SYSTEM_NAMESPACE),
                *("--values", file.name, "--wait", "--timeout", "120s"),
            )

    def apply(self, *objects: dict[str, Any]) -> str:
        """`kubectl apply` of objects; returns kubectl's words."""
        return self.node.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, path: str) -> dict[str, Any] | None:
        """An object or list of the API server; None where there is none."""
        answer = self.node.http.get(path)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def endpoint(self, name: str) -> dict[str, Any]:
        """The resource, or an empty one."""
        return self.get(f"{GROUP}/namespaces/{resources.NAMESPACE}/inferenceendpoints/{name}") or {}

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition of an endpoint, or an empty one."""
        found = self.endpoint(name).get("status", {}).get("conditions", [])
        return next((one for one in found if one["type"] == kind), {})

    def deployment(self, name: str) -> dict[str, Any]:
        """The endpoint's Deployment, or an empty object."""
        return self.get(f"/apis/apps/v1/namespaces/{resources.NAMESPACE}/deployments/{name}") or {}

    def pods(self, name: str) -> list[dict[str, Any]]:
        """The endpoint's pods."""
        selector = f"serving.parkade.dev/endpoint={name}"
        path = f"/api/v1/namespaces/{resources.NAMESPACE}/pods?labelSelector={selector}"
        found = self.get(path) or {}
        return list(found.get("items", []))

    def running_settings(self, name: str) -> tuple[int, str] | None:
        """The two knobs in the Deployment's template; None where there is none yet."""
        template = self.deployment(name).get("spec", {}).get("template", {})
        annotations = template.get("metadata", {}).get("annotations", {})
        raw = annotations.get("serving.parkade.dev/settings")
        if raw is None:
            return None
        settings = json.loads(raw)
        return settings["maxNumSeqs"], settings["gpuMemoryUtilization"]

    def revisions(self, name: str) -> list[tuple[int, str]]:
        """The two knobs of every revision, the oldest first.

        From the history: a ReplicaSet that is used again keeps its first place in time.
        """
        history = self.endpoint(name).get("status", {}).get("history", [])
        return [(one["maxNumSeqs"], one["gpuMemoryUtilization"]) for one in reversed(history)]

    def start_traffic(self, name: str) -> None:
        """Send open-loop requests to the endpoint's ready pods until told to stop."""
        self.traffic[name] = Traffic(name, lambda: self._addresses(name))
        self.traffic[name].start()

    def stop_traffic(self) -> None:
        """Send no more."""
        for one in self.traffic.values():
            one.stop()

    def _addresses(self, name: str) -> list[str]:
        return [f"http://{pod['status']['podIP']}:8000" for pod in self.pods(name) if _serves(pod)]

    def wait_for_deletion(self, name: str, timeout_seconds: float) -> None:
        """Wait until nothing of an endpoint is left."""
        wait_until(
            lambda: (
                not self.endpoint(name)
                and not self.deployment(name)
                and not self.pods(name)
                and self.get(f"/api/v1/namespaces/{resources.NAMESPACE}/services/{name}") is None
            ),
            f"everything of {name} to be gone",
            timeout_seconds,
        )


def build_images() -> list[Path]:
    """The operator's image from the Dockerfile, and the engine's; as archives."""
    base = {"PYTHON_IMAGE": ensure_base()}
    build_image(ROOT / "Dockerfile", ROOT, resources.OPERATOR_IMAGE, base)
    engine = ROOT / "tests" / "testbed" / "engine"
    build_image(engine / "Dockerfile", engine, resources.ENGINE_IMAGE, base)
    return [export_archive(tag) for tag in (resources.OPERATOR_IMAGE, resources.ENGINE_IMAGE)]


def _serves(pod: dict[str, Any]) -> bool:
    if "deletionTimestamp" in pod["metadata"] or not pod["status"].get("podIP"):
        return False
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
