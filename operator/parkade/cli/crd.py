"""`parkade crd`: print the CustomResourceDefinition, or write the files made from the models."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from parkade.api import names
from parkade.api.crd import custom_resource_definition
from parkade.api.reference import reference
from parkade.cli.failure_classes import failure_classes

COMMAND = "parkade crd --write ."
FILE = f"{names.PLURAL}.{names.GROUP}.yaml"
HEADER = f"# Generated from operator/parkade/api by `{COMMAND}`. Do not edit.\n"

_CHART_HEAD = "{{- if .Values.crds.install }}\n"
_CHART_ANNOTATIONS = """  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""
_CHART_TAIL = "{{- end }}\n"


class _Plain(yaml.SafeDumper):
    """Without anchors and aliases: people read these files."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
        return True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--write",
        metavar="DIR",
        type=Path,
        help="write the generated files of a source tree instead: crds/, the chart's copy, docs/",
    )


def run(args: argparse.Namespace) -> int:
    """Print the CRD, or write the generated files that differ; returns the exit status."""
    if args.write is None:
        print(manifest(), end="")
        return 0
    for path, text in generated_files().items():
        _write(args.write / path, text)
    return 0


def generated_files() -> Mapping[str, str]:
    """Return every file that is made from the models: path in the source tree, and text."""
    return {
        f"crds/{FILE}": manifest(),
        "charts/parkade/templates/crd.yaml": chart_template(),
        "docs/reference.md": reference(COMMAND),
        "docs/failure-classes.md": failure_classes(COMMAND),
    }


def manifest() -> str:
    """Return the CRD as YAML, for kubectl."""
    return HEADER + _dump(custom_resource_definition())


def chart_template() -> str:
    """Return the CRD as a template of the chart, so that an upgrade of the chart upgrades it.

    With `crds.keep` (the default) it outlives the chart, and with it everybody's endpoints.
    """
    crd = custom_resource_definition()
    spec = _dump({"spec": crd["spec"]})
    if "{{" in spec:
        raise ValueError("The CRD has braces that helm would take for a template: reword them")
    head = _dump({key: crd[key] for key in ("apiVersion", "kind", "metadata")})
    return HEADER + _CHART_HEAD + head + _CHART_ANNOTATIONS + spec + _CHART_TAIL


def _dump(value: Mapping[str, Any]) -> str:
    text: str = yaml.dump(value, Dumper=_Plain, sort_keys=False, width=100, allow_unicode=True)
    return text


def _write(path: Path, text: str) -> None:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}")
