"""Each reason that rolling out can give for a condition does occur, and how."""

from dataclasses import replace
from datetime import timedelta

import pytest

from parkade.api.conditions import REASONS, ConditionStatus, ConditionType, Reason
from parkade.api.status import Origin, Verdict
from parkade.rollout.actions import Desired, Fleet, PlanInputs
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause
from parkade.rollout.observed import ConditionState, DisruptionBudget, ForeignChild
from parkade.rollout.plan import plan
from parkade.rollout.reasons import REASON_OF_CAUSE
from parkade.rollout.record import HistoryEntry, Phase, Quarantined, Record
from parkade.rollout.revision import quarantine_key, tuning_hash
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

GOOD = revision()
NEW = revision(some=settings(32))
SCARCE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def first(pods=(), evidence=None, since: float = 60, spec=None, **changes) -> PlanInputs:
    """The first revision is in flight, with nothing to go back to."""
    flying = candidate(
        GOOD, origin=Origin.USER, phase=Phase.FULL, since=NOW - timedelta(seconds=since)
    )
    inputs = at_rest(spec, pods=tuple(pods), evidence=evidence or {}, **changes)
    return replace(inputs, record=Record("uid-1", candidate=flying))


def blamed(cause: CauseClass, blame: Blame = Blame.USER) -> PlanInputs:
    return first([crashed(GOOD)], {("uid-new-1", 1): RootCause(cause, blame, message="why")})


def waiting(reason: str, message: str = "") -> PlanInputs:
    stuck = starting(
        GOOD,
        since=NOW - timedelta(seconds=700),
        running_since=None,
        waiting_reason=reason,
        waiting_message=message,
    )
    return first([stuck], since=700)


def tuned(*pods, **changes) -> PlanInputs:
    """A candidate of tuning is in flight."""
    flying = candidate(NEW, **changes)
    return at_rest(
        record={"candidate": flying}, deployment=deployment(NEW), pods=(pod(GOOD), *pods)
    )


def after(verdict: Verdict, reason: str) -> PlanInputs:
    entry = HistoryEntry(
        "r", settings(32), GOOD.fingerprint, 1, Origin.TUNING, at(1), verdict, reason, "m", NOW
    )
    lesson = Quarantined(
        "k", "r", GOOD.fingerprint, settings(16), "unknown", "m", NOW, tuning_hash(endpoint().spec)
    )
    return at_rest(record={"history": (entry,), "quarantine": (lesson,), "settled_at": NOW})


UNSCHEDULED = {"started_at": None, "running_since": None, "scheduled": False}
NOT_SCHEDULED = starting(
    GOOD,
    unschedulable_since=NOW - timedelta(seconds=700),
    unschedulable_message="0/1 nodes match",
    **UNSCHEDULED,
)
NO_GPU = starting(GOOD, unschedulable_since=NOW, unschedulable_message=SCARCE, **UNSCHEDULED)
NO_CLAIM = starting(
    GOOD,
    unschedulable_since=NOW - timedelta(seconds=700),
    unschedulable_message='0/1 nodes are available: persistentvolumeclaim "models" not found.',
    **UNSCHEDULED,
)
STALLING = [
    pytest.param(first([NO_CLAIM], since=800), Reason.MISSING_VOLUME, id="no claim"),
    pytest.param(first([starting(GOOD, since=NOW - timedelta(seconds=700))], since=700),
                 Reason.START_DEADLINE_EXCEEDED, id="a first start takes too long"),
    pytest.param(blamed(CauseClass.BAD_ARGUMENTS), Reason.BAD_ARGUMENTS, id="bad arguments"),
    pytest.param(blamed(CauseClass.UNSUPPORTED_MODEL), Reason.UNSUPPORTED_MODEL, id="model"),
    pytest.param(blamed(CauseClass.LICENCE_OR_HUB), Reason.MODEL_UNAVAILABLE, id="licence"),
    pytest.param(blamed(CauseClass.MISSING_SECRET), Reason.MISSING_SECRET, id="secret"),
    pytest.param(blamed(CauseClass.OOM_WEIGHTS), Reason.DOES_NOT_FIT, id="too large a model"),
    pytest.param(waiting("ImagePullBackOff"), Reason.IMAGE_PULL_FAILED, id="image"),
    pytest.param(waiting("CreateContainerConfigError", "secret x"), Reason.MISSING_SECRET,
                 id="a Secret that the kubelet misses"),
    pytest.param(waiting("CreateContainerConfigError", "configmap x"), Reason.MISSING_CONFIG_MAP,
                 id="a ConfigMap that the kubelet misses"),
    pytest.param(first([NOT_SCHEDULED], since=800), Reason.SCHEDULING_FAILED, id="no node"),
    pytest.param(at_rest(foreign=(ForeignChild("Service", "s", None),)), Reason.FOREIGN_CHILD,
                 id="a foreign Service"),
    pytest.param(
        at_rest(pods=(crashed(GOOD, 2),)), Reason.LAST_GOOD_FAILING, id="the last good one fails"
    ),
    pytest.param(
        at_rest(desired=Desired(None, Reason.UNKNOWN_ACCELERATOR, "?", stalled=True)),
        Reason.UNKNOWN_ACCELERATOR, id="a card that is not known"),
]  # fmt: skip


def condition(inputs: PlanInputs, kind: ConditionType) -> tuple[str, str]:
    found = plan(inputs)
    status = build_status(inputs, found, {}, OBSERVED, NO_OBJECTIVES, NOW)
    return next(
        (one["status"], one["reason"]) for one in status["conditions"] if one["type"] == kind
    )


