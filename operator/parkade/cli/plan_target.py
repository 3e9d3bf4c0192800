"""A vLLM Deployment that Parkade does not own, read as if it were an InferenceEndpoint.

Nothing is written to it: its arguments become a spec, its settings what is in force, and the
pods' metrics the traffic, so that `parkade plan --deployment` can say what they should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parkade.adapters import rbac
from parkade.adapters.errors import AdapterError
from parkade.adapters.kubeconfig import connect
from parkade.api import names
from parkade.api.endpoint import Endpoint, InvalidEndpoint, parse_endpoint
from parkade.api.status import dump
from parkade.cli.errors import UsageError
from parkade.rollout.revision import GPU_PRODUCT_LABEL
from parkade.rollout.running import RunningEngine, UnreadableError, read_running
from parkade.sizing.cards import default_max_num_seqs


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
    try:
        running = read_running(
            deployment, lambda selected: default_max_num_seqs(extra.product or selected)
        )
    except UnreadableError as error:
        raise UsageError(str(error)) from error
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": meta.get("name", ""), "namespace": meta.get("namespace", "default")},
        "spec": {
            "replicas": running.replicas,
            "model": _model(running, extra),
            "engine": dump(running.engine),
            "accelerator": {"product": extra.product or _product(running)},
            "objectives": _objectives(extra),
            "tuning": {"initial": running.settings.to_dict()},
        },
    }
    endpoint = parse_endpoint(body)
    if isinstance(endpoint, InvalidEndpoint):
        raise UsageError(f"the Deployment can't be read as an endpoint: {endpoint.message}")
    return endpoint


def _model(running: RunningEngine, extra: Extra) -> dict[str, Any]:
    length = running.max_model_len or extra.max_model_len
    if not running.model or not length:
        raise UsageError("the Deployment's arguments name no model or no --max-model-len")
    return {"name": running.model, "maxModelLen": length, "weightsSize": extra.weights_size}


def _objectives(extra: Extra) -> dict[str, Any] | None:
    if extra.min_output_tokens_per_second is None:
        return None
    return {"minOutputTokensPerSecond": extra.min_output_tokens_per_second}


def _product(running: RunningEngine) -> str:
    if not running.product:
        raise UsageError(
            f"the Deployment does not select a card by {GPU_PRODUCT_LABEL}: give --gpu-product"
        )
    return running.product
