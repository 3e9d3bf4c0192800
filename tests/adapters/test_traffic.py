"""From Prometheus' answers to a reading, and what sizing's gate makes of it."""

import math

import pytest

from parkade.adapters.errors import InvalidError
from parkade.adapters.prometheus import Prometheus, Server
from parkade.adapters.traffic import PodTraffic, read_traffic
from parkade.adapters.vllm_metrics import Scope, queries
from parkade.api.conditions import Reason
from parkade.sizing.gates import gate
from parkade.sizing.workload import CannotTell, Workload
from support.metrics_server import SCOPE, buckets, busy_pod, merged, of_pod, prometheus_with
from support.servers import Reply, serving

NOW = 1_700_000_000.0
KEY = ("ns", "iep")


def traffic_of(table, **more):
    with prometheus_with(table, **more) as served:
        return read_traffic(Prometheus(Server(served.url)), SCOPE, at=NOW)


def reading_of(table, expected=("pod-1",), in_flight_of=lambda _pod: True, **more):
    return traffic_of(table, **more).reading(KEY, expected_pods=expected, in_flight_of=in_flight_of)


def test_reads_lengths_queueing_and_the_footprint_in_flight():
    reading = reading_of(busy_pod())
    assert reading.prompt_tokens.buckets[:2] == ((100_000.0, 210.0), (200_000.0, 485.0))
    assert (reading.prompt_tokens.sum, reading.prompt_tokens.count) == (121_000_000, 693)
    assert reading.queued_percent == pytest.approx(5.0)
    assert (reading.running, reading.kv_usage) == (pytest.approx(3.1), pytest.approx(0.24))
    assert (reading.pool_tokens, reading.scrapes) == (2_100_000, 200)
    assert reading.age_seconds == 5


def test_all_endpoints_are_in_one_answer():
    other = {what: [] for what in busy_pod()}
    other["requests"] = [of_pod(7, "x", namespace="blue", endpoint="chat")]
    traffic = traffic_of(merged(busy_pod(), other))
    assert set(traffic.pods) == {KEY, ("blue", "chat")}
    assert traffic.of(("nobody", "here")) == {}


def test_two_pods_add_up_and_the_footprint_is_the_ratio_of_sums():
    small = busy_pod("pod-2", running_sum=[of_pod(20, "pod-2")], usage_sum=[of_pod(1, "pod-2")])
    reading = reading_of(merged(busy_pod(), small), expected=("pod-1", "pod-2"))
    assert reading.prompt_tokens.count == 2 * 693
    tokens = reading.kv_usage * reading.pool_tokens / reading.running
    assert tokens == pytest.approx((48 + 1) * 2_100_000 / (620 + 20))
    assert reading.pods == 2


def test_pods_of_another_fingerprint_count_for_lengths_and_not_for_the_footprint():
    old = busy_pod("old", usage_sum=[of_pod(200, "old")])
    reading = reading_of(merged(busy_pod(), old), in_flight_of=lambda pod: pod == "pod-1")
    assert reading.prompt_tokens.count == 2 * 693
    assert reading.kv_usage == pytest.approx(0.24)


def test_steps_finer_than_scrapes_do_not_make_more_scrapes():
    reading = reading_of(busy_pod(scrapes=[of_pod(60)]))
    assert reading.scrapes == 50


def test_an_engine_without_the_exact_figure_has_blocks_times_size():
    config = [of_pod(1, num_gpu_blocks="1000", block_size="16")]
    assert reading_of(busy_pod(cache_config=config)).pool_tokens == 16_000


def test_a_pod_that_is_gone_is_known_by_its_window():
    table = busy_pod(cache_config=[], cache_config_in_window=busy_pod()["cache_config"], newest=[])
    reading = reading_of(table, expected=())
    assert reading.pool_tokens == 2_100_000
    assert reading.missing_pods == 0


def test_drafts_give_tokens_a_step():
    table = busy_pod(drafts=[of_pod(100)], accepted_tokens=[of_pod(240)])
    assert reading_of(table).tokens_per_step == pytest.approx(3.4)


@pytest.mark.parametrize(
    ("changes", "cached"),
    [
        pytest.param({}, None, id="neither counter"),
        pytest.param({"prefix_hits": [of_pod(5)]}, 5, id="an older engine"),
        pytest.param(
            {"cached_tokens": [of_pod(3)], "prefix_hits": [of_pod(5)]}, 3, id="the newer one wins"
        ),
    ],
)
def test_cached_tokens_by_the_engine_s_age(changes, cached):
    assert reading_of(busy_pod(**changes)).prefix_cached_tokens == cached


