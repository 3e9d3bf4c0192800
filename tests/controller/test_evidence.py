"""Which log is read in which state of a crash loop, and what is left when it is gone.

A real kubelet: running -> terminated -> (ten seconds later) waiting -> running.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from parkade.controller.evidence import EvidenceKeeper
from parkade.rollout.causes import CauseClass
from parkade.rollout.observed import PodState, Termination
from parkade.rollout.record import Candidate, Record, SeenTermination
from support.clusters import cluster_at
from support.servers import Reply, serving

NOW = datetime(2026, 11, 29, 23, tzinfo=UTC)
LOG = (
    "ValueError: Free memory on device cuda:0 (175.81/178.35 GiB) on startup is less than desired "
    "GPU memory utilization (0.99, 176.57 GiB). Decrease GPU memory utilization or reduce GPU "
    "memory used by other processes."
)
SETTINGS = CauseClass.FREE_MEMORY_BELOW_UTILIZATION
RECORD = Record(uid="u")


def crashed(state="terminated", *, message="", restarts=0, exit_code=1):
    """A pod whose engine ended, seen in one of the three states that follow."""
    return PodState(
        name="web-1",
        uid="pod-uid",
        owner_uid="rs",
        revision="r1",
        running_since=NOW if state == "running" else None,
        restart_count=restarts,
        terminations=restarts + (1 if state == "terminated" else 0),
        last_termination=Termination(exit_code, "Error", message),
        waiting_reason="CrashLoopBackOff" if state == "waiting" else "",
        node="node-1",
    )


class Kubelet:
    """What the API server answers: logs by `previous`, and the pod's events."""

    def __init__(self, current=None, previous=None, events=()):
        self.logs = {"false": current, "true": previous}
        self.events = [{"reason": reason, "message": text} for reason, text in events]
        self.asked = []

    def __call__(self, asked):
        if asked.path.endswith("/events"):
            return Reply(body={"items": self.events})
        self.asked.append(asked.query["previous"])
        log = self.logs[asked.query["previous"]]
        if isinstance(log, Reply):
            return log
        return Reply(400, {"message": "not found"}) if log is None else Reply(body=log)


def causes(kubelet, *looks, record=RECORD):
    """Look at pods one pass after another; return the evidence of the last pass."""
    with serving(kubelet) as served:
        keeper = EvidenceKeeper(cluster_at(served.url))
        found = {}
        for pods in looks:
            found = keeper.collect("ns", pods, record)
    return {key: cause.cause_class for key, cause in found.items()}


@pytest.mark.parametrize(
    ("state", "restarts", "kubelet", "asked"),
    [
        pytest.param(
            "terminated", 0, Kubelet(current=LOG), ["false"], id="just ended: the current log"
        ),
        pytest.param(
            "terminated",
            1,
            Kubelet(current=None, previous=LOG),
            ["false", "true"],
            id="just ended, and only the previous name works",
        ),
        pytest.param(
            "waiting", 1, Kubelet(current=LOG), ["false"], id="backing off: both names lead there"
        ),
        pytest.param(
            "terminated",
            0,
            Kubelet(current="INFO starting", previous=LOG),
            ["false", "true"],
            id="seen as just ended, and running again by now",
        ),
        pytest.param(
            "running",
            1,
            Kubelet(current="INFO starting", previous=LOG),
            ["true"],
            id="running again: the previous log",
        ),
    ],
)
def test_the_log_of_the_last_end_is_read(state, restarts, kubelet, asked):
    found = causes(kubelet, [crashed(state, restarts=restarts)])
    assert list(found.values()) == [SETTINGS]
    assert kubelet.asked == asked


def test_a_log_that_is_gone_leaves_the_termination_message():
    assert causes(Kubelet(), [crashed(message=LOG)]) == {("pod-uid", 1): SETTINGS}


def test_nothing_left_at_all_is_unknown_and_blames_nobody():
    assert causes(Kubelet(), [crashed()]) == {("pod-uid", 1): CauseClass.UNKNOWN}


