"""The part of status that says what a recommendation rests on: the traffic and the memory."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from parkade.api.base import ApiModel, clipped

MAX_SENTENCE_LENGTH = 1024

MAX_INT = 9_007_199_254_740_991
"""The largest whole number that JSON readers agree on."""

Word = Annotated[str, StringConstraints(max_length=128), BeforeValidator(clipped(128))]
Sentence = Annotated[
    str,
    StringConstraints(max_length=MAX_SENTENCE_LENGTH),
    BeforeValidator(clipped(MAX_SENTENCE_LENGTH)),
]
DecimalString = Annotated[
    str, StringConstraints(pattern=r"^-?[0-9]{1,18}(\.[0-9]{1,9})?$", max_length=32)
]
"""A number with a fraction, as text: the schema has no floats."""
StatusQuantity = Annotated[
    str, StringConstraints(pattern=r"^-?[0-9]{1,18}(\.[0-9]{1,9})?(Ki|Mi|Gi|Ti)?$", max_length=32)
]
"""A size per GPU; may be negative, where something is short."""
Count = Annotated[int, Field(ge=0, le=MAX_INT)]
Seqs = Annotated[int, Field(ge=0, le=1024)]


class MemoryBasis(StrEnum):
    """Where the memory figures come from."""

    ESTIMATED = "Estimated"
    """Computed before a first run of this configuration."""
    MEASURED = "Measured"
    """Reported by an engine that ran exactly this configuration."""


class WorkloadBasis(StrEnum):
    """Where the lengths come from."""

    MEASURED = "Measured"
    """Read from the traffic of the window."""
    ASSUMED = "Assumed"
    """Taken from workload.assumed."""


class FootprintBasis(StrEnum):
    """How the in-flight footprint of a request is known."""

    MEASURED = "Measured"
    """Ratio of sums of KV use and running requests over the scrapes."""
    COMPUTED = "Computed"
    """Derived from the two length histograms: a bracket with a point in it."""


class Interval(ApiModel):
    """The bucket that a quantile lies in."""

    above: Count | None = None
    """Lower edge."""
    up_to: Count | None = None
    """Upper edge; absent where the bucket is open."""


class Lengths(ApiModel):
    """Lengths of requests, in tokens."""

    mean: DecimalString | None = None
    """Exact, from the sums."""
    median: Interval | None = None
    """Half of the requests are no longer."""
    p90: Interval | None = None
    """Nine in ten are no longer."""
    p99: Interval | None = None
    """99 in a hundred are no longer."""


class Footprint(ApiModel):
    """KV tokens that one request in flight holds, averaged over time."""

    tokens: DecimalString | None = None
    """The value that the KV bound is computed with."""
    low: DecimalString | None = None
    """Lower end of what the data allows."""
    high: DecimalString | None = None
    """Upper end of what the data allows."""
    basis: FootprintBasis | None = None
    """Measured or computed."""
    scrapes: Count | None = None
    """Scrapes with running requests that it was measured over."""


class Workload(ApiModel):
    """The traffic that the recommendation rests on."""

    basis: WorkloadBasis | None = None
    """Measured or assumed."""
    window_seconds: Count | None = None
    """Length of the window."""
    requests: Count | None = None
    """Finished requests in it."""
    effective_requests: Interval | None = None
    """How many equal requests they are worth, given how uneven they are."""
    prompt_tokens: Lengths | None = None
    """Prompts."""
    output_tokens: Lengths | None = None
    """Outputs."""
    prefix_cached_percent: DecimalString | None = None
    """Share of prompt tokens that the prefix cache held."""
    footprint: Footprint | None = None
    """What one request in flight holds."""
    running: DecimalString | None = None
    """Mean requests running on each pod."""
    peak_requests_per_second: DecimalString | None = None
    """Highest arrival rate in the window."""
    queued_percent: DecimalString | None = None
    """Share of requests that waited for more than 0.3 s."""
    preemptions_per_request: DecimalString | None = None
    """Preemptions for each finished request."""


class Memory(ApiModel):
    """The map of one GPU's memory. Sizes are quantities for each GPU."""

    total: StatusQuantity | None = None
    """What the engine calls total."""
    free_at_start: StatusQuantity | None = None
    """Free when the engine took its snapshot; the smallest rank counts."""
    effective_headroom: StatusQuantity | None = None
    """The headroom in force: tuning.headroom, plus what failed starts have shown to be missing."""
    weights: StatusQuantity | None = None
    """Weights."""
    peak_activation: StatusQuantity | None = None
    """Activations at their peak while profiling."""
    non_torch: StatusQuantity | None = None
    """Taken outside the framework's allocator."""
    cuda_graphs: StatusQuantity | None = None
    """CUDA graphs."""
    available_kv: Annotated[StatusQuantity | None, Field(alias="availableKV")] = None
    """What is left for the KV cache."""
    pool_tokens: Count | None = None
    """The KV cache in tokens, at full length."""
    uncertainty: StatusQuantity | None = None
    """How far the estimates may be off."""
    basis: MemoryBasis | None = None
    """Estimated or measured."""
