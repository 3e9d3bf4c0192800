"""Conditions: all documented, transition times that move only with the status, bounded texts."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parkade.api.conditions import (
    CONDITION_ORDER,
    MAX_MESSAGE_LENGTH,
    REASONS,
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    condition,
    find_condition,
    read_conditions,
    set_condition,
    with_all_types,
)
from parkade.api.reference import docstrings
from parkade.api.status import EndpointStatus, dump

NOW = datetime(2026, 11, 29, 23, 15, 1, 900_000, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
SECOND = NOW.replace(microsecond=0)
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def ready(status=TRUE, reason=Reason.SERVING, message="1 of 1 pods ready", generation=3):
    return condition(ConditionType.READY, status, reason, message, generation)


def test_every_reason_has_a_meaning_and_a_condition():
    meanings = docstrings(Reason)
    placed = {
        reason for by_status in REASONS.values() for some in by_status.values() for reason in some
    }
    assert set(meanings) == set(Reason) == placed
    assert set(REASONS) == set(CONDITION_ORDER) == set(docstrings(ConditionType))


def test_reasons_are_one_camel_case_word():
    assert all(reason.isalnum() and reason[0].isupper() and len(reason) <= 64 for reason in Reason)


def test_every_condition_can_be_unknown_at_first():
    assert all(Reason.INITIALIZING in by[ConditionStatus.UNKNOWN] for by in REASONS.values())


def test_reconciling_and_stalled_have_no_reason_in_common_when_true_that_is_not_a_stall():
    stalled = set(REASONS[ConditionType.STALLED][TRUE])
    assert Reason.ROLLOUT_IN_PROGRESS not in stalled
    assert Reason.WAITING_FOR_GPU not in stalled


@pytest.mark.parametrize(
    ("new", "since"),
    [
        pytest.param(ready(), SECOND, id="the same keeps its time"),
        pytest.param(ready(message="2 of 2"), SECOND, id="another message keeps the time"),
        pytest.param(ready(reason=Reason.SCALED_TO_ZERO), SECOND, id="another reason keeps it"),
        pytest.param(ready(generation=4), SECOND, id="another generation keeps it"),
        pytest.param(
            ready(FALSE, Reason.NO_READY_PODS),
            LATER.replace(microsecond=0),
            id="another status moves it",
        ),
    ],
)
def test_transition_time(new, since):
    before = set_condition((), ready(), NOW)
    after = find_condition(set_condition(before, new, LATER), ConditionType.READY)
    assert after.last_transition_time == since
    assert (after.reason, after.message, after.observed_generation) == (
        new.reason,
        new.message,
        new.observed_generation,
    )


def test_order_is_always_the_same():
    conditions = ()
    for kind in reversed(CONDITION_ORDER):
        new = condition(kind, ConditionStatus.UNKNOWN, Reason.INITIALIZING, "", 1)
        conditions = set_condition(conditions, new, NOW)
    assert tuple(one.type for one in conditions) == CONDITION_ORDER


def test_all_types_are_there_from_the_first_visit_and_known_ones_stay():
    conditions = with_all_types(set_condition((), ready(), NOW), 3, LATER)
    assert tuple(one.type for one in conditions) == CONDITION_ORDER
    assert conditions[0].reason == Reason.SERVING
    assert {one.reason for one in conditions[1:]} == {Reason.INITIALIZING}


def test_a_long_message_is_cut_and_says_so():
    text = ready(message="é" * 5000).message
    assert len(text) == MAX_MESSAGE_LENGTH
    assert text.endswith("…")


def test_what_was_written_is_read_back_equal():
    conditions = with_all_types(set_condition((), ready(), NOW), 3, NOW)
    raw = EndpointStatus(observed_generation=3, conditions=conditions).to_dict()
    assert read_conditions(raw) == conditions
    assert raw["conditions"][0]["lastTransitionTime"] == "2026-11-29T23:15:01Z"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="no status"),
        pytest.param({"conditions": None}, id="null"),
        pytest.param({"conditions": {"Ready": "True"}}, id="a map"),
        pytest.param({"conditions": ["Ready"]}, id="a list of texts"),
        pytest.param({"conditions": [{"type": "Foreign", "status": "True"}]}, id="a foreign type"),
        pytest.param(
            {"conditions": [{"type": "Ready", "status": "Maybe", "reason": "X"}]},
            id="an unknown status",
        ),
        pytest.param(
            {"conditions": [{"type": "Ready", "status": "True", "reason": "two words"}]},
            id="a reason of two words",
        ),
    ],
)
def test_unreadable_conditions_are_left_out(raw):
    assert read_conditions(raw) == ()


def test_a_reason_of_a_newer_operator_is_kept():
    raw = dump(ready()) | {"reason": "FromTheFuture", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    found = read_conditions({"conditions": [raw]})
    assert [one.reason for one in found] == ["FromTheFuture"]
    assert isinstance(found[0], Condition)


def test_every_reason_is_shown_to_occur_by_a_test_of_the_product():
    """Tests of `api` show that a reason has a meaning; those of the layers above that it occurs."""
    tests = Path(__file__).parents[1]
    parts = ("sizing", "rollout", "adapters", "controller", "safety", "cli")
    text = "".join(file.read_text() for part in parts for file in (tests / part).rglob("*.py"))
    missing = [
        one.name for one in Reason if not re.search(rf'Reason\.{one.name}\b|["/]{one.value}"', text)
    ]
    assert missing == []
