"""What Kubernetes says, beside what the log says."""

from pathlib import Path

import pytest

from parkade.rollout.causes import Blame, CauseClass, ContainerEvidence, Stage, classify

LOGS = Path(__file__).parents[2] / "data" / "logs"
C = CauseClass
PROBE = ("Killing", "Container vllm failed startup probe, will be restarted")
UNHEALTHY = ("Unhealthy", "Startup probe failed: Get http://10.0.0.3:8000/health: refused")
LIVENESS = ("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503")
NO_NODE = ("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")


def log(name: str) -> str:
    return (LOGS / f"{name}.log").read_text()


@pytest.mark.parametrize(
    ("name", "evidence", "cause_class", "blame"),
    [
        pytest.param("", {"waiting_reason": "ImagePullBackOff"}, C.IMAGE_PULL,
                     Blame.ENVIRONMENT, id="the image can't be pulled"),
        pytest.param("", {"waiting_reason": "InvalidImageName"}, C.IMAGE_PULL, Blame.USER,
                     id="the image's name is wrong"),
        pytest.param("", {"waiting_reason": "CreateContainerConfigError",
                          "events": (("Failed", 'Error: secret "hf-token" not found'),)},
                     C.MISSING_SECRET, Blame.USER, id="the Secret is missing"),
        pytest.param("", {"waiting_reason": "RunContainerError"}, C.CONTAINER_START,
                     Blame.ENVIRONMENT, id="the runtime refused"),
        pytest.param("", {"events": (NO_NODE,)}, C.SCHEDULING, Blame.ENVIRONMENT,
                     id="no node takes it"),
        pytest.param("", {"reason": "OutOfnvidia.com/gpu"}, C.SCHEDULING, Blame.ENVIRONMENT,
                     id="the GPU went to another pod at admission"),
        pytest.param("", {"events": (("FailedCreate", "forbidden: exceeded quota: g"),)},
                     C.QUOTA, Blame.ENVIRONMENT, id="the quota is used up"),
        pytest.param("oom-runtime", {"exit_code": 137, "reason": "OOMKilled"},
                     C.HOST_OUT_OF_MEMORY, Blame.ENVIRONMENT, id="OOMKilled is the host's memory"),
        pytest.param("just-ends-while-loading", {"exit_code": 137, "reason": "OOMKilled"},
                     C.HOST_OUT_OF_MEMORY, Blame.ENVIRONMENT, id="a log that just ends, OOMKilled"),
        pytest.param("just-ends-while-loading", {"exit_code": 137, "reason": "Error"}, C.UNKNOWN,
                     Blame.UNKNOWN, id="killed, and nothing says by whom"),
        pytest.param("just-ends-while-loading", {"exit_code": 137, "events": (UNHEALTHY,)},
                     C.PROBE_KILLED, Blame.ENVIRONMENT, id="killed after the probe failed"),
        pytest.param("just-ends-while-loading", {"exit_code": 143}, C.PROBE_KILLED,
                     Blame.ENVIRONMENT, id="SIGTERM that nobody asked for"),
        pytest.param("serves", {"exit_code": 0, "events": (PROBE,), "ready_before": True},
                     C.PROBE_KILLED, Blame.ENVIRONMENT, id="a probe, and a clean exit"),
        pytest.param("probe-killed-while-loading", {"exit_code": 143}, C.PROBE_KILLED,
                     Blame.ENVIRONMENT, id="the engine saw SIGTERM"),
        pytest.param("probe-killed-while-loading", {"exit_code": 143, "deletion_requested": True},
                     C.STOPPED_BY_REQUEST, Blame.ENVIRONMENT, id="SIGTERM that was asked for"),
        pytest.param("oom-graphs-v2-0.29", {"exit_code": 137, "deletion_requested": True},
                     C.STOPPED_BY_REQUEST, Blame.ENVIRONMENT, id="killed on request"),
        pytest.param("oom-graphs-v2-0.29", {"exit_code": 1, "deletion_requested": True},
                     C.OOM_CUDAGRAPH_CAPTURE, Blame.SETTINGS,
                     id="it had failed by itself before it was deleted"),
        pytest.param("oom-graphs-v2-0.29", {"exit_code": 1, "events": (NO_NODE, UNHEALTHY)},
                     C.OOM_CUDAGRAPH_CAPTURE, Blame.SETTINGS,
                     id="old events do not excuse a crash"),
        pytest.param("oom-runtime", {"exit_code": 0, "events": (LIVENESS,)},
                     C.STARTED_THEN_OOM_AT_RUNTIME, Blame.SETTINGS,
                     id="the engine died first, then the probe failed, exit 0"),
        pytest.param("oom-runtime", {"exit_code": 0, "reason": "Completed"},
                     C.STARTED_THEN_OOM_AT_RUNTIME, Blame.SETTINGS, id="exit 0 is a crash"),
        pytest.param("serves", {"exit_code": 0, "reason": "Completed"}, C.UNKNOWN, Blame.UNKNOWN,
                     id="exit 0 without a word"),
        pytest.param("kv-below-one-request-0.32", {"reason": "Evicted"}, C.EVICTION,
                     Blame.ENVIRONMENT, id="evicted"),
        pytest.param("serves", {"exit_code": 137, "events": (("NodeNotReady", "not ready"),)},
                     C.NODE_LOST, Blame.ENVIRONMENT, id="the node was lost"),
        pytest.param("serves", {"exit_code": 137, "events": (("Preempted", "by pod x"),)},
                     C.EVICTION, Blame.ENVIRONMENT, id="preempted"),
        pytest.param("", {"exit_code": 2}, C.BAD_ARGUMENTS, Blame.USER, id="argparse's exit code"),
        pytest.param("", {"exit_code": 127}, C.CONTAINER_START, Blame.ENVIRONMENT,
                     id="command not found"),
        pytest.param("", {"exit_code": 139}, C.NATIVE_CRASH, Blame.ENVIRONMENT,
                     id="segmentation fault"),
        pytest.param("", {"exit_code": 1}, C.UNKNOWN, Blame.UNKNOWN, id="exit 1 and no log"),
        pytest.param("free-memory-settings-0.33", {"exit_code": 1, "predecessor_on_gpu": True},
                     C.FREE_MEMORY_BELOW_UTILIZATION, Blame.ENVIRONMENT,
                     id="a predecessor still holds the GPU"),
        pytest.param("oom-profile-0.15", {"exit_code": 1, "predecessor_on_gpu": True},
                     C.OOM_DURING_PROFILE, Blame.ENVIRONMENT,
                     id="out of memory beside a predecessor"),
    ],
)  # fmt: skip
def test_the_container_and_the_log_together(name, evidence, cause_class, blame):
    cause = classify(log(name) if name else "", ContainerEvidence(**evidence))
    assert (cause.cause_class, cause.blame) == (cause_class, blame)
    assert cause.message or cause_class is C.UNKNOWN
    if blame is not Blame.SETTINGS:
        assert cause.knob is None


