"""What Parkade learned outlives every loss but that of record and status together.

| lost                                             | what is the same afterwards |
|---|---|
| the operator (restart)                           | last good, quarantine, history, pods |
| the status, as a restore from a backup loses it  | the same, from the record |
| the record                                       | the same, from the status |
| old ReplicaSets (revisionHistoryLimit)           | the same |
| the Deployment                                   | the same, and the last good template is back |
| the operator's next version (a downgrade)        | what it wrote and this one does not know |
"""

import json

import pytest

from support.place import COOLDOWN_SECONDS, OUT_OF_MEMORY, settings_of, tuning, uid
from testbed.waiting import wait_until


def memory_of(status):
    """What must never be forgotten, without the wording."""
    assert "lastGood" in status, status
    good = status["lastGood"]
    return {
        "lastGood": {key: good[key] for key in ("revision", "maxNumSeqs", "fingerprint")},
        "rejected": [(one["hash"], one["cause"], one["message"]) for one in status["rejected"]],
        "history": [(one["revision"], one["verdict"]) for one in status["history"]],
    }


def burnt(place):
    """A candidate of tuning ran out of memory and was reverted: return what is remembered."""
    place.starts_well()
    canary = place.tunes()
    place.crashes(canary, OUT_OF_MEMORY)
    place.wait_condition("SettingsApplied", "False", "CandidateRejected")
    wait_until(lambda: len(place.pods()) == 1, "the canary to go", 20)
    place.is_steady(1)
    return memory_of(place.status()), settings_of(canary)


def nothing(_place):
    pass


def lose_status(place):
    wiped = place.http.put(
        f"{place.path()}/status",
        json={**place.endpoint(), "status": {"observedGeneration": -1}},
    )
    assert wiped.is_success, wiped.text
    assert "lastGood" not in place.status()


def lose_record(place):
    place.http.delete(place.record_path()).raise_for_status()


def lose_old_replica_sets(place):
    found = f"/apis/apps/v1/namespaces/{place.namespace}/replicasets"
    for one in place.replica_sets():
        if one["spec"]["replicas"] == 0:
            place.http.delete(f"{found}/{one['metadata']['name']}").raise_for_status()
    assert len(place.replica_sets()) == 1


def lose_deployment(place):
    old = uid(place.deployment())
    place.http.delete(place.deployment_path()).raise_for_status()
    wait_until(lambda: uid(place.deployment() or {"metadata": {"uid": old}}) != old, "it", 20)


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lose_status, id="the status, wiped by a restore"),
        pytest.param(lose_record, id="the record"),
        pytest.param(lose_old_replica_sets, id="old ReplicaSets, pruned"),
    ],
)
@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it is down"])
def test_a_loss_changes_nothing_that_was_learned(place, kubeconfig, lose, running):
    with place.operator(kubeconfig):
        known, failed = burnt(place)
        pod = place.pods()[0]
        if running:
            lose(place)
            place.later(1)
            wait_until(lambda: memory_of(place.status()) == known, "the memory", 20)
    if not running:
        lose(place)
    with place.operator(kubeconfig):
        wait_until(lambda: place.record() and place.status().get("lastGood"), "both", 20)
        wait_until(lambda: memory_of(place.status()) == known, "the memory", 20)
        place.later(COOLDOWN_SECONDS + 60)
        place.long_requests_queue()
        again = place.candidate()  # another setting, never the one that failed
        assert settings_of(again) != failed
        assert uid(pod) in {uid(one) for one in place.pods()}


def test_a_deleted_deployment_comes_back_with_the_last_good_template(place, kubeconfig):
    with place.operator(kubeconfig):
        known, _ = burnt(place)
        lose_deployment(place)
        back = place.serve(1)[0]
        place.wait_condition("Ready", "True", "Serving")
        assert settings_of(back)["maxNumSeqs"] == known["lastGood"]["maxNumSeqs"]
        assert memory_of(place.status()) == known


def test_a_record_of_a_newer_version_is_read_and_what_is_unknown_is_kept(place, kubeconfig):
    with place.operator(kubeconfig):
        known, _ = burnt(place)
    record = place.record()
    record["format"] = 2
    record["futureThing"] = {"answers": [42]}
    record["history"][0]["futureField"] = "ignored"
    record["quarantine"][0]["futureField"] = "ignored"
    place.merge(place.record_path(), {"data": {"record.json": json.dumps(record)}})
    with place.operator(kubeconfig):
        wait_until(lambda: memory_of(place.status()) == known, "the memory", 20)
        place.later(COOLDOWN_SECONDS + 60)
        place.long_requests_queue()
        place.candidate()  # the record was written since
        assert memory_of(place.status())["rejected"] == known["rejected"]
        assert place.record()["candidate"]
        assert place.record()["futureThing"] == {"answers": [42]}


def test_what_was_rejected_is_not_tried_again_until_a_person_asks(place, kubeconfig):
    with place.operator(kubeconfig):
        known, failed = burnt(place)
        place.later(COOLDOWN_SECONDS + 60)
        smaller = place.candidate()
        assert settings_of(smaller) != failed
        place.crashes(smaller, OUT_OF_MEMORY)
        place.wait_verdict("Failed")
        wait_until(lambda: len(place.pods()) == 1, "it to go", 20)
        key = known["rejected"][0][0]
        note = {"serving.parkade.dev/retry": f"{key} the driver was updated"}
        place.edit({"metadata": {"annotations": note}})
        place.is_steady(2)  # it is seen before the cooldown ends, else the next smaller one starts
        place.later(COOLDOWN_SECONDS + 60)
        again = place.candidate()
        assert settings_of(again) == failed
        wait_until(
            lambda: "the driver was updated" in json.dumps(place.status()["history"]),
            "the person's words in the history",
            20,
        )


def test_a_restart_after_a_revert_writes_nothing(place, kubeconfig):
    with place.operator(kubeconfig):
        burnt(place)
        before = place.is_steady(2)
    with place.operator(kubeconfig):
        wait_until(
            lambda: place.process.metrics.passes.labels("done")._value.get() > 1, "passes", 20
        )
        assert place.is_steady(2) == before


def test_a_cooldown_survives_a_restart(place, kubeconfig):
    with place.operator(kubeconfig):
        place.starts_well(tuning=tuning(cooldownSeconds=7200))
        place.long_requests_queue()
        before = place.wait_condition("SettingsApplied", "False", "CoolingDown")
        place.is_steady(1)
    with place.operator(kubeconfig):
        assert place.is_steady(2) == place.writes()
        assert place.condition("SettingsApplied") == before
        assert len(place.pods()) == 1
