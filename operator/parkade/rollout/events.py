"""Events of transitions: what a person sees with `kubectl get events`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parkade.rollout.actions import Plan


@dataclass(frozen=True, slots=True)
class EventNote:
    """An event to write. `warning` False is type Normal."""

    reason: str
    message: str
    warning: bool = False


def events(
    plan: Plan, old_status: Mapping[str, Any], new_status: Mapping[str, Any]
) -> tuple[EventNote, ...]:
    """Return the events of this pass: the action, and conditions that changed."""
    raise NotImplementedError((plan, old_status, new_status))
