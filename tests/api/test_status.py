"""Status: only what is known, every bound kept by cutting, read back without loss."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.api.status import (
    MAX_EXPLANATION,
    MAX_HISTORY,
    MAX_REJECTED,
    Bound,
    Bounds,
    EndpointStatus,
    HistoryEntry,
    LimitedBy,
    Memory,
    Recommendation,
    Rejected,
    TriState,
    Verdict,
    read_status,
)

STATUS = EndpointStatus(
    observed_generation=3,
    recommendation=Recommendation(
        max_num_seqs=12,
        gpu_memory_utilization="0.9521",
        limited_by=LimitedBy.KV_CACHE,
        bounds=Bounds(kv_cache=Bound(value="12.4", why="4540000 tokens / 366129 tokens")),
        saturated=TriState.TRUE,
        explanation=("One.", "Two."),
    ),
    memory=Memory(total="182630Mi", available_kv="133120Mi"),
    history=(HistoryEntry(revision="abc", verdict=Verdict.FAILED, predicted_kv_tokens=5),),
)


def test_keys_are_those_of_the_contract():
    raw = STATUS.to_dict()
    assert raw["recommendation"]["bounds"]["kvCache"]["value"] == "12.4"
    assert raw["recommendation"]["limitedBy"] == "KVCache"
    assert raw["memory"] == {"total": "182630Mi", "availableKV": "133120Mi"}
    assert raw["history"][0]["predictedKVTokens"] == 5


def test_what_is_not_known_is_left_out():
    raw = EndpointStatus().to_dict()
    assert raw == {"observedGeneration": -1, "conditions": [], "rejected": [], "history": []}


def test_read_back_equal():
    assert read_status(json.loads(json.dumps(STATUS.to_dict()))) == STATUS


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(None, id="none"),
        pytest.param({"observedGeneration": "three"}, id="a wrong type"),
        pytest.param({"history": {"a": 1}}, id="a map for a list"),
    ],
)
def test_an_unreadable_status_reads_as_empty(raw):
    assert read_status(raw) == EndpointStatus()


@given(st.text(max_size=5000), st.integers(0, 200))
def test_long_texts_and_lists_are_cut_and_never_refused(text, count):
    status = EndpointStatus(
        recommendation=Recommendation(explanation=(text,) * count),
        rejected=(Rejected(hash=text, cause=text, message=text),) * count,
        history=(HistoryEntry(reason=text, message=text),) * count,
    )
    assert len(status.recommendation.explanation) == min(count, MAX_EXPLANATION)
    assert len(status.rejected) == min(count, MAX_REJECTED)
    assert len(status.history) == min(count, MAX_HISTORY)
    assert read_status(status.to_dict()) == status
