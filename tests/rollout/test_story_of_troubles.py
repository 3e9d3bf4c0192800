"""Troubles that nobody asked for: no room, clocks, restarts, and a template that fails at last."""

from dataclasses import replace
from datetime import timedelta

import pytest

from parkade.api.spec import Rollout
from parkade.api.status import Origin, Verdict
from parkade.rollout.actions import Action
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause, Stage
from parkade.rollout.judge import judge
from parkade.rollout.observed import PodState, Termination
from parkade.rollout.record import Candidate, SeenTermination
from parkade.rollout.record_json import to_json
from parkade.rollout.render import render_revision
from parkade.rollout.revision import tuning_hash
from rollout.support.driver import Operator, leaves_headroom
from rollout.support.objects import GIB, body, endpoint, settings
from rollout.support.states import NOW
from rollout.support.stories import INITIAL, crashes_above, image_fails, started, told
from rollout.support.world import Fate, World

RAN_OUT = RootCause(
    CauseClass.STARTED_THEN_OOM_AT_RUNTIME,
    Blame.SETTINGS,
    Stage.RUNTIME,
    Knob.HEADROOM,
    "CUDA out of memory",
    GIB,
)
NCCL = RootCause(CauseClass.NCCL_FAILURE, Blame.ENVIRONMENT, message="NCCL failed")


@pytest.mark.parametrize(
    ("message", "change", "leads_to"),
    [
        pytest.param(
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
            {"image": "vllm/vllm-openai:v0.33.0"},
            "Promote",
            id="pods that must not share a node",
        ),
        pytest.param(
            "0/2 nodes are available: 2 Insufficient memory.",
            {"image": "vllm/vllm-openai:v0.33.0"},
            "Promote",
            id="no memory for one more",
        ),
        pytest.param(
            "0/2 nodes are available: 2 Insufficient memory.",
            {
                "podTemplate": {
                    "spec": {
                        "containers": [
                            {"name": "vllm", "resources": {"requests": {"memory": "9Ti"}}}
                        ]
                    }
                }
            },
            "Withdraw",
            id="one that was made larger gets no smaller one's place",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            {"image": "vllm/vllm-openai:v0.33.0"},
            "Withdraw",
            id="a place of another would not help",
        ),
    ],
)
def test_room_of_any_kind_leads_to_one_pod_at_a_time(message, change, leads_to) -> None:
    operator = started(replicas=2, gpus=2)
    operator.world.scheduler_says = message
    operator.change(engine=change)
    assert told(operator, 3600)[-1][0] == leads_to
    assert operator.world.deployment.raw["spec"]["replicas"] == 2


def test_restarts_for_an_environment_s_cause_do_not_stall_for_ever() -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    operator.step()
    operator.run(30)
    for _ in range(3):
        operator.world.crash(operator.world.pods[0], NCCL)
        operator.run(40)
    assert operator.condition("Stalled")[0] == "True"
    operator.until(Action.PROMOTE)
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")


def test_a_restart_that_never_gets_ready_again_is_too_slow() -> None:
    revision = render_revision(endpoint(), settings())
    ended = Termination(1, "Error", "", NOW - timedelta(hours=10), NOW - timedelta(seconds=900))
    pod = PodState(
        name="new-1",
        uid="u1",
        owner_uid="rs",
        revision=revision.hash,
        phase="Running",
        created_at=NOW - timedelta(hours=11),
        started_at=NOW - timedelta(hours=11),
        unready_since=NOW - timedelta(seconds=900),
        running_since=NOW - timedelta(seconds=800),
        restart_count=1,
        terminations=1,
        last_termination=ended,
        node="node-1",
        scheduled=True,
    )
    candidate = Candidate(
        revision,
        Origin.TUNING,
        NOW - timedelta(hours=12),
        ready_uids=("u1",),
        terminations=(SeenTermination("u1", 1, before_ready=False),),
    )
    late = judge(candidate, [pod], {}, None, Rollout(start_deadline_seconds=800), NOW)
    assert (late.verdict, late.reason.value) == (Verdict.INCONCLUSIVE, "StartDeadlineExceeded")
    early = judge(candidate, [pod], {}, None, Rollout(start_deadline_seconds=801), NOW)
    assert early.verdict is Verdict.PENDING


def test_a_clock_that_was_put_back_does_not_freeze_tuning() -> None:
    operator = started()
    ahead = operator.world.now + timedelta(days=365)
    operator.record_text = to_json(replace(operator.record(), settled_at=ahead))
    operator.size = leaves_headroom(32)
    found = operator.until(Action.DEPLOY, seconds=7200)
    assert found.record.candidate.origin is Origin.TUNING


