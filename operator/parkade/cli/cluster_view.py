"""An endpoint as the cluster has it, for the commands that tell of it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from parkade.api.endpoint import Endpoint, InvalidEndpoint, parse_endpoint
from parkade.api.status import EndpointStatus, read_status
from parkade.cli.errors import CannotSize, UsageError
from parkade.rollout.record import Record


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The resource, what its status says, and its record where that is readable."""

    endpoint: Endpoint
    status: EndpointStatus
    raw: dict[str, Any]
    record: Record | None

    @property
    def title(self) -> str:
        """Namespace, name, model and card in one line."""
        spec = self.endpoint.spec
        return (
            f"{self.endpoint.namespace}/{self.endpoint.name}: {spec.model.name} on "
            f"{spec.accelerator.product}"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what names an endpoint in a cluster, as kubectl does."""
    parser.add_argument("name", metavar="NAME", help="name of the InferenceEndpoint")
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help="default: the context's")
    parser.add_argument("--kubeconfig", metavar="FILE", help="cluster (default: as kubectl)")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig")


def view(args: argparse.Namespace) -> ClusterView:
    """Read the endpoint. Raises UsageError (no such endpoint, no cluster) or CannotSize."""
    from parkade.adapters import rbac  # noqa: PLC0415 - the client takes a second to import
    from parkade.adapters.errors import AdapterError  # noqa: PLC0415
    from parkade.adapters.kubeconfig import connect, current_namespace  # noqa: PLC0415
    from parkade.controller import record_store  # noqa: PLC0415

    try:
        cluster = connect(args.kubeconfig, args.context)
        namespace = args.namespace or current_namespace(args.kubeconfig, args.context)
        raw = cluster.get(rbac.ENDPOINTS, namespace, args.name)
        name = record_store.object_name(args.name)
        held = None if raw is None else cluster.get(rbac.CONFIGMAPS, namespace, name)
    except AdapterError as error:
        raise UsageError(str(error)) from error
    if raw is None:
        raise UsageError(
            f"there is no InferenceEndpoint {args.name!r} in namespace {namespace!r}; "
            "`kubectl get iep -A` lists them"
        )
    endpoint = parse_endpoint(raw)
    if isinstance(endpoint, InvalidEndpoint):
        raise CannotSize(f"{namespace}/{args.name} can't be read: {endpoint.message}")
    record = record_store.read(held, endpoint.uid)
    return ClusterView(endpoint, read_status(endpoint.status), raw, record)
