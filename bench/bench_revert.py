"""How fast a mistake is undone on a real node, and how long no pod served.

The same mistake three times, side by side in one cluster: a `gpu_memory_utilization` that leaves
too little memory, given to (1) an InferenceEndpoint, (2) a plain Deployment, which never reverts,
and (3) a Rollout of Argo Rollouts v1.8.3, which reverts when `progressDeadlineSeconds` is over
(`progressDeadlineAbort`); it gets the same deadline as Parkade's `startDeadlineSeconds`. All three
run the same pod template of the simulated engine with one replica and no spare GPU: the old pod
goes before the new one comes, so that time without a revert is time without service.

Measured in each run, in seconds (the kubelet gives whole seconds of `finishedAt`, so true figures
are up to 1 s smaller):
- revert: from the deciding termination to the API write that undoes it; Parkade's of the
  Deployment, as the API server's audit log has it, and the abort in the status of Argo's Rollout,
  as it is seen. The deciding termination is the last one before that write: the first is not
  blamed on the settings while the predecessor is still going and may hold the GPU;
- the same from the first termination;
- CrashLoopBackOff: from the first termination until a pod's status says so (Parkade's pod is gone
  by then);
- no pod served: from the first moment without a Ready pod to the next Ready one, the stop of the
  old pod included; ">" where none was Ready at the end of the watch.

Argo Rollouts is built like the other tools of the test cluster, from a pinned Go module;
--without-argo leaves it out.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from testbed.cluster import argo
from testbed.cluster.errors import TestbedError
from testbed.demo import resources
from testbed.demo.world import World
from testbed.waiting import wait_until

GOOD, GREEDY = "0.85", "0.985"
SEQS = 64
DEADLINE_SECONDS = 60
WATCH_SECONDS = 120.0
LOOK_SECONDS = 0.1
GOAL_SECONDS = 5.0
NAMESPACE = resources.NAMESPACE
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ARGO_ROLLOUTS = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/rollouts"


@dataclass(slots=True)
class Seen:
    """What happened to one kind of deployment in one run. Times are UTC."""

    ends: list[datetime] = field(default_factory=list)
    """Of containers with an error, oldest first."""
    crash_loop: datetime | None = None
    aborted: datetime | None = None
    reverted: datetime | None = None
    dark_since: float | None = None
    dark_seconds: float = 0.0
    served_again: bool = False

    @property
    def ended(self) -> datetime | None:
        return self.ends[0] if self.ends else None

    def after_end(self, moment: datetime | None) -> float | None:
        if moment is None or self.ended is None:
            return None
        return (moment - self.ended).total_seconds()

    def after_deciding_end(self) -> float | None:
        before = [one for one in self.ends if self.reverted is not None and one <= self.reverted]
        return (self.reverted - before[-1]).total_seconds() if before and self.reverted else None


class Watcher(threading.Thread):
    """Looks at the pods of one deployment ten times a second until it serves again."""

    def __init__(self, world: World, selector: str, aborted: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._world, self._selector, self._aborted = world, selector, aborted
        self.seen = Seen()

    def run(self) -> None:
        end = time.monotonic() + WATCH_SECONDS
        while time.monotonic() < end and not self.seen.served_again:
            self._look(self._world.get(f"{PODS}?labelSelector={self._selector}") or {})
            time.sleep(LOOK_SECONDS)

    def _look(self, found: dict[str, Any]) -> None:
        seen, pods = self.seen, found.get("items", [])
        for container in [
            one for pod in pods for one in pod["status"].get("containerStatuses", [])
        ]:
            seen.ends = sorted({*seen.ends, *_failures(container)})
            waits = container["state"].get("waiting", {}).get("reason")
            if waits == "CrashLoopBackOff" and seen.crash_loop is None:
                seen.crash_loop = datetime.now(UTC)
        if seen.ended and seen.aborted is None and self._aborted():
            seen.aborted = datetime.now(UTC)
        self._note_service(serves=any(_is_ready(pod) for pod in pods))

    def _note_service(self, *, serves: bool) -> None:
        seen, now = self.seen, time.monotonic()
        if seen.dark_since is None:
            seen.dark_since = None if serves else now
            return
        seen.dark_seconds, seen.served_again = now - seen.dark_since, serves


def _failures(container: dict[str, Any]) -> list[datetime]:
    states = (container.get("lastState", {}), container["state"])
    ends = (state["terminated"] for state in states if "terminated" in state)
    return [datetime.fromisoformat(one["finishedAt"]) for one in ends if one["exitCode"] != 0]


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def endpoint(name: str) -> dict[str, Any]:
    """Settings that only a person changes, one GPU, and leave to stop the pod that serves."""
    made = deepcopy(resources.endpoint(resources.LONG))
    made["metadata"]["name"] = name
    made["spec"]["tuning"] = {
        "mode": "RecommendOnly",
        "initial": {"maxNumSeqs": SEQS, "gpuMemoryUtilization": GOOD},
        "interruption": "Allowed",
        "cooldownSeconds": 0,
    }
    made["spec"]["rollout"] = {
        "soakSeconds": 3,
        "startDeadlineSeconds": DEADLINE_SECONDS,
        "strategy": "NoSurge",
    }
    return made


def copy_of(template: dict[str, Any], app: str, utilization: str) -> dict[str, Any]:
    """Parkade's own pod template with other labels, for whoever else shall run it."""
    made = deepcopy(template)
    made["metadata"] = {"labels": {"app": app}}
    (container,) = made["spec"]["containers"]
    container["args"] = [utilization if one == GOOD else one for one in container["args"]]
    return made


