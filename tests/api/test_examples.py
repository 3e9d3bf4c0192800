"""Every InferenceEndpoint that the project shows is accepted: in examples/, README and docs/."""

import re
from pathlib import Path

import pytest
import yaml

from api.examples import changed
from api.test_rules import create, problem

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown():
    """Yield every InferenceEndpoint in the tree's examples and documentation."""
    for path in sorted(ROOT.glob("examples/**/*.yaml")):
        yield from ((path, text) for text in [path.read_text(encoding="utf-8")])
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))):
        yield from ((path, text) for text in BLOCK.findall(path.read_text(encoding="utf-8")))


EXAMPLES = [
    pytest.param(document, id=f"{path.relative_to(ROOT)} #{index}")
    for index, (path, text) in enumerate(shown())
    if "kind: InferenceEndpoint" in text
    for document in yaml.safe_load_all(text)
    if document and document.get("kind") == "InferenceEndpoint"
]


@pytest.mark.parametrize("document", EXAMPLES)
def test_the_models_accept(document):
    assert problem(document) is None


@pytest.mark.controlplane
@pytest.mark.parametrize("document", EXAMPLES)
def test_the_api_server_accepts(crd, namespace, document):
    answer = create(
        crd, namespace, changed(document, {"metadata.namespace": namespace}), dry_run=True
    )
    assert answer.is_success, answer.json()["message"]
