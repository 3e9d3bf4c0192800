"""The part of the spec that says how settings may change and how new pods are judged."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from parkade.api import quantity
from parkade.api.base import ApiModel, Rule
from parkade.api.fields import Fraction, Quantity, Seconds
from parkade.api.schedule import FIVE_FIELDS, is_time_zone, opens_at_times
from parkade.api.settings import Settings, fraction


class Mode(StrEnum):
    """Whether Parkade may change the two knobs."""

    AUTO = "Auto"
    RECOMMEND_ONLY = "RecommendOnly"


class Interruption(StrEnum):
    """Whether tuning may leave the endpoint without a ready pod."""

    NEVER = "Never"
    IN_WINDOWS = "InWindows"
    ALLOWED = "Allowed"


class Strategy(StrEnum):
    """How a new pod comes: beside the old one, or in its place."""

    AUTO = "Auto"
    SURGE = "Surge"
    NO_SURGE = "NoSurge"


class InitialSettings(ApiModel):
    """Settings to run until there is evidence."""

    max_num_seqs: Annotated[int, Field(ge=1, le=1024)]
    """vLLM's --max-num-seqs."""
    gpu_memory_utilization: Fraction
    """vLLM's --gpu-memory-utilization, a decimal string."""

    @property
    def settings(self) -> Settings:
        """The same as a value."""
        return Settings(self.max_num_seqs, fraction(self.gpu_memory_utilization))


class SeqsRange(ApiModel):
    """Bounds on max_num_seqs that the user gives."""

    rules = (
        Rule(
            message="maxNumSeqs.min may not be larger than maxNumSeqs.max",
            # Guarded: the API server also tries the rule on the bare default, {}.
            cel="!has(self.min) || !has(self.max) || self.min <= self.max",
            check=lambda bounds: bounds.min <= bounds.max,
        ),
    )

    min: Annotated[int, Field(ge=1, le=1024)] = 1
    """Never below."""
    max: Annotated[int, Field(ge=1, le=1024)] = 1024
    """Never above."""


class MaintenanceWindow(ApiModel):
    """A time in which tuning may start."""

    rules = (
        Rule(
            message='schedule must be a cron expression of five fields, as in "0 2 * * *"',
            cel=f"self.schedule.matches(r'{FIVE_FIELDS}')",
            check=lambda window: re.match(FIVE_FIELDS, window.schedule) is not None,
        ),
        Rule(
            message="schedule must be a valid cron expression that comes true at some time",
            cel=None,
            check=lambda window: opens_at_times(window.schedule),
        ),
        Rule(
            message="timeZone must be a name of the IANA time zone database, as in Asia/Seoul",
            cel=None,
            check=lambda window: is_time_zone(window.time_zone),
        ),
    )

    schedule: Annotated[str, StringConstraints(min_length=9, max_length=128)]
    """Cron expression of five fields: when the window opens."""
    duration_seconds: Annotated[int, Field(ge=60, le=604_800)]
    """How long it stays open."""
    time_zone: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_+/-]+$", max_length=64)] = (
        "UTC"
    )
    """IANA time zone of the schedule."""


class Tuning(ApiModel):
    """How far and how often Parkade may change the knobs."""

    rules = (
        Rule(
            message="initial.maxNumSeqs must lie between maxNumSeqs.min and maxNumSeqs.max",
            cel=(
                "!has(self.initial) || (self.maxNumSeqs.min <= self.initial.maxNumSeqs && "
                "self.initial.maxNumSeqs <= self.maxNumSeqs.max)"
            ),
            check=lambda tuning: (
                tuning.initial is None
                or tuning.max_num_seqs.min <= tuning.initial.max_num_seqs <= tuning.max_num_seqs.max
            ),
        ),
    )

    mode: Mode = Mode.AUTO
    """Auto rolls recommendations out; RecommendOnly writes them into status."""
    initial: InitialSettings | None = None
    """Settings to run until there is evidence."""
    headroom: Quantity = "6Gi"
    """Memory that stays free on each GPU."""
    max_num_seqs: SeqsRange = SeqsRange()
    """Bounds on max_num_seqs."""
    min_gain_percent: Annotated[int, Field(ge=0, le=1000)] = 10
    """A change must gain at least this much."""
    cooldown_seconds: Seconds = 3600
    """Shortest time between two disruptions by tuning."""
    interruption: Interruption = Interruption.IN_WINDOWS
    """Whether tuning may leave the endpoint without a ready pod."""
    maintenance_windows: Annotated[tuple[MaintenanceWindow, ...], Field(max_length=16)] = ()
    """Where given, tuning starts only inside them."""

    @property
    def headroom_bytes(self) -> int:
        """The headroom in bytes."""
        return quantity.parse_bytes(self.headroom) or 0


class Rollout(ApiModel):
    """How new pods are brought up and judged."""

    strategy: Strategy = Strategy.AUTO
    """Auto tries a surge pod first; after 30 s without a GPU or quota for it, pods are replaced one
    at a time where that is allowed. Surge and NoSurge say it outright."""
    start_deadline_seconds: Annotated[int, Field(ge=10, le=86_400)] = 1800
    """Longest time from a container's start to Ready."""
    max_restarts: Annotated[int, Field(ge=0, le=100)] = 2
    """More restarts than this while soaking reject a candidate."""
    soak_seconds: Annotated[int, Field(ge=0, le=604_800)] = 600
    """How long a candidate serves before it is believed."""


def utilization_of(value: Decimal) -> str:
    """Return a fraction as the decimal string of spec and status."""
    return f"{value.normalize():f}"
