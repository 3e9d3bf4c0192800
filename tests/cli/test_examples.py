"""Every example is a resource as the API server would take it, and plans."""

from pathlib import Path

import pytest
import yaml

from parkade.api.endpoint import Endpoint, parse_endpoint
from parkade.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = str(EXAMPLES / "acceptance" / "config.json")
RESOURCES = sorted(
    path
    for path in EXAMPLES.rglob("*.yaml")
    if "kind: InferenceEndpoint" in path.read_text() and not path.name.endswith(".traffic.yaml")
)


@pytest.mark.parametrize("path", RESOURCES, ids=lambda path: path.name)
def test_an_example_is_read_strictly(path):
    for body in yaml.safe_load_all(path.read_text()):
        if body["kind"] == "InferenceEndpoint":
            assert isinstance(parse_endpoint(body, strict=True), Endpoint)


def test_the_shortest_endpoint_starts_from_the_baseline(capsys):
    args = ["plan", "-f", str(EXAMPLES / "endpoint.yaml"), "--model-config", CONFIG]
    assert main([*args, "--weights-size", "16Gi"]) == 0
    assert "32 (the baseline)" in capsys.readouterr().out
