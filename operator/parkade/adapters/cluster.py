"""The Kubernetes API as Parkade uses it: raw dicts in, raw dicts out, our own errors.

Typed models are not used: since client 37 they refuse objects that lack a required field and drop
fields that they do not know. Every call names a row of `rbac.USED`, has a time-out, and is sent
once; the work queue is what tries again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import kubernetes
import urllib3

from parkade.adapters import rbac
from parkade.adapters.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    UnavailableError,
    UnusableAnswerError,
    cut,
)
from parkade.adapters.rbac import Resource
from parkade.adapters.wire import APPLY_PATCH, MERGE_PATCH, Request, refusal
from parkade.api import names

Raw = dict[str, Any]
"""An object as the API server sends it."""

CONNECT_TIMEOUT_SECONDS = 5.0
READ_TIMEOUT_SECONDS = 30.0
LOG_READ_TIMEOUT_SECONDS = 10.0
"""Logs come from the node, whose tunnel may hang while all else answers."""
LOG_PATIENCE_SECONDS = 15.0
"""How long a pass may wait for several logs before it goes on without the others."""

PAGE_SIZE = 500
LOG_LIMIT_BYTES = 2 * 1024 * 1024
"""Longest log that is read: a start of vLLM prints less than 200 KB, a crash with traces 1 MB."""


class UndeclaredAccessError(RuntimeError):
    """A bug: a call that the table of used resources does not list."""


@dataclass(frozen=True, slots=True)
class Login:
    """How to reach the API server, for whoever else talks to it (Kopf's watches)."""

    server: str
    ca_path: str | None
    insecure: bool
    certificate_path: str | None
    private_key_path: str | None
    scheme: str | None
    token: str | None


class Cluster:
    """One API server. Safe to share between threads."""

    def __init__(
        self,
        client: Any,
        *,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        read_timeout_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> None:
        self._client = client
        self._timeout = (connect_timeout_seconds, read_timeout_seconds)

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()

    def login(self) -> Login:
        """Return what is needed to log in as this client does; the token is read anew."""
        configuration = self._client.configuration
        header = configuration.get_api_key_with_prefix("BearerToken") or ""
        scheme, _, token = header.rpartition(" ")
        return Login(
            server=configuration.host,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
            scheme=scheme or None,
            token=token or None,
        )

    def get(self, resource: Resource, namespace: str | None, name: str) -> Raw | None:
        """Return the object, or None where it is not there."""
        try:
            return self._object(Request(resource, "get", namespace, name))
        except NotFoundError:
            return None

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Raw]:
        """Return all objects of a kind (in a namespace, by labels or fields), page by page."""
        found: list[Raw] = []
        position = ""
        while True:
            query = [("limit", str(PAGE_SIZE))]
            query += [("labelSelector", label_selector)] if label_selector else []
            query += [("fieldSelector", field_selector)] if field_selector else []
            query += [("continue", position)] if position else []
            page = self._object(Request(resource, "list", namespace, query=tuple(query)))
            found += page.get("items") or []
            position = (page.get("metadata") or {}).get("continue") or ""
            if not position:
                return found

    def apply(
        self, resource: Resource, body: Mapping[str, Any], *, resource_version: str | None = None
    ) -> Raw:
        """Apply the whole intended object (server-side apply, forced) and return what stands.

        With `resource_version` the apply fails as ConflictError if the object changed since.
        """
        _require(resource, "create")
        meta = dict(body.get("metadata") or {})
        if resource_version is not None:
            meta["resourceVersion"] = resource_version
        return self._object(
            Request(
                resource,
                "patch",
                meta.get("namespace"),
                str(meta["name"]),
                query=(("fieldManager", names.FIELD_MANAGER), ("force", "true")),
                body={**body, "metadata": meta},
                content_type=APPLY_PATCH,
            )
        )

    def apply_status(
        self, namespace: str, name: str, uid: str, status: Mapping[str, Any], resource_version: str
    ) -> Raw:
        """Apply the status of an InferenceEndpoint; ConflictError if another UID stands there.

        The API server ignores a uid in an apply to /status of a custom resource (it answers 200),
        but not a resourceVersion. Where the same resource merely changed since, the status goes to
        what stands: it says itself of which generation it is.
        """
        try:
            return self._object(_status_request(namespace, name, status, resource_version))
        except ConflictError:
            standing = self.get(rbac.ENDPOINTS, namespace, name)
        meta = (standing or {}).get("metadata") or {}
        if meta.get("uid") != uid:
            raise ConflictError(f"{namespace}/{name}: another resource of this name stands there")
        return self._object(_status_request(namespace, name, status, meta["resourceVersion"]))

    def create(self, resource: Resource, body: Mapping[str, Any]) -> Raw:
        """Create the object; ConflictError if it is there."""
        namespace = (body.get("metadata") or {}).get("namespace")
        return self._object(Request(resource, "create", namespace, body=body))

    def update(self, resource: Resource, body: Mapping[str, Any]) -> Raw:
        """Replace the object; its resourceVersion makes a lost race a ConflictError."""
        meta = body["metadata"]
        return self._object(
            Request(resource, "update", meta.get("namespace"), str(meta["name"]), body=body)
        )

    def merge(
        self, resource: Resource, namespace: str | None, name: str, patch: Mapping[str, Any]
    ) -> Raw:
        """Merge a patch into the object."""
        return self._object(
            Request(resource, "patch", namespace, name, body=patch, content_type=MERGE_PATCH)
        )

    def config_map_key(self, namespace: str, name: str, key: str) -> str | None:
        """Return a key of a ConfigMap, or None where either is not there."""
        found = self.get(rbac.CONFIGMAPS, namespace, name)
        value = ((found or {}).get("data") or {}).get(key)
        return value if isinstance(value, str) else None

    def pod_log(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        previous: bool,
        tail_lines: int | None = None,
        limit_bytes: int = LOG_LIMIT_BYTES,
    ) -> str | None:
        """Return a container's log; None where it is gone, which happens seconds after a crash.

        Without `tail_lines` the head is read (where a start prints its memory figures), with it
        the end (where a crash prints its traces).
        """
        query = [("container", container), ("previous", str(previous).lower())]
        query += [("limitBytes", str(limit_bytes))]
        query += [("tailLines", str(tail_lines))] if tail_lines is not None else []
        request = Request(rbac.PODS_LOG, "get", namespace, pod, query=tuple(query))
        try:
            content = self._send(request, LOG_READ_TIMEOUT_SECONDS)
            if tail_lines is not None and tail_lines > 1 and len(content) >= limit_bytes:
                # The limit cut the end off, which is what the tail is asked for.
                return self.pod_log(
                    namespace,
                    pod,
                    container,
                    previous=previous,
                    tail_lines=max(1, tail_lines // 10),
                    limit_bytes=limit_bytes,
                )
        except (InvalidError, NotFoundError):
            return None
        text = content.decode("utf-8", "replace")
        return None if text.startswith("unable to retrieve container logs") else text

    def _object(self, request: Request) -> Raw:
        content = self._send(request)
        try:
            answer = json.loads(content)
        except ValueError as error:
            raise UnusableAnswerError(f"{request.summary}: the answer is not JSON") from error
        if not isinstance(answer, dict):
            raise UnusableAnswerError(f"{request.summary}: the answer is not an object")
        return answer

    def _send(self, request: Request, read_timeout_seconds: float | None = None) -> bytes:
        _require(request.resource, request.verb)
        connect, read = self._timeout
        try:
            serialized = self._client.param_serialize(
                request.method,
                request.path,
                header_params={
                    "Accept": "application/json, */*",
                    "Content-Type": request.content_type,
                },
                body=request.body,
                auth_settings=["BearerToken"],
            )
            response = self._client.call_api(
                *serialized, _request_timeout=(connect, min(read, read_timeout_seconds or read))
            )
            content: bytes = response.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnavailableError(cut(f"{request.summary}: {error}")) from error
        except kubernetes.client.exceptions.ApiException as error:
            raise UnavailableError(cut(f"{request.summary}: {error.reason}")) from error
        if not 200 <= response.status <= 299:
            raise refusal(request, response.status, content, response.getheader("Retry-After"))
        return content


def _status_request(
    namespace: str, name: str, status: Mapping[str, Any], resource_version: str
) -> Request:
    return Request(
        rbac.ENDPOINTS_STATUS,
        "patch",
        namespace,
        name,
        query=(("fieldManager", names.FIELD_MANAGER), ("force", "true")),
        body={
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {
                "namespace": namespace,
                "name": name,
                "resourceVersion": resource_version,
            },
            "status": dict(status),
        },
        content_type=APPLY_PATCH,
    )


def _require(resource: Resource, verb: str) -> None:
    if resource not in rbac.USED or verb not in resource.verbs:
        raise UndeclaredAccessError(
            f"{verb} {resource.rule} is not in rbac.USED: add it there and to the chart"
        )
