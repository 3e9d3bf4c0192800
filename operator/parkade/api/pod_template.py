"""Which part of `engine.podTemplate` and `engine.env` is described, and what they may not set.

Everything else in them is the user's and goes to the pod template as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parkade.api import names
from parkade.api.base import Rule
from parkade.api.fields import BY_NAME, PRESERVE

OWNED_PREFIX = f"{names.GROUP}/"
OWNED_CONTAINER_FIELDS = (
    "args",
    "command",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "terminationMessagePolicy",
)
"""Of the engine's container: Parkade renders them."""

MAX_CONTAINER_NAME = 63
MAX_VARIABLE_NAME = 256

_MAY_NOT = f"Not for the container {names.ENGINE_CONTAINER}, whose own is Parkade's."
_NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_CONTAINER_NAME,
    "description": "Name of the container.",
}
_WORDS = {
    "type": "array",
    "description": _MAY_NOT,
    "maxItems": 256,
    "items": {"type": "string", "maxLength": 32768},
}
_FREE: dict[str, Any] = {"type": "object", PRESERVE: True}
_PROBE: dict[str, Any] = {**_FREE, "description": _MAY_NOT}
_POLICY = {"type": "string", "maxLength": 64, "description": _MAY_NOT}
_MARKS = {
    "type": "object",
    "maxProperties": 64,
    "additionalProperties": {"type": "string", "maxLength": 262_144},
}

_MARKS_RULE = Rule(
    message=f"labels and annotations under {OWNED_PREFIX} are Parkade's; use another prefix",
    cel=f"self.all(key, !key.startsWith('{OWNED_PREFIX}'))",
    check=lambda marks: not any(str(key).startswith(OWNED_PREFIX) for key in marks),
)
_CONTAINER_RULE = Rule(
    message=(
        f"args, command, probes and terminationMessagePolicy of the container "
        f"{names.ENGINE_CONTAINER} are Parkade's; use engine.extraArgs for arguments and "
        f"rollout.startDeadlineSeconds for slow starts"
    ),
    cel=f"self.name != '{names.ENGINE_CONTAINER}' || !("
    + " || ".join(f"has(self.{field})" for field in OWNED_CONTAINER_FIELDS)
    + ")",
    check=lambda container: (
        container.get("name") != names.ENGINE_CONTAINER
        or not any(field in container for field in OWNED_CONTAINER_FIELDS)
    ),
)


def _ruled(schema: Mapping[str, Any], rule: Rule) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [rule.to_dict()]}


POD_TEMPLATE_SCHEMA: dict[str, Any] = {
    **_FREE,
    "properties": {
        "metadata": {
            **_FREE,
            "description": "Labels and annotations of the pods.",
            "properties": {
                "labels": _ruled(
                    {**_MARKS, "description": "Further labels of the pods."}, _MARKS_RULE
                ),
                "annotations": _ruled(
                    {**_MARKS, "description": "Further annotations of the pods."}, _MARKS_RULE
                ),
            },
        },
        "spec": {
            **_FREE,
            "description": "Fields of the pod's spec.",
            "properties": {
                "containers": {
                    "type": "array",
                    "description": "Containers; the engine's is called vllm.",
                    "maxItems": 16,
                    **BY_NAME,
                    "items": _ruled(
                        {
                            **_FREE,
                            "required": ["name"],
                            "properties": {
                                "name": _NAME,
                                "args": _WORDS,
                                "command": _WORDS,
                                "livenessProbe": _PROBE,
                                "readinessProbe": _PROBE,
                                "startupProbe": _PROBE,
                                "terminationMessagePolicy": _POLICY,
                            },
                        },
                        _CONTAINER_RULE,
                    ),
                },
            },
        },
    },
}
ENV_VAR_SCHEMA: dict[str, Any] = {
    **_FREE,
    "description": "One variable, as in a pod.",
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_VARIABLE_NAME,
            "description": "Name of the variable.",
        }
    },
}


def problem_with_pod_template(template: Mapping[str, Any]) -> str | None:
    """Return what the API server would refuse in a pod template, or None."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        return "metadata and spec must be objects"
    for kind in ("labels", "annotations"):
        marks = metadata.get(kind, {})
        if not isinstance(marks, Mapping):
            return f"metadata.{kind} must be an object"
        if not _MARKS_RULE.check(marks):
            return f"metadata.{kind}: {_MARKS_RULE.message}"
    return _problem_with_containers(spec.get("containers", []))


def problem_with_env(variables: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what the API server would refuse in the list of variables, or None."""
    return problem_with_names(variables, MAX_VARIABLE_NAME)


def problem_with_names(named: Sequence[object], longest: int) -> str | None:
    """Return which item of a list lacks a name, or has one that is too long or not its own."""
    seen: set[str] = set()
    for index, item in enumerate(named):
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name:
            return f"[{index}].name is required"
        if len(name) > longest:
            return f"[{index}].name may have at most {longest} characters"
        if name in seen:
            return f"[{index}].name: duplicate value {name}"
        seen.add(name)
    return None


def _problem_with_containers(containers: object) -> str | None:
    if not isinstance(containers, list):
        return "spec.containers must be a list"
    if problem := problem_with_names(containers, MAX_CONTAINER_NAME):
        return f"spec.containers{problem}"
    owned = [index for index, one in enumerate(containers) if not _CONTAINER_RULE.check(one)]
    return f"spec.containers[{owned[0]}]: {_CONTAINER_RULE.message}" if owned else None
