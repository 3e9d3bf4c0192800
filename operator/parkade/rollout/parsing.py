"""From raw Kubernetes objects to the values of `observed.py`: the border of the pure core.

Objects come from watches of several API versions and from people's hands: anything may be absent
or null, and nothing here raises for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from parkade.api import names
from parkade.api.settings import Settings
from parkade.rollout.observed import (
    ConditionState,
    DeploymentState,
    DisruptionBudget,
    ForeignChild,
    PodState,
    ReplicaSetState,
    Termination,
)

Raw = Mapping[str, Any]

_NODE_LOST = ("NodeLost", "NodeShutdown", "Terminated", "NodeAffinity")
_DISRUPTED = ("Evicted", "Preempted", "Preempting", "UnexpectedAdmissionError", *_NODE_LOST)


def deployment_from(raw: Raw) -> DeploymentState:
    """Read a Deployment."""
    meta, spec, status = _map(raw, "metadata"), _map(raw, "spec"), _map(raw, "status")
    template = _map(spec, "template")
    notes = _map(meta, "annotations")
    pod_notes = _map(_map(template, "metadata"), "annotations")
    return DeploymentState(
        name=_text(meta, "name"),
        uid=_text(meta, "uid"),
        owner_uid=controller_uid(raw),
        resource_version=_text(meta, "resourceVersion"),
        generation=_number(meta, "generation", 0),
        observed_generation=_number(status, "observedGeneration", 0),
        revision=_map(_map(template, "metadata"), "labels").get(names.REVISION_LABEL),
        template=template,
        raw=raw,
        settings=Settings.from_json(pod_notes.get(names.SETTINGS_ANNOTATION)),
        fingerprint=pod_notes.get(names.FINGERPRINT_ANNOTATION),
        inputs=notes.get(names.INPUTS_ANNOTATION),
        spec_generation=_optional_number(notes.get(names.GENERATION_ANNOTATION)),
        replicas=_number(spec, "replicas", 1),
        status_replicas=_number(status, "replicas", 0),
        ready_replicas=_number(status, "readyReplicas", 0),
        updated_replicas=_number(status, "updatedReplicas", 0),
        available_replicas=_number(status, "availableReplicas", 0),
        min_ready_seconds=_number(spec, "minReadySeconds", 0),
        max_surge=_number(_map(_map(spec, "strategy"), "rollingUpdate"), "maxSurge", 1),
        conditions={
            _text(one, "type"): ConditionState(
                _text(one, "status"),
                _text(one, "reason"),
                _text(one, "message"),
                moment(one.get("lastTransitionTime")),
            )
            for one in _maps(status, "conditions")
        },
        deleting="deletionTimestamp" in meta,
    )


def replica_set_from(raw: Raw) -> ReplicaSetState:
    """Read a ReplicaSet."""
    meta, spec = _map(raw, "metadata"), _map(raw, "spec")
    template = _map(spec, "template")
    return ReplicaSetState(
        name=_text(meta, "name"),
        uid=_text(meta, "uid"),
        owner_uid=controller_uid(raw),
        revision=_map(_map(template, "metadata"), "labels").get(names.REVISION_LABEL),
        replicas=_number(spec, "replicas", 1),
        status_replicas=_number(_map(raw, "status"), "replicas", 0),
        template=template,
        created_at=moment(meta.get("creationTimestamp")),
        inputs=_map(meta, "annotations").get(names.INPUTS_ANNOTATION),
        spec_generation=_optional_number(
            _map(meta, "annotations").get(names.GENERATION_ANNOTATION)
        ),
        deleting="deletionTimestamp" in meta,
    )


def pod_from(raw: Raw) -> PodState:
    """Read an engine pod; only the engine's own container counts, not its sidecars."""
    meta, status = _map(raw, "metadata"), _map(raw, "status")
    conditions = {_text(one, "type"): one for one in _maps(status, "conditions")}
    container = _engine_container(status)
    state = _map(container, "state")
    terminated = _map(state, "terminated")
    ready, scheduled = conditions.get("Ready", {}), conditions.get("PodScheduled", {})
    is_ready = ready.get("status") == "True"
    unschedulable = scheduled.get("status") == "False"
    notes = _map(meta, "annotations")
    restarts = _number(container, "restartCount", 0)
    return PodState(
        name=_text(meta, "name"),
        uid=_text(meta, "uid"),
        owner_uid=controller_uid(raw),
        revision=_map(meta, "labels").get(names.REVISION_LABEL),
        settings=Settings.from_json(notes.get(names.SETTINGS_ANNOTATION)),
        fingerprint=notes.get(names.FINGERPRINT_ANNOTATION),
        phase=_text(status, "phase") or "Pending",
        created_at=moment(meta.get("creationTimestamp")),
        started_at=moment(status.get("startTime")),
        ready_since=moment(ready.get("lastTransitionTime")) if is_ready else None,
        unready_since=None if is_ready else moment(ready.get("lastTransitionTime")),
        running_since=moment(_map(state, "running").get("startedAt")),
        restart_count=restarts,
        terminations=restarts + _ended_since_restart(state, container),
        last_termination=_termination(terminated)
        or _termination(_map(_map(container, "lastState"), "terminated")),
        waiting_reason=_text(_map(state, "waiting"), "reason"),
        waiting_message=_text(_map(state, "waiting"), "message"),
        scheduled=bool(_text(_map(raw, "spec"), "nodeName")),
        unschedulable_since=moment(scheduled.get("lastTransitionTime")) if unschedulable else None,
        unschedulable_message=_text(scheduled, "message") if unschedulable else "",
        node=_text(_map(raw, "spec"), "nodeName"),
        ip=_text(status, "podIP"),
        deleting="deletionTimestamp" in meta,
        disrupted=_disrupted(status, conditions),
    )


