"""From a plan and what runs to the status of the resource. Steady endpoints get the same status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from parkade.rollout.actions import Finding, Plan, PlanInputs


def build_status(
    inputs: PlanInputs,
    plan: Plan,
    sizing: Mapping[str, Any],
    workload_observed: Finding,
    objectives_met: Finding,
    now: datetime,
) -> dict[str, Any]:
    """Return the whole status as a raw dict for server-side apply.

    `sizing` has the keys `recommendation`, `memory`, `workload` as sizing's `to_status` gives
    them (each optional).
    """
    raise NotImplementedError((inputs, plan, sizing, workload_observed, objectives_met, now))
