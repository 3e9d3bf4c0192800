"""Real Prometheus beside the node, finding engine pods as kube-prometheus-stack would.

The chart's PodMonitor becomes such a scrape job in a cluster with the Prometheus operator; the
labels of the series are the same here (`namespace`, `pod`, `container`, `endpoint` for the port's
name, and the pod label `serving_parkade_dev_endpoint`), so that queries are tested as they run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from testbed.cluster.node import Node

PORT = 9090
JOB = "parkade/engines"
ENDPOINT_LABEL = "serving_parkade_dev_endpoint"
POD = "__meta_kubernetes_pod"


class Prometheus:
    """A running Prometheus; `url` works from pods and from this machine. The node stops it."""

    def __init__(self, node: Node) -> None:
        self.url = f"http://{node.network.bridge_address}:{PORT}"
        self._node = node

    @classmethod
    def start(
        cls,
        node: Node,
        *,
        scrape_interval_seconds: int = 1,
        more_jobs: Sequence[dict[str, Any]] = (),
    ) -> "Prometheus":
        """Start it on a node and wait until it answers; `more_jobs` are further scrape_configs."""
        prometheus = cls(node)
        folder = node.run.folder / "prometheus"
        folder.mkdir()
        configuration = folder / "prometheus.yml"
        jobs = [engine_job(node.kubeconfig), *more_jobs]
        text = yaml.safe_dump(scrape_configuration(scrape_interval_seconds, jobs))
        configuration.write_text(text, encoding="utf-8")
        node.control_plane.launch(
            "prometheus",
            [
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=0.0.0.0:{PORT}",
                "--web.enable-lifecycle",
            ],
        )
        node.control_plane.wait_for("Prometheus to be ready", prometheus._is_ready)
        return prometheus

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query, as the API gives it."""
        answer = httpx.get(
            f"{self.url}/api/v1/query", params={"query": expression}, trust_env=False
        )
        answer.raise_for_status()
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    def _is_ready(self) -> bool:
        answer = httpx.get(f"{self.url}/-/ready", trust_env=False)
        return answer.status_code == httpx.codes.OK


def scrape_configuration(interval_seconds: int, jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A whole prometheus.yml."""
    timing = {
        "scrape_interval": f"{interval_seconds}s",
        "scrape_timeout": f"{interval_seconds}s",
        "evaluation_interval": f"{interval_seconds}s",
    }
    return {"global": timing, "scrape_configs": list(jobs)}


def engine_job(kubeconfig: Path) -> dict[str, Any]:
    """The scrape job of the chart's PodMonitor, as the Prometheus operator would write it."""
    return {
        "job_name": JOB,
        "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(kubeconfig)}],
        "relabel_configs": [
            _select("keep", f"{POD}_labelpresent_{ENDPOINT_LABEL}", "true"),
            _select("keep", f"{POD}_container_port_name", "http"),
            _select("drop", f"{POD}_phase", "Failed|Succeeded"),
            _copy("__meta_kubernetes_namespace", "namespace"),
            _copy(f"{POD}_container_name", "container"),
            _copy(f"{POD}_name", "pod"),
            _copy(f"{POD}_container_port_name", "endpoint"),
            _copy(f"{POD}_label_{ENDPOINT_LABEL}", ENDPOINT_LABEL),
        ],
    }


def _select(action: str, label: str, pattern: str) -> dict[str, Any]:
    return {"action": action, "source_labels": [label], "regex": pattern}


def _copy(label: str, target: str) -> dict[str, Any]:
    return {"source_labels": [label], "target_label": target}
