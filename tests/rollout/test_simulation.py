"""Random lives of an endpoint keep every promise. `make simulate` plays thousands of them.

A failing history names its seed: `SEED=1234 make simulate` plays it alone.
"""

import os

import pytest

from rollout.support.history import History

CHUNKS = 12
HISTORIES = int(os.environ.get("PARKADE_HISTORIES", "216"))
FIRST_SEED = int(os.environ.get("SEED", "0"))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_histories_keep_the_promises(chunk: int) -> None:
    seeds = range(FIRST_SEED + chunk, FIRST_SEED + HISTORIES, CHUNKS)
    for seed in seeds:
        History(seed).play()
