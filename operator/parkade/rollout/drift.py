"""Does a live object still hold what we applied? Others may have edited it.

Only what we apply counts: fields that the API server defaults or that other managers own are
left alone. So a steady endpoint causes no write, and an edited child is put right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parkade.api.quantity import parse_bytes

_KEYS = ("name", "mountPath", "uid", "key")
"""Fields that identify an item of a list, as in Kubernetes' list maps."""

_LEFT_OUT = (None, "", 0)
"""Values that the API server leaves out of what it sends (`omitempty`), so absent is the same."""


def difference(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> str | None:
    """Return the first path at which the live object lacks what is desired; None: all is there."""
    if live is None:
        return "absent"
    return _differs(desired, live, "")


def _differs(desired: Any, live: Any, path: str) -> str | None:
    if isinstance(desired, Mapping):
        if not isinstance(live, Mapping):
            return None if not desired else path
        return _first(
            _differs(value, live.get(key), f"{path}.{key}".lstrip("."))
            for key, value in desired.items()
        )
    if isinstance(desired, list):
        return _list_differs(desired, live, path)
    return None if _equal(desired, live, path) else path


def _list_differs(desired: list[Any], live: Any, path: str) -> str | None:
    if not isinstance(live, list):
        return None if not desired else path
    key = _key_of(desired)
    if key is None:
        if len(desired) != len(live):
            return path
        pairs = enumerate(zip(desired, live, strict=True))
        return _first(_differs(one, other, f"{path}[{at}]") for at, (one, other) in pairs)
    by_key = {one.get(key): one for one in live if isinstance(one, Mapping)}
    return _first(_differs(one, by_key.get(one[key]), f"{path}[{one[key]}]") for one in desired)


def _key_of(items: list[Any]) -> str | None:
    if not items or not all(isinstance(one, Mapping) for one in items):
        return None
    return next((key for key in _KEYS if all(key in one for one in items)), None)


def _equal(desired: Any, live: Any, path: str) -> bool:
    if desired == live:
        return True
    if desired in _LEFT_OUT and live in (None, ""):
        return True
    if ".resources." in path:
        return _quantity(desired) is not None and _quantity(desired) == _quantity(live)
    return False


def _quantity(value: Any) -> int | None:
    """Read a quantity in thousandths, so that `500m` and `0.5` are equal."""
    if not isinstance(value, str | int):
        return None
    text = str(value)
    if text.endswith("m"):
        return int(text[:-1]) if text[:-1].isdigit() else None
    whole = parse_bytes(text)
    try:
        return int(float(text) * 1000)
    except ValueError:
        return None if whole is None else whole * 1000


def _first(found: Any) -> str | None:
    return next((one for one in found if one is not None), None)