def test_the_termination_message_stands_in_for_a_log_that_is_gone():
    tail = log("mamba-blocks-tp2-0.33")
    cause = classify("", ContainerEvidence(exit_code=1, message=tail[-6000:]))
    assert cause.cause_class is C.MAX_NUM_SEQS_EXCEEDS_MAMBA_BLOCKS
    wrappers = ContainerEvidence(exit_code=1, message=log("wrapper-tail-only"))
    assert classify("", wrappers).cause_class is C.UNKNOWN
    assert classify(log("oom-profile-0.15"), wrappers).cause_class is C.OOM_DURING_PROFILE


def test_a_pod_that_had_served_gives_a_bare_out_of_memory_its_stage():
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    cause = classify(text, ContainerEvidence(exit_code=0, ready_before=True))
    assert (cause.cause_class, cause.stage) == (C.STARTED_THEN_OOM_AT_RUNTIME, Stage.RUNTIME)


def test_the_kubelets_own_words_are_the_message():
    events = (("Failed", 'Failed to pull image "reg/x:1": not found'),)
    cause = classify("", ContainerEvidence(waiting_reason="ErrImagePull", events=events))
    assert cause.message == 'Failed to pull image "reg/x:1": not found'


def test_exit_zero_without_a_word_says_that_it_is_a_crash():
    assert "crash" in classify("", ContainerEvidence(exit_code=0)).message
