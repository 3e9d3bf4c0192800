"""The card's memory and the pool of KV blocks that a fraction and a max_num_seqs leave."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from parkade.api.conditions import Reason
from parkade.api.quantity import MIB, gib, quantity
from parkade.api.spec import utilization_of
from parkade.api.status import MemoryBasis
from parkade.sizing.cards import is_blackwell, measured_device
from parkade.sizing.engine_args import EngineArgs, engine_args, hint_problem
from parkade.sizing.fraction import FractionBasis
from parkade.sizing.inputs import Device, MeasuredMemory, SizingInputs
from parkade.sizing.memory import (
    NonKV,
    Shape,
    estimate,
    lazy_workspace_bytes,
    sampler_state_bytes,
)
from parkade.sizing.planner import EngineOptions, KVCapacity, KVLayout, NotPlannable, plan_kv
from parkade.sizing.result import MemoryMap, NotSizable
from parkade.sizing.wording import count, number

_WIDE_FORMATS = frozenset({"float32", "float", "float16", "half", "bfloat16"})


@dataclass(frozen=True, slots=True)
class Setup:
    """What stays the same whatever the two knobs are."""

    inputs: SizingInputs
    args: EngineArgs
    layout: KVLayout
    device: Device

    @property
    def measured(self) -> MeasuredMemory | None:
        """What the engine reported of exactly this configuration."""
        return self.inputs.measured

    def shape(self, max_num_seqs: int) -> Shape:
        """Return how the engine runs at a max_num_seqs."""
        engine = self.inputs.engine_spec
        drafts = engine.speculative_config
        return Shape(
            architecture=self.inputs.architecture,
            args=self.args,
            tensor_parallel_size=engine.tensor_parallel_size,
            pipeline_parallel_size=engine.pipeline_parallel_size,
            num_speculative_tokens=drafts.num_speculative_tokens if drafts else 0,
            max_num_seqs=max_num_seqs,
            blackwell=is_blackwell(self.device.product),
            quantized_kv=self.layout.kv_cache_dtype not in _WIDE_FORMATS,
        )

    def non_kv(self, max_num_seqs: int) -> NonKV:
        """Return what is taken beside the cache: measured where it was, else estimated."""
        shape = self.shape(max_num_seqs)
        if self.measured is None:
            return estimate(shape, self.inputs.weights_bytes or 0)
        return _measured_non_kv(self.measured, shape)

    def fraction_basis(self) -> FractionBasis:
        """Return what the memory fraction follows from."""
        return FractionBasis(
            total_bytes=self.device.total_bytes,
            free_bytes=self.device.certain_free_bytes,
            headroom_bytes=self.inputs.headroom_bytes,
            correction_bytes=self._correction_bytes(),
        )

    def _correction_bytes(self) -> int:
        """Return what a run showed to be taken outside the budget; nothing before a run."""
        measured = self.measured
        if measured is None:
            return 0
        graphs = 0
        if measured.graph_bytes_actual is not None:
            graphs = measured.graph_bytes_actual - measured.graph_bytes_estimated
        return graphs + lazy_workspace_bytes(self.shape(measured.max_num_seqs))


def _measured_non_kv(measured: MeasuredMemory, shape: Shape) -> NonKV:
    """Return the engine's own figures, the sampler's state moved to another max_num_seqs."""
    moved = sampler_state_bytes(shape, shape.max_num_seqs) - sampler_state_bytes(
        shape, measured.max_num_seqs
    )
    total = max(0, measured.non_kv_bytes + moved)
    weights = min(total, measured.weights_bytes or 0)
    activation = min(total - weights, measured.peak_activation_bytes or 0)
    return NonKV(
        weights_bytes=weights,
        peak_activation_bytes=activation,
        non_torch_bytes=total - weights - activation,
        cuda_graph_bytes=max(0, measured.graph_bytes_estimated),
        uncertainty_bytes=0,
    )


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool at one pair of settings."""

    memory: MemoryMap
    capacity: KVCapacity

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can hold."""
        return self.capacity.usable_blocks


def setup(inputs: SizingInputs) -> Setup | NotSizable:
    """Return what sizing starts from, or why these inputs cannot be sized."""
    engine = inputs.engine_spec
    hint = hint_problem(engine)
    if hint is not None:
        return NotSizable(Reason.INVALID_SPEC, hint)
    device = _device(inputs)
    args = engine_args(engine, device)
    if isinstance(args, str):
        return NotSizable(Reason.BAD_ARGUMENTS, args)
    if inputs.measured is None and not inputs.weights_bytes:
        return NotSizable(
            Reason.MODEL_UNAVAILABLE,
            "The size of the weights is not known: set model.weightsSize to that of the "
            "checkpoint's files (metadata.total_size in model.safetensors.index.json, where it "
            "has several).",
        )
    layout = plan_kv(inputs.architecture, _options(inputs, args))
    if isinstance(layout, NotPlannable):
        return NotSizable(Reason.INVALID_SPEC, f"{layout.name}: {layout.reason}.")
    return Setup(inputs, args, layout, device)


def _device(inputs: SizingInputs) -> Device:
    measured = inputs.measured
    if measured is None:
        return inputs.device
    return measured_device(inputs.device.product, measured.total_bytes, measured.free_bytes)


def _options(inputs: SizingInputs, args: EngineArgs) -> EngineOptions:
    engine = inputs.engine_spec
    drafts = engine.speculative_config
    return EngineOptions(
        max_model_len=inputs.spec.model.max_model_len,
        kv_cache_dtype=engine.kv_cache_dtype,
        tensor_parallel_size=engine.tensor_parallel_size,
        pipeline_parallel_size=engine.pipeline_parallel_size,
        max_num_batched_tokens=args.max_num_batched_tokens,
        block_size=args.block_size,
        enable_prefix_caching=args.enable_prefix_caching,
        mamba_cache_dtype=args.mamba_cache_dtype,
        mamba_ssm_cache_dtype=args.mamba_ssm_cache_dtype,
        disable_hybrid_kv_cache_manager=args.disable_hybrid_kv_cache_manager,
        async_scheduling=args.async_scheduling,
        spec_method=drafts.method if drafts else None,
        num_speculative_tokens=drafts.num_speculative_tokens if drafts else 0,
        draft_architecture=inputs.draft_architecture,
        vllm_version=args.version_text,
    )


def pool_at(at: Setup, utilization: Decimal, max_num_seqs: int) -> Pool:
    """Return the map of the card and the pool at a pair of settings.

    available = ceil(T x U) - non-KV - graphs, as `determine_available_memory` does
    (vllm/v1/worker/gpu_worker.py 0.33).
    """
    basis = at.fraction_basis()
    taken = at.non_kv(max_num_seqs)
    requested = basis.requested_bytes(utilization)
    available = requested - taken.total_bytes
    capacity = at.layout.capacity(available)
    memory = MemoryMap(
        total_bytes=at.device.total_bytes,
        free_bytes=at.device.certain_free_bytes,
        headroom_bytes=at.inputs.headroom_bytes,
        utilization=utilization_of(utilization),
        requested_bytes=requested,
        weights_bytes=taken.weights_bytes,
        peak_activation_bytes=taken.peak_activation_bytes,
        non_torch_bytes=taken.non_torch_bytes,
        cuda_graph_bytes=taken.cuda_graph_bytes,
        available_kv_bytes=available,
        num_blocks=capacity.num_blocks,
        bytes_per_block=capacity.bytes_per_block,
        pool_tokens=capacity.kv_tokens,
        uncertainty_bytes=taken.uncertainty_bytes + at.device.free_uncertainty_bytes,
        basis=at.device.basis if at.measured else MemoryBasis.ESTIMATED,
    )
    return Pool(memory, capacity)


NO_CURE = "a larger card, more GPUs, or a smaller model"


def spare_bytes(pool: Pool) -> int:
    """Return what the pool has beyond one request of max_model_len; negative where it lacks.

    A last digit of the fraction is kept, since fractions are cut to four.
    """
    digit = -(-pool.memory.total_bytes // 10_000)
    return pool.memory.available_kv_bytes - _needed_bytes(pool) - digit


def _needed_bytes(pool: Pool) -> int:
    layout = pool.capacity.layout
    blocks = layout.blocks(layout.max_model_len) + layout.reserved_blocks
    return blocks * layout.bytes_per_block


def misfit(pool: Pool, headroom_bytes: int | None = None) -> NotSizable | None:
    """Return why one request of max_model_len does not fit, with what would; None where it does.

    `headroom_bytes` is what the pool's fraction leaves; None: the headroom in force.
    """
    if pool.capacity.fits_one_request:
        return None
    layout, memory = pool.capacity.layout, pool.memory
    needed = _needed_bytes(pool)
    short = needed - memory.available_kv_bytes
    in_force = memory.headroom_bytes if headroom_bytes is None else headroom_bytes
    headroom = (in_force + spare_bytes(pool)) // MIB * MIB
    headroom_would = headroom if headroom >= 0 else None
    length = pool.capacity.estimated_max_model_len or 0
    cures = []
    if headroom_would is not None:
        cures.append(f"tuning.headroom of at most {quantity(headroom_would)}")
    if length > 0:
        cures.append(f"model.maxModelLen of at most {count(length)}")
    cure = " or ".join(cures) or NO_CURE
    available = memory.available_kv_bytes
    left = (
        f"{gib(available)} are left"
        if available >= 0
        else f"none is left (the rest takes {gib(-available)} too much)"
    )
    return NotSizable(
        Reason.DOES_NOT_FIT,
        f"One request of {count(layout.max_model_len)} tokens needs {gib(needed)} of KV cache and "
        f"{left}, {gib(short)} short: {cure} would fit.",
        memory=memory,
        headroom_bytes=headroom_would,
        max_model_len=length or None,
    )


def pool_sentences(pool: Pool) -> tuple[str, ...]:
    """Return the arithmetic from the card to the pool, one sentence a step."""
    memory, capacity = pool.memory, pool.capacity
    layout = capacity.layout
    graphs = f" - {gib(memory.cuda_graph_bytes)} CUDA graphs" if memory.cuda_graph_bytes else ""
    longest = layout.blocks(layout.max_model_len)
    return (
        (
            f"Budget: {gib(memory.total_bytes)} total × {memory.utilization} = "
            f"{gib(memory.requested_bytes)}."
        ),
        (
            f"KV cache: {gib(memory.requested_bytes)} budget - {gib(memory.weights_bytes)} weights "
            f"- {gib(memory.peak_activation_bytes)} activations - "
            f"{gib(memory.non_torch_bytes)} buffers{graphs} = "
            f"{gib(memory.available_kv_bytes)} ({memory.basis.value.lower()})."
        ),
        (
            f"Blocks: {count(memory.available_kv_bytes)} bytes / {count(memory.bytes_per_block)} "
            f"bytes per block, cut to whole = {count(memory.num_blocks)} blocks "
            f"({_group_words(layout)})."
        ),
        (
            f"Longest requests: {count(memory.num_blocks)} blocks / {count(longest)} blocks = "
            f"{number(memory.num_blocks / longest, 2)} at a time of {count(layout.max_model_len)} "
            "tokens."
        ),
        (
            f"Pool: {count(memory.num_blocks)} blocks / {count(longest)} blocks × "
            f"{count(layout.max_model_len)} tokens, cut to whole = {count(memory.pool_tokens)} "
            "tokens as the engine counts them."
        ),
    )


def _group_words(layout: KVLayout) -> str:
    kinds = "group" if layout.num_groups == 1 else "groups"
    return f"{layout.num_groups} {kinds} of up to {layout.group_size} layers"
