"""A vLLM Deployment that Parkade does not own, read as if it were an InferenceEndpoint.

Nothing is written to it: its arguments become a spec, its settings what is in force, and the
pods' metrics the traffic, so that `parkade plan --deployment` can say what they should be.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parkade.adapters import rbac
from parkade.adapters.cluster import connect
from parkade.adapters.errors import AdapterError
from parkade.adapters.vllm_metrics import NAMESPACE_LABEL, POD_LABEL, Scope
from parkade.api import names
from parkade.api.endpoint import Endpoint, InvalidEndpoint, parse_endpoint
from parkade.api.flags import names_owned_flag
from parkade.cli.errors import UsageError

PRODUCT_LABEL = "nvidia.com/gpu.product"

_SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "sc": "speculative-config"}
_DEFAULT_SEQS = 256
"""vLLM's API server below 70 GiB; larger cards have 1024, but nobody chose it."""


@dataclass(frozen=True, slots=True)
class DeploymentScope(Scope):
    """The pods of a Deployment by their names, since nothing labels their metrics."""

    deployment: str = ""

    @property
    def selector(self) -> str:
        """Series of the Deployment's pods: NAME-HASH-SUFFIX."""
        name = re.escape(self.deployment).replace("\\", "\\\\")
        matchers = [f'{POD_LABEL}=~"{name}-[a-z0-9]+-[a-z0-9]+"']
        matchers.append(f'{NAMESPACE_LABEL}="{self.namespaces[0]}"')
        return "{" + ",".join(matchers) + "}"


@dataclass(frozen=True, slots=True)
class Extra:
    """What a person adds to what the Deployment says."""

    product: str | None
    max_model_len: int | None
    """Of the model's configuration, where the arguments do not say it."""
    weights_size: str | None
    min_output_tokens_per_second: int | None


def read_deployment(target: str, kubeconfig: str | None) -> dict[str, Any]:
    """Return the Deployment of `NAMESPACE/NAME` from the cluster of the kubeconfig."""
    namespace, slash, name = target.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise UsageError(f"--deployment {target!r} is not NAMESPACE/NAME")
    try:
        cluster = connect(kubeconfig)
        try:
            found = cluster.get(rbac.DEPLOYMENTS, namespace, name)
        finally:
            cluster.close()
    except AdapterError as error:
        raise UsageError(f"--deployment: {error}") from error
    if found is None:
        raise UsageError(f"there is no Deployment {name!r} in namespace {namespace!r}")
    return dict(found)


def endpoint_of(deployment: Mapping[str, Any], extra: Extra) -> Endpoint:
    """Return the Deployment as an endpoint, or refuse it with what is missing."""
    meta = deployment.get("metadata") or {}
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    container = _engine_container(pod)
    flags, positional = _flags(_words(container))
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": meta.get("name", ""), "namespace": meta.get("namespace", "default")},
        "spec": {
            "replicas": (deployment.get("spec") or {}).get("replicas", 1),
            "model": _model(flags, positional, extra),
            "engine": _engine(container, flags),
            "accelerator": {"product": extra.product or _product(pod)},
            "objectives": _objectives(extra),
            "tuning": {"initial": _initial(flags)},
        },
    }
    endpoint = parse_endpoint(body)
    if isinstance(endpoint, InvalidEndpoint):
        raise UsageError(f"the Deployment can't be read as an endpoint: {endpoint.message}")
    return endpoint


def _engine_container(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = [one for one in pod.get("containers") or () if isinstance(one, Mapping)]
    for container in containers:
        if "vllm" in " ".join([str(container.get("image", "")), *_words(container)]):
            return container
    raise UsageError("no container of the Deployment runs vLLM (neither image nor command says so)")


def _words(container: Mapping[str, Any]) -> list[str]:
    words = [
        str(one) for one in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]
    try:
        if "-c" in words:  # a shell's line
            words = shlex.split(words[words.index("-c") + 1])
    except (IndexError, ValueError) as error:
        raise UsageError(f"the container's shell line can't be read: {error}") from error
    return words


def _flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return flags by long name (a switch is empty) and the other words."""
    flags: dict[str, str] = {}
    positional: list[str] = []
    name = ""
    for word in words:
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("_", "-") if word.startswith("--") else _SHORT.get(name, name)
            flags[name] = value
            name = "" if equals else name
        elif name:
            flags[name], name = word, ""
        else:
            positional.append(word)
    return flags, positional


def _model(flags: Mapping[str, str], positional: list[str], extra: Extra) -> dict[str, Any]:
    after = positional[positional.index("serve") + 1 :] if "serve" in positional else positional
    name = flags.get("model") or next(iter(after), "")
    length = flags.get("max-model-len") or extra.max_model_len
    if not name or not length:
        raise UsageError("the Deployment's arguments name no model or no --max-model-len")
    return {"name": name, "maxModelLen": _number(length, int), "weightsSize": extra.weights_size}


def _engine(container: Mapping[str, Any], flags: Mapping[str, str]) -> dict[str, Any]:
    rest = [
        f"--{name}={value}" if value else f"--{name}"
        for name, value in flags.items()
        if not names_owned_flag(f"--{name}")
    ]
    engine: dict[str, Any] = {
        "image": container.get("image") or "unknown",
        "kvCacheDtype": flags.get("kv-cache-dtype", "auto"),
        "tensorParallelSize": _number(flags.get("tensor-parallel-size", "1"), int),
        "pipelineParallelSize": _number(flags.get("pipeline-parallel-size", "1"), int),
        "extraArgs": rest,
    }
    if flags.get("speculative-config"):
        try:
            engine["speculativeConfig"] = json.loads(flags["speculative-config"])
        except ValueError as error:
            raise UsageError(f"--speculative-config is not JSON: {error}") from error
    return engine


def _initial(flags: Mapping[str, str]) -> dict[str, Any]:
    fraction = _number(flags.get("gpu-memory-utilization", "0.9"), float)
    seqs = _number(flags.get("max-num-seqs", str(_DEFAULT_SEQS)), int)
    return {"maxNumSeqs": seqs, "gpuMemoryUtilization": f"{fraction:.4f}"}


def _number(text: str | int, kind: type[int | float]) -> int | float:
    try:
        return kind(text)
    except ValueError as error:
        raise UsageError(f"an argument of the Deployment, {text!r}, is not a number") from error


def _objectives(extra: Extra) -> dict[str, Any] | None:
    if extra.min_output_tokens_per_second is None:
        return None
    return {"minOutputTokensPerSecond": extra.min_output_tokens_per_second}


def _product(pod: Mapping[str, Any]) -> str:
    product = (pod.get("nodeSelector") or {}).get(PRODUCT_LABEL)
    if not product:
        raise UsageError(
            f"the Deployment does not select a card by {PRODUCT_LABEL}: give --gpu-product"
        )
    return str(product)
