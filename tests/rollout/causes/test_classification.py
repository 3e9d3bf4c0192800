"""Whole logs, one trap each: the class, whom it blames, and what helps."""

from pathlib import Path

import pytest

from parkade.rollout.causes import Blame, CauseClass, Knob, Stage, classify

LOGS = Path(__file__).parents[2] / "data" / "logs"
C, S = CauseClass, Stage
SETTINGS, ENVIRONMENT, USER, UNKNOWN = (
    Blame.SETTINGS,
    Blame.ENVIRONMENT,
    Blame.USER,
    Blame.UNKNOWN,
)
HEADROOM, SEQS = Knob.HEADROOM, Knob.MAX_NUM_SEQS

# name of the log: class, blame, stage, knob, shortfall in GiB
CASES = {
    # the two knobs
    "free-memory-settings-0.33": (
        C.FREE_MEMORY_BELOW_UTILIZATION, SETTINGS, S.INIT, HEADROOM, 0.76),
    "kv-below-one-request-0.32": (C.KV_BELOW_ONE_REQUEST, SETTINGS, S.KV, None, 16.45),
    "kv-below-one-request-0.11-models": (C.KV_BELOW_ONE_REQUEST, SETTINGS, S.KV, None, 1.12),
    "no-cache-blocks-0.20": (C.NO_CACHE_BLOCKS, SETTINGS, S.KV, None, 1.26),
    "no-cache-blocks-cut-after-the-pool": (C.NO_CACHE_BLOCKS, SETTINGS, S.KV, None, 1.26),
    "max-len-exceeds-kv-tokens-v0": (C.MAX_LEN_EXCEEDS_KV_TOKENS, SETTINGS, S.KV, None, None),
    "mamba-blocks-tp2-0.33": (
        C.MAX_NUM_SEQS_EXCEEDS_MAMBA_BLOCKS, SETTINGS, S.GRAPHS, SEQS, None),
    "batched-tokens-below-seqs": (
        C.MAX_NUM_SEQS_EXCEEDS_BATCHED_TOKENS, SETTINGS, S.INIT, SEQS, None),
    # a bare out-of-memory, by stage
    "oom-profile-0.15": (C.OOM_DURING_PROFILE, SETTINGS, S.PROFILE, SEQS, 5.8),
    "oom-profile-by-lines-only": (C.OOM_DURING_PROFILE, SETTINGS, S.PROFILE, SEQS, 5.8),
    "oom-graph-profiling-is-profile-v2": (
        C.OOM_DURING_PROFILE, SETTINGS, S.PROFILE, SEQS, 0.3164),
    "oom-kv-allocation": (C.OOM_KV_ALLOCATION, SETTINGS, S.KV, HEADROOM, 1.0),
    "oom-graphs-v2-0.29": (C.OOM_CUDAGRAPH_CAPTURE, SETTINGS, S.GRAPHS, HEADROOM, 0.293),
    "oom-sampler-v1": (C.OOM_SAMPLER_WARMUP, SETTINGS, S.WARMUP, SEQS, 1.35),
    "oom-sampler-by-lines-only": (C.OOM_SAMPLER_WARMUP, SETTINGS, S.WARMUP, SEQS, 0.0035),
    "oom-runtime": (C.STARTED_THEN_OOM_AT_RUNTIME, SETTINGS, S.RUNTIME, HEADROOM, 1.1152),
    "oom-runtime-tp8-broken-neighbours": (
        C.STARTED_THEN_OOM_AT_RUNTIME, SETTINGS, S.RUNTIME, HEADROOM, 0.0332),
    "oom-weights-v2-bare": (C.OOM_WEIGHTS, USER, S.LOAD, None, 1.1348),
    "oom-weights-v1-text": (C.OOM_WEIGHTS, USER, S.LOAD, None, 1.1348),
    "oom-weights-rank3-while-rank0-goes-on": (C.OOM_WEIGHTS, USER, S.LOAD, None, 0.5723),
    "dp2-engines-one-out-of-memory": (C.OOM_WEIGHTS, USER, S.LOAD, None, 1.1348),
    # somebody else's memory
    "free-memory-predecessor-0.10": (
        C.FREE_MEMORY_BELOW_UTILIZATION, ENVIRONMENT, S.INIT, None, 70.05),
    "free-memory-one-rank-held-tp2": (
        C.FREE_MEMORY_BELOW_UTILIZATION, ENVIRONMENT, S.INIT, None, 53.78),
    "oom-runtime-neighbour-holds-the-card": (
        C.STARTED_THEN_OOM_AT_RUNTIME, ENVIRONMENT, S.RUNTIME, None, 1.1152),
    "oom-wake-up": (C.STARTED_THEN_OOM_AT_WAKE_UP, ENVIRONMENT, S.RUNTIME, None, None),
    # driver, kernel, build
    "illegal-access-profile": (
        C.ILLEGAL_MEMORY_ACCESS_IN_PROFILE_RUN, ENVIRONMENT, S.PROFILE, None, None),
    "cublas-profile": (C.CUBLAS_FAILURE_IN_PROFILE_RUN, ENVIRONMENT, S.PROFILE, None, None),
    "kernel-error-profile": (C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT, S.PROFILE, None, None),
    "triton-shared-memory-is-no-oom": (
        C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT, S.PROFILE, None, None),
    "kernel-error-first-request": (
        C.STARTED_THEN_KERNEL_ERROR_AT_FIRST_REQUEST, ENVIRONMENT, S.RUNTIME, None, None),
    "kernel-library-first-request": (
        C.STARTED_THEN_KERNEL_ERROR_AT_FIRST_REQUEST, ENVIRONMENT, S.RUNTIME, None, None),
    "driver-too-old-init": (C.CUDA_ERROR_IN_ENGINE_INIT, ENVIRONMENT, S.INIT, None, None),
    "nccl-init-tp2": (C.NCCL_FAILURE, ENVIRONMENT, S.INIT, None, None),
    "missing-library-cpu-0.32": (C.BROKEN_BUILD, ENVIRONMENT, S.LOAD, None, None),
    "disk-full": (C.DISK_FULL, ENVIRONMENT, S.LOAD, None, None),
    "killed-core-minus-nine": (C.HOST_OUT_OF_MEMORY, ENVIRONMENT, S.LOAD, None, None),
    # the user's to mend
    "unknown-flag": (C.BAD_ARGUMENTS, USER, S.INIT, None, None),
    "max-len-argument": (C.BAD_ARGUMENTS, USER, S.INIT, None, None),
    "unsupported-architecture": (C.UNSUPPORTED_MODEL, USER, S.INIT, None, None),
    "gated-model": (C.LICENCE_OR_HUB, USER, S.INIT, None, None),
    "hub-down": (C.LICENCE_OR_HUB, ENVIRONMENT, S.INIT, None, None),
    "missing-model": (C.MISSING_MODEL, USER, S.INIT, None, None),
    # ends that say little
    "probe-killed-while-loading": (C.PROBE_KILLED, ENVIRONMENT, S.LOAD, None, None),
    "just-ends-while-loading": (C.UNKNOWN, UNKNOWN, S.LOAD, None, None),
    "serves": (C.UNKNOWN, UNKNOWN, S.RUNTIME, None, None),
    "engine-died-silently": (C.UNKNOWN, UNKNOWN, S.RUNTIME, None, None),
    "wrapper-tail-only": (C.UNKNOWN, UNKNOWN, None, None, None),
    "unrecognised-exception": (C.UNKNOWN, UNKNOWN, S.PROFILE, None, None),
    # traps of form
    "several-tries-last-decides": (
        C.MAX_NUM_SEQS_EXCEEDS_MAMBA_BLOCKS, SETTINGS, S.GRAPHS, SEQS, None),
    "several-tries-last-serves": (C.UNKNOWN, UNKNOWN, S.RUNTIME, None, None),
    "prompts-quote-errors": (C.UNKNOWN, UNKNOWN, S.RUNTIME, None, None),
    "survived-hub-error-then-kv": (C.KV_BELOW_ONE_REQUEST, SETTINGS, S.KV, None, 16.45),
    "json-logging": (C.OOM_DURING_PROFILE, SETTINGS, S.PROFILE, SEQS, 5.8),
    "cri-and-colours": (C.KV_BELOW_ONE_REQUEST, SETTINGS, S.KV, None, 16.45),
}  # fmt: skip


