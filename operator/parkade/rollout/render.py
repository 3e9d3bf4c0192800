"""From the spec and settings to raw manifests: one Deployment and one Service for each endpoint.

The pod template is rendered once, when a revision is made, and kept whole in the record;
`manifests` only wraps it. So a new version of these rules restarts no pod.
"""

from __future__ import annotations

from typing import Any

from parkade.api import names
from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.rollout.actions import Target
from parkade.rollout.revision import Revision, fingerprint_of, inputs_hash, revision_hash
from parkade.rollout.template import pod_template

REVISION_HISTORY_LIMIT = 5


def render_revision(endpoint: Endpoint, settings: Settings) -> Revision:
    """Return the pod template for these settings with its hashes. Needs `spec.engine`."""
    template = pod_template(endpoint, settings)
    fingerprint = fingerprint_of(template)
    template["metadata"]["annotations"][names.FINGERPRINT_ANNOTATION] = fingerprint
    revision = revision_hash(template)
    template["metadata"]["labels"][names.REVISION_LABEL] = revision
    return Revision(
        hash=revision,
        settings=settings,
        fingerprint=fingerprint,
        inputs=inputs_hash(endpoint.spec),
        generation=endpoint.generation,
        template=template,
    )


def manifests(endpoint: Endpoint, target: Target) -> tuple[dict[str, Any], ...]:
    """Return Deployment and Service for server-side apply, in the order to apply them."""
    return deployment(endpoint, target), service(endpoint)


def deployment(endpoint: Endpoint, target: Target) -> dict[str, Any]:
    """Return the Deployment of a target."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            **_metadata(endpoint),
            "annotations": {
                names.GENERATION_ANNOTATION: str(target.revision.generation),
                names.INPUTS_ANNOTATION: target.revision.inputs,
            },
        },
        "spec": {
            "replicas": target.replicas,
            "paused": False,  # a paused rollout would wait for ever; spec.suspend is for people
            "minReadySeconds": target.min_ready_seconds,
            "progressDeadlineSeconds": target.progress_deadline_seconds,
            "revisionHistoryLimit": REVISION_HISTORY_LIMIT,
            "selector": {"matchLabels": selector(endpoint)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "maxSurge": 1 if target.surge else 0,
                    "maxUnavailable": 0 if target.surge else 1,
                },
            },
            "template": dict(target.revision.template),
        },
    }


def service(endpoint: Endpoint) -> dict[str, Any]:
    """Return the Service in front of the engine pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(endpoint),
        "spec": {
            "selector": selector(endpoint),
            "ports": [
                {
                    "name": names.HTTP_PORT_NAME,
                    "port": names.HTTP_PORT,
                    "protocol": "TCP",
                    "targetPort": names.HTTP_PORT_NAME,
                }
            ],
        },
    }


def selector(endpoint: Endpoint) -> dict[str, str]:
    """Return the labels that select the endpoint's pods; never changes in its life."""
    return {names.ENDPOINT_LABEL: endpoint.name}


def selector_text(endpoint: Endpoint) -> str:
    """Return the same as autoscalers read it from status."""
    return f"{names.ENDPOINT_LABEL}={endpoint.name}"


def owner_reference(endpoint: Endpoint) -> dict[str, Any]:
    """Return the reference that lets the garbage collector take children with the resource."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": endpoint.name,
        "uid": endpoint.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _metadata(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": endpoint.name,
        "namespace": endpoint.namespace,
        "labels": selector(endpoint),
        "ownerReferences": [owner_reference(endpoint)],
    }
