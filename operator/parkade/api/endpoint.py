"""An InferenceEndpoint as one value: identity, spec, and the annotations Parkade reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from parkade.api import names
from parkade.api.base import Rule, clip
from parkade.api.conditions import MAX_MESSAGE_LENGTH
from parkade.api.spec import EndpointSpec

FREE_PART = ("engine", "speculativeConfig")
"""Where fields of vLLM's own are allowed that are not described here."""

FREE_FIELDS = ("podTemplate", "speculativeConfig", "env")
"""Fields with contents of others' making; nulls in them are kept."""

DNS_LABEL = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""Begins with a letter: the Service of the same name must (RFC 1035; relaxed only since 1.34)."""

NAME_RULE = Rule(
    message=(
        f"metadata.name must be a DNS label of at most {names.MAX_NAME_LENGTH} characters "
        "(a-z, 0-9 and -, a letter first), since pods and the Service are named after it"
    ),
    cel=(
        f"self.metadata.name.size() <= {names.MAX_NAME_LENGTH} && "
        f"self.metadata.name.matches('{DNS_LABEL}')"
    ),
    check=lambda name: (
        len(name) <= names.MAX_NAME_LENGTH and re.fullmatch(DNS_LABEL, name) is not None
    ),
)


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
    resource_version: str = ""


def parse_endpoint(body: Mapping[str, Any], *, strict: bool = False) -> Endpoint | InvalidEndpoint:
    """Return the resource as a value, or what is wrong with it in one line.

    Types are as strict as the API server's, and the rules are the same. `strict` also refuses
    unknown fields, a foreign kind and a wrong name, as `kubectl apply` does; the API server has
    dealt with these already in what the operator reads.
    """
    meta = _mapping(body.get("metadata"))
    namespace, name = str(meta.get("namespace") or "default"), str(meta.get("name") or "")
    uid, generation = str(meta.get("uid") or ""), _whole(meta.get("generation"))
    head = _problem_with_head(body, name) if strict else None
    version = str(meta.get("resourceVersion") or "")
    spec = head or _parse_spec(body.get("spec"), strict=strict)
    if isinstance(spec, str):
        line = clip(" ".join(spec.split()), MAX_MESSAGE_LENGTH)
        return InvalidEndpoint(namespace, name, uid, generation, line, version)
    retry = _mapping(meta.get("annotations")).get(names.RETRY_ANNOTATION)
    return Endpoint(
        namespace=namespace,
        name=name,
        uid=uid,
        generation=generation,
        resource_version=version,
        spec=spec,
        status=_mapping(body.get("status")),
        retry=retry if isinstance(retry, str) else None,
        deleting=bool(meta.get("deletionTimestamp")),
    )


def _problem_with_head(body: Mapping[str, Any], name: str) -> str | None:
    if body.get("apiVersion") != names.API_VERSION or body.get("kind") != names.KIND:
        found = f"{body.get('kind')!s} of {body.get('apiVersion')!s}"
        return f"kind: expected {names.KIND} of {names.API_VERSION}, found {found}"
    return None if NAME_RULE.check(name) else NAME_RULE.message


def _parse_spec(raw: object, *, strict: bool) -> EndpointSpec | str:
    try:
        # Through JSON: there, pydantic's strict types are exactly those of the API server.
        text = json.dumps(_without_nulls(raw) or {}, allow_nan=False)
        spec = EndpointSpec.model_validate_json(text, strict=True)
    except ValidationError as error:
        return _first_line(_errors(error))
    except (TypeError, ValueError) as error:
        return f"spec: {error}"
    except RecursionError:
        return "spec: nested too deeply"
    unknown = _unknown_fields(text) if strict else []
    return _first_line(unknown) if unknown else spec


def _without_nulls(value: object, field: str = "") -> object:
    """Return the value as the API server sees it: a null is a field that was left out."""
    if field in FREE_FIELDS or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return {key: _without_nulls(item, key) for key, item in value.items() if item is not None}


def _unknown_fields(text: str) -> list[ErrorDetails]:
    try:
        EndpointSpec.model_validate_json(text, extra="forbid")
    except ValidationError as error:
        return [
            found
            for found in _errors(error)
            if found["type"] == "extra_forbidden" and found["loc"][: len(FREE_PART)] != FREE_PART
        ]
    return []


def _errors(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _first_line(errors: list[ErrorDetails]) -> str:
    found = errors[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
    message = "unknown field" if found["type"] == "extra_forbidden" else found["msg"]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"spec{path}: {message}{more}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
