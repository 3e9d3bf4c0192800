"""Whatever the API server does to a request or a watch, the end is the same, and nothing is blamed.

A proxy in front of the real API server refuses, breaks and closes.

| fault | what follows |
|---|---|
| the first write of each kind gets 409, 410, 429, 500, 503, or no answer | the same end |
| every seventh request of any kind fails, lists too | the same end |
| the first Deployment gets 422                    | Stalled/InvalidSpec, then it goes on |
| a write is stored, and its answer is lost        | the same end, nothing twice |
| all watches close, again and again               | the same end |
| watches end with 410 (their version is too old)  | listed anew, nothing is lost |
| 429 with Retry-After                             | the server is not asked again before |
"""

import itertools
import threading
import time

import pytest

from support.place import OUT_OF_MEMORY, settings_of
from support.proxy import CLOSE, Refusal, in_front_of
from testbed.waiting import wait_until

KINDS = ("configmaps", "deployments", "services", "/status")


@pytest.fixture
def proxied(kubeconfig, tmp_path):
    with in_front_of(kubeconfig, tmp_path) as both:
        yield both


def first_write_of_each_kind(refusal):
    """Refuse the first write of each kind."""
    left = dict.fromkeys(KINDS, 1)
    lock = threading.Lock()

    def gate(call):
        kind = next((one for one in KINDS if one in call.path), None)
        with lock:
            if not call.is_write or kind is None or not left[kind]:
                return None
            left[kind] -= 1
            return refusal

    return gate


def serves_and_reverts(place):
    """The story whose end must be the same: good, a candidate that crashes, reverted."""
    place.starts_well()
    canary = place.tunes()
    place.crashes(canary, OUT_OF_MEMORY)
    place.wait_condition("SettingsApplied", "False", "CandidateRejected")
    wait_until(lambda: len(place.pods()) == 1, "the canary to go", 20)
    status = place.status()
    assert status["lastGood"]["maxNumSeqs"] == 8
    assert [one["maxNumSeqs"] for one in status["rejected"]] == [settings_of(canary)["maxNumSeqs"]]
    assert [one["verdict"] for one in status["history"]] == ["Failed", "Successful"]
    place.wait_condition("Ready", "True", "Serving")
    place.wait_condition("Stalled", "False", "AsExpected")


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Refusal(409), id="409: somebody was faster"),
        pytest.param(Refusal(410), id="410: too old"),
        pytest.param(Refusal(429, headers={"Retry-After": "1"}), id="429: asked too often"),
        pytest.param(Refusal(500), id="500: etcd is slow"),
        pytest.param(Refusal(503), id="503: it starts"),
        pytest.param(CLOSE, id="the connection is closed"),
    ],
)
def test_first_writes_that_are_refused_come_to_the_same_end(place, proxied, refusal):
    proxy, kubeconfig = proxied
    proxy.gate = first_write_of_each_kind(refusal)
    with place.operator(kubeconfig):
        serves_and_reverts(place)
    assert len(proxy.refused) == len(KINDS)


def test_every_seventh_request_that_fails_comes_to_the_same_end(place, proxied):
    proxy, kubeconfig = proxied
    count = itertools.count()

    def gate(call):
        return Refusal(500) if not call.is_watch and next(count) % 7 == 3 else None

    with place.operator(kubeconfig):
        proxy.gate = gate
        serves_and_reverts(place)
        proxy.gate = lambda _call: None


def test_an_object_that_is_refused_is_told_and_goes_on_when_it_no_longer_is(place, proxied):
    proxy, kubeconfig = proxied
    broken = threading.Event()
    broken.set()

    def gate(call):
        if broken.is_set() and call.is_write and "/deployments" in call.path:
            return Refusal(422, "admission webhook says no: too many GPUs")
        return None

    proxy.gate = gate
    with place.operator(kubeconfig):
        place.apply()
        told = place.wait_condition("Stalled", "True", "InvalidSpec")
        assert "admission webhook says no: too many GPUs" in told["message"]
        assert len(proxy.refused) < 10  # it backs off
        broken.clear()
        place.edit({"spec": {"replicas": 2}})  # an edit ends the wait
        place.serve(2)
        place.wait_condition("Stalled", "False", "AsExpected")
        place.wait_condition("Ready", "True")
        assert not place.status().get("rejected")


def test_answers_that_are_lost_repeat_nothing(place, proxied):
    proxy, kubeconfig = proxied
    lost = dict.fromkeys(KINDS, 1)

    def after(call, _status):
        kind = next((one for one in KINDS if one in call.path), None)
        if kind is not None and lost[kind]:
            lost[kind] -= 1
            raise OSError("the answer is lost")

    proxy.after = after
    with place.operator(kubeconfig):
        serves_and_reverts(place)
    assert not any(lost.values())


def test_watches_that_close_again_and_again_miss_nothing(place, proxied):
    proxy, kubeconfig = proxied
    done = threading.Event()

    def close_often():
        while not done.wait(2.0):
            proxy.close_watches()

    closer = threading.Thread(target=close_often)
    with place.operator(kubeconfig):
        closer.start()
        try:
            serves_and_reverts(place)
        finally:
            done.set()
            closer.join()


def test_a_watch_whose_version_is_too_old_is_listed_anew(place, proxied):
    proxy, kubeconfig = proxied
    with place.operator(kubeconfig):
        place.starts_well()
        refused = []

        def gate(call):
            if call.is_watch and len(refused) < 7:
                refused.append(call)
                return Refusal(410, "too old resource version")
            return None

        proxy.gate = gate
        before = len(proxy.calls)
        assert proxy.close_watches() >= 7
        place.scale(2)
        place.serve(2)
        wait_until(lambda: place.status().get("readyReplicas") == 2, "two ready pods", 25)
        assert refused
        assert any(
            not call.is_watch and call.method == "GET" and call.path.endswith("/pods")
            for call in proxy.calls[before:]
        )


def test_a_server_that_asks_for_patience_is_given_it(place, proxied):
    proxy, kubeconfig = proxied
    asked = []

    def gate(call):
        if call.is_write and "configmaps" in call.path and len(asked) < 1:
            asked.append(time.monotonic())
            return Refusal(429, headers={"Retry-After": "4"})
        return None

    proxy.gate = gate
    again = []
    proxy.after = lambda _call, _status: again.append(time.monotonic())
    with place.operator(kubeconfig):
        place.apply()
        wait_until(place.deployment, "the Deployment", 20)
    assert again[0] - asked[0] >= 4
