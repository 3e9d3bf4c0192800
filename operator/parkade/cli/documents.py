"""Reading files that nobody vouches for: bounded in size and depth, errors in one line."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parkade.cli.errors import UsageError

MAX_BYTES = 16 * 2**20
"""Far above any resource, traffic file, metrics page or config.json."""

MAX_DEPTH = 64
"""Deeper nesting is nobody's configuration."""


def read_text(path: str, what: str) -> str:
    """Return a file's text, `-` being standard input. `what` names its role in messages."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {what} {path!r}: {reason}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{what} {path!r} is larger than {MAX_BYTES // 2**20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path!r} is not UTF-8 text (byte {error.start})") from error


def read_yaml_objects(path: str, what: str) -> list[dict[str, Any]]:
    """Return the YAML documents of a file, empty ones left out."""
    return parse_yaml_objects(read_text(path, what), path, what)


def parse_yaml_objects(text: str, path: str, what: str) -> list[dict[str, Any]]:
    """Return the YAML documents of a text, empty ones left out."""
    import yaml  # noqa: PLC0415 - start-up time

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = [one for one in yaml.load_all(text, Loader=loader) if one is not None]
    except yaml.YAMLError as error:
        raise UsageError(f"{what} {path!r} is not YAML: {_yaml_problem(error)}") from error
    except RecursionError as error:
        raise _too_deep(path, what) from error
    except (ValueError, TypeError) as error:  # impossible dates, unhashable keys
        raise UsageError(f"{what} {path!r} is not usable YAML: {_one_line(error)}") from error
    if not documents:
        raise UsageError(f"{what} {path!r} is empty")
    return [_checked(one, path, what) for one in documents]


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or _one_line(error)
    if mark is None:
        return str(problem)
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _too_deep(path: str, what: str) -> UsageError:
    return UsageError(f"{what} {path!r} is nested more than {MAX_DEPTH} levels deep")


def _checked(value: object, path: str, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise UsageError(f"{what} {path!r} must be an object with fields, not a {kind}")
    try:
        for where, one, depth in _walk(value):
            _check(where, one, depth, path, what)
    except RecursionError as error:
        raise _too_deep(path, what) from error
    return value


def _check(where: str, value: object, depth: int, path: str, what: str) -> None:
    if depth > MAX_DEPTH:
        raise _too_deep(path, what)
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{what} {path!r}: {where} is {value}, not a finite number")


def _walk(value: object) -> Iterator[tuple[str, object, int]]:
    """Yield every value with its path and depth, without recursion; aliases are walked once."""
    stack: list[tuple[str, object, int]] = [("", value, 0)]
    seen: set[int] = set()
    while stack:
        where, one, depth = stack.pop()
        yield where, one, depth
        if not isinstance(one, dict | list) or id(one) in seen or depth > MAX_DEPTH:
            continue
        seen.add(id(one))
        items = one.items() if isinstance(one, Mapping) else enumerate(one)
        prefix = f"{where}." if where else ""
        stack += [(f"{prefix}{name}"[:200], inner, depth + 1) for name, inner in items]
