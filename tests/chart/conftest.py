"""Rendered charts: real helm, no cluster."""

import subprocess
from pathlib import Path

import pytest
import yaml

from testbed.cluster.binaries import ensure

CHART = Path(__file__).parents[2] / "charts" / "parkade"


@pytest.fixture(scope="session")
def helm() -> Path:
    return ensure(["helm"])["helm"]


@pytest.fixture
def render(helm):
    """Return a function from values to the rendered objects, by kind."""

    def run(**values: object) -> dict[str, list[dict]]:
        values = {"image": {"repository": "localhost/parkade"}} | values
        rendered = subprocess.run(
            [
                *(helm, "template", "parkade", CHART, "--namespace", "parkade-system"),
                *("--kube-version", "1.37.2", "--values", "-"),
            ],
            input=yaml.safe_dump(values),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        objects: dict[str, list[dict]] = {}
        for document in yaml.safe_load_all(rendered):
            if document:
                objects.setdefault(document["kind"], []).append(document)
        return objects

    return run
