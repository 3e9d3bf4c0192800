"""Tuning waits where it would hurt, says why and how to allow it, and blames no setting for it.

The scheduler, the disruption controller and the deployment controller are real; the operator's
clock is moved on where hours would pass.

| what stands in the way               | what follows |
|---|---|
| a budget that allows nothing         | no candidate; in the middle: the rest does not follow |
| no GPU beside the only pod, `Never`  | withdrawn, not blamed; the message says how to allow it |
| `NoSurge`, one replica, `Never`      | not even begun; the message says how to allow it |
| no GPU, then a new node              | WaitingForGPU, then the candidate goes on |
| another pod took the GPU meanwhile   | WaitingForGPU, never blamed; goes on when it is free |
| no window open, in its own time zone | OutsideMaintenanceWindow with the next opening |
| a window in the hour that summer time leaves out | it opens when that hour would be over |

`tests/rollout/test_windows.py` has the whole table of time zones and daylight saving.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from support.place import SOAK_SECONDS, START_SETTINGS, settings_of, tuning, uid
from testbed.waiting import wait_until

PATIENCE_SECONDS = 31
"""A surge pod may be unschedulable for 30 s."""


def tunes_at_once(place, **changes):
    """Good settings, no cooldown, and requests that queue: return the good pod."""
    (good,) = place.starts_well(
        tuning=tuning(cooldownSeconds=0, **changes), rollout={"soakSeconds": 1}
    )
    place.long_requests_queue()
    return good


def not_blamed(place):
    assert not place.status().get("rejected")
    assert not place.record()["quarantine"]


def test_a_budget_that_allows_nothing_keeps_tuning_from_starting(place, kubeconfig):
    with place.operator(kubeconfig):
        place.starts_well(2)
        place.budget()
        place.clock.ahead += timedelta(hours=2)
        place.long_requests_queue()
        told = place.wait_condition("SettingsApplied", "False", "BlockedByDisruptionBudget")
        assert "all-of-them" in told["message"]
        assert len(place.pods()) == 2
        place.http.delete(
            f"/apis/policy/v1/namespaces/{place.namespace}/poddisruptionbudgets/all-of-them"
        )
        place.candidate()


def test_a_budget_that_comes_in_the_middle_keeps_the_rest_from_following(place, kubeconfig):
    with place.operator(kubeconfig):
        good = place.starts_well(2)
        canary = place.tunes()
        place.budget(3)  # with the canary there are three ready pods: none may go
        place.runs(canary, ready=True)
        place.later(SOAK_SECONDS + 1)
        wait_until(
            lambda: "all-of-them" in place.condition("SettingsApplied")["message"],
            "the budget to be named",
            20,
        )
        assert place.is_held()
        assert {uid(pod) for pod in place.pods()} == {uid(pod) for pod in (*good, canary)}
        place.http.delete(
            f"/apis/policy/v1/namespaces/{place.namespace}/poddisruptionbudgets/all-of-them"
        )
        place.later(31)
        wait_until(lambda: not place.is_held(), "the rest to follow", 20)


@pytest.mark.parametrize("gpus", [1])
def test_without_a_spare_gpu_and_interruption_never_the_only_pod_stays(place, kubeconfig):
    with place.operator(kubeconfig):
        good = tunes_at_once(place, interruption="Never")
        place.candidate()
        place.wait_condition("SettingsApplied", "False", "WaitingForGPU")
        place.later(PATIENCE_SECONDS)
        told = place.wait_condition("SettingsApplied", "False", "WouldInterruptServing")
        assert "set tuning.interruption: Allowed" in told["message"]
        wait_until(lambda: [uid(pod) for pod in place.pods()] == [uid(good)], "the good pod", 20)
        place.wait_condition("Ready", "True", "Serving")
        not_blamed(place)


def test_no_surge_with_one_pod_and_interruption_never_is_not_even_begun(place, kubeconfig):
    with place.operator(kubeconfig):
        (good,) = place.starts_well(
            tuning=tuning(cooldownSeconds=0, interruption="Never"),
            rollout={"soakSeconds": 1, "strategy": "NoSurge"},
        )
        place.long_requests_queue()
        told = place.wait_condition("SettingsApplied", "False", "WouldInterruptServing")
        assert "set tuning.interruption: Allowed" in told["message"]
        assert [uid(pod) for pod in place.pods()] == [uid(good)]
        place.edit({"spec": {"tuning": {"interruption": "Allowed"}}})  # what the message says
        place.candidate()


@pytest.mark.parametrize("gpus", [1])
def test_a_candidate_that_waits_for_a_gpu_goes_on_when_there_is_one(place, kubeconfig):
    with place.operator(kubeconfig):
        good = tunes_at_once(place, interruption="Never")
        waiting = place.candidate()
        told = place.wait_condition("SettingsApplied", "False", "WaitingForGPU")
        assert "Insufficient nvidia.com/gpu" in told["message"]
        place.wait_condition("Ready", "True", "Serving")
        place.wait_condition("Stalled", "False", "AsExpected")
        with place.node(1, "one-more"):
            wait_until(
                lambda: next(
                    (
                        pod["spec"].get("nodeName")
                        for pod in place.pods()
                        if uid(pod) == uid(waiting)
                    ),
                    None,
                ),
                "the real scheduler",
                20,
            )
            assert uid(good) in {uid(pod) for pod in place.pods()}
            place.runs(waiting, ready=True)
            place.wait_last_good(settings_of(waiting)["maxNumSeqs"])


@pytest.mark.parametrize("gpus", [1])
def test_a_gpu_that_another_pod_took_meanwhile_is_waited_for_and_never_blamed(place, kubeconfig):
    first = f"first-{place.namespace}"
    place.http.post(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        json={"metadata": {"name": first}, "value": 1000},
    ).raise_for_status()
    with place.operator(kubeconfig):
        tunes_at_once(place, interruption="Allowed")
        place.candidate()
        place.later(PATIENCE_SECONDS)  # the only pod is replaced
        wait_until(
            lambda: [pod for pod in place.candidates() if pod["spec"].get("nodeName")],
            "the candidate to have the GPU",
            30,
        )
        place.other_pod("quicker", priorityClassName=first)  # more important: it takes it
        wait_until(
            lambda: place.get(f"/api/v1/namespaces/{place.namespace}/pods/quicker")["spec"].get(
                "nodeName"
            ),
            "the other pod to take the GPU",
            20,
        )
        place.wait_condition("Ready", "False", "WaitingForGPU")
        waited = place.candidate()
        place.later(7200)  # far beyond startDeadlineSeconds: it is taken back
        place.wait_verdict("Inconclusive")
        place.wait_condition("SettingsApplied", "False", "WaitingForGPU")
        place.wait_condition("Stalled", "False", "AsExpected")
        not_blamed(place)
        wait_until(lambda: place.pods() and not place.candidates(), "the good pod alone", 20)
        place.http.delete(
            f"/api/v1/namespaces/{place.namespace}/pods/quicker",
            params={"gracePeriodSeconds": "0"},
        )
        place.serve(1)
        place.wait_condition("Ready", "True", "Serving")
        place.clock.ahead += timedelta(hours=2)  # long after the back-off: it is tried again
        place.long_requests_queue()
        assert settings_of(place.candidate()) == settings_of(waited)
    place.http.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{first}")


def test_outside_the_windows_of_another_time_zone_tuning_waits_for_the_next_one(place, kubeconfig):
    opens = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=6)
    there = opens.astimezone(ZoneInfo("Asia/Seoul"))
    window = {
        "schedule": f"{there.minute} {there.hour} * * *",
        "durationSeconds": 3600,
        "timeZone": "Asia/Seoul",
    }
    with place.operator(kubeconfig):
        good = tunes_at_once(place, maintenanceWindows=[window])
        told = place.wait_condition("SettingsApplied", "False", "OutsideMaintenanceWindow")
        assert f"{opens:%Y-%m-%dT%H:%M:%SZ}" in told["message"]
        assert [uid(pod) for pod in place.pods()] == [uid(good)]
        place.later(6 * 3600 + 60)  # it is open now
        candidate = place.candidate()
    assert settings_of(candidate)["maxNumSeqs"] != START_SETTINGS["maxNumSeqs"]


def test_a_window_in_the_hour_that_summer_time_leaves_out_opens_after_it(place, kubeconfig):
    window = {"schedule": "30 2 * * *", "durationSeconds": 3600, "timeZone": "Europe/Berlin"}
    leap = next_summer_time(datetime.now(UTC), ZoneInfo("Europe/Berlin"))
    place.clock.ahead = leap - timedelta(minutes=40) - datetime.now(UTC)
    with place.operator(kubeconfig):
        good = tunes_at_once(place, maintenanceWindows=[window])
        told = place.wait_condition("SettingsApplied", "False", "OutsideMaintenanceWindow")
        assert f"{leap:%Y-%m-%dT%H:%M:%SZ}" in told["message"]
        assert [uid(pod) for pod in place.pods()] == [uid(good)]
        place.later(41 * 60)
        place.candidate()


def next_summer_time(now, zone):
    """The moment at which the clocks of a zone are put forward next, to the minute, in UTC."""
    minute = now.replace(second=0, microsecond=0)
    moments = (minute + timedelta(minutes=one) for one in range(366 * 24 * 60))
    return next(
        one
        for one in moments
        if one.astimezone(zone).utcoffset()
        > (one - timedelta(minutes=1)).astimezone(zone).utcoffset()
    )


def test_the_user_s_own_change_does_not_wait_for_a_window(place, kubeconfig):
    there = datetime.now(ZoneInfo("Asia/Seoul")) + timedelta(hours=6)
    window = {
        "schedule": f"0 {there.hour} * * *",
        "durationSeconds": 3600,
        "timeZone": "Asia/Seoul",
    }
    with place.operator(kubeconfig):
        place.starts_well(tuning=tuning(maintenanceWindows=[window]))
        place.edit({"spec": {"engine": {"image": "vllm/vllm-openai:v0.32.1"}}})
        place.wait_condition("Reconciling", "True", "RolloutInProgress")
        changed = place.candidate()
    assert changed["spec"]["containers"][0]["image"] == "vllm/vllm-openai:v0.32.1"
