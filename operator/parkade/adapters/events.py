"""Events on an InferenceEndpoint: one object for each (resource, reason, message), counted up.

Kopf's own events are new objects each time and can't be posted from a worker thread; these have a
name that follows from their content, so that a repeated transition raises `count` instead.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from parkade.adapters import rbac
from parkade.adapters.cluster import Cluster, Raw
from parkade.adapters.errors import ConflictError
from parkade.api import names

MAX_NOTE_LENGTH = 1024
"""The API server refuses longer messages."""

COMPONENT = "parkade"


@dataclass(frozen=True, slots=True)
class Subject:
    """The InferenceEndpoint that an event is about."""

    namespace: str
    name: str
    uid: str


def post(
    cluster: Cluster, subject: Subject, *, reason: str, message: str, warning: bool, now: datetime
) -> None:
    """Create the event, or count it up where the same was said before."""
    event = event_body(subject, reason=reason, message=message, warning=warning, now=now)
    try:
        cluster.create(rbac.EVENTS, event)
    except ConflictError:
        _count_up(cluster, event, now)


def event_body(subject: Subject, *, reason: str, message: str, warning: bool, now: datetime) -> Raw:
    """Return a core/v1 Event with a name that follows from its content."""
    stamp = timestamp(now)
    digest = hashlib.sha256(f"{subject.uid}\n{reason}\n{message}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": subject.namespace, "name": f"{subject.name}.{digest}"},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": _fit(message),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def timestamp(now: datetime) -> str:
    """Return a time as Kubernetes writes it: UTC, whole seconds."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _count_up(cluster: Cluster, event: Raw, now: datetime) -> None:
    meta = event["metadata"]
    seen = cluster.get(rbac.EVENTS, meta["namespace"], meta["name"])
    if seen is None:
        return
    patch = {"count": int(seen.get("count") or 1) + 1, "lastTimestamp": timestamp(now)}
    cluster.merge(rbac.EVENTS, meta["namespace"], meta["name"], patch)


def _fit(message: str) -> str:
    raw = message.encode()
    if len(raw) <= MAX_NOTE_LENGTH:
        return message
    return raw[: MAX_NOTE_LENGTH - 3].decode("utf-8", "ignore") + "…"