def workload(kind: str, name: str, template: dict[str, Any], utilization: str) -> dict[str, Any]:
    """A Deployment or a Rollout of it."""
    is_argo = kind == "Rollout"
    in_place = {"maxSurge": 0, "maxUnavailable": 1}
    return {
        "apiVersion": "argoproj.io/v1alpha1" if is_argo else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "progressDeadlineSeconds": DEADLINE_SECONDS,
            "selector": {"matchLabels": {"app": name}},
            "template": copy_of(template, name, utilization),
            "strategy": (
                {"canary": in_place}
                if is_argo
                else {"type": "RollingUpdate", "rollingUpdate": in_place}
            ),
            **({"progressDeadlineAbort": True} if is_argo else {}),
        },
    }


def one_run(world: World, number: int, *, with_argo: bool) -> dict[str, Seen]:
    """Bring all kinds up, make the mistake in each, and watch."""
    names = {"Parkade": f"parkade-{number}", "Deployment": f"plain-{number}"}
    if with_argo:
        names["Argo Rollouts"] = f"argo-{number}"
    kinds = {"Deployment": "Deployment", "Argo Rollouts": "Rollout"}
    ours = names["Parkade"]
    world.apply(endpoint(ours))
    wait_until(lambda: world.endpoint(ours).get("status", {}).get("lastGood"), "good settings", 120)
    template = world.deployment(ours)["spec"]["template"]
    others = {name: kinds[who] for who, name in names.items() if who in kinds}
    world.apply(*(workload(kind, name, template, GOOD) for name, kind in others.items()))
    for name in others:
        wait_until(lambda name=name: _serves(world, f"app={name}"), f"{name} to serve", 120)
    watchers = {who: _watcher(world, who, name) for who, name in names.items()}
    mistake = deepcopy(endpoint(ours))
    mistake["spec"]["tuning"]["initial"]["gpuMemoryUtilization"] = GREEDY
    for watcher in watchers.values():
        watcher.start()
    world.apply(mistake, *(workload(kind, name, template, GREEDY) for name, kind in others.items()))
    for watcher in watchers.values():
        watcher.join()
    seen = {who: watcher.seen for who, watcher in watchers.items()}
    if world.running_settings(ours) == (SEQS, GOOD):
        seen["Parkade"].reverted = _write_after(world, "deployments", ours, seen["Parkade"].ended)
    if with_argo:
        seen["Argo Rollouts"].reverted = seen["Argo Rollouts"].aborted
    _clear(world, names, others)
    return seen


def _watcher(world: World, who: str, name: str) -> Watcher:
    selector = f"serving.parkade.dev/endpoint={name}" if who == "Parkade" else f"app={name}"

    def aborted() -> bool:
        found = world.get(f"{ARGO_ROLLOUTS}/{name}") if who == "Argo Rollouts" else None
        return bool(found and found.get("status", {}).get("abort"))

    return Watcher(world, selector, aborted)


