"""What the adapters' tests share."""

from datetime import UTC, datetime

import pytest


@pytest.fixture
def now():
    return datetime(2026, 11, 29, 23, tzinfo=UTC)
