"""What the cluster's nodes say about their GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parkade.adapters import rbac
from parkade.adapters.cluster import Cluster
from parkade.api.quantity import MIB

PRODUCT_LABEL = "nvidia.com/gpu.product"
MEMORY_LABEL = "nvidia.com/gpu.memory"
"""MiB for each GPU, by GPU feature discovery: a little more than the engine calls total."""
GPU_RESOURCE = "nvidia.com/gpu"

MAX_MEMORY_MIB = 64 * 1024 * 1024
"""A label above 64 TiB is nonsense."""


@dataclass(frozen=True, slots=True)
class GpuNodes:
    """All nodes with one GPU product."""

    product: str
    nodes: int
    allocatable_gpus: int
    memory_bytes: int | None
    """For each GPU; the smallest that a node names, None where none does."""


def gpu_nodes(cluster: Cluster) -> dict[str, GpuNodes]:
    """Return what the cluster has of each GPU product."""
    return summarize(cluster.list(rbac.NODES))


def summarize(nodes: Iterable[Mapping[str, Any]]) -> dict[str, GpuNodes]:
    """Return nodes by GPU product; nodes without the label have no GPU that we can use."""
    found: dict[str, GpuNodes] = {}
    for node in nodes:
        labels = (node.get("metadata") or {}).get("labels") or {}
        product = labels.get(PRODUCT_LABEL)
        if not product:
            continue
        allocatable = ((node.get("status") or {}).get("allocatable") or {}).get(GPU_RESOURCE, 0)
        before = found.get(product, GpuNodes(product, 0, 0, None))
        found[product] = GpuNodes(
            product,
            before.nodes + 1,
            before.allocatable_gpus + _whole(allocatable),
            _smaller(before.memory_bytes, _memory(labels.get(MEMORY_LABEL))),
        )
    return found


def _memory(label: Any) -> int | None:
    mib = _whole(label)
    return mib * MIB if 0 < mib <= MAX_MEMORY_MIB else None


def _whole(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _smaller(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
