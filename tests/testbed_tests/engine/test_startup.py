"""What a start prints and how it ends, for each way in which it can."""

import re
from datetime import UTC, datetime

import pytest

from testbed.engine import arguments, environment, logs, startup

QWEN = "nvidia/Qwen3.6-27B-NVFP4"
LONG = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
DRAFTER = '{"method": "mtp", "num_speculative_tokens": 8}'
FLAGS = ("--max-model-len", "1048576", "--kv-cache-dtype", "fp8", "--speculative-config", DRAFTER)


def _start(*flags, model=QWEN, variables=LONG, faults=None):
    env = environment.Environment.read(variables, environment.Faults(**(faults or {})))
    return startup.start(arguments.parse([model, *flags], env.gpu_total_bytes), env)


def _log(script):
    now = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
    return "\n".join(logs.rendered(line, {"EngineCore": 26}, now) for line in script.lines)


def _utilization(headroom_gib):
    return f"{int((175.81 - headroom_gib) / 178.35 * 10000) / 10000}"


def test_a_good_start_prints_what_a_reader_of_the_log_needs():
    script = _start(*FLAGS, "--gpu-memory-utilization", "0.9521", "--max-num-seqs", "256")
    log = _log(script)
    assert script.exit_code == 0
    assert re.search(r"Free memory on device \(175\.81/178\.35 GiB\) on startup\. Desired GPU "
                     r"memory utilization is \(0\.9521, 169\.81 GiB\)", log)  # fmt: skip
    assert len(re.findall(r"--kv-cache-memory=(-?\d+)", log)) == 2
    assert re.search(r"Model loading took [\d.]+ GiB memory and [\d.]+ seconds", log)
    available = float(re.search(r"Available KV cache memory: ([\d.]+) GiB", log)[1])
    assert 140 < available < 150
    tokens, length, times = re.search(
        r"GPU KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: "
        r"([\d.]+)x",
        log,
    ).groups()
    assert length == "1,048,576"
    assert int(tokens.replace(",", "")) / 1048576 == pytest.approx(float(times), abs=0.01)
    assert log.count("Graph capturing finished") == 2
    assert "Setting attention block size to 1648 tokens" in log
    assert script.started.num_blocks > 2000


def test_the_drafter_and_the_dtype_change_the_pool():
    small = _start("--max-model-len", "262144", "--kv-cache-dtype", "bfloat16").started
    large = _start("--max-model-len", "262144", "--kv-cache-dtype", "fp8").started
    assert large.layout.block_size == 2 * small.layout.block_size
    assert abs(large.num_blocks - small.num_blocks) <= 1


@pytest.mark.parametrize(
    ("headroom", "extra", "starts"),
    [
        pytest.param(6.0, 0.0, True, id="six GiB free and nothing unusual"),
        pytest.param(6.0, 3.0, True, id="six GiB free and three taken outside the budget"),
        pytest.param(0.5, 0.0, True, id="half a GiB free is enough while nothing more is taken"),
        pytest.param(0.5, 2.0, False, id="half a GiB free and two taken"),
    ],
)
def test_what_is_taken_outside_the_budget_must_fit_into_the_headroom(headroom, extra, starts):
    script = _start(
        *FLAGS,
        "--gpu-memory-utilization",
        _utilization(headroom),
        "--max-num-seqs",
        "32",
        faults={"extra_outside_budget_gib": extra},
    )
    assert (script.started is not None) is starts


def test_running_out_of_memory_in_the_capture_tells_the_shortfall():
    flags = (*FLAGS, "--gpu-memory-utilization", _utilization(0.5), "--max-num-seqs", "32")
    script = _start(*flags, faults={"extra_outside_budget_gib": 2.0})
    log = _log(script)
    assert script.exit_code == 1
    tried, total, free = re.search(
        r"torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate ([\d.]+) GiB\. GPU 0 has "
        r"a total capacity of ([\d.]+) GiB of which ([\d.]+) MiB is free",
        log,
    ).groups()
    assert float(total) == pytest.approx(178.35, abs=0.01)
    shortfall = float(tried) - float(free) / 1024
    assert 1.5 < shortfall < 2.0
    # What was short is what another start with so much more headroom survives.
    more = (*FLAGS, "--gpu-memory-utilization", _utilization(0.52 + shortfall))
    again = _start(*more, "--max-num-seqs", "32", faults={"extra_outside_budget_gib": 2.0})
    assert again.started is not None
    # The cause comes first, in the engine's process; the wrapper comes last.
    assert log.index("GPU KV cache size") < log.index("EngineCore failed to start.")
    assert log.splitlines()[-1] == (
        "RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}"
    )
    assert "Graph capturing finished in" not in log[log.index("GPU KV cache size") :]
    assert "Application startup complete" not in log


