"""From Prometheus' answers to one point of speed for each pod."""

import pytest

from parkade.adapters.pod_speed import Ran, speed_points
from parkade.adapters.prometheus import Prometheus, Server
from parkade.adapters.traffic import read_traffic
from support.metrics_server import SCOPE, buckets, busy_pod, merged, of_pod, prometheus_with

NOW = 1_700_000_000.0
KEY = ("ns", "iep")
RAN = {"old": Ran("f", 256), "new": Ran("f", 16), "other": None}


def served_pod(pod, running, milliseconds, requests=300, **changes):
    """A pod that held so many requests, each at that time per token."""
    seconds = milliseconds / 1000
    counts = {edge: requests if float(edge) >= seconds else 0 for edge in ("0.01", "0.025", "0.05")}
    table = {
        "running_sum": [of_pod(running * 200, pod)],
        "running_squares": [of_pod(running**2 * 200, pod)],
        "token_time_buckets": buckets({**counts, "+Inf": requests}, pod=pod),
        "token_time_sum": [of_pod(requests * seconds, pod)],
        "token_time_count": [of_pod(requests, pod)],
    }
    return busy_pod(pod, **{**table, **changes})


def points_of(*tables, ran=RAN.get):
    with prometheus_with(merged(*tables)) as served:
        traffic = read_traffic(Prometheus(Server(served.url)), SCOPE, at=NOW)
    return speed_points(traffic, KEY, ran)


def test_each_pod_has_its_own_concurrency_and_speed():
    new, old = points_of(served_pod("old", 130, 45), served_pod("new", 16, 7))
    assert (new.pod, new.concurrency, new.cap_binding) == ("new", 16.0, True)
    assert (old.pod, old.concurrency, old.cap_binding) == ("old", 130.0, False)
    assert new.speed == pytest.approx(1000 / 7)
    assert old.speed == pytest.approx(1000 / 45)
    assert new.fingerprint == "f"
    assert new.measured_at == "2023-11-14T22:13:20Z"
    assert new.newest_time_per_output_token == new.time_per_output_token
    assert new.context_tokens == pytest.approx(48 * 2_100_000 / (16 * 200))


def test_a_busy_and_a_quiet_hour_give_the_concurrency_that_most_requests_saw():
    """100 scrapes with 130 running and 100 with 4: the plain mean would say 67."""
    table = served_pod(
        "old",
        130,
        45,
        running_sum=[of_pod(100 * 130 + 100 * 4, "old")],
        running_squares=[of_pod(100 * 130**2 + 100 * 4**2, "old")],
    )
    (point,) = points_of(table)
    assert point.concurrency == pytest.approx(126.2, abs=0.1)


def test_what_else_a_pod_says_of_itself():
    table = served_pod(
        "new",
        10,
        7,
        generated=[of_pod(4_500_000, "new")],
        drafts=[of_pod(100, "new")],
        draft_tokens=[of_pod(800, "new")],
        accepted_tokens=[of_pod(240, "new")],
        prefill_seconds=[of_pod(10, "new")],
        decode_seconds=[of_pod(30, "new")],
        preemptions=[of_pod(60, "new")],
        first_token_buckets=buckets({"0.5": 0, "1.0": 300, "+Inf": 300}, pod="new"),
        first_token_sum=[of_pod(240, "new")],
        first_token_count=[of_pod(300, "new")],
    )
    (point,) = points_of(table)
    assert point.output_tokens_per_second == pytest.approx(4_500_000 / (200 * 15))
    assert point.acceptance == pytest.approx(0.3)
    assert (point.prefill_share, point.decoding) == (0.25, 7.5)
    assert point.first_token_seconds == pytest.approx(0.8, rel=0.05)
    assert point.cap_binding is False
    assert point.preemptions_per_request == 0.2
    # 48 of 200 scrapes' pool for 10 running each: 0.024 for one.
    assert point.kv_share == pytest.approx(0.24)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(served_pod("other", 16, 7), id="a pod of another fingerprint"),
        pytest.param(served_pod("unheard of", 16, 7), id="a pod that nobody knows"),
        pytest.param(served_pod("new", 16, 7, requests=29), id="too few finished requests"),
        pytest.param(busy_pod("new"), id="no times"),
        pytest.param({**served_pod("new", 16, 7), "busy_steps": []}, id="no scrape that saw any"),
        pytest.param({**served_pod("new", 16, 7), "running_sum": []}, id="nothing running"),
        pytest.param(
            {**served_pod("new", 16, 7), "running_sum": [of_pod("NaN", "new")]}, id="NaN running"
        ),
        pytest.param(
            {**served_pod("new", 16, 7), "busy_steps": [of_pod(47, "new")]},
            id="busy for less than a fifth of the window",
        ),
        pytest.param(
            {**served_pod("new", 16, 7), "busy_steps": [of_pod("NaN", "new")]}, id="NaN scrapes"
        ),
        pytest.param(
            {
                **served_pod("new", 16, 7),
                "token_time_buckets": buckets({"0.01": 300, "+Inf": "NaN"}, pod="new"),
            },
            id="NaN requests",
        ),
        pytest.param(
            {
                **served_pod("new", 16, 7),
                "token_time_buckets": buckets({"0.01": 300, "0.025": 5, "+Inf": 300}, pod="new"),
            },
            id="counts that fall",
        ),
    ],
)
def test_what_says_too_little_gives_no_point(table):
    assert points_of(table) == ()


def test_times_and_preemptions_of_other_settings_do_not_judge_those_in_force():
    with prometheus_with(
        merged(
            served_pod("old", 130, 45, preemptions=[of_pod(500, "old")]),
            served_pod("new", 16, 7, preemptions=[of_pod(3, "new")]),
        )
    ) as served:
        traffic = read_traffic(Prometheus(Server(served.url)), SCOPE, at=NOW)
    reading = traffic.reading(KEY, expected_pods=(), judged=lambda pod: pod == "new")
    assert reading.time_per_output_token.sum == pytest.approx(300 * 0.007)
    assert reading.preemptions == 3
    assert reading.prompt_tokens.count == 2 * 693
