"""What a plan was made from, for everything that prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parkade.api.endpoint import Endpoint
    from parkade.sizing.inputs import SizingInputs
    from parkade.sizing.result import Sizing


@dataclass(frozen=True, slots=True)
class Case:
    """An endpoint, what it was sized from, and the answer."""

    endpoint: Endpoint
    inputs: SizingInputs
    sizing: Sizing
