"""Merge a user's podTemplate into ours, as a strategic merge would, where it matters.

Objects merge field by field; lists whose items have a `name` merge by it, mounts by `mountPath`;
other lists are replaced. A null removes a field.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_MOUNTS = "volumeMounts"


def merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return `ours` with `theirs` merged in; neither is changed. Theirs wins."""
    result = copy.deepcopy(dict(ours))
    for key, value in theirs.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _value(key, result.get(key), value)
    return result


def _value(key: str, ours: Any, theirs: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return merged(ours, theirs)
    if isinstance(ours, list) and isinstance(theirs, list):
        field = "mountPath" if key == _MOUNTS else "name"
        if _keyed(ours, field) and _keyed(theirs, field):
            return _by_key(ours, theirs, field)
    return copy.deepcopy(theirs)


def _keyed(items: list[Any], field: str) -> bool:
    return all(isinstance(one, Mapping) and isinstance(one.get(field), str) for one in items)


def _by_key(ours: list[Any], theirs: list[Any], field: str) -> list[Any]:
    given = {one[field]: one for one in theirs}
    kept = [
        merged(one, given.pop(one[field])) if one[field] in given else copy.deepcopy(one)
        for one in ours
    ]
    return kept + [copy.deepcopy(one) for one in given.values()]
