"""The values of a plan: one action with its reason, the record to write first, what to apply."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from parkade.api.conditions import ConditionStatus, Reason
from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.rollout.observed import (
    DeploymentState,
    DisruptionBudget,
    Evidence,
    ForeignChild,
    PodState,
    ReplicaSetState,
)
from parkade.rollout.record import Record
from parkade.rollout.revision import Revision

CANARY_MIN_READY_SECONDS = 2_000_000_000
"""A new pod never counts as available: the rollout stops after one (tried on the real
deployment controller; the pod serves, nothing else moves)."""

CANARY_PROGRESS_DEADLINE_SECONDS = 2_147_483_647
"""The largest int32; must be above minReadySeconds."""


class Action(StrEnum):
    """What a pass does. Exactly one."""

    HOLD = "Hold"
    """Nothing changes, except the number of replicas and what others changed in our children."""
    DEPLOY = "Deploy"
    """Bring up a candidate."""
    WIDEN = "Widen"
    """Let the rest follow the canary."""
    PROMOTE = "Promote"
    """The candidate becomes the last good template."""
    REVERT = "Revert"
    """The candidate failed: apply the last good template."""
    WITHDRAW = "Withdraw"
    """Take the candidate back without blame."""


@dataclass(frozen=True, slots=True)
class Desired:
    """What sizing recommends, without its arithmetic."""

    settings: Settings | None
    """The settings to run, after hysteresis; None: cannot tell, what runs stays."""
    reason: Reason = Reason.APPLIED
    """Why the settings are what they are or are not known: a reason of SettingsApplied."""
    message: str = ""
    first: Settings | None = None
    """Settings of a fingerprint that never ran: tuning.initial, else the first estimate. With a
    last good revision: the first-estimate fraction and the N in force, cut to the new bounds.
    None: a model or card that is not understood, and no initial settings; or, with a last good
    revision, one that is being asked for."""
    firm: bool = True
    """The traffic asks for another max_num_seqs now; False: it did, and no change starts until it
    does again."""
    stalled: bool = False
    """`reason` and `message` say what a person must do; nothing is tuned."""
    total_bytes: int | None = None
    """What the engine calls total memory, per GPU; turns a shortfall into a fraction."""
    headroom_bytes: int | None = None
    """The headroom that `settings` leave, as sized; None: tuning.headroom."""
    predicted_kv_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the rest of the cluster allows."""

    rollouts_elsewhere: int = 0
    """Other endpoints with a tuning candidate in flight."""
    max_concurrent_rollouts: int = 1
    budgets: tuple[DisruptionBudget, ...] = ()
    """All PodDisruptionBudgets of the namespace."""


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """Everything that a plan depends on."""

    endpoint: Endpoint
    record: Record
    desired: Desired
    now: datetime
    deployment: DeploymentState | None = None
    replica_sets: tuple[ReplicaSetState, ...] = ()
    """With the endpoint's label, whoever owns them."""
    pods: tuple[PodState, ...] = ()
    """With the endpoint's label, whoever owns them."""
    evidence: Evidence = field(default_factory=dict)
    foreign: tuple[ForeignChild, ...] = ()
    """`foreign_children(...)`."""
    fleet: Fleet = Fleet()
    measured_kv_tokens: int | None = None
    """Smallest pool that a pod of the target revision reports."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the Deployment must be. `render.deployment` turns it into the object."""

    revision: Revision
    replicas: int
    surge: bool
    min_ready_seconds: int = 0
    progress_deadline_seconds: int = 3600


@dataclass(frozen=True, slots=True)
class Finding:
    """Status, reason and message of a condition."""

    status: ConditionStatus
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One action, why, and everything that it needs. Order: record, children, status."""

    action: Action
    reason: Reason
    message: str
    record: Record
    """To be written before anything else, where it differs from the one that was read."""
    target: Target | None
    """What the Deployment must be; None: no child may be written."""
    settings_applied: Finding
    stalled: Finding | None = None
    """Set where a person must act."""
    reconciling: Finding | None = None
    """Set while the user's spec is being put in place."""
    learned: tuple[str, ...] = ()
    """What serving taught since the last pass, for people."""
    hands_off: bool = False
    """Nothing but status may be written, not even the record: it is deleted, suspended, only
    advised on, or others' children are in the way."""
    requeue_after_seconds: float | None = None
    """When to look again though nothing happens; None: only when something does."""
