"""What a start tells of memory, and when it is news."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.api.quantity import GIB
from parkade.api.settings import Settings
from parkade.controller.learn import (
    RETRY_SECONDS,
    StartupReader,
    from_learned,
    learn,
    measured_memory,
    smallest_pool,
    to_learned,
)
from parkade.rollout.causes import StartupReport
from parkade.rollout.observed import PodState
from parkade.rollout.record import Record
from support.clusters import cluster_at
from support.servers import Reply, serving

NOW = datetime(2026, 11, 29, 23, tzinfo=UTC)
REPORT = StartupReport(
    total_bytes=178 * GIB,
    free_bytes=176 * GIB,
    utilization=0.9,
    non_kv_bytes=25 * GIB,
    available_kv_bytes=130 * GIB,
    kv_tokens=4_000_000,
    complete=True,
)
POD = PodState(
    name="web-1",
    uid="p1",
    owner_uid="rs",
    revision="r1",
    fingerprint="f1",
    settings=Settings(256, Decimal("0.9")),
    ready_since=NOW,
    running_since=NOW,
)
RECORD = Record(uid="u")


def test_a_start_is_kept_by_fingerprint():
    record = learn(RECORD, [POD], {"p1": REPORT})
    measured = from_learned(record.learned["f1"])
    assert (measured.free_bytes, measured.max_num_seqs) == (176 * GIB, 256)


def test_the_same_start_again_is_no_news():
    record = learn(RECORD, [POD], {"p1": REPORT})
    assert learn(record, [POD], {"p1": REPORT}) is record


def test_of_several_starts_with_the_same_settings_the_least_free_memory_counts():
    first = learn(RECORD, [POD], {"p1": REPORT})
    more = learn(first, [POD], {"p1": replace(REPORT, free_bytes=177 * GIB)})
    less = learn(first, [POD], {"p1": replace(REPORT, free_bytes=175 * GIB)})
    assert more is first
    assert from_learned(less.learned["f1"]).free_bytes == 175 * GIB


def test_other_settings_are_news():
    first = learn(RECORD, [POD], {"p1": REPORT})
    other = replace(POD, settings=Settings(64, Decimal("0.9")))
    assert from_learned(learn(first, [other], {"p1": REPORT}).learned["f1"]).max_num_seqs == 64


@pytest.mark.parametrize(
    "change",
    [
        {"complete": False},
        {"total_bytes": None},
        {"free_bytes": 0},
        {"non_kv_bytes": -1},
        {"available_kv_bytes": None},
        {"utilization": None},
    ],
)
def test_a_log_without_the_figures_teaches_nothing(change):
    assert measured_memory(replace(REPORT, **change), 256) is None


def test_figures_survive_the_record():
    measured = measured_memory(REPORT, 256)
    assert from_learned(to_learned(measured)) == measured


@given(
    st.dictionaries(
        st.sampled_from(["total_bytes", "free_bytes", "utilization", "max_num_seqs", "other"]),
        st.none() | st.text() | st.integers() | st.floats() | st.booleans(),
    )
)
def test_a_record_that_somebody_edited_is_read_as_nothing(raw):
    assert from_learned(raw) is None


def test_the_smallest_pool_counts():
    pods = [POD, replace(POD, uid="p2"), replace(POD, uid="p3")]
    reports = {"p1": REPORT, "p2": replace(REPORT, kv_tokens=3_000_000)}
    assert smallest_pool(pods, reports) == 3_000_000
    assert smallest_pool(pods, {}) is None


class Logs:
    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    def __call__(self, asked):
        self.asked.append(asked.query)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def test_a_log_is_read_once_for_each_start_and_from_its_head(clock):
    logs = Logs(Reply(body="INFO nothing of interest"))
    with serving(logs) as served:
        reader = StartupReader(cluster_at(served.url), clock)
        for _ in range(3):
            reader.of("ns", [POD])
        reader.of("ns", [replace(POD, restart_count=1)])
    assert len(logs.asked) == 2
    assert "tailLines" not in logs.asked[0]


def test_a_log_that_can_not_be_read_is_asked_for_again_after_a_minute(clock):
    logs = Logs(Reply(500, {"message": "away"}))
    with serving(logs) as served:
        reader = StartupReader(cluster_at(served.url), clock)
        for _ in range(5):
            reader.of("ns", [POD])
        assert len(logs.asked) == 1
        clock.now = RETRY_SECONDS + 1
        reader.of("ns", [POD])
        assert len(logs.asked) == 2


def test_a_pod_that_is_not_ready_has_not_ended_its_start(clock):
    logs = Logs(Reply(body=""))
    with serving(logs) as served:
        StartupReader(cluster_at(served.url), clock).of("ns", [replace(POD, ready_since=None)])
    assert logs.asked == []


def test_logs_that_hang_cost_a_pass_so_much_and_no_more(clock):
    """Each takes ten seconds, as when the tunnel to the nodes is down."""

    class Hanging(Logs):
        def __call__(self, asked):
            clock.now += 10
            return super().__call__(asked)

    logs = Hanging(Reply(504, {"message": "away"}))
    pods = [replace(POD, uid=f"p{at}") for at in range(12)]
    with serving(logs) as served:
        reader = StartupReader(cluster_at(served.url), clock)
        reader.of("ns", pods)
        assert len(logs.asked) == 2
        reader.of("ns", pods)
        assert len(logs.asked) == 2
