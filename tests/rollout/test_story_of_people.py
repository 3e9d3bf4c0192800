"""What people do in the middle of a story: they mend, edit, scale, suspend, and ask for retries."""

from dataclasses import replace
from decimal import Decimal

import pytest

from parkade.rollout.actions import Action, Fleet
from parkade.rollout.causes import Blame, CauseClass, RootCause
from parkade.rollout.observed import DisruptionBudget
from parkade.rollout.record import Quarantined
from parkade.rollout.record_json import to_json
from parkade.rollout.revision import quarantine_key, tuning_hash
from rollout.support.driver import Operator, leaves_headroom
from rollout.support.objects import body, settings
from rollout.support.stories import (
    INITIAL,
    NO_SUCH_FLAG,
    OUT_OF_MEMORY,
    crashes_above,
    image_fails,
    started,
    told,
)
from rollout.support.world import Fate, World

GATED = RootCause(
    CauseClass.LICENCE_OR_HUB,
    Blame.USER,
    message="401: gated repository",
    remedy="accept the model's licence",
)


def first_try(fate, **spec) -> Operator:
    """An endpoint whose engines have never served."""
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}, **spec}))
    operator.world.fate = fate
    operator.run(120)
    assert operator.condition("Stalled")[0] == "True"
    return operator


def test_a_first_spec_that_was_broken_is_deployed_once_it_is_mended() -> None:
    operator = first_try(image_fails(NO_SUCH_FLAG), engine={"image": "broken:1"})
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.1"})
    assert operator.step().action is Action.DEPLOY
    operator.until(Action.PROMOTE)
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")


def test_a_first_spec_that_is_broken_can_be_scaled_to_zero() -> None:
    operator = first_try(image_fails(NO_SUCH_FLAG), engine={"image": "broken:1"})
    operator.change(replicas=0)
    operator.run(60)
    assert not operator.world.pods


def test_other_initial_settings_are_tried_where_the_first_never_start() -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    operator.world.fate = lambda some, _image: Fate(stuck=some.max_num_seqs > 100)
    operator.run(1500)
    assert operator.condition("Stalled")[:2] == ("True", "StartDeadlineExceeded")
    operator.change(tuning={"initial": {"maxNumSeqs": 16, "gpuMemoryUtilization": "0.9"}})
    assert told(operator, 1000) == [("Deploy", "RolloutInProgress"), ("Promote", "Applied")]


def test_what_helps_is_told_with_the_error() -> None:
    operator = first_try(lambda _some, _image: Fate(5, GATED))
    assert operator.condition("Stalled")[2] == (
        "The engine did not start: 401: gated repository. What helps: accept the model's licence."
    )


@pytest.mark.parametrize(
    "budgets",
    [
        pytest.param((), id="no budget"),
        pytest.param((DisruptionBudget("pdb", 0),), id="a budget that would hold tuning"),
    ],
)
def test_an_edit_beside_an_unjudged_candidate_does_not_carry_its_knob(budgets) -> None:
    operator = started(replicas=2, gpus=3, seqs=256)
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.DEPLOY)
    operator.fleet = Fleet(budgets=budgets)
    operator.change(engine={"podTemplate": {"metadata": {"labels": {"team": "legal"}}}})
    deployed = operator.step()
    assert deployed.action is Action.DEPLOY
    assert deployed.record.candidate.revision.settings == deployed.record.last_good.settings
    operator.until(Action.PROMOTE)
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")


def test_scaling_a_rejected_spec_repeats_no_event_and_stays_stalled() -> None:
    operator = started(replicas=2, gpus=4)
    operator.world.fate = image_fails()
    operator.change(engine={"image": "broken:1"})
    operator.until(Action.REVERT)
    operator.run(120)
    before = len(operator.notes)
    for replicas in (3, 2, 3):
        operator.change(replicas=replicas)
        operator.step()
        assert operator.condition("Stalled")[:2] == ("True", "SpecRejected")
        operator.run(60)
        assert operator.world.deployment.raw["spec"]["replicas"] == replicas
    assert "SpecRejected" not in {note.reason for note in operator.notes[before:]}


def test_scaling_after_a_rejected_candidate_repeats_no_event() -> None:
    operator = started(seqs=256, gpus=6, tuning={"cooldownSeconds": 3600})
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.REVERT)
    operator.run(30)
    before = len(operator.notes)
    for replicas in (2, 3, 2):
        operator.change(replicas=replicas)
        operator.run(100)
    assert "CandidateRejected" not in {note.reason for note in operator.notes[before:]}


