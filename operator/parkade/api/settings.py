"""The two knobs that Parkade turns, as one value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, InvalidOperation

FOUR_DIGITS = Decimal("0.0001")
"""The resolution of the fraction: 1e-4 is 18 MiB on a B200, finer than starts differ."""


def fraction(value: str | float | Decimal) -> Decimal:
    """Return a memory fraction cut down to four digits, as the engine takes it."""
    return Decimal(str(value)).quantize(FOUR_DIGITS, rounding=ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class Settings:
    """`--max-num-seqs` and `--gpu-memory-utilization` of one engine."""

    max_num_seqs: int
    gpu_memory_utilization: Decimal

    def asks_for_less_than(self, other: Settings) -> bool:
        """Tell whether one knob is lower, and none is higher."""
        fraction, others = self.gpu_memory_utilization, other.gpu_memory_utilization
        return self != other and self.max_num_seqs <= other.max_num_seqs and fraction <= others

    def to_json(self) -> str:
        """Return the settings as the JSON that stands in a template's annotation."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    def to_dict(self) -> dict[str, int | str]:
        """Return the settings with the keys of `status`; the fraction is a decimal string."""
        return {
            "maxNumSeqs": self.max_num_seqs,
            "gpuMemoryUtilization": f"{self.gpu_memory_utilization.normalize():f}",
        }

    @classmethod
    def from_dict(cls, raw: object) -> Settings | None:
        """Read settings back; None where the value is not what `to_dict` writes."""
        if not isinstance(raw, Mapping):
            return None
        try:
            seqs = int(raw["maxNumSeqs"])
            utilization = Decimal(str(raw["gpuMemoryUtilization"]))
        except (KeyError, TypeError, ValueError, InvalidOperation):
            return None
        if seqs < 1 or not utilization.is_finite() or not 0 < utilization <= 1:
            return None
        return cls(seqs, utilization)

    @classmethod
    def from_json(cls, text: str | None) -> Settings | None:
        """Read settings from a template's annotation; None where absent or not ours."""
        if not text:
            return None
        try:
            return cls.from_dict(json.loads(text))
        except ValueError:
            return None
