"""One call to the Kubernetes API as values: what is sent where, and what a refusal means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from parkade.adapters.errors import AdapterError, from_status
from parkade.adapters.rbac import Resource

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"

METHODS = {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH", "update": "PUT"}
"""HTTP methods of the verbs that RBAC names."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call: which resource, which verb, and what is sent."""

    resource: Resource
    verb: str
    namespace: str | None = None
    name: str | None = None
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = None
    content_type: str = JSON

    @property
    def method(self) -> str:
        """HTTP method."""
        return METHODS[self.verb]

    @property
    def path(self) -> str:
        """Path and query on the API server."""
        resource = self.resource
        root = f"/apis/{resource.group}" if resource.group else "/api"
        parts = [root, resource.version]
        if resource.namespaced and self.namespace is not None:
            parts += ["namespaces", quote(self.namespace, safe="")]
        parts.append(resource.plural)
        if self.name is not None:
            parts.append(quote(self.name, safe=""))
        if resource.subresource:
            parts.append(resource.subresource)
        return "/".join(parts) + (f"?{urlencode(self.query)}" if self.query else "")

    @property
    def summary(self) -> str:
        """The call in words, for errors."""
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {self.resource.rule} {where}".rstrip()


def refusal(request: Request, status: int, content: bytes, retry_after: str | None) -> AdapterError:
    """Return the error of an answer that is not a success."""
    text = content.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        text = str(answer.get("message", text)) if isinstance(answer, dict) else text
    except ValueError:
        pass
    return from_status(status, f"{request.summary}: HTTP {status}: {text}", retry_after)
