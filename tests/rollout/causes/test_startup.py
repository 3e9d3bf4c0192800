"""The start's figures in every version's spelling."""

from pathlib import Path

import pytest

from parkade.rollout.causes import StartupReport, read_startup

LOGS = Path(__file__).parents[2] / "data" / "logs"
DESIRED = (
    "Free memory on device (78.57/79.18 GiB) on startup. Desired GPU memory utilization is "
    "(0.95, 75.22 GiB)."
)
INFO = "(EngineCore pid=8) INFO 11-29 10:00:30 [gpu_worker.py:760] "


def gib(value: float) -> int:
    return round(value * 2**30)


def test_a_whole_start_of_0_32():
    report = read_startup((LOGS / "serves.log").read_text())
    assert report == StartupReport(
        version="0.32.0",
        total_bytes=gib(79.18),
        free_bytes=gib(78.57),
        utilization=0.95,
        requested_bytes=gib(75.22),
        weights_bytes=gib(15.27),
        peak_activation_bytes=gib(7.04),
        consumed_bytes=gib(16.08),
        graph_bytes_estimated=gib(0.95),
        graph_bytes_actual=gib(1.25),
        non_kv_bytes=gib(75.22) - gib(52.1),
        available_kv_bytes=gib(52.1),
        kv_tokens=426_800,
        max_concurrency=13.03,
        max_concurrency_len=32_768,
        complete=True,
    )
    assert report.rounding_bytes == pytest.approx(0.005 * 2**30, abs=1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("Model loading took 7.5552 GiB and 3.1 seconds",
                     {"weights_bytes": gib(7.5552)}, id="0.9 to 0.11: four decimals"),
        pytest.param("Loading model weights took 14.9888 GB",
                     {"weights_bytes": gib(14.9888)}, id="0.7 says GB and means GiB"),
        pytest.param("Free memory on device (23.21/23.65 GiB) on startup. Desired GPU memory "
                     "utilization is (0.9, 21.28 GiB). Actual usage is 5.79 GiB for weight, 0.17 "
                     "GiB for peak activation, 0.02 GiB for non-torch memory, and 0.14 GiB for "
                     "CUDAGraph memory. Replace gpu_memory_utilization config with "
                     "`--kv-cache-memory=16000` to fit into requested memory, or "
                     "`--kv-cache-memory=17000` to fully utilize gpu memory. Current kv cache "
                     "memory in use is 16440000000 bytes.",
                     {"total_bytes": gib(23.65), "free_bytes": gib(23.21), "utilization": 0.9,
                      "requested_bytes": gib(21.28), "weights_bytes": gib(5.79),
                      "peak_activation_bytes": gib(0.17), "non_torch_bytes": gib(0.02),
                      "graph_bytes_actual": gib(0.14), "available_kv_bytes": 16_440_000_000,
                      "non_kv_bytes": gib(21.28) - 16_440_000_000},
                     id="0.10: the hint with non-torch memory and bytes"),
        pytest.param("Free memory on device cuda:0 (13.58/15.99 GiB) on startup is less than "
                     "desired GPU memory utilization (0.85, 13.59 GiB).",
                     {"total_bytes": gib(15.99), "free_bytes": gib(13.58), "utilization": 0.85,
                      "requested_bytes": gib(13.59)}, id="a failed check says F and T too"),
        pytest.param("Initial free memory 70.1 GiB, reserved 40.0 GiB memory for KV Cache as "
                     "specified by kv_cache_memory_bytes config", {"free_bytes": gib(70.1)},
                     id="a given pool"),
        pytest.param("Initial free memory: 70.1 GiB; Requested memory: 0.900000 (util), 71.26 GiB",
                     {"free_bytes": gib(70.1), "utilization": 0.9, "requested_bytes": gib(71.26)},
                     id="the debug line"),
        pytest.param("the current vLLM instance can use total_gpu_memory (22.07GiB) x "
                     "gpu_memory_utilization (0.90) = 19.86GiB",
                     {"total_bytes": gib(22.07), "utilization": 0.9,
                      "requested_bytes": gib(19.86)}, id="V0's budget"),
        pytest.param("GPU KV cache size: 4,540,112 tokens, Maximum concurrency for 1,048,576 "
                     "tokens per request: 4.33x",
                     {"kv_tokens": 4_540_112, "max_concurrency": 4.33,
                      "max_concurrency_len": 1_048_576}, id="one line since 0.30"),
        pytest.param("Maximum concurrency for 262,144 tokens per request: 5.44x",
                     {"max_concurrency": 5.44, "max_concurrency_len": 262_144},
                     id="two lines before"),
        pytest.param("Estimated CUDA graph memory: 24.10 GiB total",
                     {"graph_bytes_estimated": gib(24.1)}, id="the V1 runner's estimate"),
        pytest.param("Setting attention block size to 1568 tokens to ensure that attention page "
                     "size is >= mamba page size.", {"block_size": 1568}, id="hybrid block"),
        pytest.param("Setting kv cache block size to 64 for FLASHINFER backend(s).",
                     {"block_size": 64}, id="backend's block"),
        pytest.param("The dflash draft pass needs 9 query tokens per request within "
                     "max_num_batched_tokens=2048. Overriding max_num_active_seqs from 256 to 227.",
                     {"max_num_active_seqs": 227}, id="the engine lowers its concurrency"),
        pytest.param("Using V2 Model Runner", {"runner": "v2"}, id="V2 runner"),
        pytest.param("Model Runner V2 does not yet support X; using the V1 model runner instead.",
                     {"runner": "v1"}, id="V1 runner"),
        pytest.param("Explicitly set (1.0/11.84) GiB for KV cache on node 0.",
                     {"available_kv_bytes": gib(1.0)}, id="a CPU's pool"),
        pytest.param("Available KV cache memory: nan GiB", {}, id="NaN"),
        pytest.param("Available KV cache memory: -1.26 GiB", {}, id="negative"),
        pytest.param("Model loading took 17179869184.00 GiB memory and 1 seconds", {},
                     id="larger than any device"),
        pytest.param("Free memory on device (99.0/79.0 GiB) on startup. Desired GPU memory "
                     "utilization is (7.5, 75.0 GiB)", {"requested_bytes": gib(75.0)},
                     id="more free than there is, and no fraction"),
        pytest.param("CUDA graph pool memory: -0.97 GiB (actual), 0.5 GiB (estimated), difference",
                     {"graph_bytes_estimated": gib(0.5)}, id="a capture that freed memory"),
    ],
)  # fmt: skip
def test_lines(line, expected):
    assert read_startup(INFO + line) == StartupReport(**expected)


