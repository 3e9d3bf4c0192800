"""What the adapters' tests share."""

from datetime import UTC, datetime
from pathlib import Path

import pytest


@pytest.fixture
def now():
    return datetime(2026, 11, 29, 23, tzinfo=UTC)


@pytest.fixture(scope="session")
def vllm_page():
    """The metrics page of a real vLLM 0.32."""
    return (Path(__file__).parents[1] / "data/adapters/vllm-0.32-metrics.txt").read_text("utf-8")
