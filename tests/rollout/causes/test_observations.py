"""What real engines printed, from public reports: the classifier against the right answers."""

import json
from pathlib import Path

import pytest

from parkade.rollout.causes import Blame, CauseClass, classify, read_startup

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "observations.jsonl").read_text().splitlines()
]
FAILED = [row for row in ROWS if row["failure_text"]]
USER, ENVIRONMENT = {"oom_weights"}, {"started_then_oom_at_wake_up"}
TEXT_ALONE_IS_NOT_ENOUGH = {"c011", "c078", "c091", "c108", "c130", "c153", "c169"}


def outcome(row) -> str:
    return row["outcome"].split(" ")[0]


def log_around(row) -> str:
    """The row's figures as the lines that its engine printed before the failure."""
    logged, lines = row["logged"], ["INFO 11-29 10:00:00 [core.py:1] Initializing a V1 LLM engine "]
    if outcome(row) == "oom_weights":
        return "\n".join([*lines, row["failure_text"]])
    info = "INFO 11-29 10:00:01 [worker.py:1] "
    lines.append(f"{info}Model loading took {logged.get('model_loading_gib', 7.97)} GiB and 2 s")
    lines.append(f"{info}Available KV cache memory: {logged.get('available_kv_gib', 12.86)} GiB")
    lines.append(f"{info}GPU KV cache size: {logged.get('kv_tokens', 1000):,} tokens")
    lines.append(f"{info}Graph capturing finished in 3 secs, took 1.28 GiB")
    if outcome(row).startswith("started"):
        lines.append("INFO:     Application startup complete.")
    return "\n".join([*lines, f"ERROR 11-29 10:01:00 [core.py:9] {row['failure_text']}"])


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in FAILED])
def test_a_failure_text_alone_gives_its_class_or_unknown(row):
    cause = classify(row["failure_text"])
    if row["id"] in TEXT_ALONE_IS_NOT_ENOUGH:
        assert (cause.cause_class, cause.blame) == (CauseClass.UNKNOWN, Blame.UNKNOWN)
    else:
        assert cause.cause_class == outcome(row)
        assert cause.blame is expected_blame(row)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row["id"])
        for row in FAILED
        if row["id"] in TEXT_ALONE_IS_NOT_ENOUGH - {"c130", "c153"}
    ],
)
def test_with_the_lines_before_it_the_stage_decides(row):
    cause = classify(log_around(row))
    assert cause.cause_class == outcome(row)
    assert cause.blame is expected_blame(row)


def expected_blame(row) -> Blame:
    if outcome(row) in USER:
        return Blame.USER
    if outcome(row) in ENVIRONMENT:
        return Blame.ENVIRONMENT
    free, total = row["logged"].get("free_at_start_gib"), row["gpu_total_gib"]
    held = outcome(row) == "free_memory_below_utilization" and free < 0.85 * total
    return Blame.ENVIRONMENT if held else Blame.SETTINGS


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["id"]) for row in ROWS if row["logged"].get("kv_tokens")]
)
def test_the_figures_of_a_start_are_read_back(row):
    logged = row["logged"]
    report = read_startup(startup_text(logged))
    assert report.kv_tokens == logged["kv_tokens"]
    if "free_at_start_gib" in logged and row["gpu_total_gib"]:
        assert report.free_bytes == round(logged["free_at_start_gib"] * 2**30)
    if "available_kv_gib" in logged:
        pool = round(logged["available_kv_gib"] * 2**30)
        assert report.available_kv_bytes == (pool if pool >= 0 else None)
    if "cudagraph_pool_actual_gib" in logged:
        actual = logged["cudagraph_pool_actual_gib"]
        assert report.graph_bytes_actual == (round(actual * 2**30) if actual >= 0 else None)


def startup_text(logged) -> str:
    info = "(EngineCore_DP0 pid=7) INFO 11-29 10:00:01 [worker.py:1] "
    lines = [f"{info}GPU KV cache size: {logged['kv_tokens']:,} tokens"]
    if "available_kv_gib" in logged:
        lines.insert(0, f"{info}Available KV cache memory: {logged['available_kv_gib']} GiB")
    if "cudagraph_pool_actual_gib" in logged:
        estimated = logged.get("cudagraph_estimated_gib", 0.0)
        lines.append(
            f"{info}CUDA graph pool memory: {logged['cudagraph_pool_actual_gib']} GiB (actual), "
            f"{estimated} GiB (estimated), difference: 0.1 GiB (1.0%)."
        )
    if "free_at_start_gib" in logged:
        lines.append(
            f"{info}Free memory on device ({logged['free_at_start_gib']}/300.0 GiB) on startup. "
            f"Desired GPU memory utilization is (0.9, {logged.get('budget_gib', 1.0)} GiB). "
        )
    return "\n".join(lines)
