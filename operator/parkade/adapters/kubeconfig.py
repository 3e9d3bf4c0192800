"""Where the cluster is: a kubeconfig, the pod that this runs in, or what kubectl would use."""

from __future__ import annotations

from typing import Any

import kubernetes
import yaml

from parkade.adapters.cluster import Cluster
from parkade.adapters.errors import UnavailableError

USER_AGENT = "parkade"
"""Our own calls in audit logs; Kopf's watches have its own name."""

_NO_KUBECONFIG = (
    kubernetes.config.ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RecursionError,
)
"""What the client raises of a kubeconfig that is not there, or is anything but one."""


def connect(
    kubeconfig: str | None = None, context: str | None = None, **timeouts: float
) -> Cluster:
    """Connect: to the given kubeconfig, else from inside a pod, else as kubectl would.

    `timeouts` are those of `Cluster`. Raises UnavailableError where none of these is there.
    """
    configuration = kubernetes.client.Configuration()
    configuration.retries = False
    try:
        _load(configuration, kubeconfig, context)
    except _NO_KUBECONFIG as error:
        reason = " ".join(str(error).split()).rstrip(".")[:300]
        raise UnavailableError(
            f"No cluster to talk to: {reason}. Give --kubeconfig, or set KUBECONFIG."
        ) from error
    client = kubernetes.client.ApiClient(configuration)
    client.user_agent = USER_AGENT
    return Cluster(client, **timeouts)


def current_namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """Return the namespace that kubectl would use, `default` where nothing says it."""
    try:
        contexts, active = kubernetes.config.list_kube_config_contexts(config_file=kubeconfig)
    except _NO_KUBECONFIG:
        return "default"
    chosen = next((one for one in contexts if one["name"] == context), active)
    return str((chosen.get("context") or {}).get("namespace") or "default")


def _load(configuration: Any, kubeconfig: str | None, context: str | None) -> None:
    if kubeconfig is None and context is None:
        try:
            kubernetes.config.load_incluster_config(client_configuration=configuration)
        except kubernetes.config.ConfigException:
            pass
        else:
            return
    kubernetes.config.load_kube_config(
        config_file=kubeconfig, context=context, client_configuration=configuration
    )
