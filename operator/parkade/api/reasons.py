"""Why a condition has its status: every reason with its meaning beneath it.

`docs/reference.md` is written from here. `REASONS` says which reason belongs to which condition
with which status; a new reason goes into the enum and into that table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ConditionType(StrEnum):
    """What a condition is about. All are set from the first visit."""

    READY = "Ready"
    """The endpoint serves with some known-good settings."""
    RECONCILING = "Reconciling"
    """The user's spec is being put in place. Tuning does not set it."""
    STALLED = "Stalled"
    """A person must act. Never True together with Reconciling."""
    WORKLOAD_OBSERVED = "WorkloadObserved"
    """The traffic of the window was read, and there is enough of it to decide on."""
    SETTINGS_APPLIED = "SettingsApplied"
    """What runs is what is recommended, or why not."""
    OBJECTIVES_MET = "ObjectivesMet"
    """Requests get what the objectives ask for."""


CONDITION_ORDER = tuple(ConditionType)
"""The order in status, so that `kubectl describe` always reads the same."""


class ConditionStatus(StrEnum):
    """Of a condition; Unknown means that Parkade cannot tell, never "fine"."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a condition has its status. One CamelCase word each; the message has the numbers."""

    # The endpoint as a whole.
    INITIALIZING = "Initializing"
    """Parkade has seen the resource and has not looked at this part yet."""
    SERVING = "Serving"
    """At least one pod is ready and serves with known-good settings."""
    SCALED_TO_ZERO = "ScaledToZero"
    """Zero replicas are asked for, so there is nothing that should serve."""
    ADVISE_ONLY = "AdviseOnly"
    """The spec has a targetRef: Parkade only advises and writes nothing but status."""
    NO_READY_PODS = "NoReadyPods"
    """No pod is ready, and no rollout explains it."""
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    """Pods of the user's spec are being brought up."""
    SCALING = "Scaling"
    """The number of pods is being brought to the number asked for."""
    UP_TO_DATE = "UpToDate"
    """The user's spec is in place."""
    AS_EXPECTED = "AsExpected"
    """Nothing needs a person."""
    SUSPENDED = "Suspended"
    """`suspend` is true: nothing but status is written."""
    WAITING_FOR_OLD_CHILDREN = "WaitingForOldChildren"
    """Children of a deleted resource with the same name are still there; they are awaited."""
    WAITING_FOR_GPU = "WaitingForGPU"
    """A pod waits for a GPU that nothing offers at present. Settings are not to blame."""

    # A person must act.
    INVALID_SPEC = "InvalidSpec"
    """The spec contradicts itself or names something that does not exist."""
    SPEC_REJECTED = "SpecRejected"
    """The user's change broke the endpoint; the last good template runs."""
    NO_KNOWN_GOOD_SETTINGS = "NoKnownGoodSettings"
    """The first settings failed, and so did the smaller ones tried after them."""
    LAST_GOOD_FAILING = "LastGoodFailing"
    """The last good template fails too: something else changed. Nothing more is tried."""
    UNSUPPORTED_MODEL = "UnsupportedModel"
    """The model's architecture is not understood; it is never guessed."""
    DOES_NOT_FIT = "DoesNotFit"
    """One request of maxModelLen tokens does not fit into the memory that is left."""
    UNKNOWN_ACCELERATOR = "UnknownAccelerator"
    """The card's memory is not known; accelerator.memory says it."""
    MODEL_UNAVAILABLE = "ModelUnavailable"
    """The model or its config.json can't be read: absent, gated, or the hub does not answer."""
    BAD_ARGUMENTS = "BadArguments"
    """The engine refuses its arguments or environment."""
    IMAGE_PULL_FAILED = "ImagePullFailed"
    """The engine's image can't be pulled."""
    SCHEDULING_FAILED = "SchedulingFailed"
    """No node takes the pod, for a reason other than a busy GPU."""
    QUOTA_EXCEEDED = "QuotaExceeded"
    """A quota or an admission policy refuses the pods."""
    MISSING_SECRET = "MissingSecret"  # noqa: S105 - the name of a reason
    """A Secret that the pods need is not there, or lacks the key."""
    MISSING_CONFIG_MAP = "MissingConfigMap"
    """A ConfigMap that the spec names is not there, or lacks the key."""
    MISSING_VOLUME = "MissingVolume"
    """A volume that the spec names is not there or can't be mounted."""
    FOREIGN_CHILD = "ForeignChild"
    """An object with a name that Parkade needs belongs to somebody else."""
    ACCESS_DENIED = "AccessDenied"
    """The operator may not do what it must; its roles were changed."""
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    """A pod was not ready within startDeadlineSeconds, without an error that names the cause."""
    PROBE_FAILED = "ProbeFailed"
    """A probe ended a container that was still loading or still serving."""
    NODE_FAILED = "NodeFailed"
    """The node was lost, evicted the pod, or its driver or device is broken."""
    ENGINE_FAILED = "EngineFailed"
    """The engine ended with an error that is nobody's settings and not understood."""

    # The traffic.
    OBSERVED = "Observed"
    """Enough requests were read over the window."""
    INSUFFICIENT_REQUESTS = "InsufficientRequests"
    """Fewer finished requests than workload.minRequests; the running settings stay."""
    NO_TRAFFIC = "NoTraffic"
    """The engines are scraped, and no request finished in the window."""
    ASSUMED_LENGTHS = "AssumedLengths"
    """There is no traffic yet; a first start is sized for workload.assumed, what runs stays."""
    NO_SERIES = "NoSeries"
    """Prometheus answers, and knows no series of these pods: nothing scrapes them."""
    PROMETHEUS_UNAVAILABLE = "PrometheusUnavailable"
    """Prometheus does not answer, or refuses."""
    UNKNOWN_PROMETHEUS = "UnknownPrometheus"
    """workload.prometheusRef names no server of the operator's configuration."""
    PARTIAL_DATA = "PartialData"
    """Prometheus says itself that its answer is incomplete, or pods are missing from it."""
    STALE_DATA = "StaleData"
    """The newest sample is too old to decide on."""
    INVALID_DATA = "InvalidData"
    """The answer has values that can't be: NaN, infinite, negative, or falling counts."""
    COUNTER_RESET = "CounterReset"
    """Pods restarted within the window, so that too little of it can be added up."""
    MIXED_MODEL_LENGTHS = "MixedModelLengths"
    """Pods of the window ran with different max_model_len; their histograms do not add up."""

    # What runs against what is recommended.
    APPLIED = "Applied"
    """The recommended settings run on all pods."""
    UNSATURATED = "Unsaturated"
    """Requests hardly queue, so a higher limit would bring nothing. A normal answer."""
    WITHIN_HYSTERESIS = "WithinHysteresis"
    """A change would gain less than minGainPercent or its own uncertainty, or go back too soon."""
    RECOMMEND_ONLY = "RecommendOnly"
    """The mode is RecommendOnly: the recommendation stands in status and is not rolled out."""
    CANDIDATE_IN_PROGRESS = "CandidateInProgress"
    """New settings run on some pods and are being judged."""
    CANDIDATE_REJECTED = "CandidateRejected"
    """New settings failed; the last good ones run, and the failed ones are not tried again."""
    CANDIDATE_WITHDRAWN = "CandidateWithdrawn"
    """New settings were taken back without a verdict on them, for example to scale."""
    WOULD_INTERRUPT_SERVING = "WouldInterruptServing"
    """The change would leave no pod ready, and tuning.interruption does not allow it."""
    BLOCKED_BY_DISRUPTION_BUDGET = "BlockedByDisruptionBudget"
    """A PodDisruptionBudget allows no disruption at present."""
    OUTSIDE_MAINTENANCE_WINDOW = "OutsideMaintenanceWindow"
    """Tuning waits for the next maintenance window."""
    COOLING_DOWN = "CoolingDown"
    """The last change is less than tuning.cooldownSeconds ago."""
    WAITING_FOR_TURN = "WaitingForTurn"
    """As many endpoints as the operator allows are being tuned already."""
    INSUFFICIENT_EVIDENCE = "InsufficientEvidence"
    """Too little is known to recommend anything; the running settings stay."""

    # The objectives.
    MET = "Met"
    """The share of requests asked for gets what the objectives say."""
    MISSED = "Missed"
    """Fewer requests than asked for get what the objectives say."""
    NEEDS_REPLICAS = "NeedsReplicas"
    """No setting meets the objectives with this many pods; the message has the number."""
    OVERHEAD_BOUND = "OverheadBound"
    """Time per token does not move with concurrency: what is measured is overhead."""
    NO_OBJECTIVES = "NoObjectives"
    """The spec asks for nothing."""
    CANNOT_TELL = "CannotTell"
    """The data does not decide whether the objectives are met."""


