"""A whole real node: containerd, kubelet and kube-proxy beside the control plane. Needs root.

Pods are real containers, crash loops are real. The node pretends to have GPUs: labels and
capacity as on the real machine, no device. It lives in namespaces of its own (`isolation`), so
that several things of this machine can't be touched by accident, and all of it ends at once.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from testbed.cluster import binaries, cgroups, nodefiles, runs
from testbed.cluster.certificates import KeyPair
from testbed.cluster.controlplane import ControlPlane, prepare
from testbed.cluster.errors import TestbedError
from testbed.cluster.gpus import RESOURCE, Gpus
from testbed.cluster.isolation import INSIDE, Isolation, Network, free_network
from testbed.cluster.nodefiles import NodePaths
from testbed.cluster.packages import (
    NODE_PROGRAMS,
    cni_folder,
    find_program,
    require,
    require_root_on_linux,
)
from testbed.cluster.processes import run
from testbed.cluster.signals import uninterrupted

NAME = "b200-0"
PORTS = (6443, 2379, 2380)  # inside a network namespace of its own: nobody else is there
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


class Node:
    """A running node with its control plane; `start()` or `started()` make one."""

    def __init__(self, run_folder: runs.Run, network: Network, name: str) -> None:
        self.run = run_folder
        self.name = name
        self.network = network
        self.isolation = Isolation(run_folder, network)
        self.paths = NodePaths(INSIDE)
        settings, certificates = prepare(run_folder.folder, network.bridge_address, PORTS)
        self._certificates = certificates
        self.control_plane = ControlPlane(run_folder, settings, programs=binaries.NODE)

    @classmethod
    @contextmanager
    def started(cls, gpus: Gpus | None = None) -> Iterator["Node"]:
        """A node for the length of a `with` block."""
        node = cls.start(gpus)
        try:
            yield node
        finally:
            node.stop()

    @classmethod
    def start(
        cls,
        gpus: Gpus | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        name: str = NAME,
        kept: bool = False,
    ) -> Self:
        """Start a node (a B200 machine unless told otherwise) and wait until it is Ready.

        `kept` lets it outlive this process. Raises TestbedError with one line when this machine
        can't run one, when one is up already, or with the end of the log of the part that failed.
        """
        from testbed.images.build import PAUSE, ensure_base, export_archive  # noqa: PLC0415

        require_root_on_linux("A real node")
        require(NODE_PROGRAMS, cni=True)
        binaries.ensure(binaries.NODE)
        ensure_base()
        pause = export_archive(PAUSE)
        run_folder = runs.begin("node", outlives_owner=kept, alone=True)
        node = None
        try:
            node = cls(run_folder, free_network(), name)
            node._start(gpus or Gpus(), labels or {}, PAUSE, pause)
        except BaseException:
            (node.stop if node else lambda: runs.end(run_folder))()
            raise
        return node

    @property
    def kubeconfig(self) -> Path:
        return self.control_plane.kubeconfig

    @property
    def server(self) -> str:
        return self.control_plane.server

    @property
    def http(self) -> httpx.Client:
        return self.control_plane.http

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run the real kubectl as administrator; raises TestbedError with its words."""
        return self.control_plane.kubectl(*arguments, stdin=stdin)

    def helm(self, *arguments: str | Path) -> str:
        """Run the real helm as administrator; raises TestbedError with its words."""
        helm = binaries.ensure(["helm"])["helm"]
        home = self.run.folder / "helm"
        own = {f"HELM_{kind}_HOME": str(home / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        arguments = ("--kubeconfig", self.kubeconfig, *arguments)
        return run(helm, *arguments, extra_environment=own)

    def import_image(self, archive: Path) -> None:
        """Give the node an image; pods use it with imagePullPolicy Never or IfNotPresent."""
        socket = self.paths.containerd_socket
        ctr = (find_program("ctr"), "--address", str(socket), "--namespace", "k8s.io")
        self.isolation.inside(*ctr, "images", "import", archive)

    def stop(self) -> None:
        """End everything and remove what was made. Safe to call twice."""
        with uninterrupted():
            try:
                self.isolation.stop()
                self.control_plane.stop_programs()
            finally:
                runs.end(self.run)

    def _start(self, gpus: Gpus, labels: Mapping[str, str], pause_image: str, pause: Path) -> None:
        self.run.state.cgroup = f"parkade-{self.run.folder.name}"
        self.run.save()
        cgroups.make(self.run.state.cgroup)
        self.isolation.start()
        self.control_plane.enter = self.isolation.enter
        self._write_files(pause_image)
        self._start_containerd(pause)
        self.control_plane.start_programs()
        self._start_kubelet({**gpus.labels(), **labels})
        self.control_plane.launch("kube-proxy", [f"--config={self.paths.kube_proxy_config}"])
        self.control_plane.wait_for("the node to be Ready", self._is_ready)
        self._set_gpus(gpus)
        self.run.started()

    def _write_files(self, pause_image: str) -> None:
        plugins = cni_folder()
        if plugins is None:
            raise TestbedError("The CNI plugins are missing: install containernetworking-plugins")
        paths, settings = self.paths, self.control_plane.settings
        self._outside(paths.cni_config).mkdir()
        self._write(
            paths.cni_config / "10-parkade.conflist", json.dumps(nodefiles.cni(paths, self.network))
        )
        self._write(paths.containerd_config, nodefiles.containerd(paths, pause_image, plugins))
        # No cluster DNS: a look-up in a pod fails at once instead of after a time-out.
        self._write(paths.resolv_conf, "")
        kubelet = nodefiles.kubelet(
            paths, settings.authority, self._node_certificate(), str(self.run.state.cgroup)
        )
        self._write(paths.kubelet_config, yaml.safe_dump(kubelet))
        proxy = nodefiles.kube_proxy(settings.kubeconfig("proxy"), self.network, self.name)
        self._write(paths.kube_proxy_config, yaml.safe_dump(proxy))

    def _node_certificate(self) -> KeyPair:
        pair = self._certificates.issue(
            "node",
            user=f"system:node:{self.name}",
            group="system:nodes",
            # The API server asks the kubelet for logs by address.
            server_names=(self.name, self.network.bridge_address),
        )
        settings = self.control_plane.settings
        self._certificates.kubeconfig(settings.kubeconfig("kubelet"), settings.server, pair)
        return pair

    def _start_containerd(self, pause: Path) -> None:
        containerd = find_program("containerd")
        self.control_plane.launch(
            "containerd", ["--config", self.paths.containerd_config], containerd
        )
        self.control_plane.wait_for(
            "containerd to listen", self._outside(self.paths.containerd_socket).exists
        )
        self.import_image(pause)

    def _start_kubelet(self, labels: Mapping[str, str]) -> None:
        self.control_plane.launch(
            "kubelet",
            [
                f"--config={self.paths.kubelet_config}",
                f"--kubeconfig={self.control_plane.settings.kubeconfig('kubelet')}",
                f"--root-dir={self.paths.kubelet_root}",
                f"--cert-dir={self.paths.kubelet_root / 'pki'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.network.bridge_address}",
                f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
            ],
        )

    def _is_ready(self) -> bool:
        conditions = self._node().get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def _set_gpus(self, gpus: Gpus) -> None:
        if gpus.count == 0:
            return
        patched = self.http.patch(
            f"/api/v1/nodes/{self.name}/status", json=gpus.capacity_patch(), headers=JSON_PATCH
        )
        patched.raise_for_status()
        self.control_plane.wait_for(
            "the GPUs to be allocatable",
            lambda: self._node()["status"]["allocatable"].get(RESOURCE) == str(gpus.count),
        )

    def _node(self) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/nodes/{self.name}")
        return answer.json() if answer.is_success else {}

    def _write(self, path: Path, text: str) -> None:
        self._outside(path).write_text(text, encoding="utf-8")

    def _outside(self, path: Path) -> Path:
        return self.run.folder / path.relative_to(INSIDE)
