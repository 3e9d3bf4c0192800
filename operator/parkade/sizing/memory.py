"""What an engine takes beside its KV cache, estimated before a first run.

Each formula names its source; `uncertainty_bytes` says how far the sum may be off. After a run
the engine's own figures replace all of it (`sizing/pool.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from parkade.api.quantity import MIB
from parkade.sizing.architecture.model import ModelArchitecture
from parkade.sizing.engine_args import EngineArgs

_FLASHINFER_WORKSPACE_BYTES = 394 * MIB
"""VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE, vllm/envs.py 0.33."""

_GRAPH_BYTES = 16 * MIB
"""Per captured size: 0.5 to 1.2 GiB for the 51 to 67 sizes of 8B to 70B models in engine logs."""

_SINGLE_GPU_NON_TORCH_BYTES = 100 * MIB
"""0.01 to 0.07 GiB in engine logs on one GPU."""

_MULTI_GPU_NON_TORCH_BYTES = 1300 * MIB
"""NCCL and all-reduce buffers: 0.6 to 2.4 GiB a rank in engine logs at 4 and 8 GPUs."""

_SAMPLER_COPIES = 4
"""Rows of logits alive in the sampler's dummy run, in float32: logits, a copy, sort, softmax."""


@dataclass(frozen=True, slots=True)
class NonKV:
    """What is taken inside the engine's budget beside the KV cache. Bytes per GPU."""

    weights_bytes: int
    peak_activation_bytes: int
    non_torch_bytes: int
    """Communication buffers, and the sampler's state of max_num_seqs rows."""
    cuda_graph_bytes: int
    uncertainty_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it, graphs included."""
        return (
            self.weights_bytes
            + self.peak_activation_bytes
            + self.non_torch_bytes
            + self.cuda_graph_bytes
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """How the engine runs, as far as memory goes."""

    architecture: ModelArchitecture
    args: EngineArgs
    tensor_parallel_size: int
    pipeline_parallel_size: int
    num_speculative_tokens: int
    max_num_seqs: int
    blackwell: bool
    quantized_kv: bool


def estimate(shape: Shape, weights_bytes: int) -> NonKV:
    """Return the estimate before a first run. `weights_bytes` is of the whole model.

    Weights are split evenly over tensor and pipeline ranks: embeddings are sharded too, norms are
    small. The 2 % are for what is replicated, and for what a checkpoint's index leaves out.
    """
    gpus = shape.tensor_parallel_size * shape.pipeline_parallel_size
    weights = -(-weights_bytes // gpus)
    activation = peak_activation_bytes(shape)
    graphs = cuda_graph_bytes(shape)
    single = shape.tensor_parallel_size == 1
    buffers = _SINGLE_GPU_NON_TORCH_BYTES if single else _MULTI_GPU_NON_TORCH_BYTES
    return NonKV(
        weights_bytes=weights,
        peak_activation_bytes=activation,
        non_torch_bytes=buffers + sampler_state_bytes(shape, shape.max_num_seqs),
        cuda_graph_bytes=graphs,
        uncertainty_bytes=weights // 50 + activation // 2 + graphs + buffers,
    )


def peak_activation_bytes(shape: Shape) -> int:
    """Return the peak of the profile run: the larger of one forward pass and the sampler's run.

    The forward pass of t tokens holds four rows of the hidden size and three of the feed-forward
    part (gate, up, their product) in 16 bit: 16,384 tokens of Mistral-7B give 1.81 GiB, the
    engine printed 1.97; 8,192 of Qwen3-4B give 0.61, printed 0.59. The sampler holds four rows of
    the vocabulary in 32 bit for each of max_num_seqs.
    """
    model, feed = shape.architecture, shape.architecture.feed
    routed = feed.num_experts_per_token * feed.moe_intermediate_size
    inner = max(feed.intermediate_size, routed + feed.shared_intermediate_size)
    local = -(-inner // shape.tensor_parallel_size)
    tokens = shape.args.max_num_batched_tokens
    forward = tokens * 2 * (4 * model.hidden_size + 3 * local)
    rows = min(shape.max_num_seqs, tokens)
    return max(forward, _SAMPLER_COPIES * 4 * rows * model.vocab_size)


def sampler_state_bytes(shape: Shape, max_num_seqs: int) -> int:
    """Return the penalty counters of the V2 runner: rows x (vocabulary + vocabulary/32) x 4 B.

    `vllm/v1/worker/gpu/sample/penalties.py`; the V2 runner is the rule since 0.29.
    """
    if shape.args.version < (0, 29, 0):
        return 0
    vocabulary = shape.architecture.vocab_size
    return max_num_seqs * (vocabulary + -(-vocabulary // 32)) * 4


def cuda_graph_bytes(shape: Shape) -> int:
    """Return the engine's likely graph estimate: so many MiB for each captured size."""
    return 0 if shape.args.enforce_eager else _GRAPH_BYTES * capture_sizes(shape)


def capture_sizes(shape: Shape) -> int:
    """Return how many batch sizes are captured: 1, 2, 4, 8..255 by 8, from 256 on by 16.

    Up to min(max_num_seqs x (1 + drafts) x 2, 512; 1024 on data-centre Blackwell since 0.28), and
    never above max_num_batched_tokens (`_set_cudagraph_sizes`, vllm/config/vllm.py).
    """
    cap = 1024 if shape.blackwell and shape.args.version >= (0, 28, 0) else 512
    largest = min(
        shape.args.max_cudagraph_capture_size
        or shape.max_num_seqs * (1 + shape.num_speculative_tokens) * 2,
        cap,
        shape.args.max_num_batched_tokens,
    )
    small = sum(1 for size in (1, 2, 4) if size <= largest)
    return small + max(0, min(largest, 255) // 8) + max(0, (largest - 256) // 16 + 1)


def lazy_workspace_bytes(shape: Shape) -> int:
    """Return what kernels take after the pool was sized, out of the headroom.

    FlashInfer on Blackwell: the trtllm-gen workspace, and where the KV cache is not quantised the
    prefill wrapper's max(394 MiB, tokens x heads x head size x 16 B). Other cards use
    FlashAttention, which takes none.
    """
    if not shape.blackwell:
        return 0
    if shape.quantized_kv:
        return _FLASHINFER_WORKSPACE_BYTES
    heads = -(-shape.architecture.num_attention_heads // shape.tensor_parallel_size)
    wrapper = shape.args.max_num_batched_tokens * heads * shape.architecture.head_size * 16
    return _FLASHINFER_WORKSPACE_BYTES + max(_FLASHINFER_WORKSPACE_BYTES, wrapper)