_STALLING = (
    Reason.INVALID_SPEC,
    Reason.SPEC_REJECTED,
    Reason.NO_KNOWN_GOOD_SETTINGS,
    Reason.LAST_GOOD_FAILING,
    Reason.UNSUPPORTED_MODEL,
    Reason.DOES_NOT_FIT,
    Reason.UNKNOWN_ACCELERATOR,
    Reason.MODEL_UNAVAILABLE,
    Reason.BAD_ARGUMENTS,
    Reason.IMAGE_PULL_FAILED,
    Reason.SCHEDULING_FAILED,
    Reason.QUOTA_EXCEEDED,
    Reason.MISSING_SECRET,
    Reason.MISSING_CONFIG_MAP,
    Reason.MISSING_VOLUME,
    Reason.FOREIGN_CHILD,
    Reason.ACCESS_DENIED,
    Reason.START_DEADLINE_EXCEEDED,
    Reason.PROBE_FAILED,
    Reason.NODE_FAILED,
    Reason.ENGINE_FAILED,
)
_UNREAD = (
    Reason.NO_SERIES,
    Reason.PROMETHEUS_UNAVAILABLE,
    Reason.UNKNOWN_PROMETHEUS,
    Reason.PARTIAL_DATA,
    Reason.STALE_DATA,
    Reason.INVALID_DATA,
    Reason.COUNTER_RESET,
    Reason.MIXED_MODEL_LENGTHS,
)

