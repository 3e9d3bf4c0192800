"""What sizing answers: settings with their arithmetic, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parkade.api import status
from parkade.api.conditions import Reason
from parkade.api.quantity import quantity
from parkade.api.settings import Settings
from parkade.api.spec import utilization_of
from parkade.api.status import FootprintBasis, LimitedBy, MemoryBasis, TriState
from parkade.sizing.workload import CannotTell


class BoundKind(StrEnum):
    """The bounds on max_num_seqs, with the keys of `status.recommendation.bounds`."""

    KV_CACHE = "kvCache"
    SPEED = "speed"
    FIRST_TOKEN = "firstToken"  # noqa: S105 - the first token of an answer
    ENGINE = "engine"
    USER = "user"


LIMITS = {
    BoundKind.KV_CACHE: LimitedBy.KV_CACHE,
    BoundKind.SPEED: LimitedBy.SPEED,
    BoundKind.ENGINE: LimitedBy.ENGINE,
    BoundKind.USER: LimitedBy.USER_LIMIT,
}
"""Upper bounds and the word for each; the first-token bound is a lower one."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound on max_num_seqs, before it is snapped. `value` None: nothing is known of it."""

    kind: BoundKind
    value: float | None
    why: str
    low: float | None = None
    """Lower end of what the data allows; None: the value is exact."""
    high: float | None = None

    def to_status(self) -> status.Bound:
        """Return the bound as in status."""
        return status.Bound(value=decimal(self.value), why=self.why)


@dataclass(frozen=True, slots=True)
class FootprintUse:
    """What one request in flight holds, in tokens of the engine's count, and how it is known."""

    tokens: float
    basis: FootprintBasis
    low: float | None = None
    high: float | None = None
    scrapes: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """Where one card's memory goes. Bytes per GPU; the parts add up to `total_bytes`."""

    total_bytes: int
    free_bytes: int
    """Free at the engine's start, uncertainty subtracted."""
    headroom_bytes: int
    utilization: str
    requested_bytes: int
    """ceil(total x fraction): the engine's budget."""
    weights_bytes: int
    peak_activation_bytes: int
    non_torch_bytes: int
    cuda_graph_bytes: int
    available_kv_bytes: int
    num_blocks: int
    bytes_per_block: int
    pool_tokens: int
    uncertainty_bytes: int
    basis: MemoryBasis

    @property
    def taken_before_bytes(self) -> int:
        """What is gone before the engine looks: driver context, other tenants."""
        return max(0, self.total_bytes - self.free_bytes)

    @property
    def left_bytes(self) -> int:
        """What the engine's budget leaves free: the real headroom."""
        return self.total_bytes - self.taken_before_bytes - self.requested_bytes

    def to_status(self) -> status.Memory:
        """Return the map as in status."""
        return status.Memory(
            total=quantity(self.total_bytes),
            free_at_start=quantity(self.free_bytes),
            effective_headroom=quantity(self.headroom_bytes),
            weights=quantity(self.weights_bytes),
            peak_activation=quantity(self.peak_activation_bytes),
            non_torch=quantity(self.non_torch_bytes),
            cuda_graphs=quantity(self.cuda_graph_bytes),
            available_kv=quantity(self.available_kv_bytes),
            pool_tokens=max(0, self.pool_tokens),
            uncertainty=quantity(self.uncertainty_bytes),
            basis=self.basis,
        )


@dataclass(frozen=True, slots=True)
class ObjectivesVerdict:
    """Do requests get what the objectives ask for? `met` None: can't tell."""

    met: bool | None
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class NotSizable:
    """No settings can be right. A person must act; the message says how."""

    reason: Reason
    message: str
    memory: MemoryMap | None = None
    headroom_bytes: int | None = None
    """The largest headroom at which one request fits; None: none does."""
    max_model_len: int | None = None
    """The longest context at which one request fits at the headroom asked for."""

    def to_status(self) -> dict[str, Any]:
        """Return the keys of status that are known."""
        if self.memory is None:
            return {}
        return {"memory": status.dump(self.memory.to_status())}


@dataclass(frozen=True, slots=True)
class Sizing:
    """Settings to run, and everything they follow from."""

    settings: Settings
    """After snapping and hysteresis: what should run."""
    target: Settings
    """Before hysteresis: what a new endpoint would get."""
    unsnapped: float
    """The smallest upper bound on max_num_seqs."""
    limited_by: LimitedBy | None
    """None: the traffic did not decide."""
    bounds: Mapping[BoundKind, Bound]
    saturated: TriState
    objectives: ObjectivesVerdict
    memory: MemoryMap
    workload: status.Workload | None
    footprint: FootprintUse | None
    observed: CannotTell | None
    """Why the traffic did not decide; None where it did."""
    held: Reason | None
    """Why the settings in force stay: Unsaturated, WithinHysteresis, OverheadBound,
    InsufficientEvidence; None where they change or are right."""
    held_message: str
    """Why they stay, or why a recommendation does; empty where they change or are right."""
    needs_replicas: int | None
    """Pods that would meet the objectives; None: these do, or it is not known."""
    overhead_bound: bool
    explanation: tuple[str, ...]
    firm: bool = True
    """False: the max_num_seqs was recommended before, and the traffic does not quite ask for a
    change now."""
    warnings: tuple[str, ...] = ()

    def to_status(self) -> dict[str, Any]:
        """Return `recommendation`, `memory` and `workload` with the keys of status."""
        recommendation = status.Recommendation(
            max_num_seqs=self.settings.max_num_seqs,
            gpu_memory_utilization=utilization_of(self.settings.gpu_memory_utilization),
            limited_by=self.limited_by,
            bounds=status.Bounds(
                **{_FIELDS[kind]: bound.to_status() for kind, bound in self.bounds.items()}
            ),
            saturated=self.saturated,
            explanation=self.explanation,
        )
        keys = {
            "recommendation": status.dump(recommendation),
            "memory": status.dump(self.memory.to_status()),
        }
        if self.workload is not None:
            keys["workload"] = status.dump(self.workload)
        return keys


_FIELDS = {
    BoundKind.KV_CACHE: "kv_cache",
    BoundKind.SPEED: "speed",
    BoundKind.FIRST_TOKEN: "first_token",
    BoundKind.ENGINE: "engine",
    BoundKind.USER: "user",
}


def decimal(value: float | None, digits: int = 2) -> str | None:
    """Return a number as a decimal string of status; None where it is not known."""
    if value is None:
        return None
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
