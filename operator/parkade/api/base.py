"""What every model of the resource shares: the base class, rules, and how texts are kept short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the resource, declared once: the API server and the command line say the same.

    `cel` is what the API server checks, with `self` as the value it stands on; None where CEL
    can't (the operator then reports InvalidSpec). `check` is the same in Python.
    """

    message: str
    cel: str | None
    check: Callable[[Any], bool]

    def require(self, value: Any) -> Any:
        """Return the value, or fail with the message."""
        if not self.check(value):
            raise PydanticCustomError("rule", "{text}", {"text": self.message})
        return value

    def to_dict(self) -> dict[str, str]:
        """Return the rule as an entry of x-kubernetes-validations."""
        return {"rule": self.cel or "true", "message": self.message}

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.require, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return with_rules(handler(schema), (self,))


def with_rules(schema: dict[str, Any], rules: tuple[Rule, ...]) -> dict[str, Any]:
    """Return the schema with the rules that the API server can check."""
    checked = [rule.to_dict() for rule in rules if rule.cel]
    if not checked:
        return schema
    return schema | {VALIDATIONS: [*schema.get(VALIDATIONS, []), *checked]}


class ApiModel(BaseModel):
    """Frozen, camelCase on the wire, field docstrings become the CRD's descriptions."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()
    """What fields must fulfil together."""

    @model_validator(mode="after")
    def _follow_the_rules(self) -> Self:
        for rule in self.rules:
            rule.require(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = handler(schema)
        resolved = handler.resolve_ref_schema(found)
        resolved.update(with_rules(resolved, cls.rules))
        return found


def clip(text: str, limit: int) -> str:
    """Return the text with at most `limit` characters, the cut shown by an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clipped(limit: int) -> Callable[[Any], Any]:
    """Return a validator that clips a text, so that a long message never loses a status write."""

    def shorten(value: Any) -> Any:
        return clip(value, limit) if isinstance(value, str) else value

    return shorten


def first(limit: int) -> Callable[[Any], Any]:
    """Return a validator that keeps the first items of a list (they are newest first)."""

    def shorten(value: Any) -> Any:
        return tuple(value)[:limit] if isinstance(value, list | tuple) else value

    return shorten