def test_scaling_a_failing_endpoint_repeats_no_event() -> None:
    operator = started(replicas=2, gpus=4)
    operator.world.fate = lambda _some, _image: Fate(5, unknown_crash=True)
    for pod in list(operator.world.pods):
        operator.world.crash(pod, None)
    operator.run(600)
    assert operator.condition("Stalled")[:2] == ("True", "LastGoodFailing")
    before = len(operator.notes)
    operator.change(replicas=1)
    operator.run(200)
    assert "LastGoodFailing" not in {note.reason for note in operator.notes[before:]}


def test_a_candidate_on_all_pods_goes_with_the_pods_and_frees_its_turn() -> None:
    operator = started(replicas=2, gpus=4, seqs=32)
    operator.until(Action.WIDEN)
    operator.change(replicas=0)
    assert operator.step().action is Action.WITHDRAW
    operator.run(60)
    assert operator.record().candidate is None
    assert not operator.world.pods


def test_suspending_at_the_moment_of_the_crash_keeps_the_verdict() -> None:
    operator = started(seqs=256, gpus=3)
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.DEPLOY)
    while not any(pod.terminated_at for pod in operator.world.pods):
        operator.world.run(1, 1)
    operator.change(suspend=True)
    assert operator.step().action is Action.REVERT
    assert operator.record().quarantine
    operator.run(60)
    assert operator.condition("SettingsApplied")[:2] == ("False", "Suspended")


def test_a_retry_is_tried_though_all_smaller_tries_failed_too() -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    operator.world.fate = lambda _some, _image: Fate(5, OUT_OF_MEMORY)
    operator.run(900)
    assert operator.condition("Stalled")[:2] == ("True", "NoKnownGoodSettings")
    first = operator.raw["status"]["rejected"][-1]
    assert first["maxNumSeqs"] == 256
    operator.world.fate = lambda _some, _image: Fate()
    operator.retry(f"{first['hash']} the driver was mended")
    assert operator.until(Action.PROMOTE).record.last_good.settings == settings(256, "0.9")


def test_a_retry_whose_single_steps_all_fail_does_not_freeze_tuning() -> None:
    operator = started(seqs=64, gpus=3)
    operator.run(4000)
    record = operator.record()
    both = settings(128, "0.98")
    key = quarantine_key(record.last_good.fingerprint, both)
    failed = Quarantined(
        key,
        "revision",
        record.last_good.fingerprint,
        both,
        "unknown",
        "It failed.",
        operator.world.now,
        tuning_hash(operator.endpoint().spec),
    )
    operator.record_text = to_json(record.with_quarantined(failed))

    def greedy_fails(some, _image) -> Fate:
        too_much = some.max_num_seqs > 100 or some.gpu_memory_utilization > Decimal("0.97")
        return Fate(5, OUT_OF_MEMORY) if too_much else Fate()

    operator.world.fate = greedy_fails
    operator.retry(key)
    operator.run(8000)
    assert operator.record().candidate is None
    operator.size = leaves_headroom(32)
    assert ("Promote", "Applied") in told(operator, 20000)


def test_a_retry_of_an_old_configuration_marks_nothing_as_asked_for() -> None:
    operator = started(seqs=256, gpus=3)
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.REVERT)
    operator.fleet = Fleet(rollouts_elsewhere=1)
    operator.retry(operator.raw["status"]["rejected"][0]["hash"])
    operator.step()
    operator.world.fate = lambda _some, _image: Fate()
    operator.size = leaves_headroom(256, free_gib=170.0)
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.0"})
    operator.until(Action.PROMOTE)
    operator.fleet = Fleet()
    operator.size = leaves_headroom(32, free_gib=170.0)
    assert not operator.until(Action.DEPLOY).record.candidate.asked
    operator.run(10)
    operator.change(tuning={"mode": "RecommendOnly"})
    assert operator.step().action is Action.WITHDRAW


def test_more_headroom_mends_a_last_good_template_that_takes_too_much() -> None:
    operator = started(seqs=256)
    operator.run(4000)
    operator.world.fate = crashes_above(
        "0.93", replace(OUT_OF_MEMORY, remedy="leave more headroom")
    )
    operator.world.crash(operator.world.pods[0], None)
    operator.run(900)
    status, reason, message = operator.condition("Stalled")
    assert (status, reason) == ("True", "LastGoodFailing")
    assert "What helps: leave more headroom" in message
    operator.change(tuning={"headroom": "20Gi"})
    assert told(operator, 1000) == [("Deploy", "CandidateInProgress"), ("Promote", "Applied")]
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")


def test_recommend_only_keeps_the_knobs_through_an_upgrade() -> None:
    operator = started(gpus=4, seqs=32, tuning={"mode": "RecommendOnly"})
    operator.run(60)
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.0"})
    found = operator.until(Action.PROMOTE)
    assert found.record.last_good.settings == settings(256, "0.9")
    operator.run(60)
    assert operator.condition("SettingsApplied")[:2] == ("False", "RecommendOnly")


