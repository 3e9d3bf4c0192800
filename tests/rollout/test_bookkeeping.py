"""What the record keeps of what was in force."""

from dataclasses import replace

import pytest

from parkade.rollout.bookkeeping import promoted
from parkade.rollout.record import Record
from rollout.support.objects import endpoint, settings
from rollout.support.states import NOW, candidate, revision

OTHER = endpoint({"engine": {"image": "vllm/vllm-openai:v0.33.0"}})


@pytest.mark.parametrize(
    ("good", "before", "new", "previous"),
    [
        pytest.param(None, None, revision(), None, id="nothing ran before"),
        pytest.param(revision(some=settings(32)), None, revision(), 32, id="another number"),
        pytest.param(
            revision(some=settings(256, "0.95")), 32, revision(), 32, id="the fraction alone"
        ),
        pytest.param(
            revision(OTHER, settings(32)), 64, revision(), None, id="another configuration"
        ),
    ],
)
def test_a_promotion_remembers_what_was_left(good, before, new, previous) -> None:
    record = Record("uid-1", last_good=good, candidate=candidate(new), previous_max_num_seqs=before)
    after = promoted(record, "It serves.", NOW, None)
    assert after.previous_max_num_seqs == previous
    assert after.last_good == new
    assert promoted(replace(after, candidate=None), "", NOW, None) == after
