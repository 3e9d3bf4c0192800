"""Questions asked in the background: no pass ever waits for an answer."""

import threading

import pytest

from parkade.controller.background import Background
from testbed.waiting import wait_until


class Source:
    """Somebody to ask, who answers when told."""

    def __init__(self):
        self.asked = []
        self.answers = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, key):
        self.asked.append(key)
        self.may_answer.wait(10)
        answer = self.answers.pop(0) if self.answers else f"{key}-{len(self.asked)}"
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def heard():
    return []


@pytest.fixture
def background(source, clock, heard):
    one = Background("test", source, clock, keep_seconds=60, on_new=heard.append)
    yield one
    source.may_answer.set()
    one.stop()


def answered(heard, count):
    wait_until(lambda: len(heard) >= count, "an answer", 10, interval_seconds=0.005)


def test_the_first_look_sees_nothing_and_asks(background, source, heard):
    assert background.newest("a") is None
    answered(heard, 1)
    assert background.newest("a") == "a-1"
    assert source.asked == ["a"]


def test_nobody_waits_for_a_slow_source(background, source):
    source.may_answer.clear()
    assert background.newest("a") is None
    assert background.newest("a") is None
    assert background.newest("b") is None


def test_many_who_look_ask_once(background, source, heard):
    source.may_answer.clear()
    for _ in range(20):
        background.newest("a")
    source.may_answer.set()
    answered(heard, 1)
    assert source.asked == ["a"]


def test_an_old_answer_serves_until_the_new_one_comes(background, clock, heard):
    background.newest("a")
    answered(heard, 1)
    clock.now = 61
    assert background.newest("a") == "a-1"
    answered(heard, 2)
    assert background.newest("a") == "a-2"


def test_an_error_is_no_answer_and_is_asked_again(background, source, heard):
    source.answers = [ValueError("a bug")]
    background.newest("a")
    wait_until(lambda: not background._asked, "the failure", 10, interval_seconds=0.005)
    assert background.newest("a") is None
    answered(heard, 1)
    assert background.newest("a") == "a-2"


def test_a_failure_need_not_replace_a_success(source, clock, heard):
    source.answers = ["good", None]
    kept = Background("test", source, clock, 60, heard.append, prefer=lambda old, new: new or old)
    kept.newest("a")
    answered(heard, 1)
    clock.now = 61
    kept.newest("a")
    answered(heard, 2)
    assert kept.newest("a") == "good"
    kept.stop()


def test_what_nobody_looks_at_is_forgotten(background, clock, heard):
    background.newest("a")
    answered(heard, 1)
    clock.now = 60 * 31
    background.newest("b")
    answered(heard, 2)
    assert "a" not in background._held


def test_once_stopped_it_keeps_its_answers_and_asks_nobody(background, source, clock, heard):
    background.newest("a")
    answered(heard, 1)
    background.stop()
    clock.now += 61
    assert background.newest("a") == "a-1"
    assert background.newest("b") is None
    assert source.asked == ["a"]


def test_a_failure_that_may_pass_is_asked_for_again_within_seconds(source, clock, heard):
    one = Background(
        "test", source, clock, 600, on_new=heard.append, passes=lambda answer: answer == "down"
    )
    source.answers = ["down", "up"]
    one.newest("a")
    answered(heard, 1)
    clock.now += 10
    assert one.newest("a") == "down"
    answered(heard, 2)
    assert one.newest("a") == "up"
    clock.now += 10
    one.newest("a")
    one.stop()
    assert source.asked == ["a", "a"]
