"""The command line, the variables and the state file."""

import ast
import json
import sys
from pathlib import Path

import pytest

import testbed.engine
from testbed.engine import arguments, environment
from testbed.engine.models import UnsupportedModelError, from_config, load_model

GIB = 1 << 30
B200 = int(178.35 * GIB)


def _parse(*words, total=B200):
    return arguments.parse(["some/model", *words], total)


def test_every_flag_that_a_deployment_sets_is_understood():
    given = _parse(
        "--served-model-name", "a", "b", "--revision", "abc", "--max-model-len", "1M",
        "--max-num-seqs=12", "--gpu-memory-utilization", "0.95", "--kv-cache-dtype", "fp8",
        "--tensor-parallel-size", "2", "--pipeline-parallel-size", "2", "--speculative-config",
        '{"method": "mtp", "num_speculative_tokens": 8}', "--max_num_batched_tokens", "8192",
        "--no-enable-prefix-caching", "--host", "127.0.0.1", "--port", "9000",
        "--disable-access-log-for-endpoints", "/health,/metrics", "--shutdown-timeout", "30",
        "--custom-histogram-buckets", '{"request_tokens": [1, 2]}', "--trust-remote-code",
        "--dtype", "bfloat16", "--kv-cache-memory", "64G",
    )  # fmt: skip
    assert given.served_model_names == ("a", "b")
    assert given.max_model_len == 1 << 20
    assert (given.max_num_seqs, given.max_num_batched_tokens) == (12, 8192)
    assert given.kv_cache_memory_bytes == 64 * GIB
    assert given.cache.tensor_parallel_size == given.cache.pipeline_parallel_size == 2
    assert given.cache.num_speculative_tokens == 8
    assert not given.cache.enable_prefix_caching
    assert given.quiet_endpoints == ("/health", "/metrics")
    assert given.custom_histogram_buckets == {"request_tokens": [1, 2]}
    assert given.non_default["max_num_seqs"] == 12


def test_the_model_may_be_a_flag():
    given = arguments.parse(["--model", "some/model", "--enable-prefix-caching"], B200)
    assert (given.model, given.served_model_names) == ("some/model", ("some/model",))


@pytest.mark.parametrize(
    ("gib", "seqs", "tokens"), [(178.35, 1024, 16384), (79.2, 1024, 8192), (22, 256, 2048)]
)
def test_defaults_follow_the_card(gib, seqs, tokens):
    given = _parse(total=int(gib * GIB))
    assert (given.max_num_seqs, given.max_num_batched_tokens) == (seqs, tokens)
    assert given.gpu_memory_utilization == 0.92


@pytest.mark.parametrize(
    "words",
    [
        ["--gpu-memory-utilization", "1.5"],
        ["--gpu-memory-utilization", "0"],
        ["--max-num-seqs", "many"],
        ["--max-model-len", "1x"],
        ["--kv-cache-dtype", "int3"],
        ["--speculative-config", "mtp"],
        ["--speculative-config", '{"method": "eagle3", "num_speculative_tokens": 3}'],
        ["--speculative-config", '{"method": "mtp"}'],
        ["--nonsense"],
    ],
)
def test_wrong_flags_end_with_code_two(words, capsys):
    with pytest.raises(SystemExit) as ended:
        _parse(*words)
    assert ended.value.code == 2
    assert "vllm serve: error: " in capsys.readouterr().err


def test_no_model_is_an_error(capsys):
    with pytest.raises(SystemExit):
        arguments.parse([], B200)
    assert "required: model_tag" in capsys.readouterr().err


def test_variables_have_the_defaults_of_a_b200():
    env = environment.Environment.read({})
    assert env.gpu_total_bytes == int(178.35 * GIB)
    assert env.gpu_free_bytes == int(175.81 * GIB)
    assert (env.clock_speed, env.start_seconds, env.extra_outside_budget_bytes) == (1, 5, 0)
    small = environment.Environment.read({"PARKADE_SIM_GPU_TOTAL_GIB": "80"})
    assert small.gpu_free_bytes < small.gpu_total_bytes == 80 * GIB


