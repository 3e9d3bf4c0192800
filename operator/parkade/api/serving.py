"""The part of the spec that says what is served and on what: model, engine, card."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from parkade.api.base import ApiModel, Rule
from parkade.api.fields import (
    BY_NAME,
    PRESERVE,
    ImagePullSecret,
    KeyRef,
    ObjectName,
    Quantity,
    Volume,
)
from parkade.api.flags import EXTRA_ARGS_RULE
from parkade.api.pod_template import (
    ENV_VAR_SCHEMA,
    POD_TEMPLATE_SCHEMA,
    problem_with_env,
    problem_with_pod_template,
)

HUB_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$"
"""A Hugging Face id; every other name is a path or an address that the operator can't read."""


def is_hub_id(name: str) -> bool:
    """Return whether a model's name is an id on the hub, rather than a path."""
    return re.match(HUB_ID, name) is not None


class Model(ApiModel):
    """The model to serve."""

    rules = (
        Rule(
            message=(
                "a model that is not a Hugging Face id (a path, for example) needs "
                "configMapKeyRef and weightsSize, since the operator can't read its files"
            ),
            cel=(
                f"self.name.matches('{HUB_ID}') || "
                "(has(self.configMapKeyRef) && has(self.weightsSize))"
            ),
            check=lambda model: (
                is_hub_id(model.name) or bool(model.config_map_key_ref and model.weights_size)
            ),
        ),
    )

    name: Annotated[str, StringConstraints(pattern=r"^[^\s-]\S*$", min_length=1, max_length=512)]
    """Hugging Face id, or a path in the volume."""
    revision: (
        Annotated[str, StringConstraints(pattern=r"^[^\s-]\S*$", min_length=1, max_length=128)]
        | None
    ) = None
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


class SpeculativeConfig(ApiModel):
    """Speculative decoding, with vLLM's own keys (--speculative-config)."""

    model_config = ConfigDict(
        alias_generator=None, extra="allow", json_schema_extra={PRESERVE: True}
    )

    method: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """vLLM's method: mtp, eagle, eagle3, draft_model, ngram, dflash."""
    num_speculative_tokens: Annotated[int, Field(ge=1, le=128)]
    """Tokens proposed at each step."""
    model: Annotated[str, StringConstraints(max_length=512)] | None = None
    """The draft model, where the method needs one."""


def _secrets_once(secrets: tuple[ImagePullSecret, ...]) -> tuple[ImagePullSecret, ...]:
    if len({secret.name for secret in secrets}) < len(secrets):
        raise PydanticCustomError("twice", "a name may stand in the list only once")
    return secrets


def _named_once(variables: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    if problem := problem_with_env(variables):
        raise PydanticCustomError("env", "{text}", {"text": problem})
    return variables


def _free_of_owned_fields(template: dict[str, Any]) -> dict[str, Any]:
    if problem := problem_with_pod_template(template):
        raise PydanticCustomError("pod_template", "{text}", {"text": problem})
    return template


PodTemplate = Annotated[
    dict[str, Any], AfterValidator(_free_of_owned_fields), WithJsonSchema(POD_TEMPLATE_SCHEMA)
]
EnvVar = Annotated[dict[str, Any], WithJsonSchema(ENV_VAR_SCHEMA)]
Argument = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Engine(ApiModel):
    """The vLLM engine and how its pods run."""

    image: Annotated[str, StringConstraints(pattern=r"^[^\s-]\S*$", min_length=1, max_length=512)]
    """Container image of vLLM."""
    version: (
        Annotated[str, StringConstraints(pattern=r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?.*$", max_length=64)]
        | None
    ) = None
    """vLLM's version, where the image's tag does not say it (mirrors, digests)."""
    image_pull_secrets: Annotated[
        tuple[ImagePullSecret, ...],
        Field(max_length=16, json_schema_extra=BY_NAME),
        AfterValidator(_secrets_once),
    ] = ()
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
    extra_args: Annotated[tuple[Argument, ...], Field(max_length=128), EXTRA_ARGS_RULE] = ()
    """Further arguments of the engine. May not name a flag that Parkade owns."""
    env: Annotated[
        tuple[EnvVar, ...],
        Field(max_length=128, json_schema_extra=BY_NAME),
        AfterValidator(_named_once),
    ] = ()
    """Environment variables of the engine's container, as in a pod."""
    cache_volume: Volume | None = None
    """Where compile caches live (VLLM_CACHE_ROOT), so that a restart need not compile again."""
    pod_template: PodTemplate = Field(default_factory=dict)
    """Free fields of the pod template; named lists merge by name; the engine is `vllm`."""

    @property
    def gpus_per_pod(self) -> int:
        """GPUs that one pod asks for."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


class TargetRef(ApiModel):
    """A vLLM Deployment that Parkade does not own and only advises on."""

    api_version: Literal["apps/v1"] = "apps/v1"
    """Always apps/v1."""
    kind: Literal["Deployment"] = "Deployment"
    """Always Deployment."""
    name: ObjectName
    """Name of the Deployment."""


class Accelerator(ApiModel):
    """The card that the endpoint is sized for."""

    product: Annotated[
        str,
        StringConstraints(
            pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", min_length=1, max_length=63
        ),
    ]
    """Value of the node label nvidia.com/gpu.product."""
    memory: Quantity | None = None
    """What the engine calls total memory: a little less than the node label says."""
