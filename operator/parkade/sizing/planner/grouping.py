"""From layers to groups that share a block table.

Source: ``get_kv_cache_groups`` and what it calls (vllm/v1/core/kv_cache_utils.py), 0.32.0; the
layout is layer-outermost (LBNHC), the engine's default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from parkade.sizing.planner.refusal import Refusal
from parkade.sizing.planner.specs import (
    GROWING,
    LOCAL,
    Kind,
    LayerSpec,
    cdiv,
    merged,
    uniform_type,
)
from parkade.sizing.planner.versions import Rules

# Sparse MLA indexes whole rows, so its pages cannot be padded.
_UNPADDABLE = frozenset({Kind.MLA_ATTENTION, Kind.MAMBA})


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that share a block table; a request holds ``blocks`` of it.

    ``page_sizes_bytes`` are the distinct pages in the group, ``stage_bytes`` what one block of
    the group takes on each pipeline stage.
    """

    kind: Kind
    layers: int
    block_size: int
    page_sizes_bytes: tuple[int, ...]
    stage_bytes: tuple[int, ...]
    specs: tuple[LayerSpec, ...]

    def blocks(self, length: int) -> int:
        """Blocks of this group that one request of ``length`` tokens holds at most."""
        return max(spec.blocks(length) for spec in self.specs)


class PlacedLayer(NamedTuple):
    """A layer's cache and the pipeline stage that holds it."""

    spec: LayerSpec
    stage: int


def group_layers(
    layers: Sequence[PlacedLayer], *, stages: int, promote_local: bool, rules: Rules
) -> tuple[CacheGroup, ...]:
    """Return the groups in the engine's order.

    ``promote_local`` is the engine's ``--disable-hybrid-kv-cache-manager``: windows then keep
    all tokens where full attention is present too. Raises Refusal where the engine does
    not start with such a mix.
    """
    if promote_local:
        layers = _promote(layers)
    specs = list(dict.fromkeys(layer.spec for layer in layers))
    if _all_merge(specs) or uniform_type(specs):
        return (_group(layers, stages),)
    try:
        unified = _unify_page_sizes(layers, rules)
    except Refusal:
        return (_group(_allocation_fallback(layers, rules), stages),)
    return tuple(_group(part, stages) for part in _split(unified, rules))


def _group(layers: Sequence[PlacedLayer], stages: int) -> CacheGroup:
    distinct = tuple(dict.fromkeys(layer.spec for layer in layers))
    stage_bytes = [0] * stages
    for layer, count in Counter(layers).items():
        stage_bytes[layer.stage] += count * layer.spec.page_size_bytes
    first = distinct[0]
    return CacheGroup(
        kind=first.kind,
        layers=len(layers),
        block_size=first.block_size,
        page_sizes_bytes=tuple(sorted({spec.page_size_bytes for spec in distinct})),
        stage_bytes=tuple(stage_bytes),
        specs=distinct,
    )


def _all_merge(specs: Sequence[LayerSpec]) -> bool:
    distinct = list(dict.fromkeys(specs))
    return all(merged(distinct[:index], distinct[index]) for index in range(1, len(distinct)))


def _unify_page_sizes(layers: Sequence[PlacedLayer], rules: Rules) -> Sequence[PlacedLayer]:
    """Give every layer the largest page: by a larger block where it divides, else by padding."""
    distinct = dict.fromkeys(layer.spec for layer in layers)
    largest = max(spec.page_size_bytes for spec in distinct)
    known = {spec: _grown(spec, largest, rules) for spec in distinct}
    return [PlacedLayer(known[layer.spec], layer.stage) for layer in layers]


