"""How sentences of the explanation write numbers, so that a reader can redo them by hand.

Sentences have the form `Name: operand unit / operand unit = result unit.`; operators are + - × /
and brackets. Digits are printed so that the result follows from what is printed.
"""

from __future__ import annotations

import math


def count(value: float) -> str:
    """Return a whole number with thousands separated."""
    return f"{round(value):,}"


def number(value: float, digits: int = 4) -> str:
    """Return a number with enough digits to compute on: `digits` decimals below 100, else fewer."""
    size = abs(value)
    decimals = digits if size < 100 else max(1, digits - 2)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rough(value: float) -> str:
    """Return a number for reading, not for computing on: one decimal below 100, else whole."""
    text = f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"
    return text.removesuffix(".0")


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds."""
    return f"{seconds * 1000:.3f} ms"


def two_times(one: float, other: float) -> tuple[str, str]:
    """Return two times whose difference is computed on: near ones with more digits."""
    near = abs(one - other) < _NEAR * max(one, other)
    digits = 6 if near else 3
    return f"{one * 1000:.{digits}f} ms", f"{other * 1000:.{digits}f} ms"


_NEAR = 0.05


def ratio(value: float) -> str:
    """Return a small factor with four significant digits, never in powers of ten."""
    zeros = 0 if value <= 0 else max(0, -math.floor(math.log10(value)) - 1)
    return number(value, min(15, 4 + zeros))
