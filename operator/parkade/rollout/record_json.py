"""Read and write the durable record as the JSON of its ConfigMap.

Reading is tolerant: fields of a newer version are kept untouched, fields of an older one take
their defaults, and an item that can't be read is left out rather than the whole record. What a
newer version wrote inside a field that this one knows is gone with the next write. A candidate
that can't be read is concluded without blame, so that its cooldown and its history hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from functools import cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from parkade.api.status import Verdict
from parkade.rollout.record import Candidate, Record, SeenTermination

FORMAT = 1
MAX_BYTES = 900_000
"""A ConfigMap may have 1 MiB in all."""

_LISTS = ("quarantine", "history", "handled_retries", "ledger")
_KEPT_APART = ("extra",)


def to_json(record: Record) -> str:
    """Return the record as JSON with sorted keys; of one too large, the oldest points go."""
    text = _dump(record)
    while len(text.encode()) > MAX_BYTES and record.ledger:
        record = replace(record, ledger=record.ledger[(len(record.ledger) + 1) // 2 :])
        text = _dump(record)
    return text


def from_json(text: str | None, uid: str, now: datetime | None = None) -> Record | None:
    """Return the record; None where it is absent, of another uid, or has lost its last good one.

    `now` is when a candidate that can't be read ends; without it, that counts as its start.
    """
    if not text:
        return None
    try:
        raw = json.loads(text)
    except ValueError:
        return None
    if not isinstance(raw, dict) or not uid or raw.get("uid") != uid:
        return None
    known = {one.name for one in fields(Record)} - {*_KEPT_APART}
    values = {name: value for name in known if (value := _read(name, raw)) is not None}
    if raw.get("last_good") is not None and "last_good" not in values:
        return None
    extra = {key: value for key, value in raw.items() if key not in known | {"format"}}
    record = Record(**{**values, "uid": uid, "extra": extra})
    if raw.get("candidate") is None or record.candidate is not None:
        return record
    return _without_candidate(record, raw["candidate"], now)


def _without_candidate(record: Record, candidate: Any, now: datetime | None) -> Record:
    """Conclude a candidate that can't be read: only one is in flight, so what is Pending is it."""
    pending = [one for one in record.history if one.verdict is Verdict.PENDING]
    until = now or max((one.since for one in pending), default=record.settled_at)
    history = tuple(
        replace(
            one,
            verdict=Verdict.INCONCLUSIVE,
            reason="Unreadable",
            message="Another version of Parkade started it, which this one can't read.",
            until=until,
        )
        if one in pending
        else one
        for one in record.history
    )
    surge = candidate.get("surge") if isinstance(candidate, dict) else None
    kept = surge if isinstance(surge, bool) else record.surge
    return replace(record, history=history, settled_at=until, surge=kept)


def _dump(record: Record) -> str:
    raw = _whole().dump_python(record, mode="json")
    extra = raw.pop("extra") or {}
    return json.dumps({**extra, **raw, "format": FORMAT}, sort_keys=True, separators=(",", ":"))


def _read(name: str, raw: Mapping[str, Any]) -> Any:
    """Return a field's value; None where it is absent or can't be read."""
    if raw.get(name) is None:
        return None
    value = raw[name]
    try:
        return _adapters()[name].validate_python(value)
    except ValidationError:
        if name in _LISTS:
            return _readable_items(_adapters()[name], value)
        return _without_unreadable_ends(value) if name == "candidate" else None


def _without_unreadable_ends(candidate: Any) -> Candidate | None:
    """Return a candidate without the ends that a newer version named; they are looked at again."""
    ends = candidate.get("terminations") if isinstance(candidate, dict) else None
    if not isinstance(ends, list):
        return None
    kept = _readable_items(_ends(), ends)
    try:
        found: Candidate | None = _adapters()["candidate"].validate_python(
            {**candidate, "terminations": kept}
        )
    except ValidationError:
        return None
    return found


def _readable_items(adapter: TypeAdapter[Any], value: Any) -> Any:
    kept: list[Any] = []
    for item in value if isinstance(value, list) else ():
        try:
            kept.extend(adapter.validate_python([item]))
        except ValidationError:
            continue
    return tuple(kept)


@cache
def _ends() -> TypeAdapter[tuple[SeenTermination, ...]]:
    return TypeAdapter(tuple[SeenTermination, ...])


@cache
def _whole() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


@cache
def _adapters() -> Mapping[str, TypeAdapter[Any]]:
    hints = get_type_hints(Record)
    return {one.name: TypeAdapter(hints[one.name]) for one in fields(Record)}