@pytest.mark.parametrize("value", ["x", "-1", "nan", "inf", "0"])
def test_a_number_that_cannot_be_used_is_named(value):
    with pytest.raises(environment.EnvironmentValueError, match="CLOCK_SPEED must be a number"):
        environment.Environment.read({"PARKADE_SIM_CLOCK_SPEED": value})


def _faults(tmp_path, state, hostname="contracts-7d9f-abcde"):
    path = tmp_path / "state.json"
    path.write_text(state if isinstance(state, str) else json.dumps(state))
    return environment.read_faults({"PARKADE_SIM_STATE_FILE": str(path)}, hostname)


def test_a_missing_state_file_asks_for_nothing(tmp_path):
    named = {"PARKADE_SIM_STATE_FILE": str(tmp_path / "none.json")}
    assert environment.read_faults(named, "pod") == environment.Faults()


def test_the_state_file_adds_to_the_variables(tmp_path):
    faults = _faults(tmp_path, {"extra_outside_budget_gib": 2, "start_seconds": 0.5})
    env = environment.Environment.read({"PARKADE_SIM_EXTRA_OUTSIDE_BUDGET_GIB": "1"}, faults)
    assert env.extra_outside_budget_bytes == 3 * GIB
    assert env.start_seconds == 0.5


def test_the_state_file_can_mean_some_pods_only(tmp_path):
    state = {"gpu_free_gib": 9, "pods": {"contracts": {"gpu_free_gib": 5}, "chat": {}}}
    assert _faults(tmp_path, state).gpu_free_gib == 5
    assert _faults(tmp_path, state, "contractsother-1").gpu_free_gib == 9
    assert _faults(tmp_path, state, "chat-1").gpu_free_gib == 9


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("{", "is not JSON"),
        ([1], "one JSON object"),
        ({"pods": 3}, "pods must be an object"),
        ({"pods": {"contracts": 3}}, "pods must be an object"),
        ({"extra": 1}, "unknown keys"),
        ({"die_text": 3}, "die_text must be a string"),
        ({"start_seconds": True}, "start_seconds must be a number"),
        ({"die_exit_code": 1.5}, "die_exit_code must be a whole number"),
        ('{"start_seconds": NaN}', "start_seconds must be a number"),
        ('{"extra_outside_budget_gib": -1}', "extra_outside_budget_gib must be a number"),
    ],
)
def test_a_wrong_state_file_is_named_with_its_fault(tmp_path, state, text):
    with pytest.raises(environment.EnvironmentValueError, match=text):
        _faults(tmp_path, state)


def test_models_are_found_by_folder_by_file_and_by_name(tmp_path):
    text = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2,
        "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 512, "intermediate_size": 128,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(text))
    for model in (
        load_model(str(tmp_path), None, None),
        load_model("any/name", str(tmp_path), None),
        load_model("any/name", str(tmp_path / "config.json"), None),
    ):
        assert (model.full_layers, model.kv_heads, model.head_dim) == (2, 4, 16)
    assert load_model("NVIDIA/qwen3.6-27b-nvfp4", None, None).hybrid


def test_the_weights_of_a_known_shape_are_estimated_well():
    known = load_model("meta-llama/Llama-3.1-8B-Instruct", None, None)
    configs = Path(testbed.engine.__file__).parent / "configs"
    shape = json.loads((configs / "Llama-3.1-8B-Instruct.json").read_text())["config"]
    estimated = from_config("x", shape, None)
    assert estimated.weights_bytes == pytest.approx(known.weights_bytes, rel=0.01)


def test_other_architectures_are_refused_by_name():
    config = {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"]}
    with pytest.raises(UnsupportedModelError, match="DeepseekV3ForCausalLM"):
        from_config("x", config, None)


def test_the_engine_needs_nothing_but_the_standard_library():
    for path in Path(testbed.engine.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            for name in names:
                local = name.startswith("testbed.engine")
                assert local or name.split(".")[0] in sys.stdlib_module_names, (path, name)