def _grown(spec: LayerSpec, page_bytes: int, rules: Rules) -> LayerSpec:
    page = spec.page_size_bytes
    if page == page_bytes:
        return spec
    if spec.kind is Kind.MAMBA and rules.pads_state_pages:
        return replace(spec, page_size_padded=page_bytes)
    if spec.kind is not Kind.MAMBA and page_bytes % page == 0 and spec.page_size_padded is None:
        return replace(spec, block_size=spec.block_size * (page_bytes // page))
    if spec.kind not in _UNPADDABLE and rules.pads_attention_pages:
        return replace(spec, page_size_padded=page_bytes)
    raise Refusal(
        f"the engine cannot give a {spec.kind} layer with pages of {page} bytes the pages of "
        f"{page_bytes} bytes that its other layers have"
    )


def _split(layers: Sequence[PlacedLayer], rules: Rules) -> list[list[PlacedLayer]]:
    """Cut the buckets of equal layers into groups of about one size."""
    buckets = _buckets(layers, rules)
    smallest = min(len(bucket) for bucket in buckets)
    largest = max(len(bucket) for bucket in buckets)
    size = largest if largest < smallest * rules.padding_factor else smallest
    parts: list[list[PlacedLayer]] = []
    for bucket in buckets:
        count = cdiv(len(bucket), size)
        parts.extend(bucket[index::count] for index in range(count))
    return parts


def _buckets(layers: Sequence[PlacedLayer], rules: Rules) -> list[list[PlacedLayer]]:
    same: dict[LayerSpec, list[PlacedLayer]] = {}
    for layer in layers:
        same.setdefault(layer.spec, []).append(layer)
    if not rules.merges_buckets:
        return list(same.values())
    buckets: list[tuple[list[LayerSpec], list[PlacedLayer]]] = []
    for spec, members in same.items():
        for specs, bucket in buckets:
            if merged(specs, spec):
                specs.append(spec)
                bucket.extend(members)
                break
        else:
            buckets.append(([spec], list(members)))
    return [bucket for _, bucket in buckets]


def _promote(layers: Sequence[PlacedLayer]) -> Sequence[PlacedLayer]:
    """Let windows and chunks keep all tokens, where full attention is present too."""
    specs = [layer.spec for layer in layers]
    if _all_merge(specs) or uniform_type(specs):
        return layers
    growing = [spec for spec in specs if spec.kind in GROWING]
    if growing and any(spec.kind in LOCAL for spec in specs):
        block_sizes = {spec.block_size for spec in growing}
        block_size = block_sizes.pop() if len(block_sizes) == 1 else None
        layers = [PlacedLayer(_promoted(layer.spec, block_size), layer.stage) for layer in layers]
        specs = [layer.spec for layer in layers]
        _check_one_window(specs)
    if not (_all_merge(specs) or uniform_type(specs)):
        raise Refusal(
            "the engine needs its hybrid cache manager for this mix of layers: leave out "
            "--disable-hybrid-kv-cache-manager"
        )
    return layers


def _check_one_window(specs: Sequence[LayerSpec]) -> None:
    """Refuse windows of several sizes, on which ``FullAttentionSpec.merge`` raises."""
    for sizes in (
        {spec.sliding_window for spec in specs},
        {spec.attention_chunk_size for spec in specs},
    ):
        if len(sizes - {None}) > 1 and all(spec.kind is Kind.FULL_ATTENTION for spec in specs):
            raise Refusal(
                "the engine does not start without its hybrid cache manager where windows have "
                "several sizes"
            )


def _promoted(spec: LayerSpec, block_size: int | None) -> LayerSpec:
    if spec.kind not in LOCAL:
        return spec
    mla = spec.kind is Kind.SLIDING_WINDOW_MLA
    return replace(
        spec,
        kind=Kind.MLA_ATTENTION if mla else Kind.FULL_ATTENTION,
        block_size=block_size or spec.block_size,
        token_cap=None,
        extra_blocks=0,
    )


def _allocation_fallback(layers: Sequence[PlacedLayer], rules: Rules) -> Sequence[PlacedLayer]:
    """MLA beside a window whose page does not fit: the window keeps all tokens."""
    kinds = {layer.spec.kind for layer in layers}
    possible = Kind.MLA_ATTENTION in kinds and Kind.SLIDING_WINDOW in kinds
    if not (rules.falls_back_to_full and possible) or kinds & {
        Kind.SLIDING_WINDOW_MLA,
        Kind.CHUNKED_LOCAL_ATTENTION,
    }:
        _unify_page_sizes(layers, rules)
    promoted = _promote(layers)
    if not uniform_type([layer.spec for layer in promoted]):
        _unify_page_sizes(layers, rules)
    return promoted
