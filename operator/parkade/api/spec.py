"""The spec of an InferenceEndpoint: what users write. The only source of the CRD.

Spec belongs to the user; nothing in Parkade ever writes it. No floats: fractions are decimal
strings, sizes are quantities, times end in `Seconds`. Every string, list and number is bounded.
Reading is lenient (a newer API server may know more fields); `parkade plan` reads strictly.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints

from parkade.api import quantity
from parkade.api.base import ApiModel
from parkade.api.settings import Settings, fraction

Quantity = Annotated[str, StringConstraints(pattern=quantity.PATTERN, max_length=32)]
Fraction = Annotated[
    str, StringConstraints(pattern=r"^(0\.[0-9]{1,4}|1(\.0{1,4})?)$", max_length=6)
]
ObjectName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253),
]
Seconds = Annotated[int, Field(ge=0, le=31_536_000)]
FreeObject = Annotated[
    dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
]


class Mode(StrEnum):
    """Whether Parkade may change the two knobs."""

    AUTO = "Auto"
    RECOMMEND_ONLY = "RecommendOnly"


class Interruption(StrEnum):
    """Whether tuning may leave the endpoint without a ready pod."""

    NEVER = "Never"
    IN_WINDOWS = "InWindows"
    ALLOWED = "Allowed"


class Strategy(StrEnum):
    """How a new pod comes: beside the old one, or in its place."""

    AUTO = "Auto"
    SURGE = "Surge"
    NO_SURGE = "NoSurge"


class KeyRef(ApiModel):
    """A key of a ConfigMap or Secret in the endpoint's namespace."""

    name: ObjectName
    """Name of the object."""
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
    """Key in its data."""


class ClaimSource(ApiModel):
    """A persistent volume claim in the endpoint's namespace."""

    claim_name: ObjectName
    """Name of the claim."""


class Volume(ApiModel):
    """A volume for model files or caches."""

    persistent_volume_claim: ClaimSource
    """The claim that holds it."""


class Model(ApiModel):
    """The model to serve."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    """Hugging Face id, or a path in the volume."""
    revision: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch on the hub."""
    max_model_len: Annotated[int, Field(ge=1, le=16_777_216)]
    """Longest context in tokens that the engine advertises (vLLM's --max-model-len)."""
    config_map_key_ref: KeyRef | None = None
    """The model's config.json, for gated models, paths, and clusters without a hub."""
    weights_size: Quantity | None = None
    """Size of the weights in memory, where the hub's index can't be read."""
    volume: Volume | None = None
    """Where the model's files are, mounted at /models."""
    token_secret_key_ref: KeyRef | None = None
    """Hub token; given to the pods, never read by the operator."""


class ImagePullSecret(ApiModel):
    """Name of a Secret for pulling images."""

    name: ObjectName
    """Name of the Secret."""


class SpeculativeConfig(ApiModel):
    """Speculative decoding, with vLLM's own keys (--speculative-config)."""

    model_config = ConfigDict(alias_generator=None, extra="allow")

    method: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """vLLM's method: mtp, eagle, eagle3, draft_model, ngram, dflash."""
    num_speculative_tokens: Annotated[int, Field(ge=1, le=128)]
    """Tokens proposed at each step."""
    model: Annotated[str, StringConstraints(max_length=512)] | None = None
    """The draft model, where the method needs one."""


