"""The CustomResourceDefinition, made from the models of spec and status."""

from __future__ import annotations

from typing import Any

from parkade.api import names
from parkade.api.base import ApiModel
from parkade.api.endpoint import NAME_RULE
from parkade.api.spec import EndpointSpec
from parkade.api.status import EndpointStatus
from parkade.api.structural import UntranslatableError, problems, structural, without_defaults

_CONDITION = '.status.conditions[?(@.type=="{}")].{}'

# Name, type, path, priority (1: only with -o wide), description.
_COLUMNS = (
    ("Ready", "string", _CONDITION.format("Ready", "status"), 0, "Serves with good settings."),
    ("Seqs", "integer", ".status.applied.maxNumSeqs", 0, "--max-num-seqs that runs."),
    (
        "Util",
        "string",
        ".status.applied.gpuMemoryUtilization",
        0,
        "--gpu-memory-utilization that runs.",
    ),
    ("Limited-By", "string", ".status.recommendation.limitedBy", 0, "The bound that bit."),
    ("KV-Tokens", "integer", ".status.memory.poolTokens", 0, "Size of the KV cache."),
    ("Mode", "string", ".spec.tuning.mode", 0, "Auto or RecommendOnly."),
    ("Age", "date", ".metadata.creationTimestamp", 0, "Time since creation."),
    ("Model", "string", ".spec.model.name", 1, "The model served."),
    ("Replicas", "integer", ".status.readyReplicas", 1, "Ready pods."),
    ("Advised", "integer", ".status.recommendation.maxNumSeqs", 1, "--max-num-seqs to run."),
    ("Saturated", "string", ".status.recommendation.saturated", 1, "Do requests queue?"),
    (
        "Workload",
        "string",
        _CONDITION.format("WorkloadObserved", "reason"),
        1,
        "Is the traffic known?",
    ),
    (
        "Settings",
        "string",
        _CONDITION.format("SettingsApplied", "reason"),
        1,
        "Does it run what is recommended, or why not?",
    ),
    (
        "Objectives",
        "string",
        _CONDITION.format("ObjectivesMet", "reason"),
        1,
        "Are objectives met?",
    ),
    ("Stalled", "string", _CONDITION.format("Stalled", "reason"), 1, "Must a person act?"),
)


def custom_resource_definition() -> dict[str, Any]:
    """Return the CRD as plain values.

    Raises UntranslatableError where a model uses something that a CRD can't say, or leaves
    something unbounded.
    """
    schema = _schema()
    found = list(problems(schema))
    if found:
        raise UntranslatableError("; ".join(found))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
            },
            "versions": [_version(schema)],
        },
    }


def _version(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [_column(*column) for column in _COLUMNS],
        "schema": {"openAPIV3Schema": schema},
    }


def _column(name: str, kind: str, path: str, priority: int, description: str) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | ({"priority": priority} if priority else {})


def _schema() -> dict[str, Any]:
    return {
        "description": "A model served by vLLM, sized from the traffic that it gets.",
        "type": "object",
        "required": ["spec"],
        "x-kubernetes-validations": [NAME_RULE.to_dict()],
        "properties": {
            "apiVersion": {
                "description": "Version of the schema, as in every Kubernetes object.",
                "type": "string",
                "maxLength": 128,
            },
            "kind": {
                "description": "Kind of the object, as in every Kubernetes object.",
                "type": "string",
                "maxLength": 128,
            },
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 253}},
            },
            "spec": _part(EndpointSpec),
            "status": without_defaults(_part(EndpointStatus))
            | {"default": {"observedGeneration": -1}},
        },
    }


def _part(model: type[ApiModel]) -> dict[str, Any]:
    return structural(model.model_json_schema(by_alias=True, mode="validation"))
