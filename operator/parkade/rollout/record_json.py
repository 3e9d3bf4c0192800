"""Read and write the durable record as the JSON of its ConfigMap.

Reading is tolerant: fields of a newer version are kept untouched, fields of an older one take
their defaults, and an item that can't be read is left out rather than the whole record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from parkade.rollout.record import Record

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


def from_json(text: str | None, uid: str) -> Record | None:
    """Return the record; None where it is absent, of another uid, or has lost its last good one."""
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
    return Record(**{**values, "uid": uid, "extra": extra})


def _dump(record: Record) -> str:
    raw = _whole().dump_python(record, mode="json")
    extra = raw.pop("extra") or {}
    return json.dumps({**extra, **raw, "format": FORMAT}, sort_keys=True, separators=(",", ":"))


def _read(name: str, raw: Mapping[str, Any]) -> Any:
    """Return a field's value; None where it is absent or can't be read."""
    if raw.get(name) is None:
        return None
    adapter = _adapters()[name]
    value = raw[name]
    try:
        return adapter.validate_python(value)
    except ValidationError:
        return _readable_items(name, value) if name in _LISTS else None


def _readable_items(name: str, value: Any) -> Any:
    adapter = _adapters()[name]
    kept: list[Any] = []
    for item in value if isinstance(value, list) else ():
        try:
            kept.extend(adapter.validate_python([item]))
        except ValidationError:
            continue
    return tuple(kept)


@cache
def _whole() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


@cache
def _adapters() -> Mapping[str, TypeAdapter[Any]]:
    hints = get_type_hints(Record)
    return {one.name: TypeAdapter(hints[one.name]) for one in fields(Record)}
