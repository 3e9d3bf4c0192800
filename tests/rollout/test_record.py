"""The durable record: read back as written, tolerant of versions, garbage and loss."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.api.status import Origin, Verdict
from parkade.rollout.causes import Blame, CauseClass, Knob
from parkade.rollout.record import (
    HistoryEntry,
    Phase,
    Quarantined,
    Recommended,
    Record,
    RejectedSpec,
    Retry,
    SeenTermination,
)
from parkade.rollout.record_json import MAX_BYTES, from_json, to_json
from rollout.support.objects import GIB, at, settings
from rollout.support.states import NOW, candidate, revision

GOOD = revision()
FULL = Record(
    "uid-1",
    last_good=GOOD,
    last_good_since=at(100.5),
    candidate=candidate(
        revision(some=settings(32)),
        phase=Phase.FULL,
        knob=Knob.MAX_NUM_SEQS,
        surge=False,
        predicted_kv_tokens=2_100_000,
        ready_uids=("a", "b"),
        terminations=(
            SeenTermination("a", 1, True, CauseClass.NO_CACHE_BLOCKS, Blame.SETTINGS, None, "none"),
        ),
        scale=3,
        note="because",
        widened_at=at(4),
        earlier_ends=(("a", 2),),
    ),
    quarantine=(
        Quarantined(
            "key", "rev", GOOD.fingerprint, settings(), "unknown", "größer", at(1), "t",
            GIB, 7 * GIB, 33, Decimal("0.94"),
        ),
    ),
    rejected_spec=RejectedSpec("i", "t", 2, "k", "r", "bad_arguments", "m", at(2)),
    history=(
        HistoryEntry("rev", settings(), "f", 1, Origin.USER, at(3), Verdict.FAILED, "r", "m"),
    ),
    surge=False,
    settled_at=NOW,
    withdrawals=3,
    handled_retries=("key why",),
    retry=Retry("key", "f", settings(8), "why"),
    initial=settings(256),
    previous_max_num_seqs=32,
    recommended=Recommended(40, "f", "i"),
    ledger=({"concurrency": 8},),
    learned={"f": {"freeBytes": 1}},
)  # fmt: skip


@pytest.mark.parametrize("record", [Record("uid-1"), FULL], ids=["fresh", "full"])
def test_a_record_reads_back_as_written(record: Record) -> None:
    text = to_json(record)
    assert from_json(text, "uid-1") == record
    assert to_json(from_json(text, "uid-1")) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="absent"),
        pytest.param("", id="empty"),
        pytest.param("{", id="cut off"),
        pytest.param("[]", id="a list"),
        pytest.param("null", id="null"),
        pytest.param('{"uid": "other"}', id="of another uid"),
        pytest.param("{}", id="without a uid"),
    ],
)
def test_what_is_no_record_of_ours_is_none(text: str | None) -> None:
    assert from_json(text, "uid-1") is None


def test_no_uid_owns_no_record() -> None:
    assert from_json('{"uid": ""}', "") is None


def test_a_newer_versions_keys_survive_a_downgrade() -> None:
    raw = json.loads(to_json(FULL)) | {"plan": {"b": 1}, "format": 9}
    read = from_json(json.dumps(raw), "uid-1")
    assert read is not None
    assert json.loads(to_json(read))["plan"] == {"b": 1}
    assert replace(read, extra={}) == FULL


def test_an_older_versions_missing_keys_take_their_defaults() -> None:
    assert from_json('{"uid": "uid-1", "withdrawals": 2}', "uid-1") == Record(
        "uid-1", withdrawals=2
    )


def test_one_unreadable_item_costs_that_item_alone() -> None:
    raw = json.loads(to_json(FULL))
    raw["quarantine"].insert(0, {"key": "only"})
    raw["history"].append("nonsense")
    raw["retry"] = 7
    read = from_json(json.dumps(raw), "uid-1")
    assert read == replace(FULL, retry=None)


def broken(*path, value="Paused"):
    """The full record as another version might have written it."""
    raw = json.loads(to_json(FLIES))
    place = raw
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(raw)


FLIES = replace(
    FULL,
    surge=True,
    history=(
        HistoryEntry("new", settings(), "f", 1, Origin.TUNING, at(9), Verdict.PENDING, message="m"),
        *FULL.history,
    ),
)


def test_an_end_that_another_version_named_is_looked_at_again() -> None:
    read = from_json(broken("candidate", "terminations", 0, "cause_class"), "uid-1", NOW)
    assert read == replace(FLIES, candidate=replace(FLIES.candidate, terminations=()))


@pytest.mark.parametrize(
    "path", [("phase",), ("knob",), ("origin",), ("since",), ("terminations",)]
)
@pytest.mark.parametrize(
    ("now", "until"),
    [
        pytest.param(NOW + timedelta(days=1), NOW + timedelta(days=1), id="at this time"),
        pytest.param(None, at(9), id="as of its start, where the time is not told"),
    ],
)
def test_a_candidate_that_only_another_version_reads_ends_without_blame(path, now, until) -> None:
    read = from_json(broken("candidate", *path), "uid-1", now)
    assert read is not None
    assert (read.candidate, read.settled_at, read.surge) == (None, until, False)
    assert read.quarantine == FLIES.quarantine
    ended = read.history[0]
    assert (ended.verdict, ended.reason, ended.until) == (Verdict.INCONCLUSIVE, "Unreadable", until)
    assert read.history[1:] == FLIES.history[1:]
    assert from_json(to_json(read), "uid-1") == read


def test_what_a_newer_version_wrote_inside_a_known_field_is_gone_with_the_next_write() -> None:
    read = from_json(broken("quarantine", 0, "newField", value=7), "uid-1")
    assert read == FLIES


@given(
    st.dictionaries(
        st.sampled_from(sorted(json.loads(to_json(FULL)))),
        st.none()
        | st.integers()
        | st.text()
        | st.lists(st.integers())
        | st.dictionaries(st.text(), st.integers()),
    )
)
def test_no_garbage_in_any_field_raises(garbage) -> None:
    raw = json.loads(to_json(FULL)) | garbage | {"uid": "uid-1"}
    read = from_json(json.dumps(raw), "uid-1")
    lost = garbage.get("last_good") is not None
    assert (read is None) == lost
    assert lost or from_json(to_json(read), "uid-1") == read


def test_a_last_good_template_that_can_not_be_read_is_a_lost_record() -> None:
    raw = json.loads(to_json(FULL))
    del raw["last_good"]["template"]
    assert from_json(json.dumps(raw), "uid-1") is None


def test_a_record_too_large_for_a_config_map_loses_its_oldest_points() -> None:
    point = {"values": "x" * 1000}
    record = replace(FULL, ledger=tuple({**point, "at": at} for at in range(2000)))
    text = to_json(record)
    assert len(text.encode()) <= MAX_BYTES
    assert json.loads(text)["ledger"][-1]["at"] == 1999


def test_quarantine_and_memory_are_bounded_and_the_newest_stay() -> None:
    record = Record("uid-1")
    for number in range(200):
        entry = replace(FULL.quarantine[0], key=f"{number}", time=NOW + timedelta(seconds=number))
        record = record.with_quarantined(entry).with_learned(f"f{number}", {"at": number})
    assert [one.key for one in record.quarantine] == [f"{at}" for at in range(199, 71, -1)]
    assert list(record.learned) == ["f196", "f197", "f198", "f199"]


def test_failures_of_other_configurations_go_before_those_of_the_one_that_runs() -> None:
    record = Record("uid-1", last_good=GOOD)
    for number in range(200):
        fingerprint = GOOD.fingerprint if number < 8 else f"old-{number % 3}"
        entry = replace(FULL.quarantine[0], key=f"{number}", fingerprint=fingerprint)
        record = record.with_quarantined(entry)
    kept = [one.key for one in record.quarantine]
    assert len(kept) == 128
    assert kept[:2] == ["199", "198"]
    assert kept[-8:] == [f"{number}" for number in range(7, -1, -1)]


def test_lessons_hold_for_their_fingerprint_and_tuning_inputs_alone() -> None:
    record = replace(FULL, quarantine=(replace(FULL.quarantine[0], tuning="t"),))
    assert record.effective_headroom(GOOD.fingerprint, "t", 6 * GIB) == 7 * GIB
    assert record.effective_headroom(GOOD.fingerprint, "t", 9 * GIB) == 9 * GIB
    assert record.effective_headroom(GOOD.fingerprint, "other", 6 * GIB) == 6 * GIB
    assert record.effective_headroom("other", "t", 6 * GIB) == 6 * GIB
    assert record.max_num_seqs_cap(GOOD.fingerprint, "t") == 32
    assert record.max_num_seqs_cap("other", "t") is None
