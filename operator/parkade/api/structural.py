"""Turn pydantic's JSON schema into the structural schema that a CRD takes, and check one.

Kubernetes takes a subset (apiextensions.k8s.io/v1, "Specifying a structural schema"): no
references, no null types, no free `additionalProperties`. We ask for more: no floats, and a bound
on every text, list, map and number, since the cost of CEL rules is estimated from the bounds.
What can't be translated is an error, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from parkade.api.fields import PRESERVE

INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"

_KEPT = (
    "type", "format", "enum", "default", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", PRESERVE, INT_OR_STRING,
    LIST_TYPE, "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-validations",
)  # fmt: skip
_ORDER = ("description", *_KEPT, "properties", "additionalProperties", "items")
_TURNED = ("description", "properties", "items", "additionalProperties", "anyOf", "$ref", "const")
_DROPPED = ("title", "$defs")
_SAFE_INT = 2**53


class UntranslatableError(ValueError):
    """A model uses something that a CRD can't say; the message has the place."""


def structural(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pydantic JSON schema (by alias) as a structural schema without references.

    Raises UntranslatableError with the path of the first part that has no translation.
    """
    return _node(schema, schema.get("$defs", {}), "")


def _node(raw: Mapping[str, Any], defs: Mapping[str, Any], at: str) -> dict[str, Any]:
    node = _without_null(_resolved(raw, defs, at), defs, at)
    unknown = [key for key in node if key not in (*_KEPT, *_TURNED, *_DROPPED)]
    if unknown:
        raise UntranslatableError(f"{at or 'the root'}: a CRD has no {unknown[0]}")
    turned = {key: node[key] for key in _KEPT if key in node}
    if "const" in node:
        turned["enum"] = [node["const"]]
    if "description" in node:
        turned = {"description": " ".join(node["description"].split()), **turned}
    _turn_children(node, defs, at, turned)
    if turned.get("type") == "array":
        turned.setdefault(LIST_TYPE, "atomic")
    if turned.get("default", ...) in (None, [], {}) and turned.get("type") != "object":
        del turned["default"]
    return {key: turned[key] for key in _ORDER if key in turned}


def _turn_children(
    node: Mapping[str, Any], defs: Mapping[str, Any], at: str, turned: dict[str, Any]
) -> None:
    if "properties" in node:
        turned["properties"] = {
            name: _node(child, defs, f"{at}.{name}") for name, child in node["properties"].items()
        }
    if "items" in node:
        turned["items"] = _node(node["items"], defs, f"{at}[]")
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping) and extra:
        turned["additionalProperties"] = _node(extra, defs, f"{at}{{}}")
    elif extra not in (None, False) and not node.get(PRESERVE):
        raise UntranslatableError(f"{at or 'the root'}: free fields need {PRESERVE}")


def _resolved(raw: Mapping[str, Any], defs: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Return the node with its reference put in place; what stands beside the reference wins."""
    if "$ref" not in raw:
        return dict(raw)
    name = str(raw["$ref"]).rpartition("/")[2]
    if name not in defs:
        raise UntranslatableError(f"{at or 'the root'}: unknown reference {raw['$ref']}")
    beside = {key: value for key, value in raw.items() if key != "$ref"}
    target = _resolved(defs[name], defs, at) | beside
    if "default" in target and target.get("type") == "object":
        target["default"] = {}  # the fields have their own defaults, which then apply
    return target


def _without_null(node: dict[str, Any], defs: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Return an optional value as the value itself: absent is how a CRD says None."""
    if "anyOf" not in node:
        return node
    choices = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
    if len(choices) != 1 or len(choices) == len(node["anyOf"]):
        raise UntranslatableError(f"{at or 'the root'}: a CRD can't offer a choice of types")
    beside = {key: value for key, value in node.items() if key != "anyOf"}
    if beside.get("default", ...) is None:
        del beside["default"]
    return _resolved(choices[0], defs, at) | beside


def without_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a structural schema in which the API server fills in nothing (for status)."""
    bare = {key: value for key, value in schema.items() if key != "default"}
    for key in ("items", "additionalProperties"):
        if key in bare:
            bare[key] = without_defaults(bare[key])
    if "properties" in bare:
        bare["properties"] = {
            name: without_defaults(child) for name, child in bare["properties"].items()
        }
    return bare


def problems(schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield what the API server, or our own bounds, would refuse in a structural schema."""
    where = at or "the root"
    for key in schema:
        if key not in (*_KEPT, "description", "properties", "items", "additionalProperties"):
            yield f"{where}: {key} is not allowed"
    kind = schema.get("type")
    if kind is None and not (schema.get(INT_OR_STRING) or schema.get(PRESERVE)):
        yield f"{where}: type is missing"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{where}: properties and additionalProperties exclude each other"
    yield from (f"{where}: {problem}" for problem in _unbounded(schema, kind))
    for name in schema.get("required", []):
        if name not in schema.get("properties", {}):
            yield f"{where}: required field {name} is not described"
    for name, child in schema.get("properties", {}).items():
        yield from problems(child, f"{at}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from problems(schema[key], f"{at}{mark}")


def _unbounded(schema: Mapping[str, Any], kind: object) -> Iterator[str]:
    bounded_text = "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
    if kind == "string" and not bounded_text:
        yield "a text needs maxLength"
    if kind == "array" and not ("maxItems" in schema and "items" in schema):
        yield "a list needs maxItems and items"
    if kind == "integer" and not _within(schema):
        yield "a number needs minimum and maximum within 2^53"
    if kind == "number":
        yield "floats are not allowed; use a decimal text"
    if kind == "object" and "additionalProperties" in schema and "maxProperties" not in schema:
        yield "a map needs maxProperties"
    if kind == "object" and not (
        schema.get("properties") or schema.get(PRESERVE) or "additionalProperties" in schema
    ):
        yield "an object needs properties"


def _within(schema: Mapping[str, Any]) -> bool:
    low, high = schema.get("minimum"), schema.get("maximum")
    return low is not None and high is not None and -_SAFE_INT < low <= high < _SAFE_INT
