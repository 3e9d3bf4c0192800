"""What the document shows is what the program prints."""

import re

import pytest
import sizing_cases as cases

from parkade.cli.main import main

DOCUMENT = (cases.ROOT / "docs" / "how-the-numbers-come-about.md").read_text()
BLOCKS = re.findall(r"^```(short|long)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def test_the_document_shows_both_endpoints():
    assert {name for name, _ in BLOCKS} == {"short", "long"}


@pytest.mark.parametrize("name", ["short", "long"])
def test_every_figure_is_printed_by_plan(name, capsys):
    folder = cases.ACCEPTANCE
    args = ["plan", "-f", folder / f"{name}.yaml", "--model-config", folder / "config.json"]
    args += ["--traffic", folder / f"{name}.traffic.yaml"]
    assert main([str(one) for one in args]) == 0
    printed = capsys.readouterr().out
    for block in (text for which, text in BLOCKS if which == name):
        assert block.rstrip() in printed
