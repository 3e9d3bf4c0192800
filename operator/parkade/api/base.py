"""What every model of the resource shares: the base class and how texts are kept short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """Frozen, camelCase on the wire, field docstrings become the CRD's descriptions."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


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
