"""Reading a configuration that nobody vouches for.

A ``config.json`` may lack fields, carry strings where numbers belong, or numbers that no model
can have. Every read states what is allowed; anything else raises :class:`FieldError`, which
``parse_architecture`` turns into a refusal that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Bounds far above any published model, far below what would make the arithmetic meaningless.
MAX_LAYERS = 4096
MAX_DIMENSION = 1 << 24
MAX_TOKENS = 1 << 40

_TEXT_CHARACTERS = 120


class FieldError(Exception):
    """A field of the configuration is impossible; the message says which and why."""


class NotUnderstoodError(FieldError):
    """Nothing is wrong with what the file says, but it is not enough, or of an unknown kind."""


def shown(value: object) -> str:
    """Return ``value`` for a message of one line, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _TEXT_CHARACTERS else text[: _TEXT_CHARACTERS - 3] + "..."


class Fields:
    """One object of the configuration, with the defaults of its class behind it.

    A ``null`` is absent and voids the default: a window of ``null`` is no window.
    """

    def __init__(
        self, values: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, where: str = ""
    ) -> None:
        self.values = values
        self.defaults = defaults or {}
        self.where = where

    def raw(self, name: str) -> Any:
        """Return the value of the file, else the default of the class; absent is ``None``.

        A ``null`` in the file stays ``None``: the classes are given it in place of their default.
        """
        return self.values[name] if name in self.values else self.defaults.get(name)

    def path(self, name: str) -> str:
        """Return the name of the field as a person finds it in the file."""
        return f"{self.where}.{name}" if self.where else name

    def child(self, name: str) -> Fields | None:
        """Return a nested object, or None where it is absent."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise FieldError(f"{self.path(name)} is {shown(value)}, not an object")
        return Fields(value, None, self.path(name))

    def optional_int(self, *names: str, low: int = 1, high: int = MAX_DIMENSION) -> int | None:
        """Return the first of ``names`` that is present, checked; None where none is."""
        for name in names:
            value = self.raw(name)
            if value is not None:
                return self._checked_int(name, value, low, high)
        return None

    def integer(
        self, *names: str, default: int | None = None, low: int = 1, high: int = MAX_DIMENSION
    ) -> int:
        """Return the first of ``names`` that is present, else ``default``, else refuse."""
        value = self.optional_int(*names, low=low, high=high)
        if value is None:
            value = default
        if value is None:
            raise NotUnderstoodError(f"{self.path(names[0])} is missing")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean field."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise FieldError(f"{self.path(name)} is {shown(value)}, not true or false")
        return value

    def objects(self, name: str, length: int) -> list[Fields]:
        """Return a list of nested objects, refused where it is absent or short."""
        values = self.sequence(name, length)
        if values is None:
            raise NotUnderstoodError(f"{self.path(name)} is missing")
        for index, value in enumerate(values):
            if not isinstance(value, Mapping):
                raise FieldError(f"{self.path(name)}[{index}] is {shown(value)}, not an object")
        return [
            Fields(value, None, f"{self.path(name)}[{index}]") for index, value in enumerate(values)
        ]

    def text(self, name: str) -> str | None:
        """Return a field of text, or None where it is absent."""
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            raise FieldError(f"{self.path(name)} is {shown(value)}, not text")
        return value

    def sequence(self, name: str, length: int | None = None) -> Sequence[Any] | None:
        """Return a list, refused where it has fewer entries than ``length``."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise FieldError(f"{self.path(name)} is {shown(value)}, not a list")
        if length is not None and len(value) < length:
            raise FieldError(
                f"{self.path(name)} has {len(value)} entries for {length} hidden layers"
            )
        return value if length is None else value[:length]

    def words(self, name: str, length: int, allowed: Sequence[str]) -> list[str] | None:
        """Return a list of ``length`` words, each of which must be one of ``allowed``."""
        values = self.sequence(name, length)
        if values is None:
            return None
        for value in values:
            if value not in allowed:
                kind = NotUnderstoodError if isinstance(value, str) else FieldError
                raise kind(
                    f"{self.path(name)} has {shown(value)}, which is none of {', '.join(allowed)}"
                )
        return [str(value) for value in values]

    def integers(self, name: str, length: int | None = None, *, low: int = 0) -> list[int] | None:
        """Return a list of whole numbers."""
        values = self.sequence(name, length)
        if values is None:
            return None
        return [self._checked_int(name, value, low, MAX_DIMENSION) for value in values]

    def _checked_int(self, name: str, value: object, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldError(f"{self.path(name)} is {shown(value)}, not a whole number")
        if not low <= value <= high:
            raise FieldError(f"{self.path(name)} is {shown(value)}, outside {low} to {high}")
        return value
