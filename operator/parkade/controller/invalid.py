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
    find_condition,
    read_conditions,
    set_condition,
    with_all_types,
)
from parkade.api.endpoint import InvalidEndpoint
from parkade.api.status import dump


def invalid_status(
    endpoint: InvalidEndpoint, old: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the old status with `Stalled` saying what is wrong; nothing is touched.

    An endpoint that was ready stays told as it was last seen: its pods serve on.
    """
    conditions = with_all_types(read_conditions(old), endpoint.generation, now)
    ready = find_condition(conditions, ConditionType.READY)
    findings = {
        ConditionType.RECONCILING: ConditionStatus.FALSE,
        ConditionType.STALLED: ConditionStatus.TRUE,
    }
    if ready is None or ready.status is not ConditionStatus.TRUE:
        findings[ConditionType.READY] = ConditionStatus.FALSE
    for kind, status in findings.items():
        new = condition(kind, status, Reason.INVALID_SPEC, endpoint.message, endpoint.generation)
        conditions = set_condition(conditions, new, now)
    return {
        **old,
        "observedGeneration": endpoint.generation,
        "conditions": [dump(one) for one in conditions],
    }
