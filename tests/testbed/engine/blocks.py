"""The block pool of the KV cache: page sizes, groups, and how many blocks a request takes.

Rules of vLLM 0.32 (``v1/core/kv_cache_utils.py``, ``platforms/interface.py``) for the families in
``models``. Deliberately written apart from the product's own planner.
"""

from collections.abc import Callable
from dataclasses import dataclass

from testbed.engine.models import DeltaNet, Model

# Bytes of one value; nvfp4 is half a byte and one fp8 scale for every sixteen values.
_VALUE_BYTES = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "nvfp4": 0.5625,
}
KV_CACHE_DTYPES = ("auto", *_VALUE_BYTES)


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The flags that shape the cache."""

    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    enable_prefix_caching: bool = True
    spec_method: str | None = None
    num_speculative_tokens: int = 0
    alignment: int = 16
    min_block_size: int = 16


@dataclass(frozen=True, slots=True)
class Layout:
    """How the pool is cut: blocks of one size for every group, and each group's share."""

    block_size: int
    full_groups: int
    state_groups: int
    group_size: int
    page_bytes: int
    bytes_per_block: int
    state_blocks: int  # constant blocks that a request holds, whatever its length
    state_bytes: int  # of one layer's state before padding; 0 where there is none

    def blocks(self, length: int) -> int:
        """Blocks that a request of this many tokens holds."""
        return self.full_groups * -(-length // self.block_size) + self.state_blocks

    def pool(self, available_bytes: int) -> int:
        """Blocks in this much memory; none where it is negative."""
        return max(available_bytes, 0) // self.bytes_per_block


def resolved_dtype(model: Model, settings: CacheSettings) -> str:
    """What `auto` stands for with this checkpoint."""
    return model.kv_scheme if settings.kv_cache_dtype == "auto" else settings.kv_cache_dtype


def layout(model: Model, settings: CacheSettings) -> Layout:
    """Cut the cache of one rank into groups of layers that share a block size.

    With pipeline parallelism each rank holds its share of the layers, rounded up.
    """
    values = _VALUE_BYTES[resolved_dtype(model, settings)]
    heads = max(1, model.kv_heads // settings.tensor_parallel_size)
    token_bytes = int(2 * heads * model.head_dim * values)
    stages = settings.pipeline_parallel_size
    full = -(-model.full_layers // stages)
    if settings.spec_method == "mtp":
        full += model.drafter_layers
    if model.deltanet is None:
        block = settings.min_block_size
        page = block * token_bytes
        return Layout(block, 1, 0, full, page, full * page, 0, 0)
    linear = -(-model.linear_layers // stages)
    return _hybrid_layout(model.deltanet, settings, token_bytes, full, linear)


def _hybrid_layout(
    deltanet: DeltaNet, settings: CacheSettings, token_bytes: int, full: int, linear: int
) -> Layout:
    state = _state_bytes(deltanet, settings)
    align = max(settings.alignment, settings.min_block_size)
    block = align * -(-state // (align * token_bytes))
    small, large = sorted((full, linear))
    group = large if large < 1.5 * small else small
    full_groups, state_groups = -(-full // group), -(-linear // group)
    slots = settings.num_speculative_tokens + (2 if settings.enable_prefix_caching else 1)
    page = block * token_bytes
    return Layout(
        block_size=block,
        full_groups=full_groups,
        state_groups=state_groups,
        group_size=group,
        page_bytes=page,
        bytes_per_block=group * page,
        state_blocks=state_groups * slots,
        state_bytes=state,
    )


def _state_bytes(deltanet: DeltaNet, settings: CacheSettings) -> int:
    """Bytes of one layer's state and one slot (``mamba_utils.py``, gated delta net)."""
    ranks = settings.tensor_parallel_size
    width = (
        2 * deltanet.key_heads * deltanet.key_head_dim
        + deltanet.value_heads * deltanet.value_head_dim
    ) // ranks
    conv = (deltanet.conv_kernel - 1 + settings.num_speculative_tokens) * width * 2
    heads = deltanet.value_heads // ranks
    recurrent = heads * deltanet.value_head_dim * deltanet.key_head_dim * deltanet.state_bytes
    return conv + recurrent


def max_concurrency(plan: Layout, num_blocks: int, max_model_len: int) -> float:
    """Requests of the greatest length that the pool holds, as the engine prints it."""
    return num_blocks / plan.blocks(max_model_len)


def cache_tokens(plan: Layout, num_blocks: int, max_model_len: int) -> int:
    """The pool in tokens, as the engine prints it: not blocks times block size."""
    return int(max_concurrency(plan, num_blocks, max_model_len) * max_model_len)


def longest_request(plan: Layout, num_blocks: int, max_model_len: int) -> int:
    """The greatest length that fits the pool (one block is the null block); 0 if none does."""
    return _last(lambda length: plan.blocks(length) <= num_blocks - 1, max_model_len)


def _last(holds: Callable[[int], bool], highest: int) -> int:
    low, high = 0, highest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
