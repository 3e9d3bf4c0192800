"""Kubernetes quantities of bytes: parse and print.

The grammar is that of apimachinery's `resource.Quantity` (suffixes Ki to Ei, k to E, m, exponent).
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4

_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(1000),
    "M": Decimal(1000) ** 2,
    "G": Decimal(1000) ** 3,
    "T": Decimal(1000) ** 4,
    "P": Decimal(1000) ** 5,
    "E": Decimal(1000) ** 6,
    "Ki": Decimal(KIB),
    "Mi": Decimal(MIB),
    "Gi": Decimal(GIB),
    "Ti": Decimal(TIB),
    "Pi": Decimal(KIB) ** 5,
    "Ei": Decimal(KIB) ** 6,
}

PATTERN = r"^[0-9]{1,16}(\.[0-9]{1,9})?(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$"
"""What the resource accepts: no sign, no exponent, at most 16 digits before the point."""

_QUANTITY = re.compile(r"^(\d{1,24}(?:\.\d{1,12})?)(m|[kMGTPE]|[KMGTPE]i)?$")


def parse_bytes(text: str | int) -> int | None:
    """Return a quantity in whole bytes, rounded up as Kubernetes does; None where it is not one."""
    match = _QUANTITY.match(str(text).strip())
    if match is None:
        return None
    number, suffix = match.groups()
    value = Decimal(number) * _SUFFIXES[suffix or ""]
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def gib(size_bytes: float) -> str:
    """Return bytes as GiB with two decimals for people, for example `6.00 GiB`."""
    return f"{size_bytes / GIB:.2f} GiB"


def quantity(size_bytes: int) -> str:
    """Return bytes as a quantity in MiB, rounded down: short, stable, exact enough for status."""
    sign = "-" if size_bytes < 0 else ""
    return f"{sign}{abs(size_bytes) // MIB}Mi"
