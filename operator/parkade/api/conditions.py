"""Conditions of an InferenceEndpoint, and how one is set. `reasons.py` has all the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)

from parkade.api.base import ApiModel, clipped
from parkade.api.reasons import (
    CONDITION_ORDER,
    REASONS,
    ConditionStatus,
    ConditionType,
    Reason,
)

__all__ = [
    "CONDITION_ORDER",
    "MAX_MESSAGE_LENGTH",
    "REASONS",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "Reason",
    "Timestamp",
    "condition",
    "find_condition",
    "read_conditions",
    "set_condition",
    "utc_seconds",
    "with_all_types",
]

MAX_GENERATION = 9_007_199_254_740_991
MAX_MESSAGE_LENGTH = 1024
"""Of a condition: enough for an engine's own error and what to do about it."""


def utc_seconds(moment: datetime) -> str:
    """Return a time as Kubernetes writes it: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Timestamp = Annotated[
    AwareDatetime, PlainSerializer(utc_seconds), Field(json_schema_extra={"format": "date-time"})
]
"""A time on the wire; reading accepts what the API server writes."""


class Condition(ApiModel):
    """One condition, as in metav1.Condition."""

    type: Annotated[
        ConditionType,
        WithJsonSchema(
            {"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9./-]*$", "maxLength": 316}
        ),
    ]
    """What it is about. Others may add conditions of their own."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[
        str,
        StringConstraints(
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", min_length=1, max_length=64
        ),
    ]
    """One word; the reference lists them."""
    message: Annotated[
        str,
        StringConstraints(max_length=MAX_MESSAGE_LENGTH),
        BeforeValidator(clipped(MAX_MESSAGE_LENGTH)),
    ] = ""
    """The same for people, with the numbers."""
    observed_generation: Annotated[int, Field(ge=0, le=MAX_GENERATION)] = 0
    """Generation of the spec that it was judged on."""
    last_transition_time: Timestamp | None = None
    """When the status last changed."""


def condition(
    kind: ConditionType,
    status: ConditionStatus,
    reason: Reason,
    message: str,
    generation: int,
) -> Condition:
    """Return a condition with a documented reason; `set_condition` gives it its time."""
    return Condition(
        type=kind,
        status=status,
        reason=reason.value,
        message=message,
        observed_generation=generation,
    )


def set_condition(
    conditions: Iterable[Condition], new: Condition, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions with `new` in place, in `CONDITION_ORDER`.

    The transition time moves only when the status changes; it is cut to whole seconds, so that
    a condition read back from the API server equals the one that was written.
    """
    by_type = {old.type: old for old in conditions}
    old = by_type.get(new.type)
    unchanged = old is not None and old.status == new.status and old.last_transition_time
    since = unchanged or now.astimezone(UTC).replace(microsecond=0)
    by_type[new.type] = new.model_copy(update={"last_transition_time": since})
    return tuple(by_type[kind] for kind in CONDITION_ORDER if kind in by_type)


def with_all_types(
    conditions: Iterable[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions with every missing type as Unknown/Initializing."""
    known = tuple(conditions)
    for kind in CONDITION_ORDER:
        if all(one.type != kind for one in known):
            unknown = condition(
                kind,
                ConditionStatus.UNKNOWN,
                Reason.INITIALIZING,
                "Not looked at yet.",
                generation,
            )
            known = set_condition(known, unknown, now)
    return known


def read_conditions(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Return our conditions from a raw status; foreign and unreadable ones are left out."""
    raw = status.get("conditions")
    found: dict[ConditionType, Condition] = {}
    for one in raw if isinstance(raw, list) else ():
        try:
            parsed = Condition.model_validate(one)
        except ValidationError:
            continue
        found[parsed.type] = parsed
    return tuple(found[kind] for kind in CONDITION_ORDER if kind in found)


def find_condition(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((one for one in conditions if one.type == kind), None)
