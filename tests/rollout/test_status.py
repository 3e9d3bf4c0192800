"""Status and events: a steady endpoint gets the same status and no event; transitions are told."""

from dataclasses import replace
from datetime import timedelta

import pytest

from parkade.api.conditions import (
    CONDITION_ORDER,
    REASONS,
    ConditionStatus,
    ConditionType,
    Reason,
)
from parkade.api.status import read_status
from parkade.rollout.actions import Finding, Fleet, PlanInputs
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause
from parkade.rollout.events import events
from parkade.rollout.observed import DisruptionBudget, ForeignChild
from parkade.rollout.plan import plan
from parkade.rollout.rebuild import rebuild
from parkade.rollout.record import Phase, Record
from parkade.rollout.revision import tuning_hash
from parkade.rollout.status import build_status
from rollout.support.driver import NO_OBJECTIVES, OBSERVED
from rollout.support.objects import at, endpoint, settings
from rollout.support.states import (
    NOW,
    at_rest,
    candidate,
    crashed,
    deployment,
    pod,
    revision,
    starting,
)

SIZING = {
    "recommendation": {"maxNumSeqs": 32, "gpuMemoryUtilization": "0.9", "limitedBy": "KVCache"},
    "memory": {"total": "182272Mi", "effectiveHeadroom": "6144Mi", "basis": "Estimated"},
    "workload": {"requests": 693, "basis": "Measured"},
}
GOOD = revision()
CALM = at_rest(wanted=settings())


def built(
    inputs: PlanInputs, sizing=SIZING, observed: Finding = OBSERVED, later: float = 0
) -> dict:
    now = NOW + timedelta(seconds=later)
    return build_status(inputs, plan(inputs), sizing, observed, NO_OBJECTIVES, now)


def on_top(inputs: PlanInputs, status: dict) -> PlanInputs:
    return replace(inputs, endpoint=replace(inputs.endpoint, status=status))


def condition(status: dict, kind: str) -> tuple[str, str]:
    found = next(one for one in status["conditions"] if one["type"] == kind)
    return found["status"], found["reason"]


def flying(spec=None, phase: Phase = Phase.CANARY, pods=(), **changes) -> PlanInputs:
    new = revision(some=settings(32))
    return at_rest(
        spec,
        record={"candidate": candidate(new, phase=phase)},
        deployment=deployment(new),
        pods=(pod(GOOD), *pods),
        **changes,
    )


CASES = [
    pytest.param(CALM, id="at rest"),
    pytest.param(at_rest(), id="tuning starts"),
    pytest.param(flying(), id="a canary is being judged"),
    pytest.param(at_rest({"replicas": 0}, wanted=settings()), id="scaled to zero"),
    pytest.param(at_rest({"suspend": True}), id="suspended"),
    pytest.param(at_rest(pods=()), id="no pod is there"),
    pytest.param(
        at_rest(foreign=(ForeignChild("Deployment", "contracts", None),)), id="an orphan stands"
    ),
    pytest.param(
        at_rest(fleet=Fleet(budgets=(DisruptionBudget("keep", 0),))), id="a budget blocks"
    ),
    pytest.param(
        replace(at_rest(), record=Record("uid-1"), deployment=None, pods=()), id="nothing runs yet"
    ),
]


@pytest.mark.parametrize("inputs", CASES)
def test_a_status_built_on_itself_is_the_same(inputs: PlanInputs) -> None:
    first = built(inputs)
    assert built(on_top(inputs, first), later=300) == first


@pytest.mark.parametrize("inputs", CASES)
def test_all_conditions_are_there_with_documented_reasons(inputs: PlanInputs) -> None:
    status = built(inputs)
    assert [one["type"] for one in status["conditions"]] == list(CONDITION_ORDER)
    for one in status["conditions"]:
        allowed = REASONS[ConditionType(one["type"])][ConditionStatus(one["status"])]
        assert one["reason"] in allowed
        assert one["observedGeneration"] == 1
    read = read_status(status).to_dict()
    blocks = set(SIZING)
    assert {key: read[key] for key in set(read) - blocks} == {
        key: status[key] for key in set(status) - blocks
    }


def test_the_story_at_rest() -> None:
    status = built(CALM)
    assert {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]} == {
        "Ready": ("True", "Serving"),
        "Reconciling": ("False", "UpToDate"),
        "Stalled": ("False", "AsExpected"),
        "WorkloadObserved": ("True", "Observed"),
        "SettingsApplied": ("True", "Applied"),
        "ObjectivesMet": ("Unknown", "NoObjectives"),
    }
    assert status["observedGeneration"] == 1
    assert (status["replicas"], status["readyReplicas"]) == (1, 1)
    assert status["selector"] == "serving.parkade.dev/endpoint=contracts"
    assert status["applied"] == status["lastGood"]
    assert status["applied"]["maxNumSeqs"] == 256


