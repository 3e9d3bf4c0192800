"""What the nodes' labels say of a card, for products that sizing's own table does not have."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from parkade.adapters.cluster import Cluster
from parkade.adapters.errors import AdapterError, ForbiddenError
from parkade.adapters.nodes import GpuNodes, gpu_nodes
from parkade.api.conditions import Reason
from parkade.controller.background import Background
from parkade.sizing.workload import CannotTell

logger = logging.getLogger(__name__)

KEEP_SECONDS = 600.0

TOTAL_OF_LABEL = 0.99
"""The engine's total is a little less than the label: 0.4 % on a B200, 0.6 % on an H100."""


@dataclass(slots=True)
class Hardware:
    """GPU products of the cluster's nodes, listed in the background."""

    cluster: Cluster
    clock: Callable[[], float]
    on_new: Callable[[], None]
    _nodes: Background[str, dict[str, GpuNodes] | CannotTell] = field(init=False)

    def __post_init__(self) -> None:
        self._nodes = Background(
            "nodes",
            lambda _all: self._list(),
            self.clock,
            KEEP_SECONDS,
            on_new=lambda _all: self.on_new(),
            threads=1,
            prefer=_better,
            passes=lambda answer: isinstance(answer, CannotTell),
        )

    def memory_bytes(self, product: str) -> int | CannotTell | None:
        """Return what the engine will call total, from the node label; None where no node says."""
        nodes = self._nodes.newest("all")
        if nodes is None:
            return CannotTell(Reason.INITIALIZING, "The nodes are being listed.")
        if isinstance(nodes, CannotTell):
            return nodes
        found = nodes.get(product)
        if found is None or found.memory_bytes is None:
            return None
        return int(found.memory_bytes * TOTAL_OF_LABEL)

    def stop(self) -> None:
        """Ask no more."""
        self._nodes.stop()

    def _list(self) -> dict[str, GpuNodes] | CannotTell:
        try:
            return gpu_nodes(self.cluster)
        except ForbiddenError as error:  # a person took the right away: the table has to do
            logger.info("The nodes can't be listed: %s", error)
            return {}
        except AdapterError as error:
            logger.warning("The nodes can't be listed: %s", error)
            return CannotTell(Reason.INITIALIZING, f"The nodes can't be listed yet: {error}")


def _better(
    old: dict[str, GpuNodes] | CannotTell, new: dict[str, GpuNodes] | CannotTell
) -> dict[str, GpuNodes] | CannotTell:
    """Return the newer answer, unless it knows no card and the older one was an answer at all."""
    knows = bool(new) and not isinstance(new, CannotTell)
    return new if knows or isinstance(old, CannotTell) else old
