"""Reading a model's ``config.json`` from disk, whatever is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from parkade.cli.errors import CannotSize, UsageError
from parkade.sizing.architecture import (
    ModelArchitecture,
    UnsupportedArchitecture,
    parse_architecture,
)

MAX_BYTES = 16 * 2**20
"""The largest published configurations have some hundred kilobytes, for lists of layers."""
MAX_DEPTH = 64
"""Real ones nest less than ten levels."""


def read_architecture(path: Path) -> ModelArchitecture:
    """Return the model of a configuration file.

    Raises UsageError where the file cannot be read or is no configuration that a model can have,
    and CannotSize where it is one that is not understood.
    """
    found = parse_architecture(read_config(path))
    if isinstance(found, UnsupportedArchitecture):
        if found.malformed:
            raise UsageError(f"{str(path)!r} is no model's configuration: {found}")
        raise CannotSize(f"cannot size {str(path)!r}: {found}")
    return found


def read_config(path: Path) -> dict[str, Any]:
    """Return a configuration file as a dictionary; raise UsageError with the reason."""
    shown = repr(str(path))
    text = _text(path, shown)
    try:
        config = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise UsageError(f"{shown} is nested too deeply for a model's configuration") from None
    except ValueError as error:
        raise UsageError(f"{shown} is not JSON: {error}; give the model's config.json") from None
    if not isinstance(config, dict):
        raise UsageError(f"{shown} is no JSON object; give the model's config.json")
    if _depth(config) > MAX_DEPTH:
        raise UsageError(
            f"{shown} is nested more than {MAX_DEPTH} levels deep; give the model's config.json"
        )
    return config


def _text(path: Path, shown: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read {shown}: {reason}; give the path of the model's config.json"
        ) from None
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{shown} is larger than {MAX_BYTES // 2**20} MiB, which no model's configuration is; "
            "give its config.json"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{shown} is not UTF-8 text; give the model's config.json") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _depth(value: object) -> int:
    """Return how many levels deep a value nests, without recursion."""
    depth = 0
    level = [value]
    while level and depth <= MAX_DEPTH:
        depth += 1
        children: list[object] = []
        for item in level:
            if isinstance(item, dict):
                children.extend(item.values())
            elif isinstance(item, list):
                children.extend(item)
        level = [child for child in children if isinstance(child, dict | list)]
    return depth