REASONS: Mapping[ConditionType, Mapping[ConditionStatus, tuple[Reason, ...]]] = {
    ConditionType.READY: {
        ConditionStatus.TRUE: (
            Reason.SERVING,
            Reason.ROLLOUT_IN_PROGRESS,
            Reason.SCALED_TO_ZERO,
            Reason.ADVISE_ONLY,
        ),
        ConditionStatus.FALSE: (
            Reason.NO_READY_PODS,
            Reason.ROLLOUT_IN_PROGRESS,
            Reason.WAITING_FOR_GPU,
            Reason.WAITING_FOR_OLD_CHILDREN,
            Reason.SUSPENDED,
            *_STALLING,
        ),
        ConditionStatus.UNKNOWN: (Reason.INITIALIZING,),
    },
    ConditionType.RECONCILING: {
        ConditionStatus.TRUE: (
            Reason.ROLLOUT_IN_PROGRESS,
            Reason.SCALING,
            Reason.WAITING_FOR_GPU,
            Reason.WAITING_FOR_OLD_CHILDREN,
            *_STALLING,
        ),
        ConditionStatus.FALSE: (
            Reason.UP_TO_DATE,
            Reason.ADVISE_ONLY,
            Reason.SUSPENDED,
            *_STALLING,
        ),
        ConditionStatus.UNKNOWN: (Reason.INITIALIZING,),
    },
    ConditionType.STALLED: {
        ConditionStatus.TRUE: _STALLING,
        ConditionStatus.FALSE: (Reason.AS_EXPECTED,),
        ConditionStatus.UNKNOWN: (Reason.INITIALIZING,),
    },
    ConditionType.WORKLOAD_OBSERVED: {
        ConditionStatus.TRUE: (Reason.OBSERVED,),
        ConditionStatus.FALSE: (
            Reason.INSUFFICIENT_REQUESTS,
            Reason.NO_TRAFFIC,
            Reason.ASSUMED_LENGTHS,
            *_UNREAD,
        ),
        ConditionStatus.UNKNOWN: (
            Reason.INITIALIZING,
            Reason.SCALED_TO_ZERO,
            *_UNREAD,
        ),
    },
    ConditionType.SETTINGS_APPLIED: {
        ConditionStatus.TRUE: (
            Reason.APPLIED,
            Reason.UNSATURATED,
            Reason.WITHIN_HYSTERESIS,
        ),
        ConditionStatus.FALSE: (
            Reason.RECOMMEND_ONLY,
            Reason.ADVISE_ONLY,
            Reason.SUSPENDED,
            Reason.ROLLOUT_IN_PROGRESS,
            Reason.CANDIDATE_IN_PROGRESS,
            Reason.CANDIDATE_REJECTED,
            Reason.CANDIDATE_WITHDRAWN,
            Reason.WOULD_INTERRUPT_SERVING,
            Reason.BLOCKED_BY_DISRUPTION_BUDGET,
            Reason.OUTSIDE_MAINTENANCE_WINDOW,
            Reason.COOLING_DOWN,
            Reason.WAITING_FOR_TURN,
            Reason.WAITING_FOR_GPU,
            Reason.SCALED_TO_ZERO,
            *_STALLING,
        ),
        ConditionStatus.UNKNOWN: (
            Reason.INITIALIZING,
            Reason.INSUFFICIENT_EVIDENCE,
            *_STALLING,
        ),
    },
    ConditionType.OBJECTIVES_MET: {
        ConditionStatus.TRUE: (Reason.MET,),
        ConditionStatus.FALSE: (
            Reason.MISSED,
            Reason.NEEDS_REPLICAS,
            Reason.OVERHEAD_BOUND,
        ),
        ConditionStatus.UNKNOWN: (
            Reason.INITIALIZING,
            Reason.NO_OBJECTIVES,
            Reason.CANNOT_TELL,
            Reason.OVERHEAD_BOUND,
        ),
    },
}
"""Which reasons a condition can have. A new reason goes into the enum and in here."""
