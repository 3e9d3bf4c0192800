"""Known cards: what the engine calls total memory, and what was seen to be free at its start.

Total is the driver's number (`cudaMemGetInfo`), a little less than the node label says. Free is a
range: what the driver, its context, NCCL and cuBLAS take before the engine's snapshot differs
between versions. B200: 175.81 (vLLM issue 57936) and 177.66 GiB (vLLM pull request 21489).
H100: 78.57 and 78.66; RTX PRO 6000: 93.47 and 94.41; GH200: 92.52 and 92.99 GiB (engine logs).
Where no start was seen, the range is what others lost: 0.5 to 2.6 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

from parkade.api.conditions import Reason
from parkade.api.quantity import GIB, gib, parse_bytes
from parkade.api.spec import Accelerator
from parkade.api.status import MemoryBasis
from parkade.sizing.inputs import Device
from parkade.sizing.result import NotSizable

_LEAST_TAKEN_GIB = 0.5
_MOST_TAKEN_GIB = 2.6


@dataclass(frozen=True, slots=True)
class Card:
    """One product: the beginning of its node label, and memory in GiB."""

    label: str
    total_gib: float
    free_low_gib: float | None = None
    free_high_gib: float | None = None
    blackwell: bool = False

    @property
    def free_range_gib(self) -> tuple[float, float]:
        """Least and most memory free at an engine's start."""
        low = self.free_low_gib or self.total_gib - _MOST_TAKEN_GIB
        return low, self.free_high_gib or self.total_gib - _LEAST_TAKEN_GIB


CARDS = (
    Card("NVIDIA-B200", 178.35, 175.81, 177.66, blackwell=True),
    Card("NVIDIA-GB200", 184.31, blackwell=True),
    Card("NVIDIA-B300", 267.69, blackwell=True),
    Card("NVIDIA-GB300", 276.62, blackwell=True),
    Card("NVIDIA-H200", 139.81),
    Card("NVIDIA-GH200-480GB", 95.0, 92.52, 92.99),
    Card("NVIDIA-H100-NVL", 93.02),
    Card("NVIDIA-H100-80GB-HBM3", 79.19, 78.57, 78.66),
    Card("NVIDIA-H100-PCIe", 79.19, 78.57, 78.66),
    Card("NVIDIA-H20", 95.0),
    Card("NVIDIA-A100-SXM4-80GB", 79.25),
    Card("NVIDIA-A100-80GB-PCIe", 79.25),
    Card("NVIDIA-A100-SXM4-40GB", 39.39),
    Card("NVIDIA-A100-PCIE-40GB", 39.39),
    Card("NVIDIA-RTX-PRO-6000-Blackwell", 94.97, 93.47, 94.41, blackwell=True),
    Card("NVIDIA-L40S", 44.39),
    Card("NVIDIA-L40", 44.39),
    Card("NVIDIA-L4", 22.07),
    Card("NVIDIA-A10", 22.07),
    Card("Tesla-T4", 14.56),
)
"""Totals as engines printed them. Absent products need `accelerator.memory`."""


def card_of(product: str) -> Card | None:
    """Return the card of a node label; the longest label that begins it counts.

    Slices (MIG) and shared cards are not the whole card and are not known.
    """
    if "-MIG-" in product.upper() or product.upper().endswith("-SHARED"):
        return None
    known = [
        card for card in CARDS if product == card.label or product.startswith(f"{card.label}-")
    ]
    return max(known, key=lambda card: len(card.label), default=None)


def default_max_num_seqs(product: str | None, memory: str | None = None) -> int:
    """Return what vLLM's API server takes where nobody says it (0.20 to 0.33).

    1024 from 70 GiB on, but for an A100, else 256 (arg_utils.py, get_batch_defaults). `memory` is
    what a person says of the card; one that is not known is taken for a small one.
    """
    card = card_of(product or "")
    said = parse_bytes(memory) if memory else None
    total = said or (round(card.total_gib * GIB) if card else 0)
    return 1024 if total >= 70 * GIB and "A100" not in (product or "") else 256


def is_blackwell(product: str) -> bool:
    """Whether the card is of the generation whose kernels take their own workspaces."""
    card = card_of(product)
    return card is not None and card.blackwell


def device(
    accelerator: Accelerator,
    *,
    total_bytes: int | None = None,
    free_bytes: int | None = None,
) -> Device | NotSizable:
    """Return the card to size for, or why it is not known.

    `total_bytes` and `free_bytes` are given by a person or were measured; they win over
    `accelerator.memory`, and that over the known table.
    """
    card = card_of(accelerator.product)
    said = parse_bytes(accelerator.memory) if accelerator.memory else None
    total = total_bytes or said or (round(card.total_gib * GIB) if card else None)
    if total is None:
        return NotSizable(
            Reason.UNKNOWN_ACCELERATOR,
            f"The memory of {accelerator.product} is not known: set accelerator.memory to what "
            "the engine calls total (its first lines say `Free memory on device (F/T GiB)`).",
        )
    if free_bytes is not None:
        return _given(accelerator.product, total, free_bytes)
    low, high = _free_range(card, total)
    return Device(
        product=accelerator.product,
        total_bytes=total,
        free_bytes=high,
        free_uncertainty_bytes=high - low,
        source=f"known for {card.label}" if card else "assumed from other cards",
    )


def _given(product: str, total: int, free: int) -> Device | NotSizable:
    if not 0 < free <= total:
        return NotSizable(
            Reason.UNKNOWN_ACCELERATOR,
            f"Free memory {gib(free)} is not between 0 and the total {gib(total)}.",
        )
    return Device(product, total, free, 0, source="given")


def _free_range(card: Card | None, total: int) -> tuple[int, int]:
    """Free memory of this total: the card's own losses, whichever total is said."""
    if card is None:
        least, most = _LEAST_TAKEN_GIB, _MOST_TAKEN_GIB
    else:
        low, high = card.free_range_gib
        least, most = card.total_gib - high, card.total_gib - low
    return (
        max(1, total - round(most * GIB)),
        max(1, total - round(least * GIB)),
    )


def measured_device(product: str, total_bytes: int, free_bytes: int) -> Device:
    """Return the card as an engine reported it."""
    return Device(product, total_bytes, free_bytes, 0, MemoryBasis.MEASURED, "measured")