def read(name: str) -> str:
    return (LOGS / f"{name}.log").read_text()


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CASES])
def test_a_log_has_one_root_cause(name):
    cause_class, blame, stage, knob, shortfall_gib = CASES[name]
    cause = classify(read(name))
    assert (cause.cause_class, cause.blame, cause.stage, cause.knob) == (
        cause_class,
        blame,
        stage,
        knob,
    )
    if shortfall_gib is None:
        assert cause.shortfall_bytes is None
    else:
        assert cause.shortfall_bytes == pytest.approx(shortfall_gib * 2**30, abs=2**20)
    assert cause.remedy


def test_every_log_has_an_answer_here():
    assert {path.stem for path in LOGS.glob("*.log")} == set(CASES)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("kv-below-one-request-0.32", "(1048576), (68.55 GiB", id="the engine's error"),
        pytest.param("oom-runtime-tp8-broken-neighbours", "GPU 5 has", id="the rank that failed"),
        pytest.param("max-len-argument", "User-specified max_model_len", id="pydantic's reason"),
        pytest.param("unrecognised-exception", "moon is in the wrong phase", id="an unknown one"),
        pytest.param("wrapper-tail-only", "See root cause above", id="the wrapper if all there is"),
    ],
)
def test_the_message_is_the_engines_own(name, words):
    assert words in classify(read(name)).message


