"""The numbers of each endpoint at a scrape."""

from prometheus_client import generate_latest

from parkade.controller.metrics import Metrics

STATUS = {
    "recommendation": {
        "maxNumSeqs": 12,
        "gpuMemoryUtilization": "0.9521",
        "bounds": {"kvCache": {"value": "12.4"}, "speed": {"why": "nothing known"}},
    },
    "memory": {"poolTokens": 2_100_000},
    "workload": {"requests": 693, "footprint": {"tokens": "170000.5"}, "queuedPercent": "nan"},
}


def page(metrics):
    lines = generate_latest(metrics.registry).decode().splitlines()
    return [line for line in lines if line.startswith("parkade_endpoint_")]


def test_an_endpoint_s_numbers_are_there_until_it_goes():
    metrics = Metrics()
    metrics.numbers.note(("ns", "iep"), STATUS)
    where = '{endpoint="iep",namespace="ns"'
    assert page(metrics) == [
        f"parkade_endpoint_recommended_max_num_seqs{where}}} 12.0",
        f"parkade_endpoint_recommended_gpu_memory_utilization{where}}} 0.9521",
        f"parkade_endpoint_kv_cache_tokens{where}}} 2.1e+06",
        f"parkade_endpoint_window_requests{where}}} 693.0",
        f"parkade_endpoint_footprint_tokens{where}}} 170000.5",
        'parkade_endpoint_bound{endpoint="iep",kind="kvCache",namespace="ns"} 12.4',
    ]
    here = {("ns", "iep")}
    metrics.numbers.of_endpoints(lambda: here)
    assert len(page(metrics)) == 6
    here.clear()
    metrics.numbers.note(("ns", "iep"), STATUS)  # by a pass that ends after it went
    assert page(metrics) == []


def test_an_endpoint_that_could_not_be_sized_has_none():
    metrics = Metrics()
    metrics.numbers.note(("ns", "iep"), {})
    assert page(metrics) == []
