"""The lease: one holder, taken over only when it went stale by our own clock."""

import threading

import pytest

from parkade.adapters import rbac
from parkade.adapters.errors import ConflictError, UnavailableError
from parkade.controller import lease as leases
from parkade.controller.lease import Lease


class FakeCluster:
    """An API server with one Lease, resource versions included."""

    def __init__(self):
        self.held = None
        self.version = 0
        self.broken = False

    def get(self, resource, *_place):
        assert resource is rbac.LEASES
        if self.broken:
            raise UnavailableError("down")
        return self.held

    def create(self, _resource, body):
        if self.held is not None:
            raise ConflictError("exists")
        self._store(body)

    def update(self, _resource, body):
        if body["metadata"]["resourceVersion"] != self.held["metadata"]["resourceVersion"]:
            raise ConflictError("changed")
        self._store(body)

    def _store(self, body):
        self.version += 1
        self.held = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def make(cluster, clock, now):
    return lambda identity: Lease(cluster, "ns", "parkade", identity, clock, lambda: now)


def holder(cluster):
    return cluster.held["spec"]["holderIdentity"]


def test_the_first_takes_it_and_the_second_waits(make, cluster):
    assert make("a").try_take()
    assert not make("b").try_take()
    assert holder(cluster) == "a"


def test_the_holder_renews_it(make):
    one = make("a")
    assert one.try_take()
    assert one.try_take()


def test_a_lease_that_nobody_renews_is_taken_over(make, cluster, clock):
    make("a").try_take()
    other = make("b")
    assert not other.try_take()
    clock.now += leases.DURATION_SECONDS + 1
    assert other.try_take()
    assert cluster.held["spec"]["leaseTransitions"] == 2


def test_the_other_s_clock_is_not_trusted(make, cluster, clock):
    make("a").try_take()
    cluster.held["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    clock.now = 1000.0
    assert not make("b").try_take()


def test_who_renews_in_time_keeps_it(make, cluster, clock):
    one, other = make("a"), make("b")
    one.try_take()
    other.try_take()
    clock.now += leases.DURATION_SECONDS - 1
    cluster.held["spec"]["renewTime"] = "2026-11-29T23:00:14.000000Z"
    other.try_take()
    clock.now += leases.DURATION_SECONDS - 1
    assert not other.try_take()


def test_a_clean_stop_lets_the_next_in_at_once(make, cluster):
    one = make("a")
    one.try_take()
    one.release()
    assert make("b").try_take()
    assert holder(cluster) == "b"


def test_only_the_holder_releases_it(make, cluster):
    make("a").try_take()
    make("b").release()
    assert holder(cluster) == "a"


def test_two_that_race_for_it_do_not_both_win(make, cluster, clock):
    make("dead").try_take()
    one, other = make("a"), make("b")
    one.try_take()
    other.try_take()
    clock.now += leases.DURATION_SECONDS + 1
    assert [one.try_take(), other.try_take()] == [True, False]


def keep(lease, monkeypatch):
    """Run `keep` with no waiting; return what it says when the lease is lost."""
    monkeypatch.setattr(leases, "RETRY_SECONDS", 0.0)
    said = []
    leases.keep(lease, threading.Event(), said.append)
    return said


def test_another_holder_ends_the_process_at_once(make, cluster, monkeypatch):
    one = make("a")
    one.try_take()
    cluster.held["spec"]["holderIdentity"] = "b"
    assert keep(one, monkeypatch) == ["another process holds it"]


def test_somebody_who_touches_the_lease_does_not_end_the_process(make, cluster, monkeypatch):
    """An annotation, or an answer of ours that was lost: the holder is still we."""
    one, stop, said = make("a"), threading.Event(), []
    one.try_take()
    real, tries = cluster.update, []

    def touched(resource, body):
        tries.append(body)
        if len(tries) == 1:
            raise ConflictError("changed")
        stop.set()
        real(resource, body)

    cluster.update = touched
    monkeypatch.setattr(leases, "RETRY_SECONDS", 0.0)
    leases.keep(one, stop, said.append)
    assert said == []
    assert len(tries) == 2


def test_an_api_server_that_is_away_too_long_ends_the_process(make, cluster, clock, monkeypatch):
    one = make("a")
    one.try_take()
    cluster.broken = True
    one.clock = lambda: clock.now
    real = cluster.get

    def get(*args):
        clock.now += 1
        return real(*args)

    cluster.get = get
    assert keep(one, monkeypatch) == ["down"]
    assert clock.now >= leases.RENEW_DEADLINE_SECONDS


def test_taking_it_ends_when_the_process_stops(make):
    make("a").try_take()
    stop = threading.Event()
    stop.set()
    assert not leases.take(make("b"), stop)
