"""Readings of Prometheus: which one decides, how long, and what becomes of the others."""

import threading

import pytest

from parkade.adapters.traffic import Traffic
from parkade.api.conditions import Reason
from parkade.controller.metrics import Metrics
from parkade.controller.workloads import Workloads
from parkade.sizing.workload import CannotTell
from support.metrics_server import prometheus_with
from support.operators import quick_settings
from support.servers import Reply, serving
from testbed.waiting import wait_until

START = 1_700_000_000.0


@pytest.fixture
def made(clock):
    """Readings of named servers, on a clock that the test turns; `heard` has each new one."""
    opened, heard = [], []

    def make(**urls):
        servers = [{"name": name, "url": url, "timeoutSeconds": 1} for name, url in urls.items()]
        settings = quick_settings("ns", prometheus=servers, evaluationSeconds=60)
        one = Workloads(settings, Metrics(), clock, lambda: START + clock.now, heard.append)
        opened.append(one)
        return one, heard

    yield make
    for one in opened:
        one.stop()


def read(workloads, heard, server="default", target=None):
    """Ask, wait for the next answer, and return it."""
    before = len(heard)
    workloads.of(server, 3600, target)
    wait_until(lambda: len(heard) > before, "a reading", 10, interval_seconds=0.01)
    return workloads.of(server, 3600, target)


def test_a_reading_decides_until_it_is_old(made, clock):
    with prometheus_with({}) as served:
        workloads, heard = made(default=served.url)
        assert isinstance(read(workloads, heard), Traffic)
    clock.now = 5 * 60
    assert isinstance(workloads.of("default", 3600), Traffic)
    clock.now = 86_400
    old = workloads.of("default", 3600)
    assert isinstance(old, CannotTell)
    assert old.reason is Reason.PROMETHEUS_UNAVAILABLE
    assert "was last read 86400 s ago" in old.message


class Broken:
    """A client with a bug."""

    def __getattr__(self, name):
        raise AttributeError(name)

    def close(self):
        pass


def test_a_bug_in_reading_is_no_reading(made, caplog):
    workloads, heard = made(default="http://127.0.0.1:9")
    workloads._clients["default"] = Broken()
    answer = read(workloads, heard)
    assert isinstance(answer, CannotTell)
    assert answer.reason is Reason.PROMETHEUS_UNAVAILABLE
    assert "AttributeError" in answer.message
    assert "failed" in caplog.text


def test_a_server_that_hangs_holds_up_no_other(made):
    stall = threading.Event()
    with serving(lambda _asked: Reply(stall=stall)) as hangs, prometheus_with({}) as served:
        workloads, heard = made(hung=hangs.url, default=served.url)
        for at in range(10):
            workloads.of("hung", 3600 + at)
        assert isinstance(read(workloads, heard), Traffic)
        stall.set()


def test_it_is_said_whose_pods_a_reading_is_of(made):
    with prometheus_with({}) as served:
        workloads, heard = made(default=served.url)
        read(workloads, heard)
        read(workloads, heard, target=("ns", "theirs"))
    assert heard == [None, ("ns", "theirs")]
