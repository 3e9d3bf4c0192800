"""A lost record is made anew from the status and from what runs."""

from __future__ import annotations

from datetime import datetime

from parkade.api.endpoint import Endpoint
from parkade.rollout.observed import DeploymentState, ReplicaSetState
from parkade.rollout.record import Record


def rebuild(
    endpoint: Endpoint,
    deployment: DeploymentState | None,
    replica_sets: tuple[ReplicaSetState, ...],
    now: datetime,
) -> Record:
    """Return a record from status, Deployment and ReplicaSets; a fresh one where all are empty."""
    raise NotImplementedError((endpoint, deployment, replica_sets, now))
