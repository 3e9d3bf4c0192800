"""The probes tell the truth about the queue."""

import socket

import httpx
import pytest
from prometheus_client import CollectorRegistry

from parkade.controller.health import STUCK_SECONDS, Health, HealthServer
from parkade.controller.metrics import Metrics
from parkade.controller.queue import QueueState


@pytest.mark.parametrize(
    ("watching", "alive", "oldest", "ready", "live"),
    [
        pytest.param(True, True, 1.0, None, None, id="all is well"),
        pytest.param(False, True, 0.0, "the watches are not up", None, id="it starts"),
        pytest.param(True, False, 0.0, "a worker died", "a worker died", id="a worker died"),
        pytest.param(
            True,
            True,
            STUCK_SECONDS + 1,
            "an endpoint has been due for 301 s",
            "an endpoint has been due for 301 s",
            id="a pass hangs",
        ),
    ],
)
def test_says_what_is_wrong(watching, alive, oldest, ready, live):
    health = Health(lambda: watching, lambda: alive, lambda: oldest)
    assert (health.ready(), health.live()) == (ready, live)


def test_answers_probes_and_scrapes():
    metrics = Metrics()
    metrics.watch_queue(lambda: QueueState(1, 2, 3, 4.5))
    health = Health(lambda: False, lambda: True, lambda: 0.0)
    server = HealthServer(health, metrics.registry, ("127.0.0.1", 0))
    port = server.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            assert client.get("/healthz").status_code == 200
            ready = client.get("/readyz")
            assert (ready.status_code, ready.text) == (503, "the watches are not up\n")
            page = client.get("/metrics").text
            assert client.get("/etc/passwd").status_code == 404
    finally:
        server.stop()
    assert "parkade_queue_oldest_dirty_seconds 4.5" in page


def has_ipv6():
    """Whether this machine has the address ::1; many containers do not."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


IPV6 = ("[::1]",) if has_ipv6() else ()
WITH_IPV6 = pytest.mark.skipif(not IPV6, reason="this machine has no IPv6")


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        pytest.param("", ("127.0.0.1", *IPV6), id="all of both families"),
        pytest.param("::1", ("[::1]",), id="one of IPv6", marks=WITH_IPV6),
        pytest.param("127.0.0.1", ("127.0.0.1",), id="one of IPv4"),
    ],
)
def test_pods_have_addresses_of_either_family(host, asked):
    health = Health(lambda: True, lambda: True, lambda: 0.0)
    server = HealthServer(health, CollectorRegistry(), (host, 0))
    port = server.start()
    try:
        for one in asked:
            answer = httpx.get(f"http://{one}:{port}/readyz", trust_env=False)
            assert answer.status_code == 200
    finally:
        server.stop()


def test_two_operators_in_one_process_have_their_own_metrics():
    Metrics(CollectorRegistry())
    Metrics(CollectorRegistry())
