"""Our queries on a real Prometheus that scrapes pages like an engine's."""

import time

import pytest

from parkade.adapters.prometheus import Prometheus, Server, escape
from parkade.adapters.traffic import read_traffic
from parkade.adapters.vllm_metrics import DeploymentScope, Scope, queries
from parkade.sizing.gates import gate
from parkade.sizing.workload import Workload
from support.servers import Reply, serving
from testbed.cluster import binaries
from testbed.cluster.ports import free_ports
from testbed.cluster.processes import Program
from testbed.waiting import wait_until

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

POD = "iep-5d9c8f7b66-x7k2p"
WINDOW_SECONDS = 10


class Engine:
    """A page that counts up at each scrape: ten short, ten long prompts, one in twenty queues."""

    def __init__(self):
        self.scrapes = 0

    def __call__(self, _asked):
        self.scrapes += 1
        count = self.scrapes
        lines = [
            self.line("vllm:num_requests_running", 4),
            self.line("vllm:kv_cache_usage_perc", 0.25),
            self.line("vllm:num_preemptions_total", count),
            self.line("vllm:request_success_total", count * 20, finished_reason="stop"),
            self.line("vllm:cache_config_info", 1, kv_cache_size_tokens="16000", block_size="16"),
            *self.histogram("request_prompt_tokens", {"100.0": 10, "200.0": 20}, count, 3000),
            *self.histogram("request_generation_tokens", {"10.0": 10, "20.0": 20}, count, 300),
            *self.histogram("request_queue_time_seconds", {"0.3": 19, "0.5": 20}, count, 1),
        ]
        return Reply(body="\n".join(lines) + "\n", headers={"Content-Type": "text/plain"})

    def line(self, name, value, **labels):
        text = ",".join(f'{key}="{one}"' for key, one in {"engine": "0", **labels}.items())
        return f"{name}{{{text}}} {value}"

    def histogram(self, name, edges, count, total):
        for edge, share in {**edges, "+Inf": 20}.items():
            yield self.line(f"vllm:{name}_bucket", share * count, le=edge)
        yield self.line(f"vllm:{name}_sum", total * count)
        yield self.line(f"vllm:{name}_count", 20 * count)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    program = binaries.ensure(("prometheus",))["prometheus"]
    (port,) = free_ports(1)
    engine = Engine()
    with serving(engine) as served:
        labels = f"{{namespace: ns, pod: {POD}, serving_parkade_dev_endpoint: iep}}"
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            "scrape_configs:\n"
            f"- {{job_name: engines, static_configs: [{{targets: ['{served.url[7:]}'], "
            f"labels: {labels}}}]}}\n"
        )
        running = Program(
            "prometheus",
            [
                program,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            folder / "log",
        )
        running.start()
        try:
            wait_until(lambda: engine.scrapes > WINDOW_SECONDS, "scrapes", 60)
            yield f"http://127.0.0.1:{port}"
        finally:
            running.stop()


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        pytest.param(Scope(WINDOW_SECONDS, 1), ("ns", "iep"), id="by the endpoint's label"),
        pytest.param(
            DeploymentScope(WINDOW_SECONDS, 1, namespaces=("ns",), deployment="iep"),
            ("ns", "iep"),
            id="by the pods' names",
        ),
    ],
)
def test_the_reading_adds_up(url, scope, key):
    traffic = read_traffic(Prometheus(Server(url)), scope, at=time.time())
    reading = traffic.reading(key, expected_pods=[POD])
    workload = gate(reading, min_requests=50)
    assert isinstance(workload, Workload), workload
    assert workload.mean_prompt_tokens == pytest.approx(150)
    assert workload.mean_output_tokens == pytest.approx(15)
    assert workload.prompt_tokens.share_at_most(100) == pytest.approx((0.5, 0.5))
    assert workload.queued_percent == pytest.approx(5)
    assert workload.in_flight.tokens_per_request == pytest.approx(0.25 * 16_000 / 4)
    assert reading.age_seconds < 5
    assert traffic.warnings == ()


def test_every_query_is_one_that_prometheus_understands(url):
    prometheus = Prometheus(Server(url))
    for what, promql in queries(Scope(WINDOW_SECONDS, 1, namespaces=("a-b", "ns"))):
        assert prometheus.query(promql).warnings == (), what


def test_a_label_value_with_quotes_is_only_a_value(url):
    nasty = 'x"} or vector(1) or up{job="'
    assert Prometheus(Server(url)).query(f'up{{job="{escape(nasty)}"}}').samples == ()
