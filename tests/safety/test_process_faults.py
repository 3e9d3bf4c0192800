"""The operator killed between any two writes, and two operators at once: the same end.

The operators are processes of their own. A proxy counts writes and kills with SIGKILL as soon as
the API server has stored one, before its answer is passed on; the next process starts at once.

| fault | what follows |
|---|---|
| killed after every (second) write of a first start   | the same end as without |
| ... while a candidate crashes and is reverted        | one verdict, one quarantine entry |
| ... while it passes, the rest follows, and it is good | no pod is restarted |
| two operators at once, without a Lease               | the same end, nothing twice |
| two with a Lease, the first one frozen               | the second takes over, the first ends |
"""

import itertools
import os
import signal
import threading

import pytest

from support.lives import Life, supervised
from support.place import OUT_OF_MEMORY, REVISION, is_ready, settings_of, tuning
from support.proxy import in_front_of
from testbed.waiting import wait_until

AT_ONCE = {"tuning": tuning(cooldownSeconds=0), "rollout": {"soakSeconds": 1}}


def raw_settings(place, named):
    return {
        "namespaces": [place.namespace],
        "hub": {"url": ""},
        "healthAddress": "127.0.0.1:0",
        "metricsAddress": "127.0.0.1:0",
        "evaluationSeconds": 1,
        **named,
    }


class Killer:
    """Kills the operator after every n-th write, and starts the next."""

    def __init__(self, proxy, supervisor, every):
        self.kills = 0
        self._count = itertools.count(1)
        self._every = every
        self._supervisor = supervisor
        self._lock = threading.Lock()
        proxy.after = self.stored

    def stored(self, _call, status):
        with self._lock:
            if status < 300 and next(self._count) % self._every == 0:
                self.kills += 1
                self._supervisor.kill()
                self._supervisor.begin()


@pytest.fixture
def killed(place, kubeconfig, tmp_path):
    """A function that starts an operator which is killed after every n-th write."""
    with in_front_of(kubeconfig, tmp_path) as (proxy, path), place.prometheus() as named:
        settings = raw_settings(place, named)
        with supervised(path, settings, tmp_path / "operator.log") as supervisor:
            yield lambda every: Killer(proxy, supervisor, every)


def becomes_good(place):
    place.apply(**AT_ONCE)
    place.serve(1)
    place.wait_last_good(8)


def cool_down(place):
    """No other candidate follows this one."""
    place.edit({"spec": {"tuning": {"cooldownSeconds": 3600}}})


def all_of(place, revision):
    """The rest follows: pods that come up become ready."""
    for pod in place.pods():
        if pod["spec"].get("nodeName") and not is_ready(pod):
            place.runs(pod, ready=True)
    return {pod["metadata"]["labels"][REVISION] for pod in place.pods()} == {revision}


@pytest.mark.parametrize("every", [1, 2], ids=["every write", "every second write"])
def test_killed_while_an_endpoint_starts(place, killed, every):
    killer = killed(every)
    becomes_good(place)
    place.wait_condition("Ready", "True", "Serving")
    status = place.status()
    assert killer.kills >= 4 // every
    assert [one["verdict"] for one in status["history"]] == ["Successful"]
    assert len(place.replica_sets()) == 1
    assert place.service()
    assert len(place.pods()) == 1


@pytest.mark.parametrize("every", [1, 3], ids=["every write", "every third write"])
def test_killed_while_a_candidate_crashes_and_is_reverted(place, kubeconfig, killed, every):
    with place.operator(kubeconfig):
        (good,) = place.starts_well(**AT_ONCE)
    killer = killed(every)
    place.long_requests_queue()
    canary = place.candidate()
    cool_down(place)
    place.crashes(canary, OUT_OF_MEMORY)
    wait_until(lambda: place.pods() and len(place.pods()) == 1, "the canary to go", 30)
    place.wait_verdict("Failed")
    place.wait_condition("Ready", "True", "Serving")
    place.is_steady(2)
    status = place.status()
    assert killer.kills >= 3 // every
    assert [one["verdict"] for one in status["history"]] == ["Failed", "Successful"]
    assert [one["maxNumSeqs"] for one in status["rejected"]] == [settings_of(canary)["maxNumSeqs"]]
    assert status["lastGood"]["maxNumSeqs"] == 8
    assert [pod["metadata"]["uid"] for pod in place.pods()] == [good["metadata"]["uid"]]
    assert len(place.replica_sets()) == 2


def test_killed_after_every_write_while_a_candidate_passes_and_the_rest_follows(
    place, kubeconfig, killed
):
    with place.operator(kubeconfig):
        place.starts_well(2, **AT_ONCE)
    killer = killed(1)
    place.long_requests_queue()
    canary = place.candidate()
    cool_down(place)
    revision = canary["metadata"]["labels"][REVISION]
    place.runs(canary, ready=True)
    wait_until(lambda: all_of(place, revision), "all pods to run the candidate", 40)
    place.wait_last_good(settings_of(canary)["maxNumSeqs"])
    assert killer.kills >= 2
    assert [one["verdict"] for one in place.status()["history"]] == ["Successful", "Successful"]
    assert canary["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in place.pods()}
    assert len(place.pods()) == 2
    assert len(place.replica_sets()) == 2


def test_two_operators_at_once_without_a_lease_do_no_harm(place, kubeconfig, tmp_path):
    with place.prometheus() as named:
        settings = raw_settings(place, named)
        both = [Life(kubeconfig, settings, tmp_path / f"{one}.log") for one in "ab"]
        try:
            becomes_good(place)
            place.long_requests_queue()
            canary = place.candidate()
            cool_down(place)
            place.crashes(canary, OUT_OF_MEMORY)
            place.wait_verdict("Failed")
            place.wait_condition("Ready", "True", "Serving")
            wait_until(lambda: len(place.pods()) == 1, "the canary to go", 20)
            place.is_steady(2)  # they do not fight
            assert all(one.alive for one in both)
        finally:
            for one in both:
                one.close()
    status = place.status()
    assert [one["verdict"] for one in status["history"]] == ["Failed", "Successful"]
    assert len(status["rejected"]) == 1
    assert len(place.replica_sets()) == 2


def test_with_a_lease_the_second_takes_over_and_a_frozen_first_ends(place, kubeconfig, tmp_path):
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases/parkade"

    def holder():
        return (place.get(lease) or {"spec": {}})["spec"].get("holderIdentity")

    with place.prometheus() as named:
        settings = raw_settings(place, named)
        first = Life(kubeconfig, settings, tmp_path / "first.log", place.namespace)
        second = None
        try:
            wait_until(lambda: holder() == f"operator-{first.pid}", "the lease", 20)
            place.apply(**AT_ONCE)
            place.serve(1)
            log = tmp_path / "second.log"
            second = Life(kubeconfig, settings, log, place.namespace)
            wait_until(lambda: log.exists() and "Waiting" in log.read_text("utf-8"), "it", 20)
            os.kill(first.pid, signal.SIGSTOP)
            wait_until(lambda: holder() == f"operator-{second.pid}", "the second", 30)
            place.scale(2)
            place.serve(2)  # the second works
            os.kill(first.pid, signal.SIGCONT)
            wait_until(lambda: not first.alive, "the first to end", 30)
            assert first.exit_code == 1
            assert holder() == f"operator-{second.pid}"
            second.terminate()
            wait_until(lambda: not holder(), "the lease to be free for the next", 10)
        finally:
            first.close()
            if second is not None:
                second.close()