def test_a_quiet_night_does_not_hide_a_rejection() -> None:
    operator = started(seqs=256)
    operator.world.fate = crashes_above("0.91")
    operator.until(Action.REVERT)
    operator.size = leaves_headroom(None)
    operator.run(7200)
    assert operator.condition("SettingsApplied")[:2] == ("False", "CandidateRejected")


def test_a_failure_that_taught_nothing_is_not_told_where_what_runs_is_wanted() -> None:
    operator = started(seqs=64, gpus=3)
    operator.run(4000)
    operator.world.fate = lambda some, _image: Fate(5, unknown_crash=some.max_num_seqs > 64)
    operator.size = leaves_headroom(128)
    operator.until(Action.REVERT)
    operator.size = leaves_headroom(64)
    operator.run(7200)
    assert operator.condition("SettingsApplied")[:2] == ("True", "Applied")


def gpu_is_taken(world: World) -> None:
    world.taken = world.gpus


def quota_is_used_up(world: World) -> None:
    world.quota = 0


def image_is_gone(world: World) -> None:
    world.pullable = False


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        pytest.param(gpu_is_taken, "WaitingForGPU", id="the GPU was taken meanwhile"),
        pytest.param(quota_is_used_up, "QuotaExceeded", id="the quota is used up"),
        pytest.param(image_is_gone, "ImagePullFailed", id="the image can not be pulled any more"),
    ],
)
def test_an_endpoint_that_comes_back_from_zero_says_what_it_waits_for(trouble, reason) -> None:
    operator = started(gpus=2)
    operator.change(replicas=0)
    operator.run(60)
    trouble(operator.world)
    operator.change(replicas=1)
    operator.run(300)
    assert operator.condition("Ready")[:2] == ("False", reason)


def test_a_rejected_spec_does_not_hide_that_the_last_good_template_fails_too() -> None:
    operator = started(gpus=2)
    operator.world.fate = image_fails()
    operator.change(engine={"image": "broken:1"})
    operator.until(Action.REVERT)
    operator.run(60)
    operator.world.fate = lambda _some, _image: Fate(5, unknown_crash=True)
    operator.world.crash(next(pod for pod in operator.world.pods if pod.is_ready), None)
    operator.run(900)
    status, reason, message = operator.condition("Stalled")
    assert (status, reason) == ("True", "LastGoodFailing")
    assert "broke the endpoint" in message


def test_memory_that_runs_out_while_serving_teaches_and_is_told_once() -> None:
    operator = started(seqs=64, gpus=3)
    operator.run(4000)
    assert operator.raw["status"]["lastGood"]["gpuMemoryUtilization"] == "0.955"
    before = len(operator.notes)
    for _ in range(2):
        operator.world.crash(operator.world.pods[0], RAN_OUT)
        operator.run(60)
    told_once = [note for note in operator.notes[before:] if note.reason == "RanOutOfMemory"]
    (message,) = (note.message for note in told_once)
    assert message == (
        "max_num_seqs 64 with gpu_memory_utilization 0.955 failed: CUDA out of memory. 1.0 GiB "
        "short: headroom 6 -> 7.25 GiB."
    )
    assert not operator.raw["status"].get("rejected")
    operator.until(Action.PROMOTE)
    assert operator.record().last_good.settings == settings(64, "0.948")
    operator.change(engine={"podTemplate": {"metadata": {"labels": {"team": "legal"}}}})
    operator.until(Action.PROMOTE)
    assert operator.condition("Stalled")[:2] == ("False", "AsExpected")


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(NCCL, id="the environment's"),
        pytest.param(replace(RAN_OUT, stage=Stage.GRAPHS), id="of a start"),
        pytest.param(replace(RAN_OUT, blame=Blame.UNKNOWN), id="nobody knows whose"),
    ],
)
def test_no_other_end_of_what_runs_teaches(cause) -> None:
    operator = started(seqs=64, gpus=3)
    operator.run(4000)
    record = operator.record()
    operator.world.crash(operator.world.pods[0], cause)
    operator.run(60)
    assert operator.record() == record


def test_an_old_end_teaches_nothing_under_other_inputs() -> None:
    operator = started(seqs=64, gpus=3, tuning={"cooldownSeconds": 86400})
    operator.run(4000)
    operator.world.crash(operator.world.pods[0], RAN_OUT)
    operator.run(700)
    operator.change(tuning={"headroom": "5Gi"})
    operator.run(60)
    record, tuning = operator.record(), tuning_hash(operator.endpoint().spec)
    assert record.lessons(record.last_good.fingerprint, tuning) == ()
