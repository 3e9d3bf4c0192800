"""What a sizing decision may look at: nothing else is read, so equal inputs give equal answers."""

from __future__ import annotations

from dataclasses import dataclass

from parkade.api.settings import Settings
from parkade.api.spec import EndpointSpec, Engine
from parkade.api.status import MemoryBasis
from parkade.sizing.architecture.model import ModelArchitecture
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.workload import CannotTell, Workload


@dataclass(frozen=True, slots=True)
class Device:
    """One card as the engine will see it. Sizes in bytes; the smallest rank counts.

    `free_bytes` is what is free when the engine takes its snapshot, without what may be missing
    from it: `free_uncertainty_bytes` is subtracted before use, and is 0 where free memory is
    given or measured.
    """

    product: str
    total_bytes: int
    free_bytes: int
    free_uncertainty_bytes: int = 0
    basis: MemoryBasis = MemoryBasis.ESTIMATED
    source: str = ""
    """Where both figures come from, for the explanation."""

    @property
    def certain_free_bytes(self) -> int:
        """Free memory that can be relied on."""
        return self.free_bytes - self.free_uncertainty_bytes


@dataclass(frozen=True, slots=True)
class MeasuredMemory:
    """What an engine of exactly this fingerprint reported at its start. Bytes per GPU.

    None: the log did not say. `non_kv_bytes` is requested minus available minus the graph
    estimate; the graph estimate is what was subtracted before the pool was sized
    (0 where the engine did not subtract one).
    """

    total_bytes: int
    free_bytes: int
    utilization: float
    max_num_seqs: int
    non_kv_bytes: int
    available_kv_bytes: int
    graph_bytes_estimated: int = 0
    graph_bytes_actual: int | None = None
    weights_bytes: int | None = None
    peak_activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    num_blocks: int | None = None
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True)
class SizingInputs:
    """Everything a recommendation follows from."""

    spec: EndpointSpec
    architecture: ModelArchitecture
    weights_bytes: int | None
    """Of the whole model, before it is split over GPUs; None where it is not known."""
    device: Device
    workload: Workload | CannotTell
    measured: MeasuredMemory | None = None
    """None before the first run of this fingerprint."""
    ledger: tuple[SpeedPoint, ...] = ()
    """Points of this fingerprint alone."""
    in_force: Settings | None = None
    """What runs, or what was last good; None for a new endpoint."""
    previous_max_num_seqs: int | None = None
    """What tuning left for the one in force; None where it left none."""
    recommended_max_num_seqs: int | None = None
    """What was recommended last; None where it is in force, or nothing was."""
    effective_headroom_bytes: int | None = None
    """tuning.headroom plus what failed starts have shown to be missing; None: the former."""
    max_num_seqs_cap: int | None = None
    """Learned from failures of this fingerprint (profile, sampler, state blocks)."""
    draft_architecture: ModelArchitecture | None = None
    """Of the drafter, where the speculative method has a model of its own."""
    engine: Engine | None = None
    """How the engine runs, where spec.engine does not say (targetRef)."""

    @property
    def engine_spec(self) -> Engine:
        """The engine to size for: the spec's own, or that of the Deployment advised on."""
        return self.spec.engine or self.engine or Engine(image="unknown")

    @property
    def headroom_bytes(self) -> int:
        """The headroom in force."""
        if self.effective_headroom_bytes is None:
            return self.spec.tuning.headroom_bytes
        return max(self.effective_headroom_bytes, self.spec.tuning.headroom_bytes)