@pytest.mark.parametrize(("inputs", "reason"), STALLING)
def test_stalled(inputs: PlanInputs, reason: Reason) -> None:
    assert condition(inputs, ConditionType.STALLED) == ("True", reason)
    status, told = condition(inputs, ConditionType.RECONCILING)
    assert (status, told) == ("False", reason)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        pytest.param(first([starting(GOOD)]), Reason.ROLLOUT_IN_PROGRESS, id="a first start"),
        pytest.param(first([NO_GPU]), Reason.WAITING_FOR_GPU, id="no GPU"),
        pytest.param(
            blamed(CauseClass.PROBE_KILLED, Blame.ENVIRONMENT), Reason.PROBE_FAILED, id="a probe"
        ),
        pytest.param(
            blamed(CauseClass.NCCL_FAILURE, Blame.ENVIRONMENT), Reason.NODE_FAILED, id="the node"
        ),
        pytest.param(
            first(
                deployment=deployment(
                    GOOD, conditions={"ReplicaFailure": ConditionState("True", "x", "quota")}
                )
            ),
            Reason.QUOTA_EXCEEDED,
            id="a quota",
        ),
        pytest.param(
            at_rest({"replicas": 2}, deployment=deployment(GOOD, 1)), Reason.SCALING, id="scaling"
        ),
        pytest.param(
            at_rest(foreign=(ForeignChild("Deployment", "d", "uid-0"),)),
            Reason.WAITING_FOR_OLD_CHILDREN,
            id="old children",
        ),
    ],
)
def test_reconciling(inputs: PlanInputs, reason: Reason) -> None:
    assert condition(inputs, ConditionType.RECONCILING) == ("True", reason)
    assert condition(inputs, ConditionType.STALLED) == ("False", Reason.AS_EXPECTED)


@pytest.mark.parametrize(
    ("inputs", "status", "reason"),
    [
        pytest.param(tuned(), "False", Reason.CANDIDATE_IN_PROGRESS, id="a candidate flies"),
        pytest.param(
            tuned(replace(NO_GPU, revision=NEW.hash), surge=False),
            "False",
            Reason.WAITING_FOR_GPU,
            id="a candidate waits for a GPU",
        ),
        pytest.param(
            after(Verdict.FAILED, "x"), "False", Reason.CANDIDATE_REJECTED, id="after a failure"
        ),
        pytest.param(
            after(Verdict.INCONCLUSIVE, "x"),
            "False",
            Reason.CANDIDATE_WITHDRAWN,
            id="after a withdrawal",
        ),
        pytest.param(at_rest({"suspend": True}), "False", Reason.SUSPENDED, id="suspended"),
        pytest.param(
            at_rest(fleet=Fleet(rollouts_elsewhere=1)), "False", Reason.WAITING_FOR_TURN, id="turn"
        ),
        pytest.param(
            at_rest(fleet=Fleet(budgets=(DisruptionBudget("b", 0),))),
            "False",
            Reason.BLOCKED_BY_DISRUPTION_BUDGET,
            id="budget",
        ),
        pytest.param(
            at_rest(desired=Desired(settings(), Reason.WITHIN_HYSTERESIS, "4 %")),
            "True",
            Reason.WITHIN_HYSTERESIS,
            id="hysteresis",
        ),
        pytest.param(first([starting(GOOD)]), "False", Reason.ROLLOUT_IN_PROGRESS, id="a start"),
        pytest.param(at_rest({"replicas": 0}), "False", Reason.SCALED_TO_ZERO, id="zero"),
    ],
)
def test_settings_applied(inputs: PlanInputs, status: str, reason: Reason) -> None:
    assert condition(inputs, ConditionType.SETTINGS_APPLIED) == (status, reason)


def test_advice_only_is_ready_and_writes_nothing() -> None:
    inputs = at_rest(wanted=settings())
    spec = inputs.endpoint.spec.model_copy(update={"engine": None})
    advised = replace(
        inputs,
        endpoint=replace(inputs.endpoint, spec=spec),
        record=Record("uid-1"),
        deployment=None,
    )
    assert condition(advised, ConditionType.READY) == ("True", Reason.ADVISE_ONLY)
    assert condition(advised, ConditionType.RECONCILING) == ("False", Reason.ADVISE_ONLY)
    assert plan(advised).target is None


@pytest.mark.parametrize("cause", CauseClass)
def test_each_root_cause_has_a_reason_that_stalled_may_have(cause: CauseClass) -> None:
    allowed = REASONS[ConditionType.STALLED][ConditionStatus.TRUE]
    assert REASON_OF_CAUSE[cause] in allowed


@pytest.mark.parametrize("cause", CauseClass)
@pytest.mark.parametrize("blame", [Blame.ENVIRONMENT, Blame.USER, Blame.UNKNOWN])
def test_only_settings_are_blamed_for_what_settings_cause(cause: CauseClass, blame: Blame) -> None:
    """One end of whatever class quarantines nothing unless it blames the settings."""
    evidence = {("uid-new-1", 1): RootCause(cause, blame, knob=Knob.HEADROOM, message="why")}
    inputs = replace(tuned(crashed(NEW)), evidence=evidence)
    assert plan(inputs).record.quarantine == ()


@pytest.mark.parametrize("cause", CauseClass)
def test_whatever_blames_the_settings_is_quarantined_and_reverted(cause: CauseClass) -> None:
    evidence = {("uid-new-1", 1): RootCause(cause, Blame.SETTINGS, message="why")}
    found = plan(replace(tuned(crashed(NEW)), evidence=evidence))
    assert found.action.value == "Revert"
    assert found.record.is_quarantined(quarantine_key(NEW.fingerprint, NEW.settings))
    assert found.target.revision == GOOD
