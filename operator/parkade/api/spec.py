"""The spec of an InferenceEndpoint: what users write. The only source of the CRD.

Spec belongs to the user; nothing in Parkade ever writes it. No floats: fractions are decimal
strings, sizes are quantities, times end in `Seconds`. Every string, list and number is bounded.
Reading is lenient (a newer API server may know more fields); `parkade plan` reads strictly.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from parkade.api import quantity
from parkade.api.base import ApiModel, Rule
from parkade.api.fields import (
    ClaimSource,
    Fraction,
    FreeObject,
    ImagePullSecret,
    KeyRef,
    ObjectName,
    Quantity,
    Seconds,
    Volume,
)
from parkade.api.serving import Accelerator, Engine, Model, SpeculativeConfig, TargetRef
from parkade.api.tuning import (
    InitialSettings,
    Interruption,
    MaintenanceWindow,
    Mode,
    Rollout,
    SeqsRange,
    Strategy,
    Tuning,
    utilization_of,
)

__all__ = [
    "Accelerator",
    "Assumed",
    "ClaimSource",
    "EndpointSpec",
    "Engine",
    "Fraction",
    "FreeObject",
    "ImagePullSecret",
    "InitialSettings",
    "Interruption",
    "KeyRef",
    "MaintenanceWindow",
    "Mode",
    "Model",
    "ObjectName",
    "Objectives",
    "PrometheusRef",
    "Quantity",
    "Rollout",
    "Seconds",
    "SeqsRange",
    "SpeculativeConfig",
    "Strategy",
    "TargetRef",
    "Tuning",
    "Volume",
    "WorkloadSpec",
    "utilization_of",
]


class Assumed(ApiModel):
    """Mean lengths to size for until there is traffic."""

    prompt_tokens: Annotated[int, Field(ge=1, le=16_777_216)]
    """Mean prompt length."""
    output_tokens: Annotated[int, Field(ge=1, le=16_777_216)]
    """Mean output length."""


class PrometheusRef(ApiModel):
    """One of the servers named in the operator's configuration."""

    name: ObjectName = "default"
    """Name in the operator's configuration."""


class WorkloadSpec(ApiModel):
    """How the traffic is observed."""

    window_seconds: Annotated[int, Field(ge=60, le=2_592_000)] = 14_400
    """Length of the window that lengths are read over."""
    min_requests: Annotated[int, Field(ge=1, le=100_000_000)] = 500
    """Fewer finished requests in the window decide nothing."""
    prometheus_ref: PrometheusRef = PrometheusRef()
    """Which server to ask."""
    assumed: Assumed | None = None
    """Lengths to size for until there is traffic."""


class Objectives(ApiModel):
    """What requests must get."""

    rules = (
        Rule(
            message=(
                "objectives needs minOutputTokensPerSecond or maxTimeToFirstTokenSeconds; "
                "leave objectives out where nothing is asked for"
            ),
            cel="has(self.minOutputTokensPerSecond) || has(self.maxTimeToFirstTokenSeconds)",
            check=lambda wanted: (
                wanted.min_output_tokens_per_second is not None
                or wanted.max_time_to_first_token_seconds is not None
            ),
        ),
    )

    min_output_tokens_per_second: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Output speed of each request."""
    max_time_to_first_token_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Longest wait for the first token."""
    attainment_percent: Annotated[int, Field(ge=1, le=100)] = 90
    """Share of requests that must meet them."""


class EndpointSpec(ApiModel):
    """What the user wants."""

    rules = (
        Rule(
            message="exactly one of engine and targetRef must be given",
            cel="has(self.engine) != has(self.targetRef)",
            check=lambda spec: (spec.engine is None) != (spec.target_ref is None),
        ),
        Rule(
            message=(
                "workload.assumed.promptTokens + outputTokens may not exceed model.maxModelLen"
            ),
            cel=(
                "!has(self.workload.assumed) || self.workload.assumed.promptTokens + "
                "self.workload.assumed.outputTokens <= self.model.maxModelLen"
            ),
            check=lambda spec: (
                spec.workload.assumed is None
                or spec.workload.assumed.prompt_tokens + spec.workload.assumed.output_tokens
                <= spec.model.max_model_len
            ),
        ),
        Rule(
            message="tuning.headroom must be less than accelerator.memory",
            cel=(
                "!has(self.accelerator.memory) || quantity(string(self.tuning.headroom))"
                ".isLessThan(quantity(string(self.accelerator.memory)))"
            ),
            check=lambda spec: (
                spec.accelerator.memory is None
                or spec.tuning.headroom_bytes < (quantity.parse_bytes(spec.accelerator.memory) or 0)
            ),
        ),
    )

    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    """Pods. Leave it out of Git when an autoscaler owns /scale. 0 is valid."""
    model: Model
    """The model to serve."""
    engine: Engine | None = None
    """The engine that Parkade runs. Exactly one of engine and targetRef."""
    target_ref: TargetRef | None = None
    """A Deployment to advise on."""
    accelerator: Accelerator
    """The card."""
    workload: WorkloadSpec = WorkloadSpec()
    """How the traffic is observed."""
    objectives: Objectives | None = None
    """What requests must get."""
    tuning: Tuning = Tuning()
    """How far and how often the knobs may change."""
    rollout: Rollout = Rollout()
    """How new pods are brought up and judged."""
    suspend: bool = False
    """True: nothing but status is written."""
