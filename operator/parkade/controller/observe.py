"""Step one of a pass: everything that is known of an endpoint, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from parkade.adapters import rbac
from parkade.api import names
from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.controller import record_store
from parkade.controller.views import EndpointKey, Raw, Views
from parkade.rollout.observed import (
    DeploymentState,
    DisruptionBudget,
    ForeignChild,
    PodState,
    ReplicaSetState,
)
from parkade.rollout.parsing import (
    deployment_from,
    disruption_budget_from,
    foreign_child_from,
    foreign_children,
    pod_from,
    replica_set_from,
)
from parkade.rollout.rebuild import rebuild
from parkade.rollout.record import Record
from parkade.rollout.render import render_revision
from parkade.rollout.revision import inputs_hash, sizing_hash
from parkade.rollout.running import RunningEngine

UNKNOWN_FINGERPRINT = ""
"""Of a Deployment that is only advised on: nothing is kept of it."""

ANY_SETTINGS = Settings(1, Decimal("0.9"))
"""A fingerprint is the same for all settings, and a template needs some."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One endpoint and all that belongs to it, as last seen; nothing below fetches it again."""

    endpoint: Endpoint
    now: datetime
    record: Record
    """Read, or made anew where it was lost."""
    record_object: Raw | None
    """The ConfigMap that holds it; None where there is none."""
    deployment: DeploymentState | None
    service: Raw | None
    replica_sets: tuple[ReplicaSetState, ...]
    pods: tuple[PodState, ...]
    foreign: tuple[ForeignChild, ...]
    budgets: tuple[DisruptionBudget, ...]
    running: RunningEngine | None = None
    """What the Deployment of `targetRef` runs; None where the endpoint has an engine of its own."""

    @property
    def key(self) -> EndpointKey:
        """Namespace and name."""
        return self.endpoint.key

    @property
    def fingerprint(self) -> str:
        """Of the user's spec as it is now.

        The target's own is kept while the user changed nothing: a renderer of an upgraded operator
        would give another one, and what was measured still holds.
        """
        if self.endpoint.spec.engine is None:
            return UNKNOWN_FINGERPRINT
        target = self.record.target
        if target is not None and target.inputs == inputs_hash(self.endpoint.spec):
            return target.fingerprint
        return render_revision(self.endpoint, self._some_settings()).fingerprint

    @property
    def in_force(self) -> Settings | None:
        """The settings that hysteresis protects: the last good ones, else those tried first."""
        if self.running is not None:
            return self.running.settings
        record = self.record
        if record.last_good is not None:
            return record.last_good.settings
        return record.candidate.revision.settings if record.candidate is not None else None

    @property
    def recommended_max_num_seqs(self) -> int | None:
        """What was recommended last: noise alone does not take it back before it is in force.

        Advice alone (`targetRef`) leaves no record. There the status remembers, of the same spec.
        """
        endpoint = self.endpoint
        if endpoint.spec.engine is not None:
            return self.record.recommended_max_num_seqs(
                self.fingerprint, sizing_hash(endpoint.spec)
            )
        recommended = endpoint.status.get("recommendation")
        told = recommended.get("maxNumSeqs") if isinstance(recommended, Mapping) else None
        is_number = isinstance(told, int) and not isinstance(told, bool) and told > 0
        same_spec = endpoint.status.get("observedGeneration") == endpoint.generation
        return told if is_number and same_spec else None

    def fingerprint_of_pod(self, pod_name: str) -> str | None:
        """Return what a pod ran, also where it is gone and only its ReplicaSet tells."""
        for pod in self.pods:
            if pod.name == pod_name:
                return pod.fingerprint
        owner = self._owner_of(pod_name)
        return None if owner is None else _annotation(owner, names.FINGERPRINT_ANNOTATION)

    def settings_of_pod(self, pod_name: str) -> Settings | None:
        """Return the settings that a pod ran, likewise."""
        for pod in self.pods:
            if pod.name == pod_name:
                return pod.settings
        owner = self._owner_of(pod_name)
        if owner is None:
            return None
        return Settings.from_json(_annotation(owner, names.SETTINGS_ANNOTATION))

    def _owner_of(self, pod_name: str) -> ReplicaSetState | None:
        """Return the ReplicaSet that a pod's name was generated from."""
        return next(
            (
                one
                for one in self.replica_sets
                if pod_name.startswith(names.generated_base(one.name))
            ),
            None,
        )

    def _some_settings(self) -> Settings:
        initial = self.endpoint.spec.tuning.initial
        return self.in_force or (initial.settings if initial is not None else ANY_SETTINGS)


def observe(views: Views, endpoint: Endpoint, now: datetime) -> Observation:
    """Gather what the views hold of an endpoint."""
    key = endpoint.key
    named = views.named(rbac.DEPLOYMENTS, *key)
    deployment = None if named is None else deployment_from(named)
    service = views.named(rbac.SERVICES, *key)
    config_map = record_store.held(views, *key)
    replica_sets = tuple(replica_set_from(one) for one in views.children(rbac.REPLICASETS, key))
    pods = tuple(pod_from(one) for one in views.children(rbac.PODS, key))
    budgets = views.in_namespace(rbac.DISRUPTION_BUDGETS, endpoint.namespace)
    record = record_store.read(config_map, endpoint.uid, now)
    return Observation(
        endpoint=endpoint,
        now=now,
        record=record or rebuild(endpoint, deployment, replica_sets, now),
        record_object=config_map,
        deployment=deployment,
        service=service,
        replica_sets=replica_sets,
        pods=pods,
        foreign=foreign_children(
            endpoint.uid,
            deployment,
            replica_sets,
            pods,
            _foreign(endpoint.uid, {"Service": service, "ConfigMap": config_map}),
        ),
        budgets=tuple(disruption_budget_from(one) for one in budgets),
    )


def _foreign(uid: str, objects: dict[str, Raw | None]) -> tuple[ForeignChild, ...]:
    found = (foreign_child_from(raw, kind, uid) for kind, raw in objects.items() if raw is not None)
    return tuple(child for child in found if child is not None)


def _annotation(replica_set: ReplicaSetState, name: str) -> str | None:
    meta = replica_set.template.get("metadata") or {}
    value = (meta.get("annotations") or {}).get(name)
    return value if isinstance(value, str) else None
