"""Where a model's facts come from, and what is said where they can't be had."""

import json
from pathlib import Path

import pytest

from parkade.adapters.hub import Hub
from parkade.api.conditions import Reason
from parkade.api.endpoint import parse_endpoint
from parkade.controller.models import KEEP_SECONDS, ModelFacts, Models
from parkade.sizing.result import NotSizable
from parkade.sizing.workload import CannotTell
from support.clusters import cluster_at
from support.servers import Reply, serving
from testbed.waiting import wait_until

CONFIG = (Path(__file__).parents[1] / "data/qwen3.6-27b-config.json").read_text("utf-8")
GIB = 2**30


def endpoint(**model):
    values = {"name": "org/model", "maxModelLen": 1000, **model}
    return parse_endpoint(
        {
            "metadata": {"namespace": "ns", "name": "iep"},
            "spec": {
                "model": values,
                "engine": {"image": "vllm/vllm-openai:v0.32.0"},
                "accelerator": {"product": "NVIDIA-B200"},
            },
        }
    )


REF = {"configMapKeyRef": {"name": "model", "key": "config.json"}, "weightsSize": "20Gi"}


class World:
    """An API server with one ConfigMap and a hub, on one port."""

    def __init__(self):
        self.data = {"config.json": CONFIG}
        self.hub = Reply(body=CONFIG)
        self.index = Reply(body={"metadata": {"total_size": 30 * GIB}})
        self.asked = []

    def __call__(self, asked):
        self.asked.append(asked.path)
        if "/configmaps/" in asked.path:
            found = self.data is not None
            return Reply(body={"data": self.data}) if found else Reply(404, {"message": "none"})
        return self.index if asked.path.endswith("index.json") else self.hub


@pytest.fixture
def world():
    return World()


@pytest.fixture
def heard():
    return []


@pytest.fixture
def models(world, clock, heard):
    with serving(world) as served:
        hub = Hub(served.url, clock)
        one = Models(cluster_at(served.url), hub, clock, lambda: heard.append("news"))
        yield one
        one.stop()
        hub.close()


@pytest.fixture
def after_the_hub(models, heard):
    """Returns a function that asks, waits for the hub's answer, and asks again."""

    def ask(resource):
        first = models.of(resource)
        assert isinstance(first, CannotTell)
        assert first.reason is Reason.INITIALIZING
        wait_until(lambda: heard, "the hub", 10, interval_seconds=0.005)
        return models.of(resource)

    return ask


def test_a_config_map_wins_and_the_hub_is_not_asked(models, world):
    facts = models.of(endpoint(**REF))
    assert facts.weights_bytes == 20 * GIB
    assert facts.architecture.num_hidden_layers == 64
    assert all("/configmaps/" in path for path in world.asked)


def test_a_config_map_is_read_again_after_a_minute(models, world, clock):
    models.of(endpoint(**REF))
    models.of(endpoint(**REF))
    assert len(world.asked) == 1
    clock.now = KEEP_SECONDS + 1
    world.data = {"config.json": json.dumps({"architectures": ["Unheard"]})}
    assert models.of(endpoint(**REF)).reason is Reason.UNSUPPORTED_MODEL


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(None, Reason.MISSING_CONFIG_MAP, id="no such ConfigMap"),
        pytest.param({}, Reason.MISSING_CONFIG_MAP, id="no such key"),
        pytest.param({"config.json": "{"}, Reason.MODEL_UNAVAILABLE, id="not JSON"),
        pytest.param({"config.json": "[" * 90_000}, Reason.MODEL_UNAVAILABLE, id="nested madly"),
        pytest.param({"config.json": "[]"}, Reason.MODEL_UNAVAILABLE, id="a list"),
        pytest.param({"config.json": " " * 2**20 + "{}"}, Reason.MODEL_UNAVAILABLE, id="too large"),
        pytest.param(
            {"config.json": '{"architectures": ["Unheard"], "model_type": "new"}'},
            Reason.UNSUPPORTED_MODEL,
            id="an architecture that nobody knows",
        ),
    ],
)
def test_what_a_person_must_mend_is_said(models, world, data, reason):
    world.data = data
    answer = models.of(endpoint(**REF))
    assert isinstance(answer, NotSizable)
    assert answer.reason is reason


def test_the_hub_is_asked_in_the_background(after_the_hub):
    facts = after_the_hub(endpoint())
    assert isinstance(facts, ModelFacts)
    assert facts.weights_bytes == 30 * GIB


def test_the_weights_that_a_person_names_win(after_the_hub):
    assert after_the_hub(endpoint(weightsSize="1Gi")).weights_bytes == GIB


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        pytest.param(Reply(401), NotSizable, id="gated"),
        pytest.param(Reply(404), NotSizable, id="no such model"),
        pytest.param(Reply(503), CannotTell, id="the hub is down"),
    ],
)
def test_a_hub_that_refuses_needs_a_person_and_one_that_is_down_does_not(
    after_the_hub, world, reply, kind
):
    world.hub = reply
    answer = after_the_hub(endpoint())
    assert isinstance(answer, kind)
    assert answer.reason is Reason.MODEL_UNAVAILABLE
    assert "configMapKeyRef" in answer.message


def test_a_hub_that_goes_down_leaves_what_was_known(models, after_the_hub, heard, world, clock):
    after_the_hub(endpoint())
    clock.now = 2 * 3600.0
    world.hub = Reply(503)
    models.of(endpoint())
    wait_until(lambda: len(heard) > 1, "the hub", 10, interval_seconds=0.005)
    assert isinstance(models.of(endpoint()), ModelFacts)


def test_without_a_hub_a_person_must_name_a_config_map(clock):
    with serving(World()) as served:
        models = Models(cluster_at(served.url), None, clock, lambda: None)
        answer = models.of(endpoint())
        models.stop()
    assert answer.reason is Reason.MODEL_UNAVAILABLE
