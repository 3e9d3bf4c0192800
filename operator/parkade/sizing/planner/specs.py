"""One layer's cache as the engine's planner sees it: pages, blocks, and what may share a table.

Source: vllm/v1/kv_cache_interface.py, 0.32.0.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The engine's own names (``KVCacheSpecKind``)."""

    FULL_ATTENTION = "full_attention"
    MLA_ATTENTION = "mla_attention"
    SLIDING_WINDOW = "sliding_window"
    SLIDING_WINDOW_MLA = "sliding_window_mla"
    CHUNKED_LOCAL_ATTENTION = "chunked_local_attention"
    MAMBA = "mamba"


# What keeps every token: these share one table even where their pages differ.
GROWING = frozenset({Kind.FULL_ATTENTION, Kind.MLA_ATTENTION})
LOCAL = frozenset({Kind.SLIDING_WINDOW, Kind.SLIDING_WINDOW_MLA, Kind.CHUNKED_LOCAL_ATTENTION})


def cdiv(value: int, divisor: int) -> int:
    """Divide, rounding up."""
    return -(-value // divisor)


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """The cache of one layer on one GPU.

    ``token_bytes`` is the size of one token for what grows; ``state_bytes`` that of one state
    for what does not. ``identity`` is everything else in which two layers must agree to share a
    group. ``token_cap`` bounds the tokens that a local layer holds (window, and tokens in
    flight), ``constant_blocks`` is what a state costs whatever the length.
    """

    kind: Kind
    block_size: int
    identity: Hashable
    token_bytes: int = 0
    state_bytes: int = 0
    page_size_padded: int | None = None
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    token_cap: int | None = None
    constant_blocks: int | None = None
    extra_blocks: int = 0

    def __hash__(self) -> int:
        """Hash the cheap fields: layers are many, and equal ones mostly the same object."""
        return hash((self.kind, self.block_size, self.token_bytes, self.state_bytes))

    @property
    def unpadded_page_size_bytes(self) -> int:
        """Bytes of one block without padding."""
        return self.state_bytes if self.kind is Kind.MAMBA else self.token_bytes * self.block_size

    @property
    def page_size_bytes(self) -> int:
        """Bytes that one block of this layer takes in the pool."""
        padded = self.page_size_padded
        return self.unpadded_page_size_bytes if padded is None else padded

    def blocks(self, length: int) -> int:
        """Blocks that one request of ``length`` tokens holds at most.

        A window adds one, since it need not start at the beginning of a block.
        """
        if self.constant_blocks is not None:
            return self.constant_blocks
        tokens = length if self.token_cap is None else min(self.token_cap, length)
        return cdiv(tokens, self.block_size) + self.extra_blocks


def merged(specs: list[LayerSpec], other: LayerSpec) -> bool:
    """Whether ``other`` can share a group with ``specs`` (the engine's ``merge``).

    Full-attention layers may differ in a window that the engine only computes with, as long as
    there is one window size; every other kind must agree in everything.
    """
    first = specs[0]
    if other.kind is not first.kind:
        return False
    if first.kind is not Kind.FULL_ATTENTION:
        return other == first
    same = (
        other.identity == first.identity
        and other.block_size == first.block_size
        and other.page_size_padded == first.page_size_padded
    )
    together = [*specs, other]
    windows = {spec.sliding_window for spec in together} - {None}
    chunks = {spec.attention_chunk_size for spec in together} - {None}
    return same and len(windows) + len(chunks) <= 1


def uniform_type(specs: list[LayerSpec]) -> bool:
    """Whether all layers need the same number of token slots, whatever their page sizes."""
    first = specs[0]
    if any(spec.block_size != first.block_size for spec in specs):
        return False
    if first.kind in GROWING:
        return all(spec.kind in GROWING for spec in specs)
    if any(spec.kind is not first.kind for spec in specs):
        return False
    if first.kind is Kind.MAMBA:
        return all(
            spec.constant_blocks == first.constant_blocks
            and spec.extra_blocks == first.extra_blocks
            and spec.page_size_bytes == first.page_size_bytes
            for spec in specs
        )
    return all(
        spec.sliding_window == first.sliding_window
        and spec.attention_chunk_size == first.attention_chunk_size
        for spec in specs
    )
