"""What the controller's tests share."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from parkade.api.settings import Settings
from parkade.rollout.revision import Revision


class Clock:
    """A monotonic clock that tests turn."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def now():
    return datetime(2026, 11, 29, 23, tzinfo=UTC)


@pytest.fixture
def make_revision():
    """A revision with nothing in its template."""

    def make(**changes):
        values = {
            "hash": "r1",
            "settings": Settings(256, Decimal("0.9")),
            "fingerprint": "f1",
            "inputs": "i1",
            "generation": 1,
            "template": {},
        }
        return Revision(**{**values, **changes})

    return make
