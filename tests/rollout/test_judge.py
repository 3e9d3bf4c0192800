"""Verdicts on a candidate: only its own pods count, and only what settings cause blames them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from parkade.api.conditions import Reason
from parkade.api.spec import Rollout
from parkade.api.status import Origin, Verdict
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause, Stage
from parkade.rollout.judge import judge
from parkade.rollout.observed import ConditionState, Termination
from parkade.rollout.record import SeenTermination
from rollout.support.objects import GIB, settings
from rollout.support.states import NOW, candidate, crashed, deployment, pod, revision, starting

NEW = revision(some=settings(32))
OLD = revision()
ROLLOUT = Rollout(start_deadline_seconds=600, soak_seconds=60, max_restarts=1)

SETTINGS = RootCause(
    CauseClass.OOM_CUDAGRAPH_CAPTURE,
    Blame.SETTINGS,
    Stage.GRAPHS,
    knob=Knob.HEADROOM,
    message="CUDA out of memory",
    shortfall_bytes=GIB,
)
AT_RUN_TIME = RootCause(
    CauseClass.STARTED_THEN_OOM_AT_RUNTIME, Blame.SETTINGS, Stage.RUNTIME, message="out of memory"
)
USER = RootCause(CauseClass.MISSING_MODEL, Blame.USER, message="acme/x is not on the hub")
PREDECESSOR = RootCause(
    CauseClass.FREE_MEMORY_BELOW_UTILIZATION, Blame.ENVIRONMENT, message="an old pod holds the GPU"
)
SCARCE = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
NO_CLAIM = '0/3 nodes are available: persistentvolumeclaim "models" not found.'
NO_NODE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."


def seconds_ago(seconds: float):
    return NOW - timedelta(seconds=seconds)


def restarted(ends: int, **changes):
    """A pod that ended so often and runs again."""
    counts = {"restart_count": ends, "terminations": ends, "created_at": seconds_ago(900)}
    times = {"running_since": seconds_ago(70), "ready_since": seconds_ago(60)}
    return pod(NEW, "new-1", **{**counts, **times, **changes})


@pytest.mark.parametrize(
    ("pods", "evidence", "verdict", "reason", "message"),
    [
        pytest.param(
            [],
            {},
            Verdict.PENDING,
            Reason.ROLLOUT_IN_PROGRESS,
            "Waits for the first pod to be created.",
            id="no pod yet",
        ),
        pytest.param(
            [starting(NEW)],
            {},
            Verdict.PENDING,
            Reason.ROLLOUT_IN_PROGRESS,
            "Waits for the engine to start.",
            id="it loads",
        ),
        pytest.param(
            [pod(NEW, ready_since=seconds_ago(59))],
            {},
            Verdict.PENDING,
            Reason.ROLLOUT_IN_PROGRESS,
            "Serves, and is believed after 60 s.",
            id="it serves and is not believed yet",
        ),
        pytest.param(
            [pod(NEW, ready_since=seconds_ago(60))],
            {},
            Verdict.SUCCESSFUL,
            Reason.APPLIED,
            "1 pod served for 60 s without a restart.",
            id="it soaked",
        ),
        pytest.param(
            [crashed(NEW)],
            {("uid-new-1", 1): SETTINGS},
            Verdict.FAILED,
            Reason.ENGINE_FAILED,
            "The engine did not start: CUDA out of memory",
            id="one end that blames the settings is enough",
        ),
        pytest.param(
            [crashed(NEW)],
            {},
            Verdict.PENDING,
            Reason.ROLLOUT_IN_PROGRESS,
            "The engine ended, which alone decides nothing; its error is not known.",
            id="one unknown end decides nothing",
        ),
        pytest.param(
            [crashed(NEW, 2)],
            {},
            Verdict.FAILED,
            Reason.ENGINE_FAILED,
            "The engine ended 2 times before it was ready; its error is not known.",
            id="two unknown ends are no accident, even with exit code 0",
        ),
        pytest.param(
            [crashed(NEW, name="a"), crashed(NEW, name="b")],
            {},
            Verdict.FAILED,
            Reason.ENGINE_FAILED,
            "The engine ended 2 times before it was ready; its error is not known.",
            id="unknown ends of two pods add up",
        ),
        pytest.param(
            [crashed(NEW)],
            {("uid-new-1", 1): USER},
            Verdict.FAILED,
            Reason.MODEL_UNAVAILABLE,
            "The engine did not start: acme/x is not on the hub",
            id="what only the user can mend fails at once",
        ),
        pytest.param(
            [crashed(NEW, 5)],
            {("uid-new-1", 5): PREDECESSOR},
            Verdict.PENDING,
            Reason.ROLLOUT_IN_PROGRESS,
            "The engine ended, which alone decides nothing: an old pod holds the GPU",
            id="a predecessor that holds the GPU is never blame",
        ),
        pytest.param(
            [crashed(OLD, 9)],
            {("uid-new-1", 9): SETTINGS},
            Verdict.PENDING,
            Reason.ROLLOUT_IN_PROGRESS,
            "Waits for the first pod to be created.",
            id="pods of another revision do not count",
        ),
        pytest.param(
            [crashed(NEW, 2, deleting=True), crashed(NEW, 2, name="b", disrupted="Evicted")],
            {},
            Verdict.PENDING,
            Reason.ROLLOUT_IN_PROGRESS,
            "Waits for the first pod to be created.",
            id="pods that are being deleted or were evicted do not count",
        ),
        pytest.param(
            [starting(NEW, since=seconds_ago(600))],
            {},
            Verdict.INCONCLUSIVE,
            Reason.START_DEADLINE_EXCEEDED,
            "Pod new-1 was not ready 600 s after its container started "
            "(rollout.startDeadlineSeconds).",
            id="too slow from the container's start on",
        ),
        pytest.param(
            [starting(NEW, since=seconds_ago(900), running_since=seconds_ago(599))],
            {},
            Verdict.PENDING,
            Reason.ROLLOUT_IN_PROGRESS,
            "Waits for the engine to start.",
            id="a long pull before the container's start does not count",
        ),
        pytest.param(
            [
                starting(
                    NEW,
                    since=seconds_ago(600),
                    running_since=None,
                    waiting_reason="ImagePullBackOff",
                    waiting_message="not found",
                )
            ],
            {},
            Verdict.INCONCLUSIVE,
            Reason.IMAGE_PULL_FAILED,
            "The container of pod new-1 did not start within 600 s: ImagePullBackOff: not found",
            id="an image that can't be pulled for so long",
        ),
        pytest.param(
            [
                starting(
                    NEW,
                    since=seconds_ago(9),
                    running_since=None,
                    waiting_reason="CreateContainerConfigError",
                    waiting_message='configmap "x" not found',
                )
            ],
            {},
            Verdict.PENDING,
            Reason.MISSING_CONFIG_MAP,
            'Pod new-1 waits: CreateContainerConfigError: configmap "x" not found',
            id="a missing ConfigMap has its own reason",
        ),
        pytest.param(
            [starting(NEW, scheduled=False, unschedulable_message=SCARCE, running_since=None)],
            {},
            Verdict.PENDING,
            Reason.WAITING_FOR_GPU,
            f"Pod new-1 is not scheduled: {SCARCE}",
            id="no GPU is free",
        ),
        pytest.param(
            [starting(NEW, scheduled=False, unschedulable_message=NO_CLAIM, running_since=None)],
            {},
            Verdict.PENDING,
            Reason.MISSING_VOLUME,
            f"Pod new-1 is not scheduled: {NO_CLAIM}",
            id="the claim that the spec names is not there",
        ),
        pytest.param(
            [
                starting(
                    NEW,
                    started_at=None,
                    running_since=None,
                    unschedulable_since=seconds_ago(600),
                    unschedulable_message=NO_NODE,
                )
            ],
            {},
            Verdict.INCONCLUSIVE,
            Reason.SCHEDULING_FAILED,
            f"No node takes pod new-1: {NO_NODE}",
            id="no node fits for so long",
        ),
    ],
)
def test_verdict(pods, evidence, verdict: Verdict, reason: Reason, message: str) -> None:
    one = candidate(NEW, since=seconds_ago(1000))
    found = judge(one, pods, evidence, deployment(NEW), ROLLOUT, NOW)
    assert (found.verdict, found.reason, found.message) == (verdict, reason, message)


@pytest.mark.parametrize(
    ("restarts", "cause", "verdict", "message"),
    [
        pytest.param(
            1,
            None,
            Verdict.PENDING,
            "The engine ended, which alone decides nothing; its error is not known.",
            id="as many as allowed",
        ),
        pytest.param(
            2,
            SETTINGS,
            Verdict.FAILED,
            "The engine restarted 2 times while soaking, more than maxRestarts 1: "
            "CUDA out of memory",
            id="more than allowed",
        ),
        pytest.param(
            2,
            PREDECESSOR,
            Verdict.INCONCLUSIVE,
            "The engine restarted 2 times while soaking, and its settings are not to blame: "
            "an old pod holds the GPU",
            id="those that are not its fault only take it back",
        ),
    ],
)
def test_restarts_while_soaking(restarts, cause, verdict: Verdict, message: str) -> None:
    one = candidate(NEW, since=seconds_ago(1000), ready_uids=("uid-new-1",))
    evidence = {("uid-new-1", number + 1): cause for number in range(restarts) if cause}
    pods = [restarted(restarts, ready_since=NOW)]
    found = judge(one, pods, evidence, deployment(NEW), ROLLOUT, NOW)
    assert (found.verdict, found.message) == (verdict, message)


def test_a_quota_is_the_reason_where_no_pod_can_be_created() -> None:
    failing = deployment(
        NEW, conditions={"ReplicaFailure": ConditionState("True", "FailedCreate", "exceeded quota")}
    )
    found = judge(candidate(NEW), [], {}, failing, ROLLOUT, NOW)
    assert (found.reason, found.message) == (
        Reason.QUOTA_EXCEEDED,
        "No pod can be created: exceeded quota",
    )


@pytest.mark.parametrize(
    ("origin", "seconds", "verdict"),
    [
        pytest.param(Origin.TUNING, 60, Verdict.PENDING, id="a while"),
        pytest.param(Origin.TUNING, 601, Verdict.INCONCLUSIVE, id="tuning, past the deadline"),
        pytest.param(Origin.USER, 601, Verdict.PENDING, id="a user's change, for ever"),
    ],
)
def test_under_a_used_up_quota_tuning_waits_until_the_deadline(origin, seconds, verdict) -> None:
    failing = deployment(
        NEW, conditions={"ReplicaFailure": ConditionState("True", "FailedCreate", "exceeded quota")}
    )
    one = candidate(NEW, origin=origin, since=seconds_ago(seconds))
    found = judge(one, [], {}, failing, ROLLOUT, NOW)
    assert (found.verdict, found.reason) == (verdict, Reason.QUOTA_EXCEEDED)
    assert found.blamed is None


@pytest.mark.parametrize(
    ("used", "limited", "no_room"),
    [
        pytest.param("pods=2", "pods=2", "The quota takes no further pod", id="used up"),
        pytest.param(
            "limits.memory=1Ti,requests.nvidia.com/gpu=4",
            "limits.memory=1024Gi,requests.nvidia.com/gpu=4",
            "The quota takes no further pod",
            id="of several resources, in other units",
        ),
        pytest.param("pods=2", "pods=1", "", id="lowered below what runs: none instead either"),
        pytest.param("pods=2", "gpus=2", "", id="a limit that is not named"),
        pytest.param("pods=many", "pods=2", "", id="an amount that can not be read"),
    ],
)
def test_a_quota_may_take_a_pod_in_the_place_of_another(used, limited, no_room) -> None:
    message = (
        f'pods "x" is forbidden: exceeded quota: q, requested: a=1, used: {used}, '
        f"limited: {limited}"
    )
    failing = deployment(
        NEW, conditions={"ReplicaFailure": ConditionState("True", "FailedCreate", message)}
    )
    found = judge(candidate(NEW, since=seconds_ago(40)), [], {}, failing, ROLLOUT, NOW)
    assert found.no_room == no_room
    assert (found.no_room_for is not None) == bool(no_room)


def test_what_was_seen_stays_known_when_pod_and_log_are_gone() -> None:
    first = judge(
        candidate(NEW, since=seconds_ago(1000)), [crashed(NEW)], {}, None, ROLLOUT, NOW
    ).candidate
    second = judge(first, [crashed(NEW, name="other")], {}, None, ROLLOUT, NOW)
    assert second.verdict is Verdict.FAILED


def test_better_evidence_replaces_an_unknown_end() -> None:
    one = candidate(NEW, since=seconds_ago(1000))
    first = judge(one, [crashed(NEW)], {}, None, ROLLOUT, NOW).candidate
    found = judge(first, [crashed(NEW)], {("uid-new-1", 1): SETTINGS}, None, ROLLOUT, NOW)
    assert found.blamed is not None
    assert found.blamed.shortfall_bytes == GIB


def test_a_loop_of_one_cause_is_remembered_twice_and_not_at_every_round() -> None:
    one = candidate(NEW, since=seconds_ago(1000))
    for number in range(1, 12):
        evidence = {("uid-new-1", number): PREDECESSOR}
        one = judge(one, [crashed(NEW, number)], evidence, None, ROLLOUT, NOW).candidate
    assert len(one.terminations) == 2
    lost = judge(one, [crashed(NEW, 12)], {}, None, ROLLOUT, NOW)
    assert lost.verdict is Verdict.PENDING


def test_in_a_loop_of_a_known_cause_a_log_that_is_gone_blames_nobody_after_a_lost_record() -> None:
    one = candidate(NEW, since=seconds_ago(1000))
    known = {("uid-new-1", 2): PREDECESSOR}
    assert judge(one, [crashed(NEW, 3)], known, None, ROLLOUT, NOW).verdict is Verdict.PENDING
    assert judge(one, [crashed(NEW, 3)], {}, None, ROLLOUT, NOW).verdict is Verdict.FAILED


def test_ends_of_an_earlier_try_of_the_same_revision_do_not_count() -> None:
    again = candidate(NEW, since=NOW + timedelta(seconds=5))
    later = NOW + timedelta(seconds=10)
    found = judge(again, [crashed(NEW, 7)], {("uid-new-1", 7): SETTINGS}, None, ROLLOUT, later)
    assert found.verdict is Verdict.PENDING


@pytest.mark.parametrize(
    ("since", "first", "then", "verdict"),
    [
        pytest.param(
            NOW + timedelta(seconds=300),
            starting(NEW),
            crashed(NEW, 1),
            Verdict.FAILED,
            id="the operator's clock runs ahead of the nodes'",
        ),
        pytest.param(
            NOW + timedelta(seconds=300),
            crashed(NEW, 2),
            crashed(NEW, 3),
            Verdict.FAILED,
            id="a new end of a pod that an earlier try left, under such a clock",
        ),
        pytest.param(
            NOW + timedelta(seconds=300),
            crashed(NEW, 2),
            crashed(NEW, 2),
            Verdict.PENDING,
            id="no new end of it",
        ),
        pytest.param(
            seconds_ago(60),
            restarted(9, last_termination=Termination(1, finished_at=seconds_ago(200))),
            restarted(10),
            Verdict.SUCCESSFUL,
            id="one restart more of a pod that an earlier try left: the others do not count",
        ),
    ],
)
def test_ends_of_an_earlier_try_are_told_once_and_by_their_number(
    since, first, then, verdict: Verdict
) -> None:
    one = judge(candidate(NEW, since=since), [first], {}, None, ROLLOUT, NOW).candidate
    evidence = {("uid-new-1", then.terminations): SETTINGS}
    found = judge(one, [then], evidence, None, ROLLOUT, NOW + timedelta(seconds=330))
    assert found.verdict is verdict


def test_a_user_waits_for_a_gpu_for_ever_and_tuning_until_the_deadline() -> None:
    waiting = starting(
        NEW,
        started_at=None,
        running_since=None,
        unschedulable_since=seconds_ago(900),
        unschedulable_message=SCARCE,
    )
    tuning = candidate(NEW, since=seconds_ago(1000))
    found = judge(tuning, [waiting], {}, None, ROLLOUT, NOW)
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, Reason.WAITING_FOR_GPU)
    patient = replace(tuning, origin=Origin.USER)
    assert judge(patient, [waiting], {}, None, ROLLOUT, NOW).verdict is Verdict.PENDING


def test_a_cause_that_the_user_mended_meanwhile_no_longer_counts() -> None:
    early = SeenTermination(
        "uid-new-1", 1, before_ready=True, cause_class=CauseClass.MISSING_MODEL, blame=Blame.USER
    )
    one = candidate(NEW, since=seconds_ago(1000), terminations=(early,))
    healed = pod(NEW, "new-1", ready_since=seconds_ago(60), restart_count=1, terminations=1)
    assert judge(one, [healed], {}, None, ROLLOUT, NOW).verdict is Verdict.SUCCESSFUL


def loop(ends: int, cause: RootCause):
    """A candidate whose pod ended so often before it was ready, seen each time."""
    one = candidate(NEW, since=seconds_ago(1000))
    for number in range(1, ends + 1):
        evidence = {("uid-new-1", number): cause}
        one = judge(one, [crashed(NEW, number)], evidence, None, ROLLOUT, NOW).candidate
    return one


FLAPPING = {"ready_since": None, "unready_since": seconds_ago(10)}
ENDED = {**FLAPPING, "running_since": None}


@pytest.mark.parametrize(
    ("before", "pods", "newest", "verdict", "late"),
    [
        pytest.param(
            loop(6, PREDECESSOR), [restarted(6)], None, Verdict.SUCCESSFUL, 0, id="it is ready"
        ),
        pytest.param(
            loop(4, PREDECESSOR),
            [restarted(6)],
            None,
            Verdict.SUCCESSFUL,
            0,
            id="it is ready, and two ends went by while nobody looked",
        ),
        pytest.param(
            loop(6, PREDECESSOR),
            [restarted(6), restarted(8, ready_since=seconds_ago(5))],
            None,
            Verdict.FAILED,
            2,
            id="ready, and then ended more often than allowed",
        ),
        pytest.param(
            loop(6, PREDECESSOR),
            [restarted(6, **FLAPPING)],
            None,
            Verdict.PENDING,
            0,
            id="first seen when it is unready again, and still runs",
        ),
        pytest.param(
            loop(6, PREDECESSOR),
            [restarted(8, **ENDED)],
            None,
            Verdict.PENDING,
            1,
            id="first seen when an end made it unready again",
        ),
        pytest.param(
            loop(6, USER), [restarted(6)], None, Verdict.SUCCESSFUL, 0, id="a person mended it"
        ),
        pytest.param(
            loop(4, PREDECESSOR),
            [restarted(6)],
            SETTINGS,
            Verdict.FAILED,
            0,
            id="the last of those that went by blames the settings",
        ),
        pytest.param(
            loop(4, PREDECESSOR),
            [restarted(6)],
            AT_RUN_TIME,
            Verdict.SUCCESSFUL,
            1,
            id="the last of those that went by was at run time",
        ),
    ],
)
def test_ends_before_the_first_ready_are_not_restarts_while_soaking(
    before, pods, newest, verdict: Verdict, late: int
) -> None:
    for one in pods:
        key = (one.uid, one.terminations)
        found = judge(before, [one], {key: newest} if newest else {}, None, ROLLOUT, NOW)
        before = found.candidate
    seen = [one for one in found.candidate.terminations if not one.before_ready]
    if verdict is not Verdict.FAILED:
        assert found.blamed is None
    assert (found.verdict, len(seen)) == (verdict, late)


@pytest.mark.parametrize(
    ("one", "cause", "verdict", "early", "late"),
    [
        pytest.param(restarted(6), PREDECESSOR, Verdict.SUCCESSFUL, 1, 0, id="not its fault"),
        pytest.param(restarted(6), USER, Verdict.SUCCESSFUL, 1, 0, id="a person mended it"),
        pytest.param(restarted(1), None, Verdict.SUCCESSFUL, 1, 0, id="one unknown end"),
        pytest.param(restarted(2), None, Verdict.FAILED, 0, 2, id="two, which either way decide"),
        pytest.param(restarted(1), SETTINGS, Verdict.FAILED, 1, 0, id="settings, in a start"),
        pytest.param(restarted(1), AT_RUN_TIME, Verdict.SUCCESSFUL, 0, 1, id="while serving"),
        pytest.param(restarted(2), AT_RUN_TIME, Verdict.FAILED, 0, 2, id="while serving, twice"),
        pytest.param(
            restarted(4, **ENDED), PREDECESSOR, Verdict.PENDING, 1, 1, id="the last made it unready"
        ),
    ],
)
def test_ends_that_nobody_saw_decide_only_what_they_decide_either_way(
    one, cause: RootCause | None, verdict: Verdict, early: int, late: int
) -> None:
    """The operator was away from the first start until the pod was ready, and maybe beyond."""
    evidence = {(one.uid, one.terminations): cause} if cause is not None else {}
    found = judge(candidate(NEW, since=seconds_ago(1000)), [one], evidence, None, ROLLOUT, NOW)
    seen = [end.before_ready for end in found.candidate.terminations]
    assert (found.verdict, seen.count(True), seen.count(False)) == (verdict, early, late)
