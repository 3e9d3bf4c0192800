"""The models and the API server agree on every bound of the spec, on both sides of it."""

from collections.abc import Iterator

import pytest

from api.examples import FULL, changed
from api.test_rules import create, problem
from parkade.api.crd import custom_resource_definition


def edges(schema, at) -> Iterator[tuple[str, object]]:
    """Yield values at and just beyond each bound below a schema."""
    for name, field in schema.get("properties", {}).items():
        path = f"{at}.{name}"
        yield from ((path, value) for value in values(field, at))
        yield from edges(field, path)
        if field.get("items", {}).get("properties"):
            yield from edges(field["items"], f"{path}.0")


def values(field, at) -> Iterator[object]:
    if field.get("type") == "integer":
        low, high = field["minimum"], field["maximum"]
        yield from (low - 1, low, high, high + 1, 1.5, str(low), True)
    elif field.get("type") == "string" and "enum" not in field:
        yield from ("", "a", "a" * field["maxLength"], "a" * (field["maxLength"] + 1), 7)
    elif "enum" in field:
        yield from (*field["enum"], field["enum"][0].lower(), 7)
    elif field.get("type") == "boolean":
        yield from (True, False, "true", 1)
    elif field.get("type") == "array" and field["items"].get("type") == "string":
        yield from (["a"] * field["maxItems"], ["a"] * (field["maxItems"] + 1), "a", {})
    elif field.get("type") == "array":
        yield from ([], {}, "a", [{}], ["a"])
    elif field.get("type") == "object" and "annotations" not in at:
        yield from ({}, [], "a", 1)
    elif field.get("x-kubernetes-int-or-string"):
        yield from (0, -1, 2**53 - 1, 2**53, 1.5, "0", "1Gi", "1.5Gi", "1e3", " 1Gi", "", True)


SPEC = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"][
    "properties"
]["spec"]
EDGES = [
    pytest.param(path, value, id=f"{path} = {str(value)[:20]} ({type(value).__name__}) #{index}")
    for index, (path, value) in enumerate(edges(SPEC, "spec"))
    if not path.startswith("spec.targetRef")  # refused altogether
    and not path.endswith("timeZone")  # names are the operator's to judge, see test_rules.py
]


@pytest.mark.controlplane
def test_models_and_api_server_agree_on_every_bound(crd, namespace):
    disagreements = []
    for edge in EDGES:
        path, value = edge.values
        body = changed(FULL, {path: value})
        said, answer = problem(body), create(crd, namespace, body, dry_run=True)
        if (said is None) != answer.is_success:
            told = answer.json().get("message", "accepted")
            disagreements.append(f"{edge.id}: models: {said}; server: {told}")
    assert not disagreements, "\n".join(disagreements)


@pytest.mark.parametrize(("path", "value"), EDGES)
def test_no_value_makes_the_models_raise(path, value):
    found = problem(changed(FULL, {path: value}))
    assert found is None or (found.startswith("spec") and "\n" not in found)
