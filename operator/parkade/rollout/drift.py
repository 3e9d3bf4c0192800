"""Does a live object still hold what we applied? Others may have edited it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> str | None:
    """Return the first path at which the live object lacks what is desired; None: all is there.

    Fields that the API server or other managers added do not count.
    """
    raise NotImplementedError((desired, live))
