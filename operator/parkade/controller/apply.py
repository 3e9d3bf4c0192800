"""Step five of a pass: bring the cluster to what the plan says, writing only what differs.

The order matters. The record comes first: it is the intent, so a crash after it is continued, not
repeated. Then the children; a Deployment goes along with the resourceVersion that was observed, so
what somebody else did meanwhile is a conflict and not lost. Status comes last, and events only
after it stands.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from parkade.adapters import events, rbac
from parkade.adapters.cluster import Cluster
from parkade.adapters.errors import AdapterError, ConflictError
from parkade.adapters.rbac import Resource
from parkade.api.endpoint import Endpoint, InvalidEndpoint
from parkade.controller import record_store
from parkade.controller.metrics import Metrics
from parkade.controller.observe import Observation
from parkade.controller.views import Raw, Views
from parkade.rollout.actions import Plan
from parkade.rollout.drift import difference
from parkade.rollout.events import EventNote
from parkade.rollout.parsing import controller_uid
from parkade.rollout.record import Record
from parkade.rollout.render import manifests

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Writer:
    """All writes to the cluster. What the API server returns goes into the views at once."""

    cluster: Cluster
    views: Views
    metrics: Metrics

    def record(self, seen: Observation, record: Record) -> None:
        """Write the record where it changed. ConflictError where what is there was not seen."""
        endpoint = seen.endpoint
        if seen.record_object is None:
            name = record_store.object_name(endpoint.name)
            unseen = self._unlabelled(endpoint, rbac.CONFIGMAPS, name)
            if unseen is not None:  # ours, without its label: it is the record, and is read first
                self._noted(rbac.CONFIGMAPS, record_store.labelled(self.cluster, endpoint, unseen))
                raise ConflictError(f"configmaps {endpoint.namespace}/{name} lacked its label")
        stored = record_store.write(self.cluster, endpoint, record, seen.record_object)
        if stored is not None:
            self._noted(rbac.CONFIGMAPS, stored)

    def children(self, seen: Observation, plan: Plan) -> None:
        """Write Deployment and Service where they differ from what the plan wants."""
        if plan.target is None:
            return
        live = {
            "Deployment": seen.deployment.raw if seen.deployment is not None else None,
            "Service": seen.service,
        }
        resources = {"Deployment": rbac.DEPLOYMENTS, "Service": rbac.SERVICES}
        for manifest in manifests(seen.endpoint, plan.target):
            held = live[manifest["kind"]]
            resource = resources[manifest["kind"]]
            if held is None:
                held = self._unlabelled(seen.endpoint, resource, seen.endpoint.name)
            if difference(manifest, held) is not None:
                self._noted(
                    resource,
                    self.cluster.apply(resource, manifest, resource_version=_version(held)),
                )

    def status(
        self, endpoint: Endpoint | InvalidEndpoint, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> bool:
        """Write the status where it changed; True where it did."""
        if new == old:
            return False
        stored = self.cluster.apply_status(
            endpoint.namespace, endpoint.name, endpoint.uid, new, endpoint.resource_version
        )
        if (stored.get("metadata") or {}).get("generation") == endpoint.generation:
            self.views.put(rbac.ENDPOINTS, stored)
        # Else somebody edited the spec meanwhile: the watch brings that, and wakes the endpoint.
        self.metrics.writes.labels("Status").inc()
        return True

    def events(
        self, endpoint: Endpoint | InvalidEndpoint, notes: tuple[EventNote, ...], now: datetime
    ) -> None:
        """Post the events of this pass. One that can't be posted is logged: status has it too."""
        subject = events.Subject(endpoint.namespace, endpoint.name, endpoint.uid)
        for note in notes:
            try:
                events.post(
                    self.cluster,
                    subject,
                    reason=note.reason,
                    message=note.message,
                    warning=note.warning,
                    now=now,
                )
            except AdapterError as error:
                logger.warning("An event was not posted: %s", error)
            else:
                self.metrics.writes.labels("Event").inc()

    def _unlabelled(self, endpoint: Endpoint, resource: Resource, name: str) -> Raw | None:
        """Return what stands under the name without our label, which no watch brings.

        ConflictError where it is not ours: an apply would take it over. The next pass sees it.
        """
        found = self.cluster.list(
            resource, endpoint.namespace, field_selector=f"metadata.name={name}"
        )
        for one in found:
            if controller_uid(one) != endpoint.uid:
                self.views.put(resource, one)
                where = f"{resource.plural} {endpoint.namespace}/{name}"
                raise ConflictError(f"{where} is there and belongs to somebody else")
        return found[0] if found else None

    def _noted(self, resource: Resource, stored: Raw) -> None:
        self.views.put(resource, stored)
        self.metrics.writes.labels(resource.kind).inc()


def _version(held: Raw | None) -> str | None:
    return None if held is None else str((held.get("metadata") or {}).get("resourceVersion", ""))
