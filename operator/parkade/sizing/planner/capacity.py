"""From a layout and bytes to blocks, concurrency and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from parkade.sizing.planner.grouping import CacheGroup


@dataclass(frozen=True, slots=True)
class KVLayout:
    """How the engine lays out its cache on one GPU; memory turns it into a capacity.

    All groups draw their blocks from one pool, so a block takes ``bytes_per_block`` whichever
    group holds it.
    """

    groups: tuple[CacheGroup, ...]
    block_size: int
    max_model_len: int
    kv_cache_dtype: str
    mamba_cache_mode: str | None = None
    lookahead_tokens: int = 0
    reserved_blocks: int = 1
    warnings: tuple[str, ...] = ()

    @property
    def num_groups(self) -> int:
        """Groups, each with a block table of its own."""
        return len(self.groups)

    @property
    def group_size(self) -> int:
        """Layers of the largest group."""
        return max(group.layers for group in self.groups)

    @property
    def stage_bytes_per_block(self) -> tuple[int, ...]:
        """Bytes of one block on each pipeline stage."""
        stages = range(len(self.groups[0].stage_bytes))
        return tuple(max(group.stage_bytes[stage] for group in self.groups) for stage in stages)

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block on the pipeline stage where it is largest."""
        return max(self.stage_bytes_per_block)

    def blocks(self, length: int) -> int:
        """Blocks that one request of ``length`` tokens holds at most, over all groups."""
        return sum(group.blocks(length) for group in self.groups)

    def capacity(self, available_kv_bytes: int) -> KVCapacity:
        """Return what ``available_kv_bytes`` per GPU hold; zero or less holds nothing."""
        blocks = max(0, available_kv_bytes) // self.bytes_per_block
        return KVCapacity(self, available_kv_bytes, blocks)


@dataclass(frozen=True, slots=True)
class KVCapacity:
    """The engine's pool: ``num_blocks`` of a layout."""

    layout: KVLayout
    available_kv_bytes: int
    num_blocks: int

    @property
    def groups(self) -> tuple[CacheGroup, ...]:
        """The layout's groups."""
        return self.layout.groups

    @property
    def block_size(self) -> int:
        """Tokens per block as configured or aligned; a group may have its own."""
        return self.layout.block_size

    @property
    def num_groups(self) -> int:
        """Groups, each with a block table of its own."""
        return self.layout.num_groups

    @property
    def group_size(self) -> int:
        """Layers of the largest group."""
        return self.layout.group_size

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block."""
        return self.layout.bytes_per_block

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can hold: the pool keeps block 0 for itself."""
        return max(0, self.num_blocks - 1)

    def blocks(self, length: int) -> int:
        """Blocks that one request of ``length`` tokens holds at most."""
        return self.layout.blocks(length)

    @property
    def blocks_per_request_at_max_len(self) -> int:
        """Blocks of a request of the longest allowed length."""
        return self.layout.blocks(self.layout.max_model_len)

    @property
    def fits_one_request(self) -> bool:
        """Whether the engine starts: one request of the longest length fits the pool."""
        return self._fits(self.layout.max_model_len)

    @property
    def max_concurrency(self) -> Fraction:
        """Requests of the longest length at once, as the engine prints it."""
        return Fraction(self.num_blocks, self.blocks_per_request_at_max_len)

    @property
    def kv_tokens(self) -> int:
        """The engine's "KV cache size": concurrency times length, in its own floating point.

        It depends on ``max_model_len`` and is not blocks times block size
        (``get_kv_cache_capacity``, vllm/v1/core/kv_cache_utils.py).
        """
        concurrency = self.num_blocks / self.blocks_per_request_at_max_len
        return int(concurrency * self.layout.max_model_len)

    @property
    def estimated_max_model_len(self) -> int | None:
        """The longest length that fits, where ``max_model_len`` does not; None where it does.

        0 says that not even one token fits.
        """
        if self.fits_one_request:
            return None
        if not self._fits(1):
            return 0
        low, high = 1, self.layout.max_model_len
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fits(middle) else (low, middle - 1)
        return low

    def max_requests(self, length: int) -> int:
        """Return how many requests of ``length`` tokens the pool holds, drafts included."""
        return self.usable_blocks // self.blocks(length + self.layout.lookahead_tokens)

    def _fits(self, length: int) -> bool:
        return self.blocks(length) + self.layout.reserved_blocks <= self.num_blocks
