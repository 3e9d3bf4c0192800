"""What the controller's tests share."""

from datetime import UTC, datetime

import pytest


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
