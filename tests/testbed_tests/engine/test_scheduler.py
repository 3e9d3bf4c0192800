"""The scheduler: what always holds, and what its settings do."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.engine import blocks
from testbed.engine.metrics import Metrics
from testbed.engine.models import load_model
from testbed.engine.requests import Request
from testbed.engine.scheduler import Limits, Scheduler
from testbed.engine.steptimes import step_times

LLAMA = load_model("meta-llama/Llama-3.1-8B-Instruct", None, None)
QWEN = load_model("nvidia/Qwen3.6-27B-NVFP4", None, None)
DRAFTER = blocks.CacheSettings(kv_cache_dtype="fp8", spec_method="mtp", num_speculative_tokens=8)


def scheduler(model=LLAMA, cache=None, *, seqs=8, tokens=2048, num_blocks=10_000):
    cache = cache or blocks.CacheSettings()
    limits = Limits(seqs, tokens, cache.num_speculative_tokens)
    layout = blocks.layout(model, cache)
    return Scheduler(limits, layout, num_blocks, step_times(model, cache), Metrics.create(1 << 20))


def requests(*lengths, gap=0.0):
    return [
        Request(number, prompt, output, output, number * gap, cached)
        for number, (prompt, output, cached) in enumerate(lengths)
    ]


def run(engine, wanted, until=1e7):
    finished = []
    for request in wanted:
        request.on_finish = finished.append
        engine.add(request)
    engine.advance(until)
    return finished


LENGTHS = st.tuples(st.integers(1, 3000), st.integers(1, 300), st.integers(0, 2000))
WORKLOADS = st.lists(LENGTHS, min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(
    lengths=WORKLOADS,
    gap=st.sampled_from([0.0, 0.01, 0.3]),
    seqs=st.integers(1, 12),
    num_blocks=st.integers(230, 900),
    drafter=st.booleans(),
)
def test_every_request_finishes_and_is_counted_once(lengths, gap, seqs, num_blocks, drafter):
    model, cache = (QWEN, DRAFTER) if drafter else (LLAMA, None)
    engine = scheduler(model, cache, seqs=seqs, num_blocks=num_blocks)
    finished = run(engine, requests(*lengths, gap=gap))
    metrics = engine.metrics
    assert len(finished) == len(lengths)
    assert engine.kv_cache_usage() == 0
    assert metrics.success["length"] == len(lengths)
    assert metrics.prompt_tokens == sum(prompt for prompt, _, _ in lengths)
    assert engine.generation_tokens() == sum(output for _, output, _ in lengths)
    assert metrics.histograms["request_num_preemptions"].total == metrics.num_preemptions
    for request in finished:
        assert request.arrival <= request.scheduled_at <= request.first_token_at
        assert request.first_token_at <= request.finished_at


@settings(max_examples=40, deadline=None)
@given(lengths=WORKLOADS, seqs=st.integers(1, 6), num_blocks=st.integers(230, 500))
def test_limits_hold_at_every_event(lengths, seqs, num_blocks):
    engine = scheduler(seqs=seqs, num_blocks=num_blocks)
    for request in requests(*lengths, gap=0.05):
        engine.add(request)
    for _ in range(20_000):
        event = engine.next_event()
        assert len(engine.running) <= seqs
        assert engine.kv_cache_usage() <= 1
        if event is None:
            break
        engine.advance(event)
    assert not engine.running
    assert not engine.waiting


@settings(max_examples=25, deadline=None)
@given(lengths=WORKLOADS, interval=st.floats(0.001, 0.5))
def test_looking_often_changes_nothing(lengths, interval):
    quiet, watched = scheduler(num_blocks=400), scheduler(num_blocks=400)
    ends = [request.finished_at for request in run(quiet, requests(*lengths, gap=0.02))]
    finished = []
    for request in requests(*lengths, gap=0.02):
        request.on_finish = finished.append
        watched.add(request)
    times = itertools.count(1)
    while watched.running or watched.waiting:
        watched.advance(25 * 0.02 + next(times) * interval)
        watched.kv_cache_usage()
        watched.generation_tokens()
    assert [request.finished_at for request in finished] == pytest.approx(ends)


def test_a_lone_request_takes_what_the_tables_say():
    engine = scheduler(tokens=16384)
    (request,) = run(engine, requests((8192, 101, 0)))
    times = engine.times
    assert request.first_token_at == pytest.approx(times.prefill_seconds(0, 8192))
    decode = request.finished_at - request.first_token_at
    assert decode == pytest.approx(100 * times.decode_seconds(1, 8242), rel=0.01)


def test_chunks_do_not_change_how_long_a_lone_prompt_takes():
    whole, chunked = scheduler(tokens=16384), scheduler(tokens=512)
    (one,), (other,) = (run(each, requests((8192, 2, 0))) for each in (whole, chunked))
    assert one.first_token_at == pytest.approx(other.first_token_at)
    assert chunked.metrics.histograms["iteration_tokens_total"].count > 15


def test_a_cached_prefix_saves_its_prefill():
    cold, warm = scheduler(tokens=16384), scheduler(tokens=16384)
    (slow,), (fast,) = run(cold, requests((8192, 2, 0))), run(warm, requests((8192, 2, 8000)))
    assert fast.first_token_at < slow.first_token_at / 10
    assert warm.metrics.prefix_cache_hits == 8000
    assert warm.metrics.prompt_tokens_cached == 8000


def test_more_sequences_wait_where_fewer_may_run():
    engine = scheduler(seqs=2)
    wanted = requests(*[(100, 200, 0)] * 4)
    for request in wanted:
        engine.add(request)
    engine.advance(0.5)
    assert (len(engine.running), len(engine.waiting)) == (2, 2)
    engine.advance(1000)
    queued = [request.scheduled_at - request.arrival for request in wanted]
    assert queued[:2] == pytest.approx([0, 0], abs=0.1)
    assert min(queued[2:]) > 0.5


def test_a_prompt_waits_until_all_of_it_fits():
    engine = scheduler(num_blocks=101)  # 1600 tokens
    first, second = requests((1000, 100, 0), (1000, 100, 0))
    engine.add(first)
    engine.add(second)
    engine.advance(0.2)
    assert (len(engine.running), len(engine.waiting)) == (1, 1)
    engine.advance(1000)
    assert second.scheduled_at >= first.finished_at
    assert engine.metrics.num_preemptions == 0


def test_growth_beyond_the_pool_preempts_the_latest_and_computes_it_again():
    engine = scheduler(num_blocks=101)
    first, second = requests((700, 300, 0), (700, 300, 0))
    assert run(engine, [first, second]) == [first, second]
    assert engine.metrics.num_preemptions == second.preemptions == 1
    assert first.preemptions == 0
    assert second.decoded_before == 300


def test_an_aborted_request_leaves_no_trace_but_the_others_go_on():
    engine = scheduler(seqs=2)
    wanted = requests(*[(100, 400, 0)] * 3)
    for request in wanted:
        engine.add(request)
    engine.advance(1)
    engine.abort(wanted[0])
    engine.abort(wanted[2])
    engine.advance(1000)
    assert wanted[1].finished
    assert engine.metrics.success["length"] == 1
    assert engine.kv_cache_usage() == 0


def test_a_request_that_can_never_fit_does_not_stop_the_clock():
    engine = scheduler(num_blocks=11)
    engine.add(requests((1000, 10, 0))[0])
    engine.advance(50)
    assert engine.now == 50
    assert len(engine.waiting) == 1


def test_the_drafter_gives_more_tokens_a_step():
    engine = scheduler(QWEN, DRAFTER, num_blocks=3000, tokens=16384)
    (request,) = run(engine, requests((1000, 341, 0)))
    steps = engine.metrics.histograms["inter_token_latency_seconds"].count
    assert steps == 100
    assert engine.metrics.num_accepted_tokens / steps + 1 == pytest.approx(3.4)
    assert request.finished_at < 1.5
