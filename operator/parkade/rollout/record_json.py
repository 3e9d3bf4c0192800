"""Read and write the durable record as the JSON of its ConfigMap."""

from __future__ import annotations

from parkade.rollout.record import Record


def to_json(record: Record) -> str:
    """Return the record as JSON, keys sorted, bounded in size."""
    raise NotImplementedError(record)


def from_json(text: str | None, uid: str) -> Record | None:
    """Return the record; None where it is absent, not readable, or of another uid."""
    raise NotImplementedError((text, uid))
