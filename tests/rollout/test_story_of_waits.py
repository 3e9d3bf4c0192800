"""What time alone does not mend is shown to a person once the start deadline is over.

| what keeps pods from starting         | before the deadline       | after it |
|---|---|---|
| a quota, an admission policy          | Reconciling, the reason   | Stalled, the reason |
| a node, a volume, a Secret, its mount | the same                  | the same |
| no GPU                                | Reconciling/WaitingForGPU | no change |

What runs stays, and it goes on by itself.
"""

import pytest

from parkade.rollout.actions import Action
from rollout.support.driver import Operator
from rollout.support.objects import body
from rollout.support.stories import INITIAL, started
from rollout.support.world import World

DEADLINE_SECONDS = 600
NO_MATCH = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
NO_CLAIM = '0/3 nodes are available: persistentvolumeclaim "models" not found.'
NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
AS_ROOT = "container has runAsNonRoot and image will run as root"
NO_KEY = "couldn't find key token in Secret serving/hf"


def no_quota(world: World) -> None:
    world.quota = 0


def no_node(message: str):
    def happens(world: World) -> None:
        world.gpus, world.scheduler_says = 0, message

    return happens


def no_container(reason: str, message: str = ""):
    def happens(world: World) -> None:
        world.pullable, world.keeps_waiting, world.kubelet_says = False, reason, message

    return happens


def mended(world: World) -> None:
    world.quota, world.gpus, world.pullable, world.kubelet_says = None, 2, True, ""


WAITS = [
    pytest.param(no_quota, "QuotaExceeded", "exceeded quota", id="a quota"),
    pytest.param(no_node(NO_MATCH), "SchedulingFailed", "didn't match", id="no node of the kind"),
    pytest.param(no_node(NO_CLAIM), "MissingVolume", "models", id="a claim that is not there"),
    pytest.param(
        no_container("CreateContainerConfigError", NO_KEY),
        "MissingSecret",
        "key token",
        id="a key that is not in its Secret",
    ),
    pytest.param(
        no_container("CreateContainerConfigError", AS_ROOT),
        "EngineFailed",
        "runAsNonRoot",
        id="an image that must run as root",
    ),
    pytest.param(
        no_container("ContainerCreating"),
        "StartDeadlineExceeded",
        "kubectl describe",
        id="a volume that is not mounted",
    ),
    pytest.param(
        no_container("PodInitializing"),
        "StartDeadlineExceeded",
        "PodInitializing",
        id="an init container that fails",
    ),
]


@pytest.mark.parametrize(("happens", "reason", "words"), WAITS)
def test_a_first_start_that_waits_too_long_asks_for_a_person(happens, reason, words) -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    happens(operator.world)
    operator.step()
    operator.run(DEADLINE_SECONDS / 2)
    assert operator.condition("Stalled")[0] == "False"
    assert operator.condition("Reconciling")[0] == "True"
    operator.run(DEADLINE_SECONDS)
    status, found, message = operator.condition("Stalled")
    assert (status, found) == ("True", reason)
    assert words in message
    assert operator.condition("Ready")[:2] == ("False", reason)
    assert not operator.raw["status"].get("rejected")
    mended(operator.world)
    operator.until(Action.PROMOTE)
    assert operator.condition("Stalled")[0] == "False"


@pytest.mark.parametrize(("happens", "reason", "words"), WAITS)
def test_pods_that_do_not_come_back_ask_for_a_person(happens, reason, words) -> None:
    operator = started()
    happens(operator.world)
    for pod in list(operator.world.pods):
        operator.world.lose_pod(pod, "NodeLost")
    operator.run(DEADLINE_SECONDS / 2)
    assert operator.condition("Stalled")[0] == "False"
    operator.run(2 * DEADLINE_SECONDS)
    status, found, message = operator.condition("Stalled")
    assert status == "True"
    assert found in {reason, "LastGoodFailing"}
    assert words in message
    mended(operator.world)
    operator.run(DEADLINE_SECONDS)
    assert operator.condition("Stalled")[0] == "False"
    assert operator.condition("Ready")[:2] == ("True", "Serving")
    assert [one["verdict"] for one in operator.raw["status"]["history"]] == ["Successful"]


def test_a_gpu_is_waited_for_without_a_person() -> None:
    operator = Operator(World(), body({"tuning": {"initial": INITIAL}}))
    no_node(NO_GPU)(operator.world)
    operator.step()
    operator.run(10 * DEADLINE_SECONDS)
    assert operator.condition("Stalled")[0] == "False"
    assert operator.condition("Reconciling")[:2] == ("True", "WaitingForGPU")


def test_a_scale_up_that_finds_no_gpu_says_so_while_the_others_serve() -> None:
    operator = started(gpus=2)
    operator.change(replicas=4)
    operator.run(DEADLINE_SECONDS)
    status, reason, message = operator.condition("Ready")
    assert (status, reason) == ("True", "Serving")
    assert "2 of 4 pods are ready" in message
    assert "Insufficient nvidia.com/gpu" in message
    assert operator.condition("Stalled")[0] == "False"


def test_a_users_change_that_finds_no_quota_waits_and_asks_for_a_person() -> None:
    operator = started(gpus=4, rollout={"strategy": "Surge"})
    operator.world.quota = 1
    operator.change(engine={"image": "vllm/vllm-openai:v0.33.0"})
    operator.run(2 * DEADLINE_SECONDS)
    assert operator.condition("Stalled")[:2] == ("True", "QuotaExceeded")
    assert operator.condition("Ready")[0] == "True"
    operator.world.quota = None
    operator.until(Action.PROMOTE)
    assert operator.condition("Stalled")[0] == "False"
