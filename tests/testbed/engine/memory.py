"""Where a card's memory goes at start: what vLLM counts in its budget, and what it does not.

The order is that of ``v1/worker/gpu_worker.py`` (0.32): a snapshot of free memory, the weights, a
profiled peak, an estimate of the CUDA graphs, the KV cache with all that is left of the budget,
and then the real graphs and workspaces, which must fit into what the budget left on the device.
Sizes of activations and graphs are plausible, not measured; all are per rank and in bytes.
"""

import math
from dataclasses import dataclass

from testbed.engine.arguments import EngineArguments
from testbed.engine.models import Model

MIB = 1 << 20
GIB = 1 << 30
# Non-torch memory of one process: context growth, cuBLAS, and NCCL where there are several ranks.
_NON_TORCH = 640 * MIB
_NON_TORCH_COLLECTIVES = 512 * MIB
# The attention workspace that the engine takes at its first real forward, outside its budget
# (``VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE``).
_LAZY_WORKSPACE = 394 * MIB
_GRAPH_BASE = 120 * MIB
_GRAPH_EACH = 6 * MIB
_GRAPH_CAP = 1024


@dataclass(frozen=True, slots=True)
class Budget:
    """The parts, in bytes."""

    total: int
    free_at_start: int
    requested: int
    weights: int  # with the drafter and the sampler's state
    non_torch: int
    peak_activation: int
    graphs_estimated: int
    graphs_actual: int
    outside: int  # taken after the KV cache, not counted in the budget

    @property
    def consumed(self) -> int:
        """What stays taken before the KV cache: `consumed memory` of the hint line."""
        return self.weights + self.non_torch

    @property
    def available_kv(self) -> int:
        """What is left of the budget for the KV cache; can be negative."""
        return self.requested - self.consumed - self.peak_activation - self.graphs_estimated

    def free_after(self, kv_bytes: int) -> int:
        """Free device memory once cache, graphs and activations are placed; not below zero."""
        used = self.consumed + kv_bytes + self.graphs_actual + self.peak_activation
        return max(self.free_at_start - used, 0)


def capture_sizes(max_num_seqs: int, proposals: int, max_num_batched_tokens: int) -> int:
    """How many batch sizes are captured: 1, 2, 4, then steps of 8 to 256 and of 16 above."""
    largest = min(max_num_seqs * (1 + proposals) * 2, _GRAPH_CAP, max_num_batched_tokens)
    small = sum(1 for size in (1, 2, 4) if size <= largest)
    eights = len(range(8, min(largest, 255) + 1, 8))
    return small + eights + len(range(256, largest + 1, 16))


def budget(
    model: Model,
    arguments: EngineArguments,
    total_bytes: int,
    free_bytes: int,
    extra_outside_bytes: int = 0,
) -> Budget:
    """Divide one card of this size among the parts."""
    ranks = arguments.cache.tensor_parallel_size * arguments.cache.pipeline_parallel_size
    graphs = _GRAPH_BASE + _GRAPH_EACH * capture_sizes(
        arguments.max_num_seqs,
        arguments.cache.num_speculative_tokens,
        arguments.max_num_batched_tokens,
    )
    return Budget(
        total=total_bytes,
        free_at_start=free_bytes,
        requested=math.ceil(total_bytes * arguments.gpu_memory_utilization),
        weights=_weights(model, arguments) // ranks + _sampler_state(model, arguments),
        non_torch=_NON_TORCH + (_NON_TORCH_COLLECTIVES if ranks > 1 else 0),
        peak_activation=_peak_activation(model, arguments),
        graphs_estimated=graphs * 23 // 20,
        graphs_actual=graphs,
        outside=_LAZY_WORKSPACE + extra_outside_bytes,
    )


def _weights(model: Model, arguments: EngineArguments) -> int:
    """The drafter's layers are part of the checkpoint, and loaded only where they are used."""
    if not model.hybrid or arguments.cache.spec_method == "mtp":
        return model.weights_bytes
    attention = model.hidden_size * model.head_dim * (2 * model.query_heads + 2 * model.kv_heads)
    drafter = (
        2 * model.drafter_layers * (attention + 3 * model.hidden_size * model.intermediate_size)
    )
    return max(model.weights_bytes - drafter, model.weights_bytes // 2)


def _sampler_state(model: Model, arguments: EngineArguments) -> int:
    """Penalty counts of the V2 runner: one 4-byte cell for each sequence and word."""
    return arguments.max_num_seqs * model.vocab_size * 4


def _peak_activation(model: Model, arguments: EngineArguments) -> int:
    """One forward of `max_num_batched_tokens`, and the logits of the greatest batch."""
    width = 4 * model.hidden_size
    width += 2 * model.intermediate_size // arguments.cache.tensor_parallel_size
    rows = min(arguments.max_num_seqs, arguments.max_num_batched_tokens)
    return arguments.max_num_batched_tokens * width * 2 + rows * model.vocab_size * 10
