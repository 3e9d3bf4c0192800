"""One pass decides one action: a chain of small policies, the first that applies wins."""

from __future__ import annotations

from parkade.rollout.actions import Plan, PlanInputs


def plan(inputs: PlanInputs) -> Plan:
    """Return the one action of this pass, with its reason, the record and what to apply."""
    raise NotImplementedError(inputs.endpoint.name)
