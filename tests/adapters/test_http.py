"""The hub against a real HTTP server."""

import time

import httpx
import pytest

from parkade.adapters import hub
from parkade.adapters.errors import (
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
    UnusableAnswerError,
)
from parkade.adapters.http import get_json
from parkade.adapters.hub import Hub
from support.servers import Reply, serving

CONFIG = {"architectures": ["LlamaForCausalLM"]}
INDEX = {"metadata": {"total_size": 20 * 2**30}}


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def hub_files(asked):
    return Reply(body=INDEX if asked.path.endswith("index.json") else CONFIG)


def test_reads_config_and_weights_of_a_revision():
    with serving(hub_files) as served:
        files = Hub(served.url).files("org/model", "refs/pr/1")
    assert files.config == CONFIG
    assert files.weights_bytes == 20 * 2**30
    assert served.asked[0].target == "/org/model/resolve/refs%2Fpr%2F1/config.json"


def test_asks_once_for_a_model_and_again_after_an_hour():
    clock = Clock()
    with serving(hub_files) as served:
        one = Hub(served.url, clock=clock)
        one.files("org/model", None)
        one.files("org/model", None)
        assert len(served.asked) == 2
        clock.now = hub.KEEP_SECONDS + 1
        one.files("org/model", None)
        assert len(served.asked) == 4


def test_a_failure_is_remembered_for_a_minute():
    clock = Clock()
    with serving(lambda _asked: Reply(500)) as served:
        one = Hub(served.url, clock=clock)
        for _ in range(3):
            with pytest.raises(UnavailableError):
                one.files("org/model", None)
        assert len(served.asked) == 1


def test_a_checkpoint_without_an_index_has_no_known_size():
    def answer(asked):
        return Reply(404) if asked.path.endswith("index.json") else Reply(body=CONFIG)

    with serving(answer) as served:
        assert Hub(served.url).files("org/model", None).weights_bytes is None


@pytest.mark.parametrize("size", [-1, 0, "20", 2**60, None, 1.5])
def test_a_size_that_can_not_be_is_not_known(size):
    def answer(asked):
        index = asked.path.endswith("index.json")
        return Reply(body={"metadata": {"total_size": size}} if index else CONFIG)

    with serving(answer) as served:
        assert Hub(served.url).files("org/model", None).weights_bytes is None


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(Reply(401), ForbiddenError, id="a gated model"),
        pytest.param(Reply(404), NotFoundError, id="no such model"),
        pytest.param(Reply(503), UnavailableError, id="the hub is down"),
        pytest.param(Reply(200, "<html>"), UnusableAnswerError, id="a captive portal"),
        pytest.param(Reply(200, "[]"), UnusableAnswerError, id="not an object"),
        pytest.param(Reply(200, b"{" + b" " * 5_000_000), UnusableAnswerError, id="far too large"),
    ],
)
def test_each_refusal_of_the_hub_has_its_error(reply, error):
    with serving(lambda _asked: reply) as served, pytest.raises(error):
        Hub(served.url).files("org/model", None)


@pytest.mark.parametrize("name", ["/models/mine", "../etc/passwd", "a/b/c", "", "a b", "x" * 500])
def test_a_path_is_not_asked_for_on_the_hub(name):
    with (
        serving(hub_files) as served,
        pytest.raises(InvalidError, match=r"configMapKeyRef"),
    ):
        Hub(served.url).files(name, None)
    assert served.asked == []


def test_an_answer_that_trickles_ends_in_time():
    began = time.monotonic()
    with (
        serving(lambda _asked: Reply(body=" " * 10_000, trickles=True)) as served,
        httpx.Client(trust_env=False) as client,
        pytest.raises(UnavailableError, match="did not end in time"),
    ):
        get_json(client, served.url, limit_bytes=10**6, deadline_seconds=0.3)
    assert time.monotonic() - began < 5
