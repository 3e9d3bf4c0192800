"""Real vLLM in real pods of a real node: it serves, is measured, and a change that fails goes back.

The card is pretended; the engine is not, and runs on the CPU. Each test goes on where the last
one ended.
"""

import json

import httpx
import pytest

from e2e import views
from testbed.demo import resources
from testbed.demo.world import World, build_images
from testbed.vllm import pods
from testbed.waiting import wait_until

NAME = "tiny"
LENGTH, TOO_LONG = 1024, 4096
CACHE = "1M"  # 16 blocks of 128 tokens: one request of 2048 tokens
START_SECONDS = pods.START_SECONDS
REQUESTS = 16

pytestmark = [pytest.mark.node, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def world(vllm, node, prometheus):
    """A node with the operator, and an endpoint whose engine is the real one."""
    made = World.on(node, prometheus, [*build_images(), pods.build(CACHE)])
    made.install_operator()
    made.apply(resources.setup()[0])
    made.apply(pods.config_map(), pods.endpoint(NAME, vllm, LENGTH))
    return made


def address(world):
    """The address of a pod that is ready."""
    for pod in world.pods(NAME):
        conditions = pod["status"].get("conditions", [])
        if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
            return f"http://{pod['status']['podIP']}:8000"
    return None


def test_the_real_engine_starts_and_serves(world):
    good = views.wait_ready(world, NAME, START_SECONDS)
    assert (good[0], float(good[1])) == (4, 0.5)
    for at in range(REQUESTS):
        body = {"model": pods.MODEL, "prompt": f"request {at}", "max_tokens": 8}
        answer = httpx.post(
            f"{address(world)}/v1/completions", json=body, timeout=120, trust_env=False
        )
        assert answer.raise_for_status().json()["usage"]["completion_tokens"] >= 1


def test_prometheus_and_the_operator_read_it(world):
    asked = f'vllm:request_success_total{{serving_parkade_dev_endpoint="{NAME}"}}'
    wait_until(
        lambda: sum(float(one["value"][1]) for one in world.prometheus.query(asked)) >= REQUESTS,
        "Prometheus to count the requests",
        60,
    )
    seen = wait_until(
        lambda: (
            (found := world.condition(NAME, "WorkloadObserved")).get("status") == "True" and found
        ),
        "the operator to observe the traffic",
        120,
    )
    print(seen["message"])


def test_what_the_engine_does_not_print_stays_an_estimate(world):
    """On a CPU there are no lines about a card: its memory is never said to be measured."""
    status = views.status(world, NAME)
    print(json.dumps(status, indent=1))
    assert status["memory"]["basis"] == "Estimated"
    good = status["lastGood"]
    assert (good["maxNumSeqs"], float(good["gpuMemoryUtilization"])) == (4, 0.5)


def test_a_length_that_the_engine_refuses_goes_back_with_its_words(world):
    before = views.identities(world, NAME)
    views.patch(world, NAME, {"spec": {"model": {"maxModelLen": TOO_LONG}}})
    stalled = wait_until(
        lambda: (
            (found := world.condition(NAME, "Stalled")).get("reason") == "SpecRejected" and found
        ),
        "the change to be rejected",
        START_SECONDS,
    )
    print(stalled["message"])
    assert str(TOO_LONG) in stalled["message"]
    assert "KV cache" in stalled["message"]
    serving = {uid for uid, *_ in before}
    assert serving <= {uid for uid, *_ in views.identities(world, NAME)}
    assert world.condition(NAME, "Ready")["status"] == "True"
    arguments = world.deployment(NAME)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--max-model-len") + 1] == str(LENGTH)
