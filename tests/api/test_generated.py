"""Files made from the models are as the models make them, and the CRD follows our own rules."""

import argparse
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from parkade.api.crd import custom_resource_definition
from parkade.api.structural import UntranslatableError, problems, structural
from parkade.cli.crd import COMMAND, generated_files, run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", generated_files())
def test_generated_file_is_up_to_date(path):
    made = generated_files()[path]
    found = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
    assert found == made, f"{path} differs from the models: run `make generate`"
    assert COMMAND in made.splitlines()[0]


def test_the_command_prints_the_crd(capsys):
    assert run(argparse.Namespace(write=None)) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed == custom_resource_definition()


def test_the_command_writes_only_what_differs(tmp_path, capsys):
    assert run(argparse.Namespace(write=tmp_path)) == 0
    assert capsys.readouterr().out.count("Wrote") == len(generated_files())
    (tmp_path / "docs" / "reference.md").write_text("old", encoding="utf-8")
    assert run(argparse.Namespace(write=tmp_path)) == 0
    assert capsys.readouterr().out == f"Wrote {tmp_path}/docs/reference.md\n"


def test_no_braces_of_helm_in_the_charts_copy():
    text = generated_files()["charts/parkade/templates/crd.yaml"]
    assert all("Values.crds" in line or "end" in line for line in text.splitlines() if "{{" in line)


def nodes(schema):
    yield schema
    for child in (*schema.get("properties", {}).values(), schema.get("items")):
        if child:
            yield from nodes(child)


@pytest.fixture(scope="module")
def schema():
    return custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_the_schema_is_structural_and_bounded(schema):
    assert not list(problems(schema))


def test_every_field_has_a_description(schema):
    parts = [schema["properties"][name] for name in ("spec", "status")]
    silent = [
        name
        for part in parts
        for node in nodes(part)
        for name, child in node.get("properties", {}).items()
        if not child.get("description")
    ]
    assert not silent


def test_status_has_no_defaults_but_the_generation(schema):
    status = schema["properties"]["status"]
    assert status["default"] == {"observedGeneration": -1}
    assert not [node for node in nodes(status) if "default" in node and node is not status]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        pytest.param(int | str, "choice of types", id="a choice of types"),
        pytest.param(dict[str, int], None, id="a map is translated, but unbounded"),
        pytest.param(set[str], "uniqueItems", id="a set"),
        pytest.param(tuple[int, str], "prefixItems", id="a tuple of fixed length"),
    ],
)
def test_what_a_crd_can_not_say_is_an_error(annotation, message):
    class Odd(BaseModel):
        odd: annotation

    raw = Odd.model_json_schema()
    if message is None:
        assert list(problems(structural(raw)))
    else:
        with pytest.raises(UntranslatableError, match=rf"\.odd: .*{message}"):
            structural(raw)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        pytest.param({"type": "string"}, "maxLength", id="a text without bound"),
        pytest.param({"type": "integer", "minimum": 0}, "maximum", id="a number without bound"),
        pytest.param({"type": "number"}, "floats", id="a float"),
        pytest.param({"type": "array", "items": {"type": "boolean"}}, "maxItems", id="a list"),
        pytest.param({"type": "object"}, "properties", id="an object without fields"),
        pytest.param({}, "type is missing", id="no type"),
        pytest.param({"type": "boolean", "$ref": "#/x"}, "not allowed", id="a reference"),
        pytest.param(
            {
                "type": "object",
                "maxProperties": 1,
                "properties": {"a": {"type": "boolean"}},
                "additionalProperties": {"type": "boolean"},
            },
            "exclude",
            id="properties and additionalProperties",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["b"]},
            "required field b",
            id="a required field that is not there",
        ),
    ],
)
def test_the_checker_finds(part, message):
    found = list(problems({"type": "object", "properties": {"part": part}}))
    assert any(".part" in problem and message in problem for problem in found)
