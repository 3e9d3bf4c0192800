"""How many endpoints tuning may touch at a time, also while records are under way."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parkade.adapters import rbac
from parkade.api import names
from parkade.api.status import Origin
from parkade.controller.turns import Turns
from parkade.controller.views import Views
from parkade.rollout.record import Candidate, Record
from parkade.rollout.record_json import to_json

NOW = datetime(2026, 11, 29, 23, tzinfo=UTC)
A, B, C = (("ns", name) for name in "abc")


@pytest.fixture
def views():
    views = Views()
    for namespace, name in (A, B, C):
        meta = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"}
        views.put(rbac.ENDPOINTS, {"metadata": meta})
    return views


@pytest.fixture
def remember(views, make_revision):
    """Returns a function that puts the record of an endpoint into the views."""

    def put(key, origin, version="1"):
        record = Record(uid=key[1])
        if origin is not None:
            record = replace(record, candidate=Candidate(make_revision(), origin, NOW))
        meta = {
            "namespace": key[0],
            "name": f"{key[1]}-parkade-record",
            "uid": f"record-{key[1]}",
            "resourceVersion": version,
            "labels": {names.ENDPOINT_LABEL: key[1]},
        }
        views.put(rbac.CONFIGMAPS, {"metadata": meta, "data": {"record.json": to_json(record)}})

    return put


def test_only_tuning_counts(views, remember):
    remember(A, Origin.TUNING)
    remember(B, Origin.USER)
    turns = Turns(views, limit=1)
    assert (turns.elsewhere(C), turns.elsewhere(A)) == (1, 0)


def test_the_last_turn_is_taken_once(views):
    turns = Turns(views, limit=1)
    assert turns.take(A)
    assert not turns.take(B)
    assert turns.elsewhere(B) == 1


def test_a_turn_that_led_to_nothing_is_given_back(views):
    turns = Turns(views, limit=1)
    turns.take(A)
    turns.settle(A)
    assert turns.take(B)


def test_a_record_takes_over_from_the_reservation(views, remember):
    turns = Turns(views, limit=1)
    turns.take(A)
    remember(A, Origin.TUNING)
    turns.settle(A)
    assert not turns.take(B)
    remember(A, None, version="2")
    assert turns.take(B)


def test_a_deleted_endpoint_holds_no_turn(views, remember):
    remember(A, Origin.TUNING)
    views.drop(rbac.ENDPOINTS, views.endpoint(A))
    assert Turns(views, limit=1).elsewhere(B) == 0


def test_more_turns_let_more_in(views):
    turns = Turns(views, limit=2)
    assert [turns.take(key) for key in (A, B, C)] == [True, True, False]
