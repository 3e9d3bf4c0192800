"""What the cluster holds, in memory: raw bodies that Kopf's watches bring, by endpoint.

Reads of a pass come from here. Two guards make that safe. Our own writes are put here at once, and
a watch event that is older than what we hold is dropped, so a pass never acts on a state from
before its own write. And since a watch that had to start over does not tell what was deleted
meanwhile, `replace_all` takes a whole listing from time to time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parkade.adapters import rbac
from parkade.adapters.rbac import Resource
from parkade.api import names

Raw = Mapping[str, Any]
EndpointKey = tuple[str, str]
"""Namespace and name of an InferenceEndpoint."""

CHILDREN: tuple[Resource, ...] = (
    rbac.DEPLOYMENTS,
    rbac.REPLICASETS,
    rbac.PODS,
    rbac.SERVICES,
    rbac.CONFIGMAPS,
)
"""Kinds that carry the endpoint's label and are watched by it."""

MAX_GONE = 10_000
"""Deleted objects that are remembered, against answers that a deletion overtook."""


@dataclass(slots=True)
class Views:
    """A thread-safe store of raw bodies. Bodies are never changed in place."""

    _objects: dict[str, dict[tuple[str, str], Raw]] = field(default_factory=dict)
    _by_endpoint: dict[tuple[str, EndpointKey], dict[tuple[str, str], Raw]] = field(
        default_factory=dict
    )
    _gone: dict[str, str] = field(default_factory=dict)
    """Resource versions of what was deleted, by uid. A watch says so too of an object that lost
    the endpoint's label, and that one may come back."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, resource: Resource, body: Raw) -> bool:
        """Take a body in; False where what is held is the same or newer, so nothing changed."""
        place, uid = _place(body), _meta(body).get("uid", "")
        with self._lock:
            if uid in self._gone and not _is_later(_version(body), self._gone[uid]):
                return False
            self._gone.pop(uid, None)
            held = self._objects.setdefault(resource.plural, {}).get(place)
            if held is not None and not _is_newer(body, held):
                return False
            if held is not None:
                self._unlink(resource, place, held)
            self._objects[resource.plural][place] = body
            self._link(resource, place, body)
            return True

    def drop(self, resource: Resource, body: Raw) -> None:
        """Forget an object that was deleted, unless another stands under its name already."""
        place, uid = _place(body), _meta(body).get("uid", "")
        with self._lock:
            self._remember_gone(uid, _version(body))
            held = self._objects.get(resource.plural, {}).get(place)
            if held is not None and _meta(held).get("uid", "") == uid:
                del self._objects[resource.plural][place]
                self._unlink(resource, place, held)

    def replace_all(
        self, resource: Resource, bodies: Iterable[Raw], before: Mapping[tuple[str, str], str]
    ) -> set[EndpointKey]:
        """Take a whole listing in and return the endpoints for which something changed.

        `before` is what `uids` returned before the listing began: only those that are not in the
        listing are gone; what came since stays.
        """
        listed = list(bodies)
        places = {_place(body) for body in listed}
        changed = {
            key
            for body in listed
            if self.put(resource, body)
            for key in self.keys_of(resource, body)
        }
        with self._lock:
            for place, uid in before.items():
                held = self._objects.get(resource.plural, {}).get(place)
                if place in places or held is None or _meta(held).get("uid", "") != uid:
                    continue
                changed.update(self.keys_of(resource, held))
                self.drop(resource, held)
        return changed

    def uids(self, resource: Resource) -> dict[tuple[str, str], str]:
        """Return the uids of all held objects of a kind, by namespace and name."""
        with self._lock:
            held = self._objects.get(resource.plural, {})
            return {place: _meta(body).get("uid", "") for place, body in held.items()}

    def endpoint(self, key: EndpointKey) -> Raw | None:
        """Return the raw InferenceEndpoint."""
        with self._lock:
            return self._objects.get(rbac.ENDPOINTS.plural, {}).get(key)

    def endpoints(self) -> list[EndpointKey]:
        """Return the keys of all InferenceEndpoints."""
        with self._lock:
            return list(self._objects.get(rbac.ENDPOINTS.plural, {}))

    def children(self, resource: Resource, key: EndpointKey) -> list[Raw]:
        """Return the objects of a kind that carry the endpoint's label, by name."""
        with self._lock:
            found = self._by_endpoint.get((resource.plural, key), {})
            return [found[place] for place in sorted(found)]

    def named(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        """Return one object by name."""
        with self._lock:
            return self._objects.get(resource.plural, {}).get((namespace, name))

    def in_namespace(self, resource: Resource, namespace: str) -> list[Raw]:
        """Return all held objects of a kind in a namespace."""
        with self._lock:
            held = self._objects.get(resource.plural, {})
            return [body for place, body in held.items() if place[0] == namespace]

    def keys_of(self, resource: Resource, body: Raw) -> list[EndpointKey]:
        """Return the endpoints that an object concerns: a budget concerns all of its namespace."""
        namespace, name = _place(body)
        if resource is rbac.ENDPOINTS:
            return [(namespace, name)]
        if resource is rbac.DISRUPTION_BUDGETS:
            return [key for key in self.endpoints() if key[0] == namespace]
        endpoint = _endpoint_of(body)
        return [(namespace, endpoint)] if endpoint else []

    def _link(self, resource: Resource, place: tuple[str, str], body: Raw) -> None:
        endpoint = _endpoint_of(body)
        if resource is not rbac.ENDPOINTS and endpoint:
            self._by_endpoint.setdefault((resource.plural, (place[0], endpoint)), {})[place] = body

    def _unlink(self, resource: Resource, place: tuple[str, str], body: Raw) -> None:
        slot = (resource.plural, (place[0], _endpoint_of(body)))
        linked = self._by_endpoint.get(slot)
        if linked is not None:
            linked.pop(place, None)
            if not linked:
                del self._by_endpoint[slot]

    def _remember_gone(self, uid: str, version: str) -> None:
        if uid:
            self._gone[uid] = version
        while len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]


def _meta(body: Raw) -> Raw:
    meta = body.get("metadata")
    return meta if isinstance(meta, Mapping) else {}


def _place(body: Raw) -> tuple[str, str]:
    meta = _meta(body)
    return (str(meta.get("namespace", "")), str(meta.get("name", "")))


def _endpoint_of(body: Raw) -> str:
    labels = _meta(body).get("labels")
    return str(labels.get(names.ENDPOINT_LABEL, "")) if isinstance(labels, Mapping) else ""


def _version(body: Raw) -> str:
    return str(_meta(body).get("resourceVersion", ""))


def _is_newer(body: Raw, held: Raw) -> bool:
    """Tell whether a body is news: of another object, or a later state of this one."""
    if _meta(body).get("uid") != _meta(held).get("uid"):
        return True
    return _is_later(_version(body), _version(held))


def _is_later(new: str, old: str) -> bool:
    """Compare resource versions of one object, which are numbers that grow; others are taken."""
    if new.isdigit() and old.isdigit():
        return int(new) > int(old)
    return new != old
