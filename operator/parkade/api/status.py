"""The status of an InferenceEndpoint: what Parkade reports.

Status mirrors the durable record as of the last decision; it decides nothing. Numbers that change
all the time are metrics. What is not known is left out. Every text and list is cut to its bound,
so that a long message never loses a status write; lists are newest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from parkade.api.base import ApiModel, first
from parkade.api.conditions import Condition, Timestamp
from parkade.api.evidence import (
    MAX_INT,
    Count,
    DecimalString,
    Footprint,
    FootprintBasis,
    Interval,
    Lengths,
    Memory,
    MemoryBasis,
    Sentence,
    Seqs,
    StatusQuantity,
    Word,
    Workload,
    WorkloadBasis,
)

__all__ = [
    "MAX_EXPLANATION",
    "MAX_HISTORY",
    "MAX_REJECTED",
    "Bound",
    "Bounds",
    "EndpointStatus",
    "Footprint",
    "FootprintBasis",
    "HistoryEntry",
    "Interval",
    "Lengths",
    "LimitedBy",
    "Memory",
    "MemoryBasis",
    "Origin",
    "Recommendation",
    "Rejected",
    "Revision",
    "TriState",
    "Verdict",
    "Workload",
    "WorkloadBasis",
    "dump",
    "read_status",
]

MAX_HISTORY = 10
MAX_REJECTED = 10
MAX_EXPLANATION = 64


BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""Conditions of other managers survive ours."""


class LimitedBy(StrEnum):
    """The smallest upper bound on max_num_seqs."""

    KV_CACHE = "KVCache"
    """The KV cache is full at this many requests of the traffic's lengths."""
    SPEED = "Speed"
    """More requests at a time would each be slower than the objective."""
    ENGINE = "Engine"
    """State blocks, batch tokens or host memory of the engine."""
    USER_LIMIT = "UserLimit"
    """tuning.maxNumSeqs."""


class TriState(StrEnum):
    """True, False, or not known."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Verdict(StrEnum):
    """How a revision was judged."""

    PENDING = "Pending"
    """It is being brought up or soaks."""
    SUCCESSFUL = "Successful"
    """It served for soakSeconds and became the last good one."""
    FAILED = "Failed"
    """It failed, and its settings or its spec are to blame."""
    INCONCLUSIVE = "Inconclusive"
    """It was taken back without blame."""


class Origin(StrEnum):
    """Whose change a revision is."""

    USER = "User"
    """The spec changed."""
    TUNING = "Tuning"
    """Parkade changed one knob."""
    REVERT = "Revert"
    """Parkade went back to the last good template."""


class Bound(ApiModel):
    """One bound on max_num_seqs."""

    value: DecimalString | None = None
    """The bound before it is snapped to a rung; absent where nothing is known."""
    why: Sentence = ""
    """Where it comes from, with numbers."""


class Bounds(ApiModel):
    """The bounds on max_num_seqs by kind."""

    kv_cache: Bound | None = None
    """What the KV pool holds at a time."""
    speed: Bound | None = None
    """Where each request still gets minOutputTokensPerSecond."""
    first_token: Bound | None = None
    """From below: fewer would make requests queue longer than maxTimeToFirstTokenSeconds."""
    engine: Bound | None = None
    """What the engine takes."""
    user: Bound | None = None
    """The range that the spec gives."""


class Recommendation(ApiModel):
    """The settings to run, and why."""

    max_num_seqs: Seqs | None = None
    """vLLM's --max-num-seqs, after hysteresis."""
    gpu_memory_utilization: DecimalString | None = None
    """vLLM's --gpu-memory-utilization, after hysteresis."""
    limited_by: LimitedBy | None = None
    """The smallest upper bound."""
    bounds: Bounds | None = None
    """All bounds, unsnapped, each with its reason."""
    saturated: TriState = TriState.UNKNOWN
    """Do requests queue for want of slots? Where not, the limit is not raised."""
    explanation: Annotated[
        tuple[Sentence, ...],
        Field(max_length=MAX_EXPLANATION),
        BeforeValidator(first(MAX_EXPLANATION)),
    ] = ()
    """The arithmetic, sentence by sentence, to be redone by hand."""