def test_recommend_only_takes_new_initial_settings_with_an_upgrade() -> None:
    operator = started(gpus=4, seqs=32, tuning={"mode": "RecommendOnly"})
    operator.change(
        engine={"image": "vllm/vllm-openai:v0.33.0"},
        tuning={"initial": {"maxNumSeqs": 64, "gpuMemoryUtilization": "0.92"}},
    )
    found = operator.until(Action.PROMOTE)
    assert found.record.last_good.settings == settings(64, "0.92")


def retried_in_vain() -> tuple[Operator, str]:
    """A retry of what failed for an unknown cause fails again; then the cause goes away."""
    operator = started(gpus=3, seqs=256)
    operator.world.fate = lambda some, _image: Fate(
        10, unknown_crash=some.gpu_memory_utilization > Decimal("0.91")
    )
    operator.until(Action.REVERT)
    key = operator.raw["status"]["rejected"][0]["hash"]
    operator.retry(key)
    operator.until(Action.REVERT)
    operator.run(100)
    operator.world.fate = lambda _some, _image: Fate()
    return operator, key


def test_the_same_words_ask_for_one_retry_and_the_message_says_so() -> None:
    operator, key = retried_in_vain()
    assert told(operator, 5000) == []
    message = operator.condition("SettingsApplied")[2]
    assert f"serving.parkade.dev/retry: {key} and other words behind it than now." in message
    operator.retry(f"{key} new driver")
    assert operator.until(Action.DEPLOY, seconds=20)


def test_an_annotation_that_was_removed_may_be_set_again() -> None:
    operator, key = retried_in_vain()
    operator.raw["metadata"]["annotations"] = {}
    operator.run(30)
    operator.retry(key)
    assert operator.until(Action.DEPLOY, seconds=20)
    operator.until(Action.PROMOTE)


TOO_SMALL = RootCause(
    CauseClass.KV_BELOW_ONE_REQUEST, Blame.SETTINGS, message="To serve at least one request"
)


def test_a_step_of_tuning_that_leaves_too_little_asks_for_nobody() -> None:
    """What ran before serves on, so the spec is not to blame."""
    operator = started(tuning={"initial": {"maxNumSeqs": 256, "gpuMemoryUtilization": "0.97"}})
    operator.size = leaves_headroom(256)
    operator.world.fate = lambda some, _image: (
        Fate(10, TOO_SMALL) if some.gpu_memory_utilization < Decimal("0.96") else Fate()
    )
    operator.until(Action.REVERT)
    assert told(operator, 7200) == []
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")
    status, reason, message = operator.condition("SettingsApplied")
    assert (status, reason) == ("False", "CandidateRejected")
    assert "To serve at least one request" in message


WINDOW = {"schedule": "0 3 * * *", "durationSeconds": 3600}
HOURLY = {"schedule": "0 * * * *", "durationSeconds": 3600}


@pytest.mark.parametrize(
    "rollout",
    [
        pytest.param({"strategy": "NoSurge"}, id="in its place"),
        pytest.param({"strategy": "Auto"}, id="beside it, where there is room"),
    ],
)
def test_where_a_window_is_given_the_only_pod_waits_for_it(rollout) -> None:
    operator = started(gpus=1, seqs=32, rollout=rollout, tuning={"maintenanceWindows": [WINDOW]})
    operator.run(60)
    status, reason, message = operator.condition("SettingsApplied")
    assert (status, reason) == ("False", "OutsideMaintenanceWindow")
    assert "The next window opens at 2026-03-03T03:00:00Z" in message
    assert "add tuning.maintenanceWindows" not in message
    operator.run(15 * 3600, step=30)
    assert operator.raw["status"]["lastGood"]["maxNumSeqs"] == 32


@pytest.mark.parametrize(
    "allowed",
    [
        pytest.param({"interruption": "Allowed"}, id="at once"),
        pytest.param(
            {"maintenanceWindows": [{**WINDOW, "schedule": "0 * * * *"}]}, id="in windows"
        ),
    ],
)
def test_the_word_that_was_asked_for_ends_the_wait_for_it(allowed) -> None:
    """Each candidate taken back doubled the cooldown; that was for want of this word."""
    operator = started(gpus=1, seqs=32, tuning={"cooldownSeconds": 3600})
    operator.run(86400, step=60)
    withdrawn = sum(1 for one in operator.plans if one.action is Action.WITHDRAW)
    assert withdrawn > 2
    assert "add tuning.maintenanceWindows" in operator.condition("SettingsApplied")[2]
    operator.change(tuning=allowed)
    assert operator.until(Action.PROMOTE, seconds=2 * 3600)
