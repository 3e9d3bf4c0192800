"""From the inputs to settings with their arithmetic: the entry of sizing."""

from __future__ import annotations

from parkade.sizing.inputs import Device, MeasuredMemory, SizingInputs
from parkade.sizing.result import (
    Bound,
    BoundKind,
    MemoryMap,
    NotSizable,
    ObjectivesVerdict,
    Sizing,
)

__all__ = [
    "Bound",
    "BoundKind",
    "Device",
    "MeasuredMemory",
    "MemoryMap",
    "NotSizable",
    "ObjectivesVerdict",
    "Sizing",
    "SizingInputs",
    "recommend",
]


def recommend(inputs: SizingInputs) -> Sizing | NotSizable:
    """Return settings with their arithmetic, or why there are none."""
    raise NotImplementedError(inputs)