def test_numbers_that_only_moved_are_not_written() -> None:
    first = built(CALM)
    moved = {**SIZING, "workload": {"requests": 702, "basis": "Measured"}}
    busier = replace(OBSERVED, message="702 requests in 14400 s.")
    assert built(on_top(CALM, first), moved, busier) == first


@pytest.mark.parametrize(
    ("sizing", "observed"),
    [
        pytest.param(
            {**SIZING, "recommendation": {**SIZING["recommendation"], "maxNumSeqs": 40}},
            OBSERVED,
            id="another recommendation",
        ),
        pytest.param(
            {**SIZING, "memory": {**SIZING["memory"], "basis": "Measured"}},
            OBSERVED,
            id="memory was measured",
        ),
        pytest.param(
            {**SIZING, "memory": {**SIZING["memory"], "effectiveHeadroom": "7424Mi"}},
            OBSERVED,
            id="the headroom was raised",
        ),
        pytest.param(
            SIZING,
            Finding(ConditionStatus.FALSE, Reason.NO_TRAFFIC, "No request finished."),
            id="a condition changed",
        ),
    ],
)
def test_a_decision_renews_all_numbers(sizing, observed: Finding) -> None:
    first = built(CALM)
    moved = {**sizing, "workload": {"requests": 702, "basis": "Measured"}}
    again = built(on_top(CALM, first), moved, observed)
    assert again["workload"]["requests"] == 702
    assert again != first


def test_what_sizing_can_no_longer_tell_stays_as_of_the_last_decision() -> None:
    first = built(CALM)
    assert built(on_top(CALM, first), {})["memory"] == SIZING["memory"]


def test_a_canary_is_not_yet_what_is_applied() -> None:
    assert built(flying())["applied"]["maxNumSeqs"] == 256
    assert built(flying(phase=Phase.FULL))["applied"]["maxNumSeqs"] == 32


@pytest.mark.parametrize(
    ("inputs", "ready"),
    [
        pytest.param(at_rest(pods=()), ("False", "NoReadyPods"), id="no pod"),
        pytest.param(CALM, ("True", "Serving"), id="a pod"),
        pytest.param(at_rest({"replicas": 0}), ("True", "ScaledToZero"), id="none asked for"),
        pytest.param(at_rest({"suspend": True}, pods=()), ("False", "Suspended"), id="suspended"),
        pytest.param(
            at_rest(foreign=(ForeignChild("Deployment", "p", "uid-0"),), pods=()),
            ("False", "WaitingForOldChildren"),
            id="old children",
        ),
    ],
)
def test_ready(inputs: PlanInputs, ready: tuple[str, str]) -> None:
    assert condition(built(inputs), "Ready") == ready


def test_a_steady_endpoint_has_no_event_and_each_transition_one() -> None:
    first = built(CALM)
    assert events(plan(CALM), first, first) == ()
    started = built(on_top(at_rest(), first))
    notes = events(plan(at_rest()), first, started)
    assert [(note.reason, note.warning) for note in notes] == [("Deploying", False)]
    assert notes[0].message == (
        "CandidateInProgress: max_num_seqs 256, gpu_memory_utilization 0.9 -> "
        "max_num_seqs 32, gpu_memory_utilization 0.9."
    )


def test_a_revert_is_one_warning_with_the_engines_error() -> None:
    new = revision(some=settings(32))
    cause = RootCause(CauseClass.OOM_KV_ALLOCATION, Blame.SETTINGS, message="out of memory")
    inputs = flying(pods=(crashed(new),), evidence={("uid-new-1", 1): cause})
    notes = events(plan(inputs), built(flying()), built(inputs))
    assert [(note.reason, note.warning) for note in notes] == [("Reverting", True)]
    assert "out of memory" in notes[0].message


def test_a_long_message_is_cut_and_still_written() -> None:
    new = revision(some=settings(32))
    cause = RootCause(CauseClass.OOM_KV_ALLOCATION, Blame.SETTINGS, message="x" * 9000)
    inputs = flying(pods=(crashed(new),), evidence={("uid-new-1", 1): cause})
    status = built(inputs)
    assert all(len(one.get("message", "")) <= 1024 for one in status["conditions"])
    assert all(len(note.message) <= 1000 for note in events(plan(inputs), {}, status))


