"""The memory fraction: headroom in bytes, turned into gpu_memory_utilization.

    gpu_memory_utilization = floor_4_digits((F - H) / T)

The engine's budget is a share of the total T, but what was taken before its snapshot (T - F) is
not in that budget (`request_memory`, vllm/v1/worker/utils.py). So (T - H) / T would leave H minus
what was taken: with T = 178.35, F = 175.81 and H = 6 GiB only 3.5 GiB instead of 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from parkade.api.quantity import GIB, gib
from parkade.api.settings import FOUR_DIGITS, fraction
from parkade.api.spec import utilization_of

TOLERANCE_BYTES = GIB // 2
"""F varies a little from start to start: a shortfall of headroom below this moves nothing."""

SMALLEST = FOUR_DIGITS


@dataclass(frozen=True, slots=True)
class FractionBasis:
    """What the fraction follows from, in bytes per GPU."""

    total_bytes: int
    free_bytes: int
    headroom_bytes: int
    correction_bytes: int = 0
    """What the run takes outside the engine's budget, beyond its own account: the graphs' actual
    size minus the estimate (negative where the estimate was too high), plus lazy workspaces."""

    @property
    def budget_bytes(self) -> int:
        """What the engine may take so that the headroom stays free."""
        return self.free_bytes - self.headroom_bytes - self.correction_bytes

    @property
    def utilization(self) -> Decimal | None:
        """The fraction; None where nothing is left. Never above what the start check passes."""
        return self._floor(min(self.budget_bytes, self.free_bytes))

    def left_bytes(self, utilization: Decimal) -> int:
        """Headroom that is really left at a fraction."""
        return self.free_bytes - self.correction_bytes - self.requested_bytes(utilization)

    def requested_bytes(self, utilization: Decimal) -> int:
        """ceil(total x fraction), as the engine computes its budget."""
        return math.ceil(self.total_bytes * utilization)

    def starts(self, utilization: Decimal) -> bool:
        """Whether the engine's start check passes: free memory covers the budget."""
        return self.requested_bytes(utilization) <= self.free_bytes

    def _floor(self, budget_bytes: int) -> Decimal | None:
        if budget_bytes <= 0:
            return None
        cut = fraction(Decimal(budget_bytes) / Decimal(self.total_bytes))
        cut = min(cut, Decimal(1))
        return cut if cut >= SMALLEST else None

    def sentence(self, utilization: Decimal) -> str:
        """Return the arithmetic with its numbers."""
        less = f" - {gib(self.headroom_bytes)} headroom"
        if self.correction_bytes > 0:
            less += f" - {gib(self.correction_bytes)} taken outside the budget"
        elif self.correction_bytes < 0:
            less += f" + {gib(-self.correction_bytes)} that the graph estimate was too high"
        if self.budget_bytes > self.free_bytes:
            return (
                f"Fraction: {gib(self.free_bytes)} free / {gib(self.total_bytes)} total, cut to "
                f"four digits = {utilization}, the most that the engine's start check passes "
                f"(without it: {gib(self.free_bytes)} free{less} = {gib(self.budget_bytes)})."
            )
        return (
            f"Fraction: ({gib(self.free_bytes)} free{less}) / {gib(self.total_bytes)} total, "
            f"cut to four digits = {utilization}."
        )

    def left_sentence(self, utilization: Decimal) -> str:
        """Return the arithmetic of what a fraction leaves."""
        outside = ""
        if self.correction_bytes > 0:
            outside = f" - {gib(self.correction_bytes)} taken outside the budget"
        elif self.correction_bytes < 0:
            outside = f" + {gib(-self.correction_bytes)} that the graph estimate was too high"
        return (
            f"{gib(self.free_bytes)} free - {gib(self.total_bytes)} total × "
            f"{utilization_of(utilization)}{outside} = {gib(self.left_bytes(utilization))} left"
        )


def settle(
    basis: FractionBasis,
    target: Decimal,
    in_force: Decimal | None,
    *,
    pool_gain_percent: float,
    min_gain_percent: float,
) -> Decimal:
    """Return the fraction to run: the one in force unless there is reason to move.

    It moves where it would leave less than the headroom minus half a GiB, or where the pool gains
    `min_gain_percent`.
    """
    if in_force is None:
        return target
    short = basis.headroom_bytes - basis.left_bytes(in_force)
    if short > TOLERANCE_BYTES or not basis.starts(in_force):
        return target
    return target if target > in_force and pool_gain_percent >= min_gain_percent else in_force
