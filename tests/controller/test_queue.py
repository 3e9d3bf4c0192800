"""The work queue, with a clock that the tests turn."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parkade.controller.queue import JITTER, WorkQueue


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def queue(clock):
    return WorkQueue(clock=clock, random=lambda: 0.0)


def take(queue):
    return queue.take(timeout_seconds=0)


def test_a_key_that_is_marked_twice_is_worked_on_once(queue):
    queue.mark("a")
    queue.mark("a")
    assert take(queue) == "a"
    queue.done("a")
    assert take(queue) is None


def test_a_key_is_never_worked_on_twice_at_a_time(queue):
    queue.mark("a")
    assert take(queue) == "a"
    queue.mark("a")
    assert take(queue) is None
    queue.done("a")
    assert take(queue) == "a"


def test_the_one_that_waits_longest_comes_first(queue, clock):
    queue.mark("old")
    clock.now = 1.0
    queue.mark("new")
    queue.mark("old")
    assert [take(queue), take(queue)] == ["old", "new"]


def test_a_key_comes_back_when_it_asked_to(queue, clock):
    queue.mark("a")
    queue.done(take(queue), requeue_after_seconds=30)
    clock.now = 29.9
    assert take(queue) is None
    clock.now = 30
    assert take(queue) == "a"


def test_something_that_happens_does_not_wait_for_the_requeue(queue):
    queue.mark("a")
    queue.done(take(queue), requeue_after_seconds=30)
    queue.mark("a")
    assert take(queue) == "a"


def test_a_requeue_does_not_put_off_what_became_dirty_meanwhile(queue):
    queue.mark("a")
    take(queue)
    queue.mark("a")
    queue.done("a", requeue_after_seconds=30)
    assert take(queue) == "a"


def test_a_failing_key_waits_longer_each_time_up_to_the_cap(queue, clock):
    queue.mark("a")
    waits = []
    for _ in range(12):
        taken = take(queue)
        waits.append(queue.failed(taken))
        clock.now += waits[-1]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert waits[-1] == 120.0


def test_jitter_stretches_the_wait_and_never_shortens_it(clock):
    late = WorkQueue(clock=clock, random=lambda: 1.0)
    late.mark("a")
    take(late)
    assert late.failed("a") == pytest.approx(0.5 * (1 + JITTER))


def test_success_ends_the_backoff(queue, clock):
    queue.mark("a")
    clock.now += queue.failed(take(queue))
    queue.done(take(queue))
    queue.mark("a")
    assert queue.failed(take(queue)) == 0.5


def test_a_failing_key_whose_pods_flicker_keeps_its_wait(queue):
    queue.mark("a")
    queue.failed(take(queue))
    queue.mark("a")
    assert take(queue) is None


def test_an_edit_by_a_person_ends_the_wait(queue):
    queue.mark("a")
    queue.failed(take(queue))
    queue.mark("a", afresh=True)
    assert take(queue) == "a"


def test_the_server_that_says_how_long_to_wait_is_heeded(queue):
    queue.mark("a")
    assert queue.failed(take(queue), at_least_seconds=17) == 17


def test_a_forgotten_key_does_not_come_back(queue, clock):
    queue.mark("a")
    queue.forget("a")
    clock.now = 1000
    assert take(queue) is None


def test_forgetting_a_key_that_is_worked_on_does_not_let_a_second_worker_in(queue):
    queue.mark("a")
    take(queue)
    queue.forget("a")
    queue.mark("a")
    assert take(queue) is None
    queue.done("a")
    assert take(queue) == "a"


def test_tells_the_truth_about_itself(queue, clock):
    queue.mark("running")
    take(queue)
    queue.mark("waiting")
    queue.mark("later")
    queue.failed("later")
    clock.now = 0.4
    state = queue.state()
    assert (state.running, state.waiting, state.scheduled) == (1, 1, 1)
    assert state.oldest_dirty_seconds == pytest.approx(0.4)


def test_stop_lets_every_waiting_worker_return():
    queue = WorkQueue(clock=lambda: 0.0, random=lambda: 0.0)
    workers = [threading.Thread(target=queue.take) for _ in range(3)]
    for worker in workers:
        worker.start()
    queue.stop()
    for worker in workers:
        worker.join(5)
    assert not any(worker.is_alive() for worker in workers)


KEYS = st.sampled_from("abc")


class QueueHistory(RuleBasedStateMachine):
    """Any history: a marked key is worked on in the end, and never by two at a time."""

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.queue = WorkQueue(clock=self.clock, random=lambda: 0.5)
        self.owed = set()
        self.running = set()

    @rule(key=KEYS, afresh=st.booleans())
    def mark(self, key, afresh):
        self.queue.mark(key, afresh=afresh)
        self.owed.add(key)

    @rule(seconds=st.floats(0, 300))
    def wait(self, seconds):
        self.clock.now += seconds

    @rule()
    def take(self):
        key = take(self.queue)
        if key is not None:
            assert key not in self.running
            self.running.add(key)
            self.owed.discard(key)

    @rule(data=st.data(), ok=st.booleans())
    def finish(self, data, ok):
        if self.running:
            key = data.draw(st.sampled_from(sorted(self.running)))
            self.running.discard(key)
            if ok:
                self.queue.done(key)
            else:
                self.queue.failed(key)
                self.owed.add(key)

    @invariant()
    def what_is_owed_comes(self):
        state = self.queue.state()
        assert state.running == len(self.running)
        assert state.waiting + state.scheduled == len(self.owed)
        assert state.oldest_dirty_seconds >= 0


QueueHistory.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestQueueHistory = QueueHistory.TestCase


@given(failures=st.integers(1, 10_000), jitter=st.floats(0, 1))
def test_a_backoff_is_bounded_for_any_number_of_failures(failures, jitter):
    queue = WorkQueue(clock=lambda: 0.0, random=lambda: jitter)
    assert 0.5 <= queue.backoff_seconds(failures) <= 120 * (1 + JITTER)
