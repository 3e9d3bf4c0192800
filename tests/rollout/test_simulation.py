"""Random lives of an endpoint keep every promise. `make simulate` plays thousands of them.

A failing history names its seed: `make simulate SEED=1234 HISTORIES=1` plays it alone.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout.support.history import EVENTS, History

CHUNKS = 12
HISTORIES = int(os.environ.get("PARKADE_HISTORIES", "40"))
FIRST_SEED = int(os.environ.get("SEED", "0"))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_histories_keep_the_promises(chunk: int) -> None:
    seeds = range(FIRST_SEED + chunk, FIRST_SEED + HISTORIES, CHUNKS)
    for seed in seeds:
        History(seed).play()


@pytest.mark.timeout(600)
@settings(
    max_examples=40,
    derandomize=True,  # the gate plays the same lives each time; `make simulate` plays others
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
@given(
    seed=st.integers(0, 10_000),
    script=st.lists(st.sampled_from(sorted(dict(EVENTS))), min_size=1, max_size=14),
)
def test_scripted_histories_keep_the_promises(seed: int, script: list[str]) -> None:
    """The same with events that shrink to the few that matter."""
    History(seed, script=tuple(script)).play()
