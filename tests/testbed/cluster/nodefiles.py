"""The configuration files of a node's programs. Each setting that is not obvious says why."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.cluster.certificates import KeyPair
from testbed.cluster.isolation import BRIDGE, Network

CRASH_LOOP_SECONDS = 20


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Where a node keeps its things, all in one folder."""

    folder: Path

    @property
    def containerd_socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def containerd_config(self) -> Path:
        return self.folder / "containerd.toml"

    @property
    def cni_config(self) -> Path:
        return self.folder / "cni"

    @property
    def kubelet_config(self) -> Path:
        return self.folder / "kubelet.yaml"

    @property
    def kubelet_root(self) -> Path:
        return self.folder / "kubelet"

    @property
    def kube_proxy_config(self) -> Path:
        return self.folder / "kube-proxy.yaml"

    @property
    def resolv_conf(self) -> Path:
        return self.folder / "resolv.conf"


def containerd(paths: NodePaths, pause_image: str, cni_plugins: Path) -> str:
    """containerd's configuration, version 2 of its format (1.6, 1.7 and 2.x read it)."""
    root = paths.folder
    # JSON strings are valid TOML strings.
    quoted = {
        name: json.dumps(str(value))
        for name, value in {
            "root": root / "containerd",
            "state": root / "containerd-state",
            "socket": paths.containerd_socket,
            "opt": root / "containerd-opt",
            "cni_plugins": cni_plugins,
            "cni_config": paths.cni_config,
            "pause": pause_image,
        }.items()
    }
    return f"""\
version = 2
root = {quoted["root"]}
state = {quoted["state"]}

[grpc]
address = {quoted["socket"]}

[plugins."io.containerd.internal.v1.opt"]
path = {quoted["opt"]}

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = {quoted["pause"]}
disable_tcp_service = true
# Without the right to lower oom_score_adj (inside many containers and small virtual machines)
# runc fails with "can't get final child's PID from pipe: EOF".
restrict_oom_score_adj = true
# Pods' network namespaces are mounted below our own folder, not in /run/netns.
netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {quoted["cni_plugins"]}
conf_dir = {quoted["cni_config"]}

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def cni(paths: NodePaths, network: Network) -> dict[str, Any]:
    """One bridge for all pods; the link's addresses lie outside of what it hands out."""
    first, last = network.pods[10], network.pods[-2]
    address_range = {
        "subnet": str(network.pods),
        "rangeStart": str(first),
        "rangeEnd": str(last),
        "gateway": network.bridge_address,
    }
    return {
        "cniVersion": "1.0.0",
        "name": "parkade-testbed",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isGateway": True,
                "ipMasq": True,
                "hairpinMode": True,  # a pod may call the Service it stands behind
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(paths.folder / "cni-addresses"),
                    "ranges": [[address_range]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet(paths: NodePaths, authority: Path, serving: KeyPair, cgroup: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "readOnlyPort": 0,
        "containerRuntimeEndpoint": f"unix://{paths.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,  # refused by default since 1.35; many machines still have v1
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        # A test machine's disk may be nearly full; evicting pods for that helps nobody.
        "evictionHard": {"nodefs.available": "100Mi", "imagefs.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "podLogsDir": str(paths.folder / "pod-logs"),
        "volumePluginDir": str(paths.folder / "volume-plugins"),
        "resolvConf": str(paths.resolv_conf),
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": f"{CRASH_LOOP_SECONDS}s"},
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
    }


def kube_proxy(kubeconfig: Path, network: Network, node_name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node_name,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": str(network.pods),
        # Answers between two pods of one bridge pass by the address translation otherwise,
        # where the kernel module br_netfilter is missing.
        "iptables": {"masqueradeAll": True, "minSyncPeriod": "0s"},
        # Limits of the whole machine are not ours to change.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
