"""The ledger of measured points: from pods' traffic into sizing, and now and then into the record.

Each pass merges the newest windows into what the record holds; the record itself is written only
where that may change a decision, so a steady endpoint causes no writes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from parkade.adapters.pod_speed import Ran, speed_points
from parkade.adapters.traffic import Traffic
from parkade.controller.observe import Observation
from parkade.controller.turns import is_tuning
from parkade.rollout.actions import Action, Plan
from parkade.rollout.record import Record
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.points import Points, matters, merge_points
from parkade.sizing.workload import CannotTell, Workload

FLUSH_AFTER = timedelta(hours=1)
"""How long after a write of the ledger the next one may come that no decision asks for."""


def merged(
    seen: Observation, traffic: Traffic | CannotTell, workload: Workload | CannotTell, current: str
) -> Points:
    """Return the record's ledger with the newest windows, of all fingerprints.

    An answer that may not decide adds nothing; `current` is the only fingerprint that does.
    """
    window = seen.endpoint.spec.workload.window_seconds
    new: Points = ()
    if isinstance(traffic, Traffic) and isinstance(workload, Workload):
        new = speed_points(traffic, seen.key, lambda pod: _ran(seen, pod, current))
    return merge_points(recorded(seen.record), new, seen.now, window)


def recorded(record: Record) -> Points:
    """Return the points that the record holds."""
    found = (SpeedPoint.from_dict(raw) for raw in record.ledger)
    return tuple(one for one in found if one is not None)


def flushed(seen: Observation, decided: Plan, ledger: Points | None) -> Plan:
    """Return the plan with the ledger in its record, where it is worth a write.

    With a decision that changes settings and with a promotion, what led to it is kept; otherwise
    at most hourly, and only what matters to a decision. Where no child may be written
    (suspended, being deleted, advice alone) nothing is.
    """
    if ledger is None or decided.target is None:
        return decided
    old = recorded(seen.record)
    if not (_decides(decided) and ledger != old) and not _is_due(old, ledger, seen.now):
        return decided
    raw = tuple(one.to_dict() for one in ledger)
    return replace(decided, record=replace(decided.record, ledger=raw))


def _decides(decided: Plan) -> bool:
    if decided.action is Action.PROMOTE:
        return True
    return decided.action is Action.DEPLOY and is_tuning(decided.record)


def _is_due(old: Points, new: Points, now: datetime) -> bool:
    moments = [time for one in old if (time := _moment(one.measured_at)) is not None]
    last = max(moments, default=None)
    return (last is None or now - last >= FLUSH_AFTER) and matters(old, new, now)


def _moment(text: str) -> datetime | None:
    """Read a time of the record, which anybody can edit; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _ran(seen: Observation, pod: str, current: str) -> Ran | None:
    if seen.fingerprint_of_pod(pod) != current:
        return None
    settings = seen.settings_of_pod(pod)
    return Ran(current, settings.max_num_seqs if settings is not None else None)
