"""The status of a resource whose spec can't be read: an older CRD let it in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from parkade.api.conditions import (
    ConditionStatus,
    ConditionType,
    Reason,
    condition,
    read_conditions,
    set_condition,
    with_all_types,
)
from parkade.api.endpoint import InvalidEndpoint
from parkade.api.status import dump


def invalid_status(
    endpoint: InvalidEndpoint, old: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the old status with `Stalled` and `Ready` saying what is wrong; nothing is touched."""
    conditions = with_all_types(read_conditions(old), endpoint.generation, now)
    for kind, status in {
        ConditionType.READY: ConditionStatus.FALSE,
        ConditionType.RECONCILING: ConditionStatus.FALSE,
        ConditionType.STALLED: ConditionStatus.TRUE,
    }.items():
        new = condition(kind, status, Reason.INVALID_SPEC, endpoint.message, endpoint.generation)
        conditions = set_condition(conditions, new, now)
    return {
        **old,
        "observedGeneration": endpoint.generation,
        "conditions": [dump(one) for one in conditions],
    }
