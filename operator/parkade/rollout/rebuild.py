"""A lost record is made anew from the status and from what runs.

What the status does not carry (whole templates, the inputs' hash) is taken from the Deployment or
a ReplicaSet with the same revision label, else rendered from the spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from parkade.api import status as api
from parkade.api.conditions import (
    ConditionStatus,
    ConditionType,
    Reason,
    find_condition,
)
from parkade.api.endpoint import Endpoint
from parkade.api.quantity import parse_bytes
from parkade.api.settings import FOUR_DIGITS, Settings, fraction
from parkade.rollout.actions import CANARY_MIN_READY_SECONDS
from parkade.rollout.lessons import fewer_again
from parkade.rollout.observed import DeploymentState, ReplicaSetState
from parkade.rollout.record import (
    Candidate,
    HistoryEntry,
    Phase,
    Quarantined,
    Record,
    RejectedSpec,
)
from parkade.rollout.render import render_revision
from parkade.rollout.revision import Revision, inputs_hash, quarantine_key, tuning_hash


def rebuild(
    endpoint: Endpoint,
    deployment: DeploymentState | None,
    replica_sets: tuple[ReplicaSetState, ...],
    now: datetime,
) -> Record:
    """Return a record from status, Deployment and ReplicaSets; a fresh one where all are empty."""
    if endpoint.spec.engine is None:
        return Record(uid=endpoint.uid)
    ours = deployment if deployment is not None and deployment.owner_uid == endpoint.uid else None
    status = api.read_status(endpoint.status)
    good = _last_good(endpoint, status, ours, replica_sets)
    history = tuple(one for one in map(_entry, status.history) if one is not None)
    record = Record(
        uid=endpoint.uid,
        last_good=good,
        last_good_since=status.last_good.since if status.last_good else None,
        history=history,
        quarantine=_quarantine(endpoint, status, good),
        settled_at=_settled_at(status, history),
    )
    if good is not None or history:
        initial = endpoint.spec.tuning.initial
        handled = (endpoint.retry,) if endpoint.retry is not None else ()
        record = replace(
            record, handled_retries=handled, initial=initial.settings if initial else None
        )
    record = replace(record, rejected_spec=_rejected_spec(endpoint, status, record))
    return replace(record, candidate=_candidate(record, ours, now))


def _last_good(
    endpoint: Endpoint,
    status: api.EndpointStatus,
    deployment: DeploymentState | None,
    replica_sets: tuple[ReplicaSetState, ...],
) -> Revision | None:
    good = status.last_good
    settings = _settings(good)
    if good is None or settings is None or good.revision is None:
        return None
    owned = [one for one in replica_sets if deployment and one.owner_uid == deployment.uid]
    holders: list[DeploymentState | ReplicaSetState] = [*owned]
    if deployment is not None:
        holders.insert(0, deployment)
    for holder in holders:
        if holder.revision == good.revision:
            return Revision(
                hash=good.revision,
                settings=settings,
                fingerprint=good.fingerprint or "",
                inputs=holder.inputs or "",
                generation=good.generation or 0,
                template=_without_controller_labels(holder.template),
            )
    rendered = render_revision(endpoint, settings)
    if good.fingerprint is not None and rendered.fingerprint != good.fingerprint:
        return None  # the spec has changed since: what was good can't be made again
    return replace(rendered, generation=good.generation or rendered.generation)


def _candidate(
    record: Record, deployment: DeploymentState | None, now: datetime
) -> Candidate | None:
    """Return what runs as a candidate, where nothing says yet what it is worth."""
    running = deployment.as_revision() if deployment is not None else None
    if deployment is None or running is None:
        return None
    good = record.last_good
    pending = next(
        (
            one
            for one in record.history
            if one.revision == running.hash and one.verdict is api.Verdict.PENDING
        ),
        None,
    )
    if good is not None and (good.hash == running.hash or pending is None):
        return None
    if record.is_quarantined(running.quarantine_key):
        return None
    canary = deployment.min_ready_seconds >= CANARY_MIN_READY_SECONDS
    return Candidate(
        replace(running, template=_without_controller_labels(running.template)),
        origin=pending.origin if pending is not None else api.Origin.USER,
        since=pending.since if pending is not None else now,
        phase=Phase.CANARY if canary else Phase.FULL,
        surge=deployment.max_surge > 0,
        scale=deployment.replicas,
    )


def _without_controller_labels(template: Mapping[str, Any]) -> dict[str, Any]:
    meta = dict(template.get("metadata") or {})
    labels = dict(meta.get("labels") or {})
    labels.pop("pod-template-hash", None)
    meta.pop("creationTimestamp", None)
    return {**template, "metadata": {**meta, "labels": labels}}


def _settings(revision: api.Revision | api.Rejected | None) -> Settings | None:
    if revision is None or not revision.max_num_seqs or revision.gpu_memory_utilization is None:
        return None
    return Settings(revision.max_num_seqs, fraction(revision.gpu_memory_utilization))


def _entry(one: api.HistoryEntry) -> HistoryEntry | None:
    settings = _settings(one)
    if settings is None or one.revision is None or one.since is None:
        return None
    return HistoryEntry(
        revision=one.revision,
        settings=settings,
        fingerprint=one.fingerprint or "",
        generation=one.generation or 0,
        origin=one.origin or api.Origin.USER,
        since=one.since,
        verdict=one.verdict,
        reason=one.reason,
        message=one.message,
        until=one.until,
        predicted_kv_tokens=one.predicted_kv_tokens,
        measured_kv_tokens=one.measured_kv_tokens,
    )


def _quarantine(
    endpoint: Endpoint, status: api.EndpointStatus, good: Revision | None
) -> tuple[Quarantined, ...]:
    """Return the quarantine with what it taught; the newest entry carries the raised headroom."""
    asked, least = endpoint.spec.tuning.headroom_bytes, endpoint.spec.tuning.max_num_seqs.min
    effective = status.memory.effective_headroom if status.memory is not None else None
    raised = parse_bytes(effective) if effective is not None else None
    found: list[Quarantined] = []
    for one in status.rejected:
        settings = _settings(one)
        if settings is None or one.time is None:
            continue
        fingerprint = _fingerprint(one, settings, status, good)
        teaches = not found and raised is not None and raised > asked
        found.append(
            Quarantined(
                key=one.hash,
                revision=one.revision or "",
                fingerprint=fingerprint,
                settings=settings,
                cause=one.cause,
                message=one.message,
                time=one.time,
                tuning=tuning_hash(endpoint.spec),
                shortfall_bytes=parse_bytes(one.shortfall) if one.shortfall else None,
                headroom_bytes=raised if teaches else None,
                max_num_seqs_below=fewer_again(settings, one.cause, one.message, least),
                utilization_at_most=_below(settings.gpu_memory_utilization) if teaches else None,
            )
        )
    return tuple(found)


def _below(failed: Decimal) -> Decimal:
    return max(failed - FOUR_DIGITS, FOUR_DIGITS)


def _fingerprint(
    one: api.Rejected, settings: Settings, status: api.EndpointStatus, good: Revision | None
) -> str:
    """Find the fingerprint under which the settings have this key; empty where none is known."""
    known = [good.fingerprint] if good is not None else []
    known += [entry.fingerprint for entry in status.history if entry.fingerprint]
    return next((each for each in known if quarantine_key(each, settings) == one.hash), "")


def _settled_at(status: api.EndpointStatus, history: tuple[HistoryEntry, ...]) -> datetime | None:
    moments = [one.until for one in history if one.until is not None]
    if status.last_good is not None and status.last_good.since is not None:
        moments.append(status.last_good.since)
    return max(moments, default=None)


def _rejected_spec(
    endpoint: Endpoint, status: api.EndpointStatus, record: Record
) -> RejectedSpec | None:
    """Return the rejection that Stalled/SpecRejected tells of."""
    condition = find_condition(status.conditions, ConditionType.STALLED)
    if condition is None or condition.status != ConditionStatus.TRUE:
        return None
    if condition.reason != Reason.SPEC_REJECTED.value:
        return None
    bad = (api.Verdict.FAILED, api.Verdict.INCONCLUSIVE)
    newest = next(
        (one for one in record.history if one.origin is api.Origin.USER and one.verdict in bad),
        None,
    )
    if newest is None or condition.observed_generation != endpoint.generation:
        return None
    return RejectedSpec(
        inputs=inputs_hash(endpoint.spec),
        tuning=tuning_hash(endpoint.spec),
        generation=newest.generation,
        key=quarantine_key(newest.fingerprint, newest.settings),
        revision=newest.revision,
        cause=newest.reason,
        message=condition.message,
        time=newest.until or newest.since,
    )