def test_recovery_is_told_too() -> None:
    stalled = built(at_rest(foreign=(ForeignChild("Service", "contracts", None),)))
    calm = built(on_top(CALM, stalled))
    reasons = [note.reason for note in events(plan(CALM), stalled, calm)]
    assert "AsExpected" in reasons


def restored(inputs: PlanInputs) -> Record:
    status = built(inputs)
    one = replace(inputs.endpoint, status=status)
    return rebuild(one, inputs.deployment, inputs.replica_sets, NOW)


def test_a_lost_record_comes_back_at_rest() -> None:
    record = restored(CALM)
    assert record.last_good == GOOD
    assert record.candidate is None
    assert record.settled_at == at(120)


def test_a_lost_record_comes_back_with_its_candidate() -> None:
    first = plan(at_rest())
    new = first.record.candidate.revision
    inputs = replace(
        at_rest(),
        record=first.record,
        deployment=deployment(new, min_ready_seconds=2_000_000_000),
        pods=(pod(GOOD), starting(new)),
    )
    record = restored(inputs)
    assert record.last_good.settings == settings()
    assert record.candidate.revision.hash == new.hash
    assert record.candidate.phase is Phase.CANARY
    assert record.candidate.origin is first.record.candidate.origin


def test_a_lost_record_keeps_quarantine_and_raised_headroom() -> None:
    new = revision(some=settings(256, "0.95"))
    cause = RootCause(
        CauseClass.OOM_KV_ALLOCATION, Blame.SETTINGS, message="no", shortfall_bytes=1024**3
    )
    inputs = at_rest(
        record={"candidate": candidate(new)},
        deployment=deployment(new),
        pods=(pod(GOOD), crashed(new)),
        evidence={("uid-new-1", 1): cause},
    )
    after = plan(inputs)
    raised = {**SIZING, "memory": {**SIZING["memory"], "effectiveHeadroom": "7424Mi"}}
    status = build_status(inputs, after, raised, OBSERVED, NO_OBJECTIVES, NOW)
    one = replace(inputs.endpoint, status=status)
    record = rebuild(one, deployment(GOOD), (), NOW)
    assert record.is_quarantined(new.quarantine_key)


def test_a_lost_record_keeps_the_cap_on_sequences() -> None:
    new = revision(some=settings(300))
    cause = RootCause(CauseClass.OOM_SAMPLER_WARMUP, Blame.SETTINGS, knob=Knob.MAX_NUM_SEQS)
    inputs = at_rest(
        record={"candidate": candidate(new)},
        deployment=deployment(new),
        pods=(pod(GOOD), crashed(new)),
        evidence={("uid-new-1", 1): cause},
    )
    after = plan(inputs)
    status = build_status(inputs, after, SIZING, OBSERVED, NO_OBJECTIVES, NOW)
    record = rebuild(replace(inputs.endpoint, status=status), deployment(GOOD), (), NOW)
    same = (GOOD.fingerprint, tuning_hash(inputs.endpoint.spec))
    assert record.max_num_seqs_cap(*same) == after.record.max_num_seqs_cap(*same) == 225


def test_what_was_good_is_rendered_again_where_nothing_holds_its_template() -> None:
    one = replace(CALM.endpoint, status=built(CALM))
    assert rebuild(one, None, (), NOW).last_good == GOOD
    other = endpoint({"engine": {"image": "other:1"}}, generation=2)
    assert rebuild(replace(other, status=built(CALM)), None, (), NOW).last_good is None


def test_nothing_to_rebuild_from_is_a_fresh_record() -> None:
    assert rebuild(endpoint(), None, (), NOW) == Record("uid-1")


def test_a_deployment_of_another_uid_is_not_rebuilt_from() -> None:
    assert rebuild(endpoint(uid="uid-2"), deployment(GOOD), (), NOW) == Record("uid-2")


def test_a_status_of_nonsense_is_as_good_as_none() -> None:
    one = replace(endpoint(), status={"lastGood": {"maxNumSeqs": "many"}, "history": 7})
    assert rebuild(one, None, (), NOW) == Record("uid-1")


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "Pod"])
def test_pods_of_a_namesake_do_not_make_a_resource_ready(kind) -> None:
    status = built(at_rest(foreign=(ForeignChild(kind, "contracts-1", "uid-0"),)))
    assert condition(status, "Ready")[0] == "False"
    assert (status["replicas"], status["readyReplicas"]) == (0, 0)


def test_own_pods_stay_ready_beside_a_service_of_somebody_else() -> None:
    status = built(at_rest(foreign=(ForeignChild("Service", "contracts", None),)))
    assert condition(status, "Ready")[0] == "True"
