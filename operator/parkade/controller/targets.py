"""The Deployment that an endpoint with `targetRef` advises on. It is read, and never written."""

from __future__ import annotations

from dataclasses import dataclass

from parkade.adapters import rbac
from parkade.adapters.cluster import Cluster
from parkade.api.conditions import Reason
from parkade.api.endpoint import Endpoint
from parkade.rollout.running import RunningEngine, UnreadableError, read_running
from parkade.sizing.cards import default_max_num_seqs
from parkade.sizing.result import NotSizable


@dataclass(frozen=True, slots=True)
class Targets:
    """Deployments by name. They carry no label of ours, so they are not watched but read."""

    cluster: Cluster

    def of(self, endpoint: Endpoint) -> RunningEngine | NotSizable | None:
        """Return what the target runs, or what a person must do; None where there is no target."""
        target, accelerator = endpoint.spec.target_ref, endpoint.spec.accelerator
        if target is None:
            return None
        found = self.cluster.get(rbac.DEPLOYMENTS, endpoint.namespace, target.name)
        if found is None:
            return NotSizable(
                Reason.INVALID_SPEC,
                f"Deployment {target.name}, which targetRef names, is not there.",
            )
        try:
            return read_running(
                found,
                lambda _selected: default_max_num_seqs(accelerator.product, accelerator.memory),
            )
        except UnreadableError as error:
            return NotSizable(Reason.INVALID_SPEC, f"Deployment {target.name}: {error}.")
