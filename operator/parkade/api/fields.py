"""Kinds of fields that several parts of the spec share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from parkade.api import quantity
from parkade.api.base import ApiModel

PRESERVE = "x-kubernetes-preserve-unknown-fields"
MAX_QUANTITY = 9_007_199_254_740_991


def _as_text(value: Any) -> Any:
    """Return a quantity that was written as a bare number of bytes as text."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole and value <= MAX_QUANTITY else value


Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    StringConstraints(pattern=quantity.PATTERN, max_length=32),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": quantity.PATTERN,
            "maxLength": 32,
            "minimum": 0,
            "maximum": MAX_QUANTITY,
        }
    ),
]
"""A size such as 6Gi, or a whole number of bytes, as Kubernetes takes them."""

Fraction = Annotated[
    str,
    StringConstraints(
        pattern=r"^(0\.[0-9]{0,3}[1-9][0-9]{0,3}|1(\.0{1,4})?)$", min_length=1, max_length=6
    ),
]
"""A decimal string above 0 and up to 1, with at most four digits after the point."""

ObjectName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253),
]
Seconds = Annotated[int, Field(ge=0, le=31_536_000)]
FreeObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object", PRESERVE: True})]
"""An object whose fields are not described here."""

BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
"""A list of things with names: several managers can each own some of them."""


class KeyRef(ApiModel):
    """A key of a ConfigMap or Secret in the endpoint's namespace."""

    name: ObjectName
    """Name of the object."""
    key: Annotated[
        str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)
    ]
    """Key in its data."""


class ClaimSource(ApiModel):
    """A persistent volume claim in the endpoint's namespace."""

    claim_name: ObjectName
    """Name of the claim."""


class Volume(ApiModel):
    """A volume for model files or caches."""

    persistent_volume_claim: ClaimSource
    """The claim that holds it."""


class ImagePullSecret(ApiModel):
    """Name of a Secret for pulling images."""

    name: ObjectName
    """Name of the Secret."""