@pytest.mark.parametrize(
    ("table", "expected", "reason"),
    [
        pytest.param({}, (), Reason.NO_SERIES, id="no series at all"),
        pytest.param({}, ("pod-1",), Reason.NO_SERIES, id="no series, and a pod is ready"),
        pytest.param(
            busy_pod(), ("pod-1", "pod-2"), Reason.PARTIAL_DATA, id="a ready pod is missing"
        ),
        pytest.param(
            busy_pod(newest=[of_pod(NOW - 301)], newest_in_window=[]),
            ("pod-1",),
            Reason.STALE_DATA,
            id="the newest sample is old",
        ),
        pytest.param(
            busy_pod(newest=[of_pod("NaN")]), ("pod-1",), Reason.STALE_DATA, id="no time at all"
        ),
        pytest.param(
            busy_pod(prompt_sum=[of_pod("NaN")]), ("pod-1",), Reason.INVALID_DATA, id="a NaN sum"
        ),
        pytest.param(
            busy_pod(running_sum=[of_pod("NaN")]), ("pod-1",), Reason.INVALID_DATA, id="NaN running"
        ),
        pytest.param(
            busy_pod(usage_sum=[of_pod("+Inf")]),
            ("pod-1",),
            Reason.INVALID_DATA,
            id="an infinite usage",
        ),
        pytest.param(
            busy_pod(prompt_buckets=buckets({"100.0": 9, "200.0": 5, "+Inf": 693})),
            ("pod-1",),
            Reason.INVALID_DATA,
            id="counts that fall",
        ),
        pytest.param(
            busy_pod(
                prompt_buckets=buckets({"100.0": 0, "+Inf": 0}),
                prompt_sum=[of_pod(0)],
                prompt_count=[of_pod(0)],
            ),
            ("pod-1",),
            Reason.NO_TRAFFIC,
            id="nobody asked anything",
        ),
        pytest.param(
            busy_pod(resets=[of_pod(200)]), ("pod-1",), Reason.COUNTER_RESET, id="a crash loop"
        ),
        pytest.param(
            merged(
                busy_pod(),
                busy_pod("b", prompt_buckets=buckets({"200000.0": 9, "+Inf": 9}, pod="b")),
            ),
            ("pod-1",),
            Reason.MIXED_MODEL_LENGTHS,
            id="pods with different lengths",
        ),
    ],
)
def test_what_can_not_be_told_has_its_reason(table, expected, reason):
    answer = gate(reading_of(table, expected=expected), min_requests=1)
    assert isinstance(answer, CannotTell)
    assert answer.reason is reason


def test_where_only_pods_that_are_gone_are_known_all_ready_ones_are_missing():
    gone = busy_pod("gone", newest=[])
    answer = gate(reading_of(gone, expected=("pod-1", "pod-2")), min_requests=1)
    assert answer.reason is Reason.PARTIAL_DATA
    assert "2 of 2 pods are missing" in answer.message


def test_a_partial_answer_decides_nothing():
    answer = gate(reading_of(busy_pod(), warnings=["store is down"]), min_requests=1)
    assert answer.reason is Reason.PARTIAL_DATA
    assert "store is down" in answer.message


def test_one_refused_query_refuses_the_whole_reading():
    def answer(asked):
        if "cache_config" in asked.form["query"]:
            return Reply(400, {"status": "error", "errorType": "bad_data", "error": "no"})
        return Reply(body={"status": "success", "data": {"resultType": "vector", "result": []}})

    with serving(answer) as served, pytest.raises(InvalidError):
        read_traffic(Prometheus(Server(served.url)), SCOPE, at=NOW)


def test_a_pod_that_says_nothing_has_no_scrapes():
    assert PodTraffic().busy_scrapes == 0
    assert PodTraffic().pool_tokens is None
    assert PodTraffic().last_prompt_edge == 0


@pytest.mark.parametrize("text", ["None", "", "nan", "inf", "-3", "0"])
def test_a_label_that_is_no_size_is_no_pool(text):
    assert PodTraffic(cache_config={"kv_cache_size_tokens": text}).pool_tokens is None


@pytest.mark.parametrize("window", [60, 300, 14_400, 2_592_000])
def test_subqueries_stay_bounded_for_every_window(window):
    scope = Scope(window)
    assert window / scope.step_seconds <= 2000
    assert scope.peak_window_seconds >= 4 * scope.scrape_interval_seconds


def test_names_are_those_of_the_engine_s_own_page(vllm_page):
    """vLLM 0.32 serves every metric that is asked for, save those of drafters."""
    optional = {
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_total",
    }
    asked = {
        word
        for _, promql in queries(SCOPE)
        for word in promql.replace("(", " ").replace("{", " ").split()
        if word.startswith("vllm:")
    }
    on_page = {line.split("{")[0] for line in vllm_page.splitlines() if line.startswith("vllm:")}
    assert asked - on_page <= optional


def test_the_first_queue_edge_is_the_engine_s_own(vllm_page):
    edges = [
        line.split('le="')[1].split('"')[0]
        for line in vllm_page.splitlines()
        if line.startswith("vllm:request_queue_time_seconds_bucket")
    ]
    assert edges[0] == "0.3"
    assert math.isinf(float(edges[-1]))


def test_a_scrape_between_two_queries_is_no_nonsense():
    """The buckets saw one request more than the count that was asked for just before."""
    table = busy_pod(prompt_count=[of_pod(692)])
    assert isinstance(gate(reading_of(table), min_requests=1), Workload)
