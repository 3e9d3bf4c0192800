"""What keeps tuning from starting: for each gate the exact action, reason and message."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from parkade.api.conditions import Reason
from parkade.api.status import Origin, Verdict
from parkade.rollout.actions import Action, Desired, Fleet, PlanInputs
from parkade.rollout.observed import DisruptionBudget, ForeignChild
from parkade.rollout.plan import plan
from parkade.rollout.record import HistoryEntry, Quarantined, RejectedSpec
from parkade.rollout.revision import inputs_hash, quarantine_key, tuning_hash
from rollout.support.objects import GIB, at, endpoint, settings
from rollout.support.states import NOW, at_rest, deployment, pod, revision

GOOD = revision()
TUNING = tuning_hash(endpoint().spec)
FOR_A_WEEK = [{"schedule": "0 2 * * *", "durationSeconds": 7200, "timeZone": "Asia/Seoul"}]


def quarantined(some, **changes) -> Quarantined:
    return replace(
        Quarantined(
            key=quarantine_key(GOOD.fingerprint, some),
            revision="abc",
            fingerprint=GOOD.fingerprint,
            settings=some,
            cause="oom_during_profile",
            message="max_num_seqs 32 failed: out of memory.",
            time=at(200),
            tuning=TUNING,
        ),
        **changes,
    )


def entry(verdict: Verdict, reason: str = "EngineFailed", **changes) -> HistoryEntry:
    return replace(
        HistoryEntry(
            "abc",
            settings(32, "0.95"),
            GOOD.fingerprint,
            1,
            Origin.TUNING,
            at(200),
            verdict,
            reason,
            "Taken back: no GPU.",
            at(300),
        ),
        **changes,
    )


@pytest.mark.parametrize(
    ("inputs", "action", "reason", "message"),
    [
        pytest.param(
            at_rest(),
            Action.DEPLOY,
            Reason.CANDIDATE_IN_PROGRESS,
            "max_num_seqs 256, gpu_memory_utilization 0.9 -> "
            "max_num_seqs 32, gpu_memory_utilization 0.9.",
            id="nothing stands in the way",
        ),
        pytest.param(
            at_rest(wanted=settings(256, "0.9")),
            Action.HOLD,
            Reason.APPLIED,
            "max_num_seqs 256, gpu_memory_utilization 0.9 runs.",
            id="what runs is what is recommended",
        ),
        pytest.param(
            at_rest(
                desired=Desired(
                    settings(256, "0.9"), Reason.UNSATURATED, "0.4 % of requests queued."
                )
            ),
            Action.HOLD,
            Reason.UNSATURATED,
            "0.4 % of requests queued.",
            id="an unsaturated endpoint is not raised",
        ),
        pytest.param(
            at_rest(desired=Desired(None, Reason.INSUFFICIENT_EVIDENCE, "12 requests.")),
            Action.HOLD,
            Reason.INSUFFICIENT_EVIDENCE,
            "The running settings stay. 12 requests.",
            id="sizing cannot tell",
        ),
        pytest.param(
            at_rest(desired=Desired(None, Reason.PROMETHEUS_UNAVAILABLE, "No answer.")),
            Action.HOLD,
            Reason.INSUFFICIENT_EVIDENCE,
            "The running settings stay. No answer.",
            id="a reason of the workload is no reason of the settings",
        ),
        pytest.param(
            at_rest(desired=Desired(None, Reason.DOES_NOT_FIT, "51 GiB.", stalled=True)),
            Action.HOLD,
            Reason.DOES_NOT_FIT,
            "51 GiB.",
            id="sizing needs a person",
        ),
        pytest.param(
            at_rest({"tuning": {"mode": "RecommendOnly"}}),
            Action.HOLD,
            Reason.RECOMMEND_ONLY,
            "max_num_seqs 256, gpu_memory_utilization 0.9 runs; status.recommendation is not "
            "rolled out, since tuning.mode is RecommendOnly.",
            id="RecommendOnly never changes the knobs",
        ),
        pytest.param(
            at_rest({"tuning": {"maintenanceWindows": FOR_A_WEEK}}),
            Action.HOLD,
            Reason.OUTSIDE_MAINTENANCE_WINDOW,
            "The next window opens at 2026-03-02T17:00:00Z.",
            id="outside the maintenance windows",
        ),
        pytest.param(
            at_rest({"tuning": {"maintenanceWindows": FOR_A_WEEK}}, now=at(5 * 3600 + 60)),
            Action.DEPLOY,
            Reason.CANDIDATE_IN_PROGRESS,
            "max_num_seqs 256, gpu_memory_utilization 0.9 -> "
            "max_num_seqs 32, gpu_memory_utilization 0.9.",
            id="inside a maintenance window",
        ),
        pytest.param(
            at_rest(record={"settled_at": NOW - timedelta(seconds=599)}),
            Action.HOLD,
            Reason.COOLING_DOWN,
            "The last change ended at 2026-03-02T14:36:41Z; the next may start at "
            "2026-03-02T14:46:41Z.",
            id="one second before the cooldown ends",
        ),
        pytest.param(
            at_rest(record={"settled_at": NOW - timedelta(seconds=600)}),
            Action.DEPLOY,
            Reason.CANDIDATE_IN_PROGRESS,
            "max_num_seqs 256, gpu_memory_utilization 0.9 -> "
            "max_num_seqs 32, gpu_memory_utilization 0.9.",
            id="the cooldown has just ended",
        ),
        pytest.param(
            at_rest(record={"settled_at": NOW - timedelta(seconds=2000), "withdrawals": 2}),
            Action.HOLD,
            Reason.COOLING_DOWN,
            "The last change ended at 2026-03-02T14:13:20Z; the next may start at "
            "2026-03-02T14:53:20Z.",
            id="each withdrawal in a row doubles the cooldown",
        ),
        pytest.param(
            at_rest({"rollout": {"strategy": "NoSurge"}}),
            Action.HOLD,
            Reason.WOULD_INTERRUPT_SERVING,
            "Replacing the only ready pod would interrupt serving. To allow it, add "
            "tuning.maintenanceWindows, set tuning.interruption: Allowed, add a replica, or make "
            "room for one more pod.",
            id="no surge and one pod, no window in which to interrupt",
        ),
        pytest.param(
            at_rest({"rollout": {"strategy": "NoSurge"}, "tuning": {"interruption": "Never"}}),
            Action.HOLD,
            Reason.WOULD_INTERRUPT_SERVING,
            "Replacing the only ready pod would interrupt serving. To allow it, set "
            "tuning.interruption: Allowed, add a replica, or make room for one more pod.",
            id="no surge, one pod, never to be interrupted",
        ),
        pytest.param(
            at_rest({"rollout": {"strategy": "NoSurge"}, "replicas": 2}),
            Action.DEPLOY,
            Reason.CANDIDATE_IN_PROGRESS,
            "max_num_seqs 256, gpu_memory_utilization 0.9 -> "
            "max_num_seqs 32, gpu_memory_utilization 0.9.",
            id="no surge and two pods leave one that serves",
        ),
        pytest.param(
            at_rest(fleet=Fleet(budgets=(DisruptionBudget("keep", 0),))),
            Action.HOLD,
            Reason.BLOCKED_BY_DISRUPTION_BUDGET,
            "PodDisruptionBudget keep allows no disruption at present.",
            id="a PodDisruptionBudget allows nothing",
        ),
        pytest.param(
            at_rest(fleet=Fleet(budgets=(DisruptionBudget("other", 0, {"app": "else"}),))),
            Action.DEPLOY,
            Reason.CANDIDATE_IN_PROGRESS,
            "max_num_seqs 256, gpu_memory_utilization 0.9 -> "
            "max_num_seqs 32, gpu_memory_utilization 0.9.",
            id="a PodDisruptionBudget of other pods",
        ),
        pytest.param(
            at_rest(fleet=Fleet(rollouts_elsewhere=1)),
            Action.HOLD,
            Reason.WAITING_FOR_TURN,
            "1 of 1 endpoints that may be tuned at a time are (--max-concurrent-rollouts).",
            id="another endpoint is being tuned",
        ),
        pytest.param(
            at_rest(pods=(pod(GOOD, ready_since=None, unready_since=at(9_990)),)),
            Action.HOLD,
            Reason.ROLLOUT_IN_PROGRESS,
            "0 of 1 pods are ready; tuning waits for all.",
            id="not all pods are ready",
        ),
        pytest.param(
            at_rest(deployment=deployment(GOOD, observed_generation=0)),
            Action.HOLD,
            Reason.ROLLOUT_IN_PROGRESS,
            "1 of 1 pods are ready; tuning waits for all.",
            id="the deployment controller has not looked yet",
        ),
        pytest.param(
            at_rest({"replicas": 0}),
            Action.HOLD,
            Reason.SCALED_TO_ZERO,
            "Zero replicas are asked for: nothing runs, nothing is tuned.",
            id="nothing runs",
        ),
        pytest.param(
            at_rest(record={"quarantine": (quarantined(settings(32)),)}),
            Action.HOLD,
            Reason.CANDIDATE_REJECTED,
            "max_num_seqs 32 failed: out of memory. To try again, annotate with "
            f"serving.parkade.dev/retry: {quarantine_key(GOOD.fingerprint, settings(32))}.",
            id="what is recommended is in quarantine",
        ),
        pytest.param(
            at_rest(
                wanted=settings(32, "0.95"),
                record={"quarantine": (quarantined(settings(32)),)},
            ),
            Action.DEPLOY,
            Reason.CANDIDATE_IN_PROGRESS,
            "max_num_seqs 256, gpu_memory_utilization 0.9 -> max_num_seqs 256, "
            "gpu_memory_utilization 0.95. On the way to max_num_seqs 32, "
            "gpu_memory_utilization 0.95.",
            id="the other knob goes first where one step is in quarantine",
        ),
        pytest.param(
            at_rest(
                wanted=settings(32, "0.95"),
                record={
                    "quarantine": (
                        quarantined(settings(32)),
                        quarantined(settings(256, "0.95")),
                    )
                },
            ),
            Action.HOLD,
            Reason.CANDIDATE_REJECTED,
            "Each single step towards what is recommended failed, or one like it.",
            id="both single steps are in quarantine",
        ),
        pytest.param(
            at_rest(
                wanted=settings(256, "0.98"),
                record={
                    "quarantine": (
                        quarantined(settings(256, "0.97"), utilization_at_most=Decimal("0.96")),
                    )
                },
            ),
            Action.DEPLOY,
            Reason.CANDIDATE_IN_PROGRESS,
            "max_num_seqs 256, gpu_memory_utilization 0.9 -> "
            "max_num_seqs 256, gpu_memory_utilization 0.96.",
            id="a recommendation is cut to what failures left",
        ),
        pytest.param(
            at_rest(
                wanted=settings(96, "0.8"),
                record={
                    "quarantine": (
                        quarantined(settings(256, "0.81"), max_num_seqs_below=193),
                        quarantined(settings(97), utilization_at_most=Decimal("0.85")),
                    )
                },
            ),
            Action.HOLD,
            Reason.CANDIDATE_REJECTED,
            "Each single step towards what is recommended failed, or one like it.",
            id="settings just beside failed ones are not tried one after the other",
        ),
        pytest.param(
            at_rest({"suspend": True}),
            Action.HOLD,
            Reason.SUSPENDED,
            "spec.suspend is true: nothing but status is written.",
            id="suspended",
        ),
        pytest.param(
            at_rest(foreign=(ForeignChild("Deployment", "contracts", "uid-0"),)),
            Action.HOLD,
            Reason.WAITING_FOR_OLD_CHILDREN,
            "deployment/contracts is left of a deleted resource of this name, and awaited to go.",
            id="a child of a deleted resource is awaited",
        ),
        pytest.param(
            at_rest(foreign=(ForeignChild("Deployment", "contracts", None),)),
            Action.HOLD,
            Reason.FOREIGN_CHILD,
            "deployment/contracts is already there and not of this resource. Remove with: "
            "kubectl -n serving delete deployment/contracts",
            id="an orphan stays, and is named with the command that helps",
        ),
        pytest.param(
            at_rest(foreign=(ForeignChild("Pod", "pod-9", "rs-9"),), wanted=settings()),
            Action.HOLD,
            Reason.APPLIED,
            "max_num_seqs 256, gpu_memory_utilization 0.9 runs.",
            id="pods of an own Deployment that somebody deleted do not stand in the way",
        ),
        pytest.param(
            at_rest(deployment=deployment(GOOD, deleting=True)),
            Action.HOLD,
            Reason.ROLLOUT_IN_PROGRESS,
            "Waits until deployment/contracts, which is being deleted, is gone.",
            id="a Deployment that somebody deletes is awaited",
        ),
        pytest.param(
            at_rest({"replicas": 3}, deployment=deployment(GOOD, 2)),
            Action.HOLD,
            Reason.SCALING,
            "2 -> 3 replicas.",
            id="another number of pods",
        ),
    ],
)
def test_one_action_with_its_reason_and_message(
    inputs: PlanInputs, action: Action, reason: Reason, message: str
) -> None:
    found = plan(inputs)
    assert (found.action, found.reason, found.message) == (action, reason, message)
    if action is Action.HOLD:
        assert plan(replace(inputs, record=found.record)) == found


def test_a_wait_after_a_fresh_failure_tells_of_the_failure() -> None:
    failed = entry(Verdict.FAILED)
    known = quarantined(settings(32, "0.95"), message="1.0 GiB short: headroom 6 -> 7.25 GiB.")
    inputs = at_rest(
        record={"history": (failed,), "quarantine": (known,), "settled_at": NOW},
        wanted=settings(64),
    )
    found = plan(inputs)
    assert found.reason is Reason.COOLING_DOWN
    assert found.settings_applied.reason is Reason.CANDIDATE_REJECTED
    assert found.settings_applied.message == (
        "1.0 GiB short: headroom 6 -> 7.25 GiB. The last change ended at 2026-03-02T14:46:40Z; "
        "the next may start at 2026-03-02T14:56:40Z."
    )


def test_a_changed_tuning_input_makes_an_old_failure_stale() -> None:
    failed = entry(Verdict.FAILED)
    known = quarantined(settings(32, "0.95"), tuning="other")
    inputs = at_rest(record={"history": (failed,), "quarantine": (known,), "settled_at": NOW})
    assert plan(inputs).settings_applied.reason is Reason.COOLING_DOWN


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        pytest.param("WouldInterruptServing", Reason.WOULD_INTERRUPT_SERVING, id="it would again"),
        pytest.param("WaitingForGPU", Reason.WAITING_FOR_GPU, id="there was no GPU"),
        pytest.param("Superseded", Reason.CANDIDATE_WITHDRAWN, id="any other reason"),
    ],
)
def test_a_wait_after_a_withdrawal_tells_of_the_withdrawal(reason: str, told: Reason) -> None:
    taken_back = entry(Verdict.INCONCLUSIVE, reason)
    inputs = at_rest(record={"history": (taken_back,), "settled_at": NOW, "withdrawals": 1})
    assert plan(inputs).settings_applied.reason is told


def test_a_rejected_spec_holds_until_the_spec_changes() -> None:
    bad = endpoint({"engine": {"image": "broken:1"}}, generation=2)
    rejected = RejectedSpec(
        inputs_hash(bad.spec), TUNING, 2, "key", "rev", "bad_arguments", "It broke.", at(300)
    )
    held = plan(at_rest(endpoint=bad, record={"rejected_spec": rejected}))
    assert (held.action, held.reason, held.message) == (
        Action.HOLD,
        Reason.SPEC_REJECTED,
        "It broke.",
    )
    assert held.stalled is not None
    scaled = endpoint({"engine": {"image": "broken:1"}, "replicas": 2}, generation=3)
    found = plan(at_rest(endpoint=scaled, record={"rejected_spec": rejected}))
    assert (found.reason, found.target.replicas) == (Reason.SPEC_REJECTED, 2)
    other = endpoint({"engine": {"image": "mended:1"}}, generation=3)
    assert plan(at_rest(endpoint=other, record={"rejected_spec": rejected})).action is Action.DEPLOY


def test_old_children_that_stay_five_minutes_need_a_person() -> None:
    waiting = {
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "WaitingForOldChildren",
                "lastTransitionTime": "2026-03-02T14:41:40Z",
            }
        ]
    }
    inputs = at_rest(foreign=(ForeignChild("Service", "contracts", "uid-0"),))
    inputs = replace(inputs, endpoint=replace(inputs.endpoint, status=waiting))
    found = plan(inputs)
    assert found.reason is Reason.FOREIGN_CHILD
    assert found.stalled is not None
    assert found.target is None
    earlier = plan(replace(inputs, now=NOW - timedelta(seconds=1)))
    assert earlier.reason is Reason.WAITING_FOR_OLD_CHILDREN


def test_a_new_fingerprint_starts_with_the_first_estimate() -> None:
    changed = endpoint({"engine": {"kvCacheDtype": "auto"}}, generation=2)
    inputs = at_rest(endpoint=changed)
    inputs = replace(inputs, desired=replace(inputs.desired, first=settings(128, "0.93")))
    assert plan(inputs).message == (
        "The spec changed: max_num_seqs 128, gpu_memory_utilization 0.93."
    )


def test_what_was_learned_of_an_old_fingerprint_is_named_when_it_is_dropped() -> None:
    old = at_rest().record.last_good.fingerprint
    known = {
        "learned": {old: {"free_bytes": 1}},
        "ledger": ({"fingerprint": old}, {"fingerprint": old}, {"fingerprint": "older"}),
        "quarantine": (quarantined(settings(512, "0.95"), headroom_bytes=8 * GIB),),
    }
    changed = endpoint({"engine": {"kvCacheDtype": "auto"}}, generation=2)
    inputs = at_rest(endpoint=changed, record=known)
    inputs = replace(inputs, desired=replace(inputs.desired, first=settings(128, "0.93")))
    assert plan(inputs).message == (
        "The spec changed: max_num_seqs 128, gpu_memory_utilization 0.93. Of the old "
        "configuration this is used no more: its measured memory, 2 measured points of its speed, "
        "a headroom of 8.00 GiB, 1 failed settings."
    )


def test_a_change_of_the_pod_alone_keeps_the_settings_and_what_was_learned() -> None:
    labelled = {"metadata": {"labels": {"team": "legal"}}}
    changed = endpoint({"engine": {"podTemplate": labelled}}, generation=2)
    found = plan(at_rest(endpoint=changed))
    assert found.message == "The spec changed: max_num_seqs 256, gpu_memory_utilization 0.9."
    assert found.record.candidate.revision.fingerprint == GOOD.fingerprint


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"model": {"weightsSize": "20Gi"}}, id="the size of the weights"),
        pytest.param({"workload": {"windowSeconds": 600}}, id="the window"),
        pytest.param({"tuning": {"headroom": "8Gi"}}, id="the headroom, which is tuning"),
        pytest.param({"engine": {"version": "0.32.0"}}, id="a version that renders the same"),
        pytest.param({"rollout": {"soakSeconds": 61}}, id="the soak"),
    ],
)
def test_what_does_not_alter_the_pod_template_is_no_change_of_the_user(spec) -> None:
    changed = endpoint(spec, generation=2)
    found = plan(at_rest(endpoint=changed, wanted=settings(256, "0.9")))
    assert (found.action, found.reason) == (Action.HOLD, Reason.APPLIED)