def test_a_cause_is_asked_for_once():
    kubelet = Kubelet(current=LOG)
    causes(kubelet, [crashed()], [crashed()], [crashed("waiting", restarts=0)])
    assert kubelet.asked == ["false"]


def test_each_end_is_looked_at():
    kubelet = Kubelet(current=LOG)
    found = causes(kubelet, [crashed()], [crashed(restarts=1)])
    assert set(found) == {("pod-uid", 1), ("pod-uid", 2)}


def test_a_kubelet_that_can_not_be_reached_is_asked_again_while_nothing_is_known():
    kubelet = Kubelet(current=Reply(500, {"message": "node is away"}))
    pods = [crashed()]
    assert causes(kubelet, pods, pods) == {}
    assert kubelet.asked == ["false", "false"]


def test_a_kubelet_that_can_not_be_reached_does_not_hide_what_the_message_says():
    kubelet = Kubelet(current=Reply(500, {"message": "node is away"}))
    assert causes(kubelet, [crashed(message=LOG)]) == {("pod-uid", 1): SETTINGS}


def test_rights_that_are_missing_leave_the_message():
    kubelet = Kubelet(current=Reply(403, {"message": "no"}))
    assert causes(kubelet, [crashed(message=LOG)]) == {("pod-uid", 1): SETTINGS}


@pytest.mark.parametrize(
    ("cause", "asked"),
    [
        pytest.param(SETTINGS, [], id="its cause is known"),
        pytest.param(CauseClass.UNKNOWN, ["false"], id="its log could not be read so far"),
    ],
)
def test_an_end_in_the_record_is_looked_at_until_its_cause_is_known(make_revision, cause, asked):
    kubelet = Kubelet(current=LOG)
    seen = SeenTermination("pod-uid", 1, before_ready=True, cause_class=cause)
    candidate = Candidate(make_revision(), "User", NOW, terminations=(seen,))
    pods = [crashed()]
    causes(kubelet, pods, pods, record=Record(uid="u", candidate=candidate))
    assert kubelet.asked == asked


def test_a_probe_that_killed_it_stands_in_its_events():
    kubelet = Kubelet(
        current="INFO loading weights",
        events=[("Killing", "Container vllm failed startup probe, will be restarted")],
    )
    assert causes(kubelet, [crashed(exit_code=137)]) == {("pod-uid", 1): CauseClass.PROBE_KILLED}


@pytest.mark.parametrize(
    ("began", "cause"),
    [
        pytest.param(-60, CauseClass.STARTED_THEN_OOM_AT_RUNTIME, id="the run that had been ready"),
        pytest.param(60, CauseClass.UNKNOWN, id="a later run, which never was"),
    ],
)
def test_a_bare_out_of_memory_is_told_apart_by_whether_this_run_was_ready(began, cause):
    start, unready = NOW - timedelta(seconds=300), NOW
    run = Termination(1, "Error", started_at=unready + timedelta(seconds=began))
    pod = replace(crashed(), started_at=start, unready_since=unready, last_termination=run)
    kubelet = Kubelet(current="torch.OutOfMemoryError: CUDA out of memory.")
    assert causes(kubelet, [pod]) == {("pod-uid", 1): cause}


def test_logs_that_hang_cost_a_pass_so_much_and_no_more(clock):
    """Each takes ten seconds; the next pass begins with pods whose logs were not tried yet."""

    class Hanging(Kubelet):
        def __call__(self, asked):
            if not asked.path.endswith("/events"):
                clock.now += 10
                tried.append(asked.path.split("/")[-2])
            return super().__call__(asked)

    tried = []
    kubelet = Hanging(current=Reply(504, {"message": "away"}))
    pods = [replace(crashed(), uid=name, name=name) for name in ("a", "b", "c", "d")]
    with serving(kubelet) as served:
        keeper = EvidenceKeeper(cluster_at(served.url), clock)
        keeper.collect("ns", pods, RECORD)
        assert tried == ["a", "b"]
        keeper.collect("ns", pods, RECORD)
        assert tried == ["a", "b", "c", "d"]
