"""`python -m testbed.cluster up|down|status|build`: a throw-away cluster for people."""

import argparse
import sys
from collections.abc import Callable

from testbed.cluster import binaries, runs
from testbed.cluster.controlplane import ControlPlane
from testbed.cluster.errors import TestbedError
from testbed.cluster.node import Node
from testbed.cluster.prometheus import Prometheus
from testbed.cluster.signals import end_in_order_when_told


def main() -> int:
    arguments = _parse()
    end_in_order_when_told()
    try:
        return COMMANDS[arguments.command](arguments.control_plane)
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; nothing is left behind", file=sys.stderr)
        return 130


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m testbed.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in COMMANDS.items():
        command = commands.add_parser(name, help=function.__doc__)
        command.set_defaults(control_plane=False)
        if name in {"up", "build"}:
            command.add_argument(
                "--control-plane",
                action="store_true",
                help="only the control plane: no root, no pods that run",
            )
    return parser.parse_args()


def _up(control_plane: bool) -> int:
    """Start a cluster and leave it up."""
    cluster: ControlPlane | Node
    if control_plane:
        cluster = ControlPlane.start(kept=True)
    else:
        cluster = Node.start(kept=True)
        print(f"Prometheus: {Prometheus.start(cluster).url}")
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    print(f"kubectl of the same version: {binaries.ensure(['kubectl'])['kubectl']}")
    print("End it with: python -m testbed.cluster down")
    return 0


def _down(_control_plane: bool) -> int:
    """End what is kept up, and clean up what killed runs left."""
    ended, held = runs.end_all()
    for name in ended:
        print(f"Ended {name}")
    for run in held:
        print(f"{run.folder.name} belongs to process {run.state.owner_pid}, which runs: end that")
    if not ended and not held:
        print("Nothing is up")
    return 1 if held and not ended else 0


def _status(_control_plane: bool) -> int:
    """List what is up."""
    for run in runs.existing():
        print(f"{run.folder.name}: {_standing(run)}; kubeconfig {run.state.kubeconfig}")
    return 0


def _standing(run: runs.Run) -> str:
    if run.state.kept:
        return "kept up until `down`"
    if run.try_lock():
        run.unlock()
        return "its owner died; `down` cleans it up"
    return f"in use by process {run.state.owner_pid}"


def _build(control_plane: bool) -> int:
    """Build what a cluster needs into the cache, and start nothing."""
    from testbed.images.build import ensure_base  # noqa: PLC0415

    binaries.ensure(binaries.CONTROL_PLANE if control_plane else binaries.NODE)
    if not control_plane:
        ensure_base()
    return 0


COMMANDS: dict[str, Callable[[bool], int]] = {
    "up": _up,
    "down": _down,
    "status": _status,
    "build": _build,
}

if __name__ == "__main__":
    sys.exit(main())
