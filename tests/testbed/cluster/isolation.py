"""A machine inside this machine: network, mount and PID namespaces that hold a whole node.

Everything a node spreads over its machine (bridge, veth pairs, iptables chains, mounts, shims,
the network namespaces of pods) lives in there. When the first process of the PID namespace ends,
the kernel kills every other one and takes devices, rules and mounts away: that is the clean-up,
and it also happens when the owner is killed. Other clusters on this machine are never touched.
A veth pair connects the node with this machine, which has routes to the node's pods.
"""

import ipaddress
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from testbed.cluster import mountpoints
from testbed.cluster.errors import TestbedError
from testbed.cluster.packages import find_program
from testbed.cluster.processes import Program, kill_recorded, run
from testbed.cluster.runs import Run
from testbed.waiting import wait_until

REAPER = Path(__file__).with_name("reaper.py")
BRIDGE = "cni0"
# The run folder once more, under a path that is short enough for sockets (107 bytes on Linux).
INSIDE = Path("/run/parkade")
SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
# Candidates for a node's network; the first that this machine has no route into is taken.
NODE_NETWORKS = [ipaddress.IPv4Network(f"10.{second}.0.0/23") for second in range(244, 224, -1)]


@dataclass(frozen=True, slots=True)
class Network:
    """The addresses of one node: pods and bridge in the lower half, the link in the upper."""

    pods: ipaddress.IPv4Network
    link: ipaddress.IPv4Network

    @classmethod
    def of(cls, network: ipaddress.IPv4Network) -> "Network":
        lower, upper = network.subnets(prefixlen_diff=1)
        return cls(pods=lower, link=next(upper.subnets(new_prefix=30)))

    @property
    def bridge_address(self) -> str:
        """The node's own address: API server, kubelet and Prometheus are reached there."""
        return str(self.pods[1])

    @property
    def machine_address(self) -> str:
        return str(self.link[1])

    @property
    def node_link_address(self) -> str:
        return str(self.link[2])


def free_network() -> Network:
    """Addresses that this machine has no other use for."""
    used = _routed_networks()
    for candidate in NODE_NETWORKS:
        if not any(candidate.overlaps(network) for network in used):
            return Network.of(candidate)
    raise TestbedError("No free network for the node: this machine has routes to all candidates")


class Isolation:
    """Running namespaces. `enter` is the command prefix that starts a program inside."""

    def __init__(self, run_folder: Run, network: Network) -> None:
        self.run = run_folder
        self.network = network
        self.enter: list[str] = []
        self._holder = Program(
            "namespaces",
            [
                *(find_program("unshare"), "--net", "--mount", "--pid", "--propagation", "slave"),
                *("--fork", "--kill-child=KILL", "--mount-proc"),
                *(sys.executable, "-S", "-E", REAPER),
            ],
            run_folder.logs / "namespaces.log",
            outlives_owner=run_folder.outlives_owner,
        )

    def start(self) -> None:
        """Make the namespaces and connect them. What exists on this machine is recorded first."""
        self._make_mount_points()
        pid = self._holder.start()
        self.run.record_process("namespaces", pid)
        first = wait_until(lambda: self._first_process(pid), "the namespaces to be made", 10)
        self.run.record_process("namespaces-first", first)
        nsenter = find_program("nsenter")
        self.enter = [nsenter, "--target", str(first), "--net", "--mount", "--pid", "--"]
        self._cover()
        self._connect(first)

    def inside(self, *argv: str | Path, stdin: str | None = None) -> str:
        """Run a short command inside; returns what it prints."""
        return run(*self.enter, *argv, stdin=stdin)

    def stop(self) -> None:
        """End all that runs inside and wait for it; the kernel removes what it had made."""
        if "namespaces-first" in self.run.state.processes:
            kill_recorded(*self.run.state.processes["namespaces-first"])
        self._holder.stop(grace_seconds=0)

    def _first_process(self, pid: int) -> int | None:
        self._holder.fail_if_exited()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        # unshare mounts the new /proc in its child before it becomes the reaper.
        if children and REAPER.name in _command_line(int(children[0])):
            return int(children[0])
        return None

    def _make_mount_points(self) -> None:
        self.run.state.created_folders = mountpoints.to_be_made()
        self.run.save()
        for path in reversed(self.run.state.created_folders):
            Path(path).mkdir(exist_ok=True)

    def _cover(self) -> None:
        home = self.run.folder.resolve()
        for folder in mountpoints.COVERED:
            if home.is_relative_to(folder):
                raise TestbedError(f"The state folder {home} is below {folder}: set XDG_STATE_HOME")
            self.inside("mount", "-t", "tmpfs", "-o", "mode=0755", mountpoints.SOURCE, folder)
        self.inside("mkdir", "-p", "/run/netns", "/run/lock", INSIDE)
        self.inside("mount", "--bind", home, INSIDE)

    def _connect(self, first: int) -> None:
        network, ip = self.network, find_program("ip")
        link = f"parkade-{self.run.folder.name[-6:]}"
        bridge = f"{network.bridge_address}/{network.pods.prefixlen}"
        self.run.state.link = link
        self.run.save()
        run(ip, "link", "add", link, "type", "veth", "peer", "name", "machine", "netns", str(first))
        run(ip, "address", "add", f"{network.machine_address}/30", "dev", link)
        run(ip, "link", "set", link, "up")
        for command in (
            ["link", "set", "lo", "up"],
            ["address", "add", f"{network.node_link_address}/30", "dev", "machine"],
            ["link", "set", "machine", "up"],
            ["route", "add", "default", "via", network.machine_address],
            ["link", "add", BRIDGE, "type", "bridge"],
            ["address", "add", bridge, "dev", BRIDGE],
            ["link", "set", BRIDGE, "up"],
        ):
            self.inside(ip, *command)
        self.inside("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self._add_routes(ip)

    def _add_routes(self, ip: str) -> None:
        via = self.network.node_link_address
        run(ip, "route", "add", str(self.network.pods), "via", via)
        # A second node on this machine does without: from here its pods are reached by address.
        if not any(SERVICE_NETWORK.overlaps(used) for used in _routed_networks()):
            run(ip, "route", "add", str(SERVICE_NETWORK), "via", via)


def _routed_networks() -> list[ipaddress.IPv4Network]:
    routes = json.loads(run(find_program("ip"), "-json", "-4", "route", "show", "table", "all"))
    targets = [route["dst"] for route in routes if route["dst"] != "default"]
    return [ipaddress.IPv4Network(target, strict=False) for target in targets]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