@pytest.mark.parametrize(
    ("flags", "options", "text"),
    [
        pytest.param(
            ("--gpu-memory-utilization", "0.99"),
            {},
            r"ValueError: Free memory on device cuda:0 \(175\.81/178\.35 GiB\) on startup is less "
            r"than desired GPU memory utilization \(0\.99, 176\.57 GiB\)",
            id="less memory is free than the fraction asks for",
        ),
        pytest.param(
            ("--gpu-memory-utilization", "0.9"),
            {"faults": {"gpu_free_gib": 90.0}},
            r"Free memory on device cuda:0 \(90\.0/178\.35 GiB\)",
            id="a predecessor still holds the card",
        ),
        pytest.param(
            ("--gpu-memory-utilization", "0.1"),
            {},
            r"ValueError: No available memory for the cache blocks\.",
            id="nothing is left for the cache",
        ),
        pytest.param(
            (*FLAGS, "--gpu-memory-utilization", "0.3"),
            {},
            r"To serve at least one request with the model's max seq len \(1048576\), \([\d.]+ GiB "
            r"KV cache is needed, which is larger than the available KV cache memory \([\d.]+ GiB"
            r"\)\. Based on the available memory, the estimated maximum model length is \d+\.",
            id="the cache is smaller than one request",
        ),
        pytest.param(
            ("--gpu-memory-utilization", "0.2", "--max-model-len", "8192", "--max-num-seqs", "512"),
            {},
            r"max_num_seqs \(512\) exceeds available Mamba cache blocks \((\d+)\).* at most \1",
            id="more sequences than blocks of state",
        ),
        pytest.param(
            ("--max-num-seqs", "512", "--max-num-batched-tokens", "256"),
            {},
            r"max_num_batched_tokens \(256\) must be greater than or equal to max_num_seqs \(512\)",
            id="fewer tokens in a batch than sequences",
        ),
        pytest.param(
            ("--max-model-len", "1048576"),
            {"variables": {}},
            r"User-specified max_model_len \(1048576\) is greater than the derived max_model_len",
            id="a length beyond the model's own",
        ),
        pytest.param(
            (),
            {"variables": {"PARKADE_SIM_WEIGHTS_GIB": "400"}},
            r"(?s)CUDA out of memory\. Tried to allocate(?!.*Model loading took)",
            id="the weights do not fit",
        ),
        pytest.param(
            ("--max-num-batched-tokens", "2M", "--gpu-memory-utilization", "0.5"),
            {},
            r"(?s)Model loading took.*CUDA out of memory(?!.*Available KV cache memory)",
            id="the profiled peak does not fit",
        ),
        pytest.param(
            (),
            {"model": "openai/gpt-5"},
            r"openai/gpt-5 is not a local folder",
            id="a model that nobody knows",
        ),
    ],
)
def test_each_failed_start_has_the_real_text_and_code(flags, options, text):
    script = _start(*flags, **options)
    assert script.started is None
    assert script.exit_code == 1
    assert re.search(text, _log(script))


def test_overrides_of_the_configuration_allow_a_longer_context():
    flags = ("--max-model-len", "1048576", "--kv-cache-dtype", "fp8", "--hf-overrides")
    rope = '{"text_config": {"rope_parameters": {"factor": 4.0}}}'
    assert _start(*flags, rope, variables={}).started is not None


def test_a_start_can_be_told_to_fail_with_any_text_and_code():
    script = _start(faults={"start_failure_text": "boom", "start_failure_exit_code": 139})
    assert (script.exit_code, script.lines[-1].text) == (139, "boom")


def test_the_hint_is_as_wrong_as_the_real_one():
    log = _log(_start(*FLAGS, "--gpu-memory-utilization", "0.95"))
    in_use = float(re.search(r"kv cache memory in use is ([\d.]+) GiB", log)[1])
    first = int(re.search(r"--kv-cache-memory=(-?\d+)", log)[1]) / 2**30
    assert first < in_use


def test_with_several_cards_the_cause_is_in_a_worker():
    flags = ("--tensor-parallel-size", "2", "--gpu-memory-utilization", _utilization(0.5))
    log = _log(_start(*flags, faults={"extra_outside_budget_gib": 2.0}))
    cause = log.index("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.38 GiB")
    assert log[:cause].rsplit("\n", 1)[1].startswith("(Worker_TP0 pid=")
    assert "Model loading took" in log
    wrapper = log.index("RuntimeError: Worker failed with error 'CUDA out of memory.")
    assert cause < wrapper < log.index("RuntimeError: Engine core initialization failed.")
