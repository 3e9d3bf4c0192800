"""The durable record in its ConfigMap, `<name>-parkade-record`, owned by the resource."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from parkade.adapters import rbac
from parkade.adapters.cluster import Cluster
from parkade.api import names
from parkade.api.endpoint import Endpoint
from parkade.controller.views import Raw, Views
from parkade.rollout.record import Record
from parkade.rollout.record_json import from_json, to_json

KEY = "record.json"


def object_name(endpoint_name: str) -> str:
    """Return the name of an endpoint's record."""
    return f"{endpoint_name}-parkade-record"


def held(views: Views, namespace: str, name: str) -> Raw | None:
    """Return the ConfigMap as last seen."""
    return views.named(rbac.CONFIGMAPS, namespace, object_name(name))


def read(config_map: Raw | None, uid: str, now: datetime | None = None) -> Record | None:
    """Return the record; None where it is absent, unreadable, or of another uid.

    `now` is when a candidate ends that only another version of Parkade can read.
    """
    data = (config_map or {}).get("data")
    text = data.get(KEY) if isinstance(data, dict) else None
    return from_json(text if isinstance(text, str) else None, uid, now)


def write(
    cluster: Cluster, endpoint: Endpoint, record: Record, config_map: Raw | None
) -> Raw | None:
    """Write the record where it differs from what is held; return what stands, or None.

    The held resourceVersion goes along: a record that somebody else wrote meanwhile is a
    ConflictError, and the pass starts over from what stands.
    """
    text = to_json(record)
    data = (config_map or {}).get("data")
    if isinstance(data, dict) and data.get(KEY) == text:
        return None
    version = ((config_map or {}).get("metadata") or {}).get("resourceVersion")
    return cluster.apply(rbac.CONFIGMAPS, manifest(endpoint, text), resource_version=version)


def labelled(cluster: Cluster, endpoint: Endpoint, config_map: Raw) -> Raw:
    """Give a record its labels back, by which it is watched, and keep what it holds."""
    text = (config_map.get("data") or {}).get(KEY)
    body = manifest(endpoint, text if isinstance(text, str) else "")
    version = (config_map.get("metadata") or {}).get("resourceVersion")
    return cluster.apply(rbac.CONFIGMAPS, body, resource_version=version)


def manifest(endpoint: Endpoint, text: str) -> dict[str, Any]:
    """Return the ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": endpoint.namespace,
            "name": object_name(endpoint.name),
            "labels": {
                names.ENDPOINT_LABEL: endpoint.name,
                "app.kubernetes.io/managed-by": names.FIELD_MANAGER,
            },
            "ownerReferences": [
                {
                    "apiVersion": names.API_VERSION,
                    "kind": names.KIND,
                    "name": endpoint.name,
                    "uid": endpoint.uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "data": {KEY: text},
    }
