"""Sizes and counts as engines print them, or ``None`` where they cannot be true."""

import math
import re

GIB = 2**30
ABSURD_BYTES = 10 * 2**40
"""No device has 10 TiB. In a container torch prints 17179869184.00 GiB for a process that it
cannot see, and after a wrap-around figures of the same kind occur elsewhere."""

_UNITS = {"B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": GIB, "TIB": 2**40}
_SIZE = re.compile(r"(-?[\d,]{1,25}(?:\.\d{1,12})?)\s*([KMGT]?i?B)?", re.IGNORECASE)


def number(text: str | None) -> float | None:
    """Return a finite number; thousands commas are allowed, NaN and infinity are not."""
    if not text:
        return None
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def count(text: str | None, at_most: int = 10**13) -> int | None:
    """Return a whole number from 0 to ``at_most``."""
    value = number(text)
    if value is None or not 0 <= value <= at_most or value != int(value):
        return None
    return int(value)


def gib(text: str | None, *, signed: bool = False) -> int | None:
    """Return the bytes of a figure in GiB; ``signed`` allows negative ones (an empty pool)."""
    value = number(text)
    if value is None or abs(value) * GIB > ABSURD_BYTES or (value < 0 and not signed):
        return None
    return round(value * GIB)


def size(text: str | None) -> int | None:
    """Return the bytes of a size with its unit, such as ``150.00 MiB``."""
    found = _SIZE.fullmatch(text.strip()) if text else None
    if not found:
        return None
    value = number(found[1])
    unit = (found[2] or "B").upper()
    unit = unit if len(unit) != 2 else f"{unit[0]}IB"
    if value is None or value < 0 or value * _UNITS[unit] > ABSURD_BYTES:
        return None
    return round(value * _UNITS[unit])
