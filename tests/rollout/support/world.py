"""A pure model of the cluster around one endpoint: deployment controller, scheduler, kubelet.

The rules are those of the real ones as far as rollouts depend on them: which ReplicaSet is scaled
when, how proportional scaling spreads, that an old ReplicaSet keeps its own minReadySeconds, when
a surge pod finds a GPU, how a crash loop shows. Time moves only by `run`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from parkade.api.settings import Settings
from parkade.rollout.causes import RootCause
from rollout.support.objects import START, at

REVISION = "serving.parkade.dev/revision"
SETTINGS = "serving.parkade.dev/settings"
TERMINATED_SECONDS = 10
GRACE_SECONDS = 5


@dataclass(frozen=True)
class Fate:
    """What an engine of some settings will do."""

    load_seconds: float = 20.0
    crash: RootCause | None = None
    """At the end of loading; None with `unknown_crash` False: it serves."""
    unknown_crash: bool = False
    crash_after_seconds: float | None = None
    """Serves, and ends after so many seconds."""
    late: RootCause | None = None
    """Why it ends then; None: nobody can tell."""
    stuck: bool = False
    """Loads for ever."""


@dataclass
class Pod:
    name: str
    uid: str
    owner: ReplicaSet
    created: datetime
    node: str = ""
    started: datetime | None = None
    running: datetime | None = None
    ready: datetime | None = None
    unready: datetime | None = None
    served: bool = False
    """It has been ready."""
    restarts: int = 0
    terminated: dict[str, Any] | None = None
    terminated_at: datetime | None = None
    last: dict[str, Any] | None = None
    waiting: str = ""
    deleted: datetime | None = None
    disrupted: str = ""
    unschedulable: datetime | None = None

    @property
    def is_ready(self) -> bool:
        return self.ready is not None and self.deleted is None


@dataclass(frozen=True)
class End:
    """What really ended, for those who check what the operator made of it."""

    pod: Pod
    revision: str
    number: int
    at: datetime
    early: bool
    """Before the pod was ever ready."""
    known: bool
    """The log was there to be read."""
    cause: RootCause | None

    @property
    def key(self) -> tuple[str, int]:
        return self.pod.uid, self.number


@dataclass
class ReplicaSet:
    name: str
    uid: str
    template: dict[str, Any]
    replicas: int
    min_ready: int
    created: int
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def revision(self) -> str:
        return str(self.template["metadata"]["labels"][REVISION])

    @property
    def settings(self) -> Settings:
        found = Settings.from_json(self.template["metadata"]["annotations"][SETTINGS])
        assert found is not None
        return found


@dataclass
class Deployment:
    raw: dict[str, Any]
    uid: str
    generation: int = 1
    scaled_to: int = 0


class World:
    """The cluster. `fate(settings, image)` says what engines do; change it at any time."""

    def __init__(self, gpus: int = 2) -> None:
        self.now = START
        self.gpus = gpus
        self.taken = 0
        """GPUs that other pods hold."""
        self.fate: Callable[[Settings, str], Fate] = lambda _settings, _image: Fate()
        self.pullable = True
        self.keeps_waiting = "ImagePullBackOff"
        """Why a container does not start while `pullable` is False."""
        self.kubelet_says = ""
        self.scheduler_says = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        self.quota: int | None = None
        """How many pods may be; None: as many as anybody likes."""
        self.refused_since: datetime | None = None
        self.deployment: Deployment | None = None
        self.replica_sets: list[ReplicaSet] = []
        self.pods: list[Pod] = []
        self.causes: dict[tuple[str, int], RootCause] = {}
        self.ends: list[End] = []
        self.faults: list[str] = []
        """Revisions of pods that served and were hit by what no rollout does."""
        self.readable = True
        """Logs can be read; what ends meanwhile has no cause that anybody knows."""
        self.watchers: list[Callable[[], None]] = []
        self._ids = itertools.count(1)

    # What the operator does.

    def apply(self, manifest: dict[str, Any]) -> bool:
        """Server-side apply of the Deployment; True where something changed."""
        spec = dict(manifest)
        if self.deployment is None:
            self.deployment = Deployment(spec, f"deployment-{next(self._ids)}")
            return True
        if self.deployment.raw == spec:
            return False
        if self.deployment.raw["spec"] != spec["spec"]:
            self.deployment.generation += 1
        self.deployment.raw = spec
        return True

    def edit(self, **fields: Any) -> None:
        """Change fields of the Deployment's spec by hand."""
        assert self.deployment is not None
        raw = self.deployment.raw
        self.deployment.raw = raw | {"spec": raw["spec"] | fields}
        self.deployment.generation += 1

    # What others do.

    def delete_deployment(self) -> None:
        self.faults += [pod.owner.revision for pod in self.pods if pod.is_ready]
        self.deployment, self.replica_sets = None, []
        for pod in self.pods:
            self._delete(pod)

    def lose_pod(self, pod: Pod, reason: str) -> None:
        """Evict it, or lose its node."""
        if pod.is_ready:
            self.faults.append(pod.owner.revision)
        pod.disrupted, pod.ready = reason, None
        self._delete(pod)

    def crash(self, pod: Pod, cause: RootCause | None) -> None:
        """End a running engine now."""
        if pod.running is not None:
            self._terminate(pod, cause)

    def forget_logs(self) -> None:
        """Of each pod only the newest end can still be read."""
        newest = {pod.uid: pod.restarts + (pod.terminated_at is not None) for pod in self.pods}
        self.causes = {
            key: cause for key, cause in self.causes.items() if newest.get(key[0]) == key[1]
        }

    @property
    def live(self) -> list[Pod]:
        """Pods that are not on their way out."""
        return [pod for pod in self.pods if pod.deleted is None]

    # What time does.

    def run(self, seconds: float, step: float = 5.0) -> None:
        """Let controllers and kubelet work for so many seconds."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.now = min(end, self.now + timedelta(seconds=step))
            self.sync()

    def sync(self) -> None:
        """One round of all controllers."""
        for _ in range(4):
            self._roll()
            self._replicate()
        self._schedule()
        for pod in list(self.pods):
            self._kubelet(pod)
        for watcher in self.watchers:
            watcher()

    def _id(self, kind: str) -> str:
        return f"{kind}-{next(self._ids)}"

    def _new_replica_set(self) -> ReplicaSet:
        assert self.deployment is not None
        spec = self.deployment.raw["spec"]
        wanted = spec["template"]
        for one in self.replica_sets:
            if one.template == wanted:
                one.min_ready = spec["minReadySeconds"]
                one.annotations = dict(self.deployment.raw["metadata"]["annotations"])
                return one
        made = ReplicaSet(
            self._id("rs"),
            self._id("rs-uid"),
            wanted,
            0,
            spec["minReadySeconds"],
            next(self._ids),
            dict(self.deployment.raw["metadata"]["annotations"]),
        )
        self.replica_sets.append(made)
        return made

    def _available(self, one: ReplicaSet) -> int:
        return sum(
            1
            for pod in self.pods
            if pod.owner is one
            and pod.is_ready
            and pod.ready is not None
            and (self.now - pod.ready).total_seconds() >= one.min_ready
        )

    def _roll(self) -> None:
        """deployment controller: scale on a new number, else one step of the rolling update."""
        if self.deployment is None:
            return
        new = self._new_replica_set()
        spec = self.deployment.raw["spec"]
        replicas = spec["replicas"]
        rolling = spec["strategy"]["rollingUpdate"]
        active = [one for one in self.replica_sets if one.replicas > 0]
        if self.deployment.scaled_to != replicas and active:
            self._scale(active, replicas, rolling["maxSurge"])
            self.deployment.scaled_to = replicas
            return
        self.deployment.scaled_to = replicas
        total = sum(one.replicas for one in self.replica_sets)
        if new.replicas > replicas:
            new.replicas = replicas
            return
        room = replicas + rolling["maxSurge"] - total
        if new.replicas < replicas and room > 0:
            new.replicas += min(room, replicas - new.replicas)
            return
        self._scale_down_old(new, replicas - rolling["maxUnavailable"])

    def _scale_down_old(self, new: ReplicaSet, min_available: int) -> None:
        old = [one for one in self.replica_sets if one is not new and one.replicas > 0]
        total = sum(one.replicas for one in self.replica_sets)
        unavailable = new.replicas - self._available(new)
        allowed = total - min_available - unavailable
        if allowed <= 0:
            return
        for one in sorted(old, key=lambda each: each.created):
            unhealthy = max(0, one.replicas - self._available(one))
            down = min(allowed, unhealthy)
            one.replicas -= down
            allowed -= down
        spare = sum(self._available(one) for one in self.replica_sets) - min_available
        for one in sorted(old, key=lambda each: each.created):
            down = max(0, min(spare, one.replicas))
            one.replicas -= down
            spare -= down

    def _scale(self, active: list[ReplicaSet], replicas: int, surge: int) -> None:
        """Proportional scaling over all ReplicaSets that have pods."""
        if replicas == 0 or len(active) == 1:
            for one in active:
                one.replicas = replicas
            return
        total = sum(one.replicas for one in active)
        left = replicas + surge - total
        ordered = sorted(active, key=lambda each: -each.replicas)
        for one in ordered:
            share = round(left * one.replicas / total)
            change = max(-one.replicas, min(share, left) if left > 0 else max(share, left))
            one.replicas += change
            left -= change
        if left:
            ordered[0].replicas = max(0, ordered[0].replicas + left)

    def _replicate(self) -> None:
        for one in self.replica_sets:
            own = [pod for pod in self.pods if pod.owner is one and pod.deleted is None]
            for pod in sorted(own, key=lambda each: (each.is_ready, bool(each.node)))[
                : max(0, len(own) - one.replicas)
            ]:
                self._delete(pod)
            for _ in range(min(one.replicas - len(own), self._left_by_quota())):
                self.pods.append(Pod(self._id("pod"), self._id("uid"), one, self.now))

    def _left_by_quota(self) -> int:
        return 1_000_000 if self.quota is None else self.quota - len(self.pods)

    def _delete(self, pod: Pod) -> None:
        if pod.deleted is None:
            pod.deleted = self.now

    def _schedule(self) -> None:
        self.pods = [
            pod
            for pod in self.pods
            if pod.deleted is None
            or (bool(pod.node) and (self.now - pod.deleted).total_seconds() < GRACE_SECONDS)
        ]
        used = self.taken + sum(1 for pod in self.pods if pod.node)
        for pod in self.pods:
            if pod.node or pod.deleted is not None:
                continue
            if used < self.gpus:
                pod.node, pod.unschedulable, pod.started = "node-1", None, self.now
                pod.unready = self.now
                used += 1
            elif pod.unschedulable is None:
                pod.unschedulable = self.now

    def _kubelet(self, pod: Pod) -> None:
        if not pod.node or pod.deleted is not None:
            return
        if pod.terminated_at is not None:
            since = (self.now - pod.terminated_at).total_seconds()
            if since >= TERMINATED_SECONDS:
                pod.waiting = "CrashLoopBackOff"
                if pod.terminated is not None:
                    pod.last, pod.terminated = pod.terminated, None
            if since >= TERMINATED_SECONDS + min(300, 10 * 2 ** min(pod.restarts, 5)):
                pod.terminated_at, pod.waiting = None, ""
                pod.restarts += 1
                pod.running = self.now
            return
        if pod.running is None:
            pod.waiting = "" if self.pullable else self.keeps_waiting
            pod.running = self.now if self.pullable else None
            return
        self._engine(pod)

    def _engine(self, pod: Pod) -> None:
        assert pod.running is not None
        template = pod.owner.template
        fate = self.fate(pod.owner.settings, template["spec"]["containers"][0]["image"])
        if fate.stuck or (self.now - pod.running).total_seconds() < fate.load_seconds:
            return
        if pod.ready is None:
            if fate.crash is not None or fate.unknown_crash:
                self._terminate(pod, fate.crash)
            else:
                pod.ready, pod.unready, pod.served = self.now, None, True
        elif (
            fate.crash_after_seconds is not None
            and (self.now - pod.ready).total_seconds() >= fate.crash_after_seconds
        ):
            self._terminate(pod, fate.late)

    def _terminate(self, pod: Pod, cause: RootCause | None) -> None:
        pod.terminated = {
            "exitCode": 1,
            "reason": "Error",
            "startedAt": _text(pod.running),
            "finishedAt": _text(self.now),
        }
        if pod.ready is not None:
            pod.ready, pod.unready = None, self.now
            self.faults.append(pod.owner.revision)
        pod.terminated_at, pod.running = self.now, None
        number = pod.restarts + 1
        known = cause is not None and self.readable
        if cause is not None and known:
            self.causes[pod.uid, number] = cause
        early = not pod.served
        self.ends.append(End(pod, pod.owner.revision, number, self.now, early, known, cause))

    # What the operator sees.

    def raw_deployment(self) -> dict[str, Any] | None:
        if self.deployment is None:
            return None
        new = self._new_replica_set()
        own = [pod for pod in self.pods if pod.deleted is None]
        raw = dict(self.deployment.raw)
        raw["metadata"] = raw["metadata"] | {
            "uid": self.deployment.uid,
            "generation": self.deployment.generation,
            "resourceVersion": str(self.deployment.generation),
        }
        raw["status"] = {
            "observedGeneration": self.deployment.generation,
            "replicas": len(own),
            "updatedReplicas": sum(1 for pod in own if pod.owner is new),
            "readyReplicas": sum(1 for pod in own if pod.is_ready),
            "availableReplicas": sum(self._available(one) for one in self.replica_sets),
            "conditions": self._replica_failure(),
        }
        return raw

    def _replica_failure(self) -> list[dict[str, Any]]:
        wanted = sum(one.replicas for one in self.replica_sets)
        here = sum(1 for pod in self.pods if pod.deleted is None)
        if self.quota is None or here >= wanted or self._left_by_quota() > 0:
            self.refused_since = None
            return []
        self.refused_since = self.refused_since or self.now
        used = f"used: pods={len(self.pods)}, limited: pods={self.quota}"
        return [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "lastTransitionTime": _text(self.refused_since),
                "message": f'pods "x" is forbidden: exceeded quota: q, requested: pods=1, {used}',
            }
        ]

    def raw_replica_sets(self) -> list[dict[str, Any]]:
        assert self.deployment is not None or not self.replica_sets
        return [
            {
                "metadata": {
                    "name": one.name,
                    "uid": one.uid,
                    "annotations": one.annotations,
                    "ownerReferences": [
                        {
                            "kind": "Deployment",
                            "uid": self.deployment.uid if self.deployment else "",
                            "controller": True,
                        }
                    ],
                },
                "spec": {"replicas": one.replicas, "template": one.template},
                "status": {"replicas": one.replicas},
            }
            for one in self.replica_sets
        ]

    def raw_pods(self) -> list[dict[str, Any]]:
        return [raw_pod(pod, self.scheduler_says, self.kubelet_says) for pod in self.pods]


def raw_pod(pod: Pod, scheduler_says: str, kubelet_says: str) -> dict[str, Any]:
    """A pod as the API server shows it."""
    meta: dict[str, Any] = {
        "name": pod.name,
        "uid": pod.uid,
        "creationTimestamp": _text(pod.created),
        "labels": pod.owner.template["metadata"]["labels"],
        "annotations": pod.owner.template["metadata"]["annotations"],
        "ownerReferences": [{"kind": "ReplicaSet", "uid": pod.owner.uid, "controller": True}],
    }
    if pod.deleted is not None:
        meta["deletionTimestamp"] = _text(pod.deleted)
    conditions: list[dict[str, Any]] = [
        {
            "type": "Ready",
            "status": "True" if pod.ready else "False",
            "lastTransitionTime": _text(pod.ready or pod.unready or pod.created),
        },
        {
            "type": "PodScheduled",
            "status": "True" if pod.node else "False",
            "lastTransitionTime": _text(pod.unschedulable or pod.created),
            "message": "" if pod.node else scheduler_says,
        },
    ]
    if pod.disrupted:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": pod.disrupted})
    container: dict[str, Any] = {"name": "vllm", "restartCount": pod.restarts}
    if pod.terminated is not None:
        container["state"] = {"terminated": pod.terminated}
    elif pod.running is not None:
        container["state"] = {"running": {"startedAt": _text(pod.running)}}
    else:
        waiting = {"reason": pod.waiting or "ContainerCreating", "message": kubelet_says}
        container["state"] = {"waiting": waiting}
    if pod.last is not None:
        container["lastState"] = {"terminated": pod.last}
    status: dict[str, Any] = {
        "phase": "Running" if pod.running else "Pending",
        "conditions": conditions,
    }
    if pod.node:
        status["containerStatuses"] = [container]
        status["startTime"] = _text(pod.started)
    return {"metadata": meta, "spec": {"nodeName": pod.node}, "status": status}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


__all__ = ["Fate", "Pod", "World", "at", "raw_pod"]