class Engine(ApiModel):
    """The vLLM engine and how its pods run."""

    image: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    """Container image of vLLM."""
    version: (
        Annotated[str, StringConstraints(pattern=r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?.*$", max_length=64)]
        | None
    ) = None
    """vLLM's version, where the image's tag does not say it (mirrors, digests)."""
    image_pull_secrets: Annotated[tuple[ImagePullSecret, ...], Field(max_length=16)] = ()
    """Secrets for pulling the image."""
    kv_cache_dtype: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$", max_length=64)] = (
        "auto"
    )
    """vLLM's --kv-cache-dtype."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs that share each layer (vLLM's --tensor-parallel-size)."""
    pipeline_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    """Stages of layers; GPUs per pod = tensor x pipeline parallel size."""
    speculative_config: SpeculativeConfig | None = None
    """Speculative decoding."""
    extra_args: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=4096)], ...],
        Field(max_length=128),
    ] = ()
    """Further arguments of the engine. May not name a flag that Parkade owns."""
    env: Annotated[tuple[FreeObject, ...], Field(max_length=128)] = ()
    """Environment variables of the engine's container, as in a pod."""
    cache_volume: Volume | None = None
    """Where compile caches live (VLLM_CACHE_ROOT), so that a restart need not compile again."""
    pod_template: FreeObject = Field(default_factory=dict)
    """Free fields of the pod template; named lists merge by name; the engine is `vllm`."""

    @property
    def gpus_per_pod(self) -> int:
        """GPUs that one pod asks for."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


class TargetRef(ApiModel):
    """A vLLM Deployment that Parkade does not own and only advises on."""

    api_version: Annotated[str, StringConstraints(pattern=r"^apps/v1$", max_length=16)] = "apps/v1"
    """Always apps/v1."""
    kind: Annotated[str, StringConstraints(pattern=r"^Deployment$", max_length=16)] = "Deployment"
    """Always Deployment."""
    name: ObjectName
    """Name of the Deployment."""


class Accelerator(ApiModel):
    """The card that the endpoint is sized for."""

    product: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)
    ]
    """Value of the node label nvidia.com/gpu.product."""
    memory: Quantity | None = None
    """What the engine calls total memory: a little less than the node label says."""


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

    min_output_tokens_per_second: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Output speed of each request."""
    max_time_to_first_token_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Longest wait for the first token."""
    attainment_percent: Annotated[int, Field(ge=1, le=100)] = 90
    """Share of requests that must meet them."""


class InitialSettings(ApiModel):
    """Settings to run until there is evidence."""

    max_num_seqs: Annotated[int, Field(ge=1, le=1024)]
    """vLLM's --max-num-seqs."""
    gpu_memory_utilization: Fraction
    """vLLM's --gpu-memory-utilization, a decimal string."""

    @property
    def settings(self) -> Settings:
        """The same as a value."""
        return Settings(self.max_num_seqs, fraction(self.gpu_memory_utilization))


class SeqsRange(ApiModel):
    """Bounds on max_num_seqs that the user gives."""

    min: Annotated[int, Field(ge=1, le=1024)] = 1
    """Never below."""
    max: Annotated[int, Field(ge=1, le=1024)] = 1024
    """Never above."""


class MaintenanceWindow(ApiModel):
    """A time in which tuning may start."""

    schedule: Annotated[str, StringConstraints(min_length=9, max_length=128)]
    """Cron expression of five fields: when the window opens."""
    duration_seconds: Annotated[int, Field(ge=60, le=604_800)]
    """How long it stays open."""
    time_zone: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_+/-]+$", max_length=64)] = (
        "UTC"
    )
    """IANA time zone of the schedule."""


class Tuning(ApiModel):
    """How far and how often Parkade may change the knobs."""

    mode: Mode = Mode.AUTO
    """Auto rolls recommendations out; RecommendOnly writes them into status."""
    initial: InitialSettings | None = None
    """Settings to run until there is evidence."""
    headroom: Quantity = "6Gi"
    """Memory that stays free on each GPU."""
    max_num_seqs: SeqsRange = SeqsRange()
    """Bounds on max_num_seqs."""
    min_gain_percent: Annotated[int, Field(ge=0, le=1000)] = 10
    """A change must gain at least this much."""
    cooldown_seconds: Seconds = 3600
    """Shortest time between two disruptions by tuning."""
    interruption: Interruption = Interruption.IN_WINDOWS
    """Whether tuning may leave the endpoint without a ready pod."""
    maintenance_windows: Annotated[tuple[MaintenanceWindow, ...], Field(max_length=16)] = ()
    """Where given, tuning starts only inside them."""

    @property
    def headroom_bytes(self) -> int:
        """The headroom in bytes."""
        return quantity.parse_bytes(self.headroom) or 0


class Rollout(ApiModel):
    """How new pods are brought up and judged."""

    strategy: Strategy = Strategy.AUTO
    """Auto tries a surge pod first; Surge and NoSurge say it outright."""
    start_deadline_seconds: Annotated[int, Field(ge=10, le=86_400)] = 1800
    """Longest time from a container's start to Ready."""
    max_restarts: Annotated[int, Field(ge=0, le=100)] = 2
    """More restarts than this while soaking reject a candidate."""
    soak_seconds: Annotated[int, Field(ge=0, le=604_800)] = 600
    """How long a candidate serves before it is believed."""


class EndpointSpec(ApiModel):
    """What the user wants."""

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


def utilization_of(value: Decimal) -> str:
    """Return a fraction as the decimal string of spec and status."""
    return f"{value.normalize():f}"
