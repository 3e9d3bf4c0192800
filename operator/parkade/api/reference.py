"""`docs/reference.md`, written from the models: fields, rules, flags, conditions and reasons."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, get_args

from parkade.api import names
from parkade.api.base import VALIDATIONS, ApiModel
from parkade.api.conditions import REASONS, ConditionType, Reason
from parkade.api.crd import custom_resource_definition
from parkade.api.fields import PRESERVE
from parkade.api.flags import OWNED_FLAGS, OWNED_SHORT_FLAGS
from parkade.api.pod_template import OWNED_CONTAINER_FIELDS
from parkade.api.spec import EndpointSpec
from parkade.api.structural import INT_OR_STRING

Schema = Mapping[str, Any]


def reference(command: str) -> str:
    """Return the whole page; `command` is how it is made again."""
    version = custom_resource_definition()["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]
    parts = root["properties"]
    lines = [
        f"<!-- Generated from operator/parkade/api by `{command}`. Do not edit. -->",
        "# Reference",
        "",
        f"`{names.KIND}` (`{names.SHORT_NAME}`), `{names.API_VERSION}`, namespaced, with the",
        "subresources `status` and `scale`. The same is in `kubectl explain iep --recursive`.",
        "",
        "## spec",
        "",
        *_fields(parts["spec"]),
        "",
        "## Rules",
        "",
        "The API server refuses what breaks a rule; `parkade plan` says the same words offline.",
        "Rules marked *operator* can't be checked by the API server: such a resource is accepted",
        f"and gets `Stalled=True/{Reason.INVALID_SPEC}`.",
        "",
        *_table(("Where", "Rule", "Checked by"), _rules(root)),
        "",
        *_flags(),
        "",
        "## status",
        "",
        "What Parkade reports as of its last decision. What is not known is left out.",
        "",
        *_fields(parts["status"], with_default=False),
        "",
        "## Columns of `kubectl get iep`",
        "",
        *_table(("Column", "Shown", "Meaning"), _columns(version["additionalPrinterColumns"])),
        "",
        "## Conditions and reasons",
        "",
        *_conditions(),
    ]
    return "\n".join(lines) + "\n"


def _fields(schema: Schema, *, with_default: bool = True) -> Iterator[str]:
    head: tuple[str, ...] = ("Field", "Type", "Default", "Meaning")
    rows: list[tuple[str, ...]] = [(_code(row[0]), *row[1:]) for row in _flat(schema)]
    if not with_default:
        head, rows = (*head[:2], head[3]), [(*row[:2], row[3]) for row in rows]
    yield from _table(head, rows)


def _flat(schema: Schema, at: str = "") -> Iterator[tuple[str, str, str, str]]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        path = f"{at}{name}"
        given = "**required**" if name in required else _default(field)
        yield path, _kind(field), given, field.get("description", "")
        item = field.get("items", {})
        yield from _flat(field, f"{path}.")
        yield from _flat(item, f"{path}[].")


def _default(field: Schema) -> str:
    if field.get("default", {}) == {}:
        return ""
    given = field["default"]
    return _code(str(given).lower() if isinstance(given, bool) else given)


def _kind(field: Schema) -> str:
    if field.get(INT_OR_STRING):
        return "quantity"
    if "enum" in field:
        return " or ".join(_code(value) for value in field["enum"])
    if field["type"] == "array":
        return f"list of up to {field['maxItems']}: {_kind(field['items'])}"
    if field["type"] == "integer":
        return f"integer, {field['minimum']} to {field['maximum']}"
    if field["type"] == "string":
        return "time" if "format" in field else f"text of up to {field['maxLength']}"
    return "free object" if field.get(PRESERVE) and "properties" not in field else field["type"]


def _rules(root: Schema) -> Iterator[tuple[str, str, str]]:
    yield from ((path, message, "API server") for path, message in _cel_rules(root, ""))
    for path, message in _operator_rules(EndpointSpec, "spec"):
        yield _code(path), message, "*operator*"


def _cel_rules(schema: Schema, at: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get(VALIDATIONS, []):
        yield _code(at or "metadata.name"), rule["message"]
    for name, child in schema.get("properties", {}).items():
        yield from _cel_rules(child, f"{at}.{name}".lstrip("."))
    if "items" in schema:
        yield from _cel_rules(schema["items"], f"{at}[]")


def _operator_rules(model: type[ApiModel], at: str) -> Iterator[tuple[str, str]]:
    for rule in model.rules:
        if rule.cel is None:
            yield at, rule.message
    for field in model.model_fields.values():
        for child in _models_in(field.annotation):
            yield from _operator_rules(child, f"{at}.{field.alias}")


def _models_in(annotation: Any) -> Iterator[type[ApiModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _flags() -> Iterable[str]:
    return (
        "## Flags that `engine.extraArgs` may not name",
        "",
        ", ".join(_code(flag) for flag in (*OWNED_FLAGS, *OWNED_SHORT_FLAGS)) + ".",
        "",
        "Refused in every spelling that vLLM takes: with underscores, as `--flag=value`, as",
        "`--flag.key`, and abbreviated (`--kv-cache-mem`). What the value of another flag does is",
        "not checked: `--hf-overrides`, for example, can change the architecture that Parkade",
        "reads from config.json.",
        "",
        f"In `engine.podTemplate`, the container `{names.ENGINE_CONTAINER}` may not set "
        + ", ".join(_code(field) for field in OWNED_CONTAINER_FIELDS)
        + ",",
        f"and no label or annotation may start with `{names.GROUP}/`.",
    )


def _columns(columns: Iterable[Schema]) -> Iterator[tuple[str, str, str]]:
    for column in columns:
        yield (
            column["name"],
            "with `-o wide`" if column.get("priority") else "always",
            column["description"],
        )


def _conditions() -> Iterator[str]:
    meanings, reasons = docstrings(ConditionType), docstrings(Reason)
    for kind, by_status in REASONS.items():
        statuses: dict[Reason, list[str]] = {}
        for status, possible in by_status.items():
            for reason in possible:
                statuses.setdefault(reason, []).append(status)
        yield from (f"### {kind}", "", meanings[kind], "")
        rows = [
            (_code(reason), ", ".join(found), reasons[reason]) for reason, found in statuses.items()
        ]
        yield from (*_table(("Reason", "Status", "Meaning"), rows), "")


def docstrings(enum: type[StrEnum]) -> dict[str, str]:
    """Return the text beneath each constant of an enum, by value."""
    body = ast.parse(inspect.getsource(enum)).body[0]
    found: dict[str, str] = {}
    value = None
    for node in getattr(body, "body", []):
        if isinstance(node, ast.Assign):
            value = ast.literal_eval(node.value)
        elif isinstance(node, ast.Expr) and value is not None:
            found[value] = " ".join(ast.literal_eval(node.value).split())
            value = None
    return found


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _code(text: object) -> str:
    return f"`{text}`"
