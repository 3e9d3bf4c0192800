"""What the end of a pass means for its endpoint."""

import logging

import pytest

from parkade.adapters.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from parkade.controller.metrics import Metrics
from parkade.controller.queue import WorkQueue
from parkade.controller.workers import CONFLICT_SECONDS, Workers
from testbed.waiting import wait_until

KEY = ("ns", "iep")


@pytest.fixture
def outcome(clock):
    """Returns a function that lets one pass end in a way: what is counted, and when it is due."""

    def of(result):
        queue = WorkQueue(clock=clock, random=lambda: 0.0)

        def work(_key, _now):
            if isinstance(result, Exception):
                raise result
            return result

        workers = Workers(queue, work, Metrics(), 1)
        queue.mark(KEY)
        counted = workers._pass(queue.take(0))
        due = queue._entries[KEY].due if KEY in queue._entries else None
        return counted, due

    return of


@pytest.mark.parametrize(
    ("result", "counted", "due"),
    [
        pytest.param(None, "done", None, id="done, and nothing to look at"),
        pytest.param(60.0, "done", 60.0, id="done, and to be looked at in a minute"),
        pytest.param(
            ConflictError("changed"), "conflict", CONFLICT_SECONDS, id="a conflict starts over soon"
        ),
        pytest.param(NotFoundError("gone"), "gone", None, id="the resource is gone"),
        pytest.param(UnavailableError("down"), "unavailable", 0.5, id="no answer: backs off"),
        pytest.param(ForbiddenError("no"), "unavailable", 0.5, id="no rights: backs off"),
        pytest.param(InvalidError("bad"), "unavailable", 0.5, id="refused: backs off"),
        pytest.param(
            TooManyRequestsError("slow", 30), "unavailable", 30.0, id="told how long to wait"
        ),
        pytest.param(
            ForbiddenError("namespace x because it is being terminated"),
            "gone",
            None,
            id="the namespace is going away",
        ),
        pytest.param(ValueError("a bug"), "error", 0.5, id="a bug backs off too"),
    ],
)
def test_each_end_has_its_consequence(outcome, result, counted, due):
    assert outcome(result) == (counted, due)


def test_a_bug_is_logged_with_its_trace_and_ends_no_worker(clock, caplog):
    queue = WorkQueue(clock=clock, random=lambda: 0.0)
    seen = []

    def work(key, _now):
        seen.append(key)
        raise ValueError("a bug")

    workers = Workers(queue, work, Metrics(), 2)
    workers.start()
    queue.mark(("ns", "a"))
    queue.mark(("ns", "b"))
    wait_until(lambda: len(seen) == 2, "both passes", 10, interval_seconds=0.005)
    assert workers.alive()
    queue.stop()
    assert workers.join(5)
    traces = [one for one in caplog.records if one.levelno == logging.ERROR and one.exc_info]
    assert len(traces) == 2
