"""What the cluster shows of one endpoint, as frozen values. `parsing.py` makes them from raw dicts.

Nothing here decides. A pod tells by its label and annotations which revision and settings it
runs, so a restart of the operator loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from parkade.api.settings import Settings
from parkade.rollout.causes import RootCause
from parkade.rollout.revision import Revision

Evidence = Mapping[tuple[str, int], RootCause]
"""Root causes by pod uid and number of the termination (1 for the first)."""


@dataclass(frozen=True, slots=True)
class ConditionState:
    """A condition of a Deployment, as far as it is read."""

    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    """When its status last changed."""


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """The Deployment of an endpoint, as last observed."""

    name: str
    uid: str
    owner_uid: str | None
    """Uid of its controller; None for an orphan."""
    resource_version: str
    generation: int
    observed_generation: int
    """Generation that the deployment controller has acted on."""
    revision: str | None
    """Revision label of the pod template; None where the template is not ours."""
    template: Mapping[str, Any] = field(repr=False)
    """The raw pod template, with the API server's defaults."""
    raw: Mapping[str, Any] = field(repr=False)
    """The whole object."""
    settings: Settings | None = None
    fingerprint: str | None = None
    inputs: str | None = None
    """Hash of the spec's parts that the template was rendered from."""
    spec_generation: int | None = None
    """Generation of the endpoint that the template was rendered from."""
    replicas: int = 1
    """spec.replicas."""
    status_replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    min_ready_seconds: int = 0
    max_surge: int = 1
    conditions: Mapping[str, ConditionState] = field(default_factory=dict)
    deleting: bool = False

    def as_revision(self) -> Revision | None:
        """Return what its pod template is; None where the template is not ours."""
        if self.revision is None or self.settings is None:
            return None
        return Revision(
            hash=self.revision,
            settings=self.settings,
            fingerprint=self.fingerprint or "",
            inputs=self.inputs or "",
            generation=self.spec_generation or 0,
            template=self.template,
        )

    @property
    def is_settled(self) -> bool:
        """The controller has acted on the newest spec, and only updated pods are left."""
        return (
            self.observed_generation >= self.generation
            and self.updated_replicas == self.replicas
            and self.status_replicas == self.replicas
        )


@dataclass(frozen=True, slots=True)
class ReplicaSetState:
    """A ReplicaSet of an endpoint's Deployment."""

    name: str
    uid: str
    owner_uid: str | None
    revision: str | None
    replicas: int
    """spec.replicas."""
    status_replicas: int = 0
    template: Mapping[str, Any] = field(default_factory=dict, repr=False)
    created_at: datetime | None = None
    inputs: str | None = None
    """Hash of the spec's parts, which the deployment controller copies from the Deployment."""
    spec_generation: int | None = None
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Termination:
    """How a container ended."""

    exit_code: int | None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PodState:
    """An engine pod, as last observed."""

    name: str
    uid: str
    owner_uid: str | None
    """Uid of its ReplicaSet."""
    revision: str | None
    """Revision label; None where the pod is not ours."""
    settings: Settings | None = None
    fingerprint: str | None = None
    phase: str = "Pending"
    created_at: datetime | None = None
    started_at: datetime | None = None
    """status.startTime: when the kubelet took it."""
    ready_since: datetime | None = None
    """Since when it is ready; None: it is not."""
    unready_since: datetime | None = None
    """Last transition of a Ready condition that is False."""
    running_since: datetime | None = None
    """Start of the engine's container that runs now; None: none does."""
    restart_count: int = 0
    terminations: int = 0
    """Terminations of the engine's container so far: restarts, plus one until it runs again."""
    last_termination: Termination | None = None
    waiting_reason: str = ""
    """ImagePullBackOff, CrashLoopBackOff, ContainerCreating, ... of the engine's container."""
    waiting_message: str = ""
    scheduled: bool = False
    unschedulable_since: datetime | None = None
    unschedulable_message: str = ""
    node: str = ""
    ip: str = ""
    deleting: bool = False
    disrupted: str = ""
    """Why its end is nobody's settings: Evicted, Preempted, NodeLost, ...; empty otherwise."""

    @property
    def is_ready(self) -> bool:
        """It serves and is not on its way out."""
        return self.ready_since is not None and not self.deleting

    @property
    def was_ready(self) -> bool:
        """It is or has been ready: a Ready condition turned False after the pod was started.

        The kubelet writes the first Ready=False together with startTime; a later transition to
        False needs a True in between. Two seconds of tolerance for the whole-second times.
        """
        if self.ready_since is not None:
            return True
        if self.unready_since is None or self.started_at is None:
            return False
        return (self.unready_since - self.started_at).total_seconds() > 2

    @property
    def ended_unready(self) -> bool:
        """A whole run began and ended since it was last ready, as far as the pod shows it."""
        last = self.last_termination
        if last is None or last.started_at is None or self.unready_since is None:
            return True
        return last.started_at >= self.unready_since

    @property
    def first_run_since(self) -> datetime | None:
        """When the engine's container first ran, as far as the pod still shows it."""
        if self.terminations == 0:
            return self.running_since
        if self.terminations == 1 and self.last_termination is not None:
            return self.last_termination.started_at or self.started_at
        return self.started_at


@dataclass(frozen=True, slots=True)
class ForeignChild:
    """An object with our name or labels that belongs to another owner, or to none."""

    kind: str
    name: str
    owner_uid: str | None
    deleting: bool = False

    def __str__(self) -> str:
        """Return kind and name as kubectl takes them."""
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget, as far as it concerns us."""

    name: str
    disruptions_allowed: int
    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """(key, operator, values)."""
    selects: bool = True
    """False: it has no selector at all and matches no pod."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether it selects a pod with these labels (an empty selector selects all)."""
        if not self.selects:
            return False
        if any(labels.get(key) != value for key, value in self.match_labels.items()):
            return False
        return all(_matches(labels, one) for one in self.match_expressions)


def _matches(labels: Mapping[str, str], expression: tuple[str, str, tuple[str, ...]]) -> bool:
    key, operator, values = expression
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return True
