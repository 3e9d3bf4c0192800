"""Plays the operator: one pass reads the world, plans, and does what the plan says, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from parkade.api.conditions import ConditionStatus, Reason
from parkade.api.endpoint import Endpoint, InvalidEndpoint, parse_endpoint
from parkade.api.settings import Settings
from parkade.rollout.actions import Action, Desired, Finding, Fleet, Plan, PlanInputs
from parkade.rollout.drift import difference
from parkade.rollout.events import EventNote, events
from parkade.rollout.merge import merged
from parkade.rollout.parsing import (
    deployment_from,
    foreign_children,
    pod_from,
    replica_set_from,
)
from parkade.rollout.plan import plan
from parkade.rollout.rebuild import rebuild
from parkade.rollout.record import Record
from parkade.rollout.record_json import from_json, to_json
from parkade.rollout.render import deployment as deployment_manifest
from parkade.rollout.render import render_revision
from parkade.rollout.revision import tuning_hash
from parkade.rollout.status import build_status
from rollout.support.objects import GIB, TOTAL, body, settings
from rollout.support.world import World

OBSERVED = Finding(ConditionStatus.TRUE, Reason.OBSERVED, "693 requests in 14400 s.")
NO_OBJECTIVES = Finding(ConditionStatus.UNKNOWN, Reason.NO_OBJECTIVES, "No objectives.")

Sizing = Callable[[Endpoint, Record, "Operator"], Desired]


def leaves_headroom(seqs: int | None = None, free_gib: float = 176.0) -> Sizing:
    """Sizing in small: N as told (None: cannot tell), the fraction from the headroom in force."""

    def size(endpoint: Endpoint, record: Record, operator: Operator) -> Desired:
        tuning = tuning_hash(endpoint.spec)
        good = record.last_good
        some = good.settings if good is not None else settings()
        fingerprint = render_revision(endpoint, some).fingerprint
        headroom = record.effective_headroom(
            fingerprint, tuning, endpoint.spec.tuning.headroom_bytes
        )
        utilization = Settings(1, settings().gpu_memory_utilization).gpu_memory_utilization
        utilization = type(utilization)(
            f"{int((free_gib * GIB - headroom) / TOTAL * 10_000) / 10_000}"
        )
        cap = record.max_num_seqs_cap(fingerprint, tuning)
        initial = endpoint.spec.tuning.initial
        in_force = good.settings.max_num_seqs if good is not None else 256
        first = Settings(in_force, utilization)
        if good is None and initial is not None:
            first = initial.settings
        if seqs is None:
            return Desired(
                None,
                Reason.INSUFFICIENT_EVIDENCE,
                "12 requests are too few.",
                first,
                total_bytes=TOTAL,
            )
        wanted = min(seqs, cap) if cap is not None else seqs
        return Desired(
            Settings(wanted, utilization),
            Reason.APPLIED,
            "",
            first,
            total_bytes=TOTAL,
            headroom_bytes=headroom,
            predicted_kv_tokens=2_100_000,
        )

    return size


@dataclass
class Operator:
    """The order of a pass: record first, then the Deployment, then status."""

    world: World
    raw: dict[str, Any] = field(default_factory=body)
    size: Sizing = field(default_factory=lambda: leaves_headroom(None))
    fleet: Fleet = field(default_factory=Fleet)
    record_text: str | None = None
    notes: list[EventNote] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    writes: int = 0
    measured_kv_tokens: int | None = None
    _parsed: tuple[Any, Endpoint] | None = None
    _read: tuple[Any, Record | None] | None = None
    _applied: tuple[Any, int] | None = None
    _told: Any = None
    _status: Any = None

    def endpoint(self) -> Endpoint:
        meta = self.raw["metadata"]
        key = (
            meta["uid"],
            meta["generation"],
            str(meta.get("annotations")),
            meta.get("deletionTimestamp"),
        )
        if self._parsed is None or self._parsed[0] != key:
            parsed = parse_endpoint(self.raw)
            assert not isinstance(parsed, InvalidEndpoint), parsed
            self._parsed = (key, parsed)
        return replace(self._parsed[1], status=self.raw["status"])

    def record(self) -> Record | None:
        """What a restarted operator would read; parsed once for each text."""
        key = (self.record_text, self.raw["metadata"]["uid"])
        if self._read is None or self._read[0] != key:
            self._read = (key, from_json(*key))
        return self._read[1]

    def change(self, **spec: Any) -> None:
        """Change the spec as a user does."""
        meta = self.raw["metadata"]
        changed = body(
            spec,
            uid=meta["uid"],
            generation=meta["generation"] + 1,
            status=self.raw["status"],
        )
        changed["spec"] = merged(self.raw["spec"], spec)
        changed["metadata"]["annotations"] = meta.get("annotations") or {}
        self.raw = changed

    def retry(self, text: str) -> None:
        self.raw["metadata"]["annotations"] = {"serving.parkade.dev/retry": text}

    def inputs(self) -> PlanInputs:
        endpoint, world = self.endpoint(), self.world
        raw = world.raw_deployment()
        deployment = deployment_from(raw) if raw is not None else None
        replica_sets = tuple(replica_set_from(one) for one in world.raw_replica_sets())
        pods = tuple(pod_from(one) for one in world.raw_pods())
        record = self.record()
        if record is None:
            record = rebuild(endpoint, deployment, replica_sets, world.now)
        return PlanInputs(
            endpoint,
            record,
            self.size(endpoint, record, self),
            world.now,
            deployment=deployment,
            replica_sets=replica_sets,
            pods=pods,
            evidence=dict(world.causes),
            foreign=foreign_children(endpoint.uid, deployment, replica_sets, ()),
            fleet=self.fleet,
            measured_kv_tokens=self.measured_kv_tokens,
        )

    def step(self, inputs: PlanInputs | None = None, *, stop_after: str = "") -> Plan:
        """One pass; `stop_after` `record` or `children` is a crash between two writes."""
        inputs = self.inputs() if inputs is None else inputs
        found = plan(inputs)
        self.plans.append(found)
        if not found.hands_off and found.record != self.record():
            self.record_text = to_json(found.record)
            self.writes += 1
        if stop_after == "record":
            return found
        self._apply(inputs, found)
        if stop_after == "children":
            return found
        told = (found, inputs.endpoint.generation, [pod.is_ready for pod in inputs.pods])
        if told == self._told and self.raw["status"] is self._status:
            return found
        new = build_status(inputs, found, {}, OBSERVED, NO_OBJECTIVES, self.world.now)
        self.notes += events(found, self.raw["status"], new)
        if new != self.raw["status"]:
            self.writes += 1
            self.raw["status"] = new
        else:
            self._told, self._status = told, self.raw["status"]
        return found

    def _apply(self, inputs: PlanInputs, found: Plan) -> None:
        if found.target is None:
            return
        seen = (found.target, inputs.deployment.generation if inputs.deployment else 0)
        if seen == self._applied:
            return
        manifest = deployment_manifest(inputs.endpoint, found.target)
        live = inputs.deployment.raw if inputs.deployment is not None else None
        if difference(manifest, live) is not None and self.world.apply(manifest):
            self.writes += 1
        else:
            self._applied = seen

    def run(self, seconds: float, step: float = 0.0) -> list[Plan]:
        """Let time pass with a pass every few seconds; return the plans that did something."""
        step = step or (5.0 if seconds < 1000 else 25.0)
        before = len(self.plans)
        done = 0.0
        while done < seconds:
            self.world.run(step, 5)
            self.step()
            done += step
        return [one for one in self.plans[before:] if one.action is not Action.HOLD]

    def until(self, *actions: Action, seconds: float = 7200) -> Plan:
        """Run until a plan has one of these actions."""
        for _ in range(int(seconds / 5)):
            self.world.run(5)
            found = self.step()
            if found.action in actions:
                return found
        raise AssertionError(f"no {actions} within {seconds} s; last {self.plans[-1]}")

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition."""
        found = next(one for one in self.raw["status"]["conditions"] if one["type"] == kind)
        return found["status"], found["reason"], found.get("message", "")