class Revision(ApiModel):
    """A rendered pod template and the settings in it."""

    revision: Word | None = None
    """Short hash of the pod template, as in the label of its pods."""
    generation: Count | None = None
    """Generation of the spec that it was rendered from."""
    max_num_seqs: Seqs | None = None
    """vLLM's --max-num-seqs."""
    gpu_memory_utilization: DecimalString | None = None
    """vLLM's --gpu-memory-utilization."""
    fingerprint: Word | None = None
    """Hash of all that a measured memory figure depends on, the two knobs left out."""
    since: Timestamp | None = None
    """When it was applied; of lastGood: when it was found good."""


class Rejected(ApiModel):
    """Settings in quarantine: they are not tried again unless a person asks."""

    hash: Word
    """Hash of the fingerprint and both knobs; the retry annotation names it."""
    revision: Word | None = None
    """Short hash of the template that failed."""
    max_num_seqs: Seqs | None = None
    """vLLM's --max-num-seqs."""
    gpu_memory_utilization: DecimalString | None = None
    """vLLM's --gpu-memory-utilization."""
    cause: Word = ""
    """Class of the root cause."""
    message: Sentence = ""
    """The engine's own error."""
    shortfall: StatusQuantity | None = None
    """What was missing on each GPU, where the error says it."""
    time: Timestamp | None = None
    """When it was judged."""


class HistoryEntry(Revision):
    """One revision with its verdict."""

    origin: Origin | None = None
    """Whose change it was."""
    verdict: Verdict = Verdict.PENDING
    """How it was judged."""
    reason: Word = ""
    """Why, in one word."""
    message: Sentence = ""
    """Why, for people."""
    predicted_kv_tokens: Annotated[Count | None, Field(alias="predictedKVTokens")] = None
    """Pool that was predicted, in tokens."""
    measured_kv_tokens: Annotated[Count | None, Field(alias="measuredKVTokens")] = None
    """Pool that the engine reported, in tokens."""
    until: Timestamp | None = None
    """When another revision took over."""


class EndpointStatus(ApiModel):
    """What Parkade reports."""

    observed_generation: Annotated[int, Field(ge=-1, le=MAX_INT)] = -1
    """Generation of the spec that this status is about; -1 before the first visit."""
    conditions: Annotated[
        tuple[Condition, ...], Field(max_length=16, json_schema_extra=BY_TYPE)
    ] = ()
    """Ready, Reconciling, Stalled, WorkloadObserved, SettingsApplied, ObjectivesMet."""
    replicas: Count | None = None
    """Pods that exist."""
    ready_replicas: Count | None = None
    """Pods that are ready."""
    selector: Annotated[str, StringConstraints(max_length=1024)] | None = None
    """Label selector of the pods, for autoscalers."""
    recommendation: Recommendation | None = None
    """The settings to run, with the arithmetic."""
    applied: Revision | None = None
    """What runs."""
    last_good: Revision | None = None
    """The last revision that served for soakSeconds on all pods."""
    rejected: Annotated[
        tuple[Rejected, ...], Field(max_length=MAX_REJECTED), BeforeValidator(first(MAX_REJECTED))
    ] = ()
    """Settings in quarantine, newest first."""
    workload: Workload | None = None
    """The traffic that the recommendation rests on."""
    memory: Memory | None = None
    """The map of a GPU's memory."""
    history: Annotated[
        tuple[HistoryEntry, ...], Field(max_length=MAX_HISTORY), BeforeValidator(first(MAX_HISTORY))
    ] = ()
    """The last revisions with their verdicts, newest first."""

    def to_dict(self) -> dict[str, Any]:
        """Return the status as it is applied: camelCase, unknown things left out."""
        return dump(self)


def dump(model: ApiModel) -> dict[str, Any]:
    """Return any part of the resource as plain values: camelCase, without None."""
    plain: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain


def read_status(raw: Mapping[str, Any] | None) -> EndpointStatus:
    """Return a raw status as a value; an unreadable one reads as empty (it decides nothing)."""
    try:
        return EndpointStatus.model_validate(raw or {})
    except ValueError:
        return EndpointStatus()