def test_bounds_that_the_engine_names_are_passed_on():
    assert classify(read("mamba-blocks-tp2-0.33")).max_num_seqs_at_most == 939
    assert "at most 939" in classify(read("mamba-blocks-tp2-0.33")).remedy
    assert classify(read("kv-below-one-request-0.32")).estimated_max_model_len == 796912


def test_the_missing_library_is_named():
    cause = classify(read("missing-library-cpu-0.32"))
    assert "libnuma.so.1" in cause.remedy
    assert any("libnuma.so.1" in line for line in cause.key_lines)


BARE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BANNER = "INFO 11-29 10:00:09 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config:"
LOADED = "INFO 11-29 10:00:20 [x.py:1] Model loading took 15.27 GiB memory and 6.1 seconds"
POOL = "INFO 11-29 10:00:30 [x.py:1] Available KV cache memory: 50.0 GiB"
SIZE = "INFO 11-29 10:00:30 [x.py:1] GPU KV cache size: 400,000 tokens"
GRAPHS = "INFO 11-29 10:00:40 [x.py:1] Graph capturing finished in 9 secs, took 0.40 GiB"
FATAL = "(EngineCore pid=8) ERROR 11-29 11:00:00 [c.py:1] EngineCore encountered a fatal error."
SERVES = "INFO:     Application startup complete."


@pytest.mark.parametrize(
    ("lines", "cause_class"),
    [
        pytest.param([BARE], C.UNKNOWN, id="without a stage nothing is known"),
        pytest.param([BANNER, BARE], C.OOM_WEIGHTS, id="before loading took: weights"),
        pytest.param([LOADED, BARE], C.OOM_DURING_PROFILE, id="after it: profile"),
        pytest.param([LOADED, GRAPHS, BARE], C.OOM_DURING_PROFILE, id="V2 captures in it too"),
        pytest.param([LOADED, POOL, SIZE, BARE], C.OOM_CUDAGRAPH_CAPTURE, id="beside the pool"),
        pytest.param([SIZE, GRAPHS, BARE], C.OOM_SAMPLER_WARMUP, id="after the real capture"),
        pytest.param([SIZE, SERVES, BARE], C.STARTED_THEN_OOM_AT_RUNTIME, id="while serving"),
        pytest.param(
            [FATAL, BARE],
            C.STARTED_THEN_OOM_AT_RUNTIME,
            id="a tail alone: the core calls only serving errors fatal",
        ),
    ],
)  # fmt: skip
def test_the_stage_of_a_bare_out_of_memory_needs_a_line_that_was_seen(lines, cause_class):
    assert classify("\n".join(lines)).cause_class is cause_class


