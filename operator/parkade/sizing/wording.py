"""How sentences of the explanation write numbers, so that a reader can redo them by hand.

Sentences have the form `Name: operand unit / operand unit = result unit.`; operators are + - × /
and brackets. Digits are printed so that the result follows from what is printed.
"""

from __future__ import annotations


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