def test_the_weakest_rank_counts():
    text = "\n".join(
        f"(Worker_TP{rank} pid={rank}) INFO 11-29 10:00:30 [w.py:1] {line}"
        for rank, (loaded, pool) in enumerate([(33.1, 40.2), (33.4, 39.9)])
        for line in (
            f"Model loading took {loaded} GiB memory and 20.1 seconds",
            f"Available KV cache memory: {pool} GiB",
        )
    )
    report = read_startup(text)
    assert (report.weights_bytes, report.available_kv_bytes) == (gib(33.4), gib(39.9))


def test_the_applied_estimate_is_not_part_of_what_is_neither_cache_nor_graphs():
    text = "\n".join(
        INFO + line
        for line in (
            "Available KV cache memory: 50.0 GiB",
            "CUDA graph memory profiling is enabled (default since v0.21.0). The current ...",
            "CUDA graph pool memory: 1.25 GiB (actual), 0.95 GiB (estimated), difference: 0.3 GiB",
            DESIRED,
        )
    )
    report = read_startup(text)
    assert report.graph_estimate_applied
    assert report.non_kv_bytes == gib(75.22) - gib(50.0) - gib(0.95)


def test_a_capture_while_profiling_is_not_the_real_one():
    captured = "Graph capturing finished in 9 secs, took {} GiB"
    lines = [captured.format(0.4), "GPU KV cache size: 4,000 tokens", captured.format(1.3)]
    report = read_startup("\n".join(INFO + line for line in lines))
    assert report.graph_bytes_actual == gib(1.3)
    assert read_startup(INFO + lines[0]).graph_bytes_actual is None


def test_the_last_start_counts_and_traffic_does_not():
    first, second = (LOGS / "oom-graphs-v2-0.29.log").read_text(), (LOGS / "serves.log").read_text()
    traffic = (
        f"{INFO}prompt: 'Model loading took 99.0 GiB memory, Available KV cache memory: 1 GiB'"
    )
    report = read_startup(f"{first}\n{second}\n{traffic}")
    assert (report.version, report.weights_bytes) == ("0.32.0", gib(15.27))
    assert report.available_kv_bytes == gib(52.1)


def test_an_empty_log_says_nothing():
    assert read_startup("") == StartupReport()