@pytest.mark.parametrize(
    ("text", "cause_class", "blame"),
    [
        pytest.param(
            "ValueError: Free memory on device (75.1/79.18 GiB) on startup is less than",
            C.FREE_MEMORY_BELOW_UTILIZATION, SETTINGS, id="figures before the cut are enough"),
        pytest.param(
            "ValueError: Free memory on device (13.58/15.99 GiB) on startup is less than desired "
            "GPU memory utilization (0.85, 13.59 GiB).",
            C.FREE_MEMORY_BELOW_UTILIZATION, ENVIRONMENT, id="84.9 % free is not 85"),
        pytest.param(
            "ValueError: Free memory on device cuda:0 (70.0/79.18 GiB) on startup is less than the "
            "engine's budget after excluding external process's weights (0.95, 72.0 GiB).",
            C.FREE_MEMORY_BELOW_UTILIZATION, SETTINGS, id="weights held outside, 88 % free"),
        pytest.param(
            "INFO 11-29 10:00:00 [w.py:1] Free memory on device (78.57/79.18 GiB) on startup. "
            "Desired GPU memory utilization is (0.95, 75.22 GiB).",
            C.UNKNOWN, UNKNOWN, id="the hint line is no failure"),
        pytest.param(
            "RuntimeError: CUDA out of memory occurred when warming up pooler (task='embed') with "
            "256 dummy requests.", C.OOM_SAMPLER_WARMUP, SETTINGS, id="pooler warm-up"),
        pytest.param(
            "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve "
            "even a single token.", C.KV_BELOW_ONE_REQUEST, SETTINGS, id="auto-fit failed"),
        pytest.param(
            "ValueError: The worker already uses 12.00 GiB (model weights and runtime), more than "
            "the 10.50 GiB of CPU memory reserved for it on node 0", C.NO_CACHE_BLOCKS, SETTINGS,
            id="no room for KV on a CPU"),
        pytest.param(
            "ValueError: Available memory on node 0 (5.1/15.2 GiB) on kv cache allocation is less "
            "than requested memory for kv (8.0 GiB). Decrease --kv-cache-memory-bytes",
            C.FREE_MEMORY_BELOW_UTILIZATION, SETTINGS, id="a CPU's pool asked for in bytes"),
        pytest.param(
            "ValueError: Available memory on node 0 (5.1/15.2 GiB) on kv cache allocation is less "
            "than requested memory for kv (8.0/9.0 GiB). Reduce CPU memory used by others.",
            C.FREE_MEMORY_BELOW_UTILIZATION, ENVIRONMENT, id="a CPU's pool, memory used by others"),
        pytest.param(
            "ValueError: Available memory on node 0 (14.1/15.2 GiB) on startup is less than "
            "desired CPU memory utilization (0.95, 14.44 GiB).",
            C.FREE_MEMORY_BELOW_UTILIZATION, SETTINGS, id="a CPU's share, 93 % free"),
        pytest.param(
            "OSError: Incorrect path_or_model_id: '/models/qwen'.", C.MISSING_MODEL, USER,
            id="a path that is not there"),
        pytest.param(
            "ValueError: No valid attention backend found for cuda",
            C.KERNEL_ERROR_IN_PROFILE_RUN, ENVIRONMENT, id="no kernel for this card"),
        pytest.param(
            "host:1:2 [0] init.cc:9 NCCL WARN Cuda failure 2 'out of memory'",
            C.NCCL_FAILURE, ENVIRONMENT, id="NCCL finds no memory before the weights"),
        pytest.param(
            "[my pod] (EngineCore pid=8) WARNING 11-29 10:00:00 [a.py:1] No available memory for "
            "the cache blocks was seen", C.UNKNOWN, UNKNOWN, id="a prefix of the user's own"),
        pytest.param(
            "(Worker_TP0 pid=7) ERROR 11-29 10:00:00 [w.py:1] (Worker_TP1 pid=8) ERROR 11-29 "
            "10:00:00 [w.py:1] Traceback (most recent call last):ValueError: No available memory "
            "for the cache blocks.(Worker_TP0 pid=7) INFO 11-29 10:00:00 [w.py:1] hi",
            C.NO_CACHE_BLOCKS, SETTINGS, id="processes that write into each other's lines"),
        pytest.param(
            "AssertionError: Error in memory profiling. Initial free memory 70.1 GiB, current free "
            "memory 75.0 GiB.", C.MEMORY_CHANGED_WHILE_PROFILING, ENVIRONMENT,
            id="a neighbour freed memory"),
        pytest.param(
            "ValueError: max_num_active_seqs (64) cannot be greater than max_num_seqs (32).",
            C.MAX_NUM_SEQS_BELOW_ACTIVE_SEQS, SETTINGS, id="max_num_seqs below the active limit"),
        pytest.param(
            "RuntimeError: CUDA error: out of memory", C.UNKNOWN, UNKNOWN,
            id="the driver's words for it, without a stage"),
        pytest.param(
            "ERROR 11-29 10:00:00 [e.py:1] Worker proc VllmWorker-1 died unexpectedly (exit code: "
            "-9), shutting down executor.", C.HOST_OUT_OF_MEMORY, ENVIRONMENT,
            id="a worker was killed"),
        pytest.param(
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
            "proc(s): {}", C.UNKNOWN, UNKNOWN, id="no process in the dict means nothing"),
        pytest.param("", C.UNKNOWN, UNKNOWN, id="an empty log"),
    ],
)  # fmt: skip
def test_single_lines(text, cause_class, blame):
    cause = classify(text)
    assert (cause.cause_class, cause.blame) == (cause_class, blame)


def test_the_largest_shortfall_of_the_ranks_counts():
    line = "ValueError: Free memory on device cuda:{} ({}/79.18 GiB) on startup is less than desired GPU memory utilization (0.98, 77.60 GiB)."  # noqa: E501
    cause = classify("\n".join(line.format(*rank) for rank in [(0, "77.0"), (1, "76.1")]))
    assert cause.blame is SETTINGS
    assert cause.shortfall_bytes == pytest.approx(1.5 * 2**30, abs=2**20)


def test_a_process_size_that_cannot_be_true_accuses_nobody():
    text = (
        f"{SIZE}\n{SERVES}\n{BARE} GPU 0 has a total capacity of 79.18 GiB of which 9.00 MiB is "
        "free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use."
    )
    assert classify(text).blame is SETTINGS
