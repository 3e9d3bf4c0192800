"""An InferenceEndpoint as one value: identity, spec, and the annotations Parkade reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from parkade.api import names
from parkade.api.spec import EndpointSpec


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The resource as read; `status` stays raw, since it mirrors the record and decides nothing."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    spec: EndpointSpec
    status: Mapping[str, Any]
    retry: str | None = None
    """Value of the retry annotation: `<hash>[ free text]`."""
    deleting: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name: the key of the work queue."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class InvalidEndpoint:
    """A resource that does not parse: an older CRD let it in, or nobody checked it."""

    namespace: str
    name: str
    uid: str
    generation: int
    message: str


def parse_endpoint(body: Mapping[str, Any], *, strict: bool = False) -> Endpoint | InvalidEndpoint:
    """Return the resource as a value, or what is wrong with it in one line.

    `strict` refuses unknown fields, as `kubectl apply` with validation does; the API server has
    pruned them already from what the operator reads.
    """
    meta = body.get("metadata") or {}
    namespace, name = str(meta.get("namespace", "default")), str(meta.get("name", ""))
    uid, generation = str(meta.get("uid", "")), int(meta.get("generation", 0))
    try:
        spec = EndpointSpec.model_validate(
            body.get("spec") or {}, extra="forbid" if strict else "ignore"
        )
    except ValidationError as error:
        return InvalidEndpoint(namespace, name, uid, generation, _first_error(error))
    return Endpoint(
        namespace=namespace,
        name=name,
        uid=uid,
        generation=generation,
        resource_version=str(meta.get("resourceVersion", "")),
        spec=spec,
        status=body.get("status") or {},
        retry=(meta.get("annotations") or {}).get(names.RETRY_ANNOTATION),
        deleting="deletionTimestamp" in meta,
    )


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"spec.{where}: {first['msg']}{more}"