def _serves(world: World, selector: str) -> bool:
    found = world.get(f"{PODS}?labelSelector={selector}") or {}
    return any(_is_ready(pod) for pod in found.get("items", []))


def _write_after(
    world: World, resource: str, name: str, moment: datetime | None
) -> datetime | None:
    """The operator's first write of an object from a moment on, by the API server's audit log."""
    for event in world.node.control_plane.audit_events():
        ref = event.get("objectRef", {})
        if (ref.get("resource"), ref.get("name"), ref.get("subresource")) != (resource, name, None):
            continue
        own = resources.SYSTEM_NAMESPACE in event["user"]["username"]
        when = datetime.fromisoformat(event["stageTimestamp"])
        if own and event["verb"] in {"patch", "update"} and moment and when >= moment:
            return when
    return None


def _clear(world: World, names: dict[str, str], others: dict[str, str]) -> None:
    world.node.kubectl("-n", NAMESPACE, "delete", "iep", names["Parkade"])
    for name, kind in others.items():
        world.node.kubectl("-n", NAMESPACE, "delete", kind.lower(), name)
    world.wait_for_deletion(names["Parkade"], 120)


def report(runs: list[dict[str, Seen]]) -> int:
    """Print the table; 0 when Parkade met its goals in every run."""
    print(f"\n{len(runs)} runs; seconds, median (least to most)\n")
    heads = ("revert", "from the first crash", "CrashLoopBackOff", "no pod served")
    print(f"{'':<14}" + "".join(f"{head:>25}" for head in heads))
    dark: dict[str, list[float]] = {}
    for who in runs[0]:
        seen = [one[who] for one in runs]
        dark[who] = [one.dark_seconds for one in seen]
        open_end = "" if all(one.served_again for one in seen) else ">"
        cells = (
            _cell([one.after_deciding_end() for one in seen], "never"),
            _cell([one.after_end(one.reverted) for one in seen], "never"),
            _cell([one.after_end(one.crash_loop) for one in seen], "not reached"),
            open_end + _cell(list(dark[who]), ""),
        )
        print(f"{who:<14}" + "".join(f"{cell:>25}" for cell in cells))
    print()
    ours = statistics.median(dark["Parkade"])
    for who in [one for one in dark if one != "Parkade"]:
        least = statistics.median(dark[who]) / ours
        print(f"No pod served {least:.1f} times as long with {who} as with Parkade, or longer.")
    return _verdict(runs)


def _verdict(runs: list[dict[str, Seen]]) -> int:
    own = [one["Parkade"].after_end(one["Parkade"].reverted) for one in runs]
    decided = [one["Parkade"].after_deciding_end() for one in runs]
    slow = [one for one in decided if one is None or one >= GOAL_SECONDS]
    loops = [one["Deployment"].after_end(one["Deployment"].crash_loop) for one in runs]
    late = [
        (mine, loop)
        for mine, loop in zip(own, loops, strict=True)
        if mine is not None and loop is not None and mine >= loop
    ]
    print(f"Revert under {GOAL_SECONDS:g} s: {len(own) - len(slow)} of {len(own)} runs.")
    print(f"Before a CrashLoopBackOff is told: {len(own) - len(late)} of {len(own)} runs.")
    return 1 if slow or late else 0


def _cell(values: list[float | None], none: str) -> str:
    known = [one for one in values if one is not None]
    if not known:
        return none
    return f"{statistics.median(known):.1f} ({min(known):.1f} to {max(known):.1f})"


@contextmanager
def _set_up(*, with_argo: bool) -> Iterator[World]:
    if with_argo:
        argo.ensure()
    with World.started() as world:
        world.install_operator()
        world.apply(*resources.setup())
        if with_argo:
            argo.start(world.node)
        yield world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--without-argo", action="store_true")
    arguments = parser.parse_args()
    with_argo = not arguments.without_argo
    runs = []
    try:
        with _set_up(with_argo=with_argo) as world:
            for number in range(arguments.runs):
                print(f"Run {number + 1} of {arguments.runs}", flush=True)
                runs.append(one_run(world, number, with_argo=with_argo))
    except (TestbedError, AssertionError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return report(runs)


if __name__ == "__main__":
    sys.exit(main())