def disruption_budget_from(raw: Raw) -> DisruptionBudget:
    """Read a PodDisruptionBudget; one whose status is behind its spec allows nothing."""
    meta, spec, status = _map(raw, "metadata"), _map(raw, "spec"), _map(raw, "status")
    selector = spec.get("selector")
    current = _number(status, "observedGeneration", 0) >= _number(meta, "generation", 0)
    return DisruptionBudget(
        name=_text(meta, "name"),
        disruptions_allowed=_number(status, "disruptionsAllowed", 0) if current else 0,
        match_labels=_map(_map(spec, "selector"), "matchLabels"),
        match_expressions=tuple(
            (_text(one, "key"), _text(one, "operator"), tuple(one.get("values") or ()))
            for one in _maps(_map(spec, "selector"), "matchExpressions")
        ),
        selects=isinstance(selector, Mapping),
    )


def foreign_child_from(raw: Raw, kind: str, owner_uid: str) -> ForeignChild | None:
    """Return the object as a foreign child where its controller is not `owner_uid`."""
    owner = controller_uid(raw)
    if owner == owner_uid:
        return None
    meta = _map(raw, "metadata")
    return ForeignChild(kind, _text(meta, "name"), owner, "deletionTimestamp" in meta)


def foreign_children(
    endpoint_uid: str,
    deployment: DeploymentState | None,
    replica_sets: Iterable[ReplicaSetState],
    pods: Iterable[PodState],
    others: Iterable[ForeignChild] = (),
) -> tuple[ForeignChild, ...]:
    """Return what stands in the way: children with our name or labels of another owner.

    ReplicaSets and pods count only while our own Deployment does not exist: afterwards the
    Deployment's selector and owner references keep them apart. `others` are Services, records.
    """
    found = list(others)
    ours = deployment is not None and deployment.owner_uid == endpoint_uid
    if deployment is not None and not ours:
        found.append(
            ForeignChild("Deployment", deployment.name, deployment.owner_uid, deployment.deleting)
        )
    if not ours:
        found += [
            ForeignChild("ReplicaSet", one.name, one.owner_uid, one.deleting)
            for one in replica_sets
        ]
        found += [
            ForeignChild("Pod", one.name, one.owner_uid, one.deleting)
            for one in pods
            if one.phase not in {"Succeeded", "Failed"}
        ]
    return tuple(found)


def controller_uid(raw: Raw) -> str | None:
    """Return the uid of the object's controlling owner, None for an orphan."""
    for owner in _maps(_map(raw, "metadata"), "ownerReferences"):
        if owner.get("controller") is True:
            return _text(owner, "uid") or None
    return None


def moment(text: object) -> datetime | None:
    """Read a time of the API server; None where it is not one."""
    if isinstance(text, datetime):
        return text if text.tzinfo else text.replace(tzinfo=UTC)
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _engine_container(status: Raw) -> Raw:
    found = [
        one
        for one in _maps(status, "containerStatuses")
        if one.get("name") == names.ENGINE_CONTAINER
    ]
    return found[0] if found else {}


def _ended_since_restart(state: Raw, container: Raw) -> int:
    """Return 1 while the newest run has ended: restartCount goes up only with the next run.

    In CrashLoopBackOff the state is waiting and the newest end stands in lastState.
    """
    if _map(state, "terminated"):
        return 1
    backs_off = _text(_map(state, "waiting"), "reason") == "CrashLoopBackOff"
    return 1 if backs_off and _map(_map(container, "lastState"), "terminated") else 0


def _termination(raw: Raw) -> Termination | None:
    if not raw:
        return None
    code = raw.get("exitCode")
    return Termination(
        exit_code=code if isinstance(code, int) else None,
        reason=_text(raw, "reason"),
        message=_text(raw, "message"),
        started_at=moment(raw.get("startedAt")),
        finished_at=moment(raw.get("finishedAt")),
    )


def _disrupted(status: Raw, conditions: Mapping[str, Raw]) -> str:
    target = conditions.get("DisruptionTarget", {})
    if target.get("status") == "True":
        return _text(target, "reason") or "DisruptionTarget"
    reason = _text(status, "reason")
    return reason if reason in _DISRUPTED else ""


def _map(raw: Raw, key: str) -> Raw:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def _maps(raw: Raw, key: str) -> list[Raw]:
    value = raw.get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _text(raw: Raw, key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _number(raw: Raw, key: str, default: int) -> int:
    value = raw.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _optional_number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdigit() else None
