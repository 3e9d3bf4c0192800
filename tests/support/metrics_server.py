"""A Prometheus that answers the operator's own queries from a table: what -> samples."""

from contextlib import contextmanager

from parkade.adapters.vllm_metrics import Scope, queries
from support.servers import Reply, serving

SCOPE = Scope(window_seconds=3600)


def of_pod(value, pod="pod-1", *, namespace="ns", endpoint="iep", **labels):
    """One sample as the server sends it."""
    metric = {"namespace": namespace, SCOPE.endpoint_label: endpoint, "pod": pod, **labels}
    return {"metric": metric, "value": [1_700_000_000, str(value)]}


def buckets(counts, **identity):
    """Samples of a histogram: upper edge -> cumulative count."""
    return [of_pod(count, le=edge, **identity) for edge, count in counts.items()]


def busy_pod(pod="pod-1", **changes):
    """Everything that a busy pod reports over an hour: 693 requests, as in the measured case."""
    table = {
        "requests": [of_pod(693, pod)],
        "prompt_sum": [of_pod(121_000_000, pod)],
        "prompt_count": [of_pod(693, pod)],
        "prompt_buckets": buckets(
            {"100000.0": 210, "200000.0": 485, "500000.0": 693, "+Inf": 693}, pod=pod
        ),
        "output_sum": [of_pod(415_800, pod)],
        "output_count": [of_pod(693, pod)],
        "output_buckets": buckets(
            {"500.0": 300, "1000.0": 650, "2000.0": 693, "+Inf": 693}, pod=pod
        ),
        "queue_buckets": buckets({"0.3": 658.35, "+Inf": 693}, pod=pod),
        "running_sum": [of_pod(620, pod)],
        "usage_sum": [of_pod(48, pod)],
        "busy_steps": [of_pod(200, pod)],
        "all_steps": [of_pod(240, pod)],
        "scrapes": [of_pod(240, pod)],
        "resets": [of_pod(0, pod)],
        "newest": [of_pod(1_700_000_000 - 5, pod)],
        "newest_in_window": [of_pod(1_700_000_000 - 5, pod)],
        "cache_config": [
            of_pod(1, pod, kv_cache_size_tokens="2100000", num_gpu_blocks="9", block_size="16")
        ],
    }
    return {**table, **changes}


def merged(*tables):
    """Several pods in one answer."""
    return {
        what: [sample for table in tables for sample in table.get(what, ())]
        for what in {what for table in tables for what in table}
    }


@contextmanager
def prometheus_with(table, scope=SCOPE, **more):
    """Serve a table; queries that it lacks have an empty answer."""
    names = {promql: what for what, promql in queries(scope)}

    def answer(asked):
        samples = table.get(names.get(asked.form["query"], "unknown"), [])
        data = {"resultType": "vector", "result": samples}
        return Reply(body={"status": "success", "data": data, **more})

    with serving(answer) as served:
        yield served
