"""What a cluster could leave on a machine, named so that other clusters' things don't count."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from testbed.cluster import cgroups, mountpoints
from testbed.cluster.processes import start_ticks


class Traces:
    """Taken while a cluster runs; `remaining()` says later what of it is still there."""

    def __init__(self, state_home):
        self.state_home = state_home
        (state_file,) = state_home.rglob("state.json")
        self.folder = state_file.parent
        self.state = json.loads(state_file.read_text(encoding="utf-8"))
        # Not the namespaces but who is in them: the kernel gives their numbers to new ones.
        namespaces = {
            _namespace(Path(f"/proc/{pid}")) for pid in self._recorded("namespaces-first")
        }
        self.inside = {
            (int(process.name), start_ticks(int(process.name)))
            for process in _processes()
            if _namespace(process) in namespaces
        }
        self.rules = packet_filter_rules()

    def remaining(self):
        """What is still there, by kind; an empty dictionary when nothing is."""
        state = self.state
        kinds = {
            "run folder": [self.folder] if self.folder.exists() else [],
            "processes": list(self._processes()),
            "mounts": [line for line in _lines("/proc/self/mounts") if str(self.folder) in line],
            "link and routes": [
                line
                for line in [*_lines("/proc/net/dev"), *_lines("/proc/net/route")]
                if state["link"] and state["link"] in line
            ],
            "control groups": cgroups.remaining(state["cgroup"]) if state["cgroup"] else [],
            "folders": [
                folder
                for folder in state["created_folders"]
                # The last of several nodes on this machine removes them.
                if Path(folder).exists() and folder not in mountpoints.covered_by_nodes()
            ],
            "packet filter rules": packet_filter_rules() - self.rules,
        }
        return {kind: found for kind, found in kinds.items() if found}

    def _recorded(self, name):
        return [pid for key, (pid, _ticks) in self.state["processes"].items() if key == name]

    def _processes(self):
        for process in _processes():
            command = _command_line(process)
            identity = (int(process.name), start_ticks(int(process.name)))
            if str(self.folder) in command or identity in self.inside:
                yield f"{process.name} {command[:120]}"


def _processes():
    own = str(os.getpid())
    return [path for path in Path("/proc").iterdir() if path.name.isdigit() and path.name != own]


def packet_filter_rules():
    """The rules of this machine that Kubernetes and CNI plugins write."""
    iptables_save = shutil.which("iptables-save")
    if iptables_save is None or os.geteuid() != 0:
        return set()
    said = subprocess.run([iptables_save], capture_output=True, text=True, check=False).stdout
    return {line for line in said.splitlines() if "KUBE-" in line or "CNI-" in line}


def _command_line(process):
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _namespace(process):
    try:
        return str((process / "ns" / "pid").readlink())
    except OSError:
        return ""


def _lines(path):
    return Path(path).read_text(encoding="utf-8").splitlines()
