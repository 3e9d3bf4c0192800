"""Argo Rollouts beside the node, to measure against. Built from its Go module, run from outside."""

import json
import subprocess
from pathlib import Path

from testbed.cluster import binaries
from testbed.cluster.errors import TestbedError
from testbed.cluster.golang import find_go, least_version
from testbed.cluster.node import Node
from testbed.cluster.paths import TOOLS

PROGRAM = "rollouts-controller"
MODULE = "github.com/argoproj/argo-rollouts"
FOLDER = TOOLS / "argo-rollouts"
NAMESPACE = "argo-rollouts"


def ensure() -> Path:
    """The controller, built first where the cache lacks it."""
    return binaries.ensure([PROGRAM])[PROGRAM]


def start(node: Node) -> None:
    """Its definitions into the cluster, and the controller beside the other programs."""
    node.kubectl("create", "namespace", NAMESPACE)
    for file in sorted((_module_folder() / "manifests" / "crds").glob("*-crd.yaml")):
        # Too large for the annotation of a client-side apply.
        node.kubectl("apply", "--server-side", "-f", file)
    rollouts = "/apis/argoproj.io/v1alpha1/rollouts"
    node.control_plane.wait_for(
        "the Rollout to be served", lambda: node.http.get(rollouts).is_success
    )
    node.control_plane.launch(
        PROGRAM,
        [
            f"--kubeconfig={node.kubeconfig}",
            "--leader-elect=false",
            "--metricsport=18090",
            "--healthzPort=18080",
        ],
        ensure(),
    )


def _module_folder() -> Path:
    """Where Go keeps the sources of the pinned module, with the manifests that belong to them."""
    go = find_go(least_version([FOLDER / "go.mod"]))
    listed = subprocess.run(
        [go, "mod", "download", "-json", MODULE],
        cwd=FOLDER,
        check=False,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        raise TestbedError(f"go mod download of {MODULE} failed: {listed.stderr.strip()}")
    return Path(json.loads(listed.stdout)["Dir"])
