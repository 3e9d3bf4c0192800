"""``parkade kv`` and the command line's entry: outputs, exit statuses, one-line refusals."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from parkade.cli.main import COMMANDS, main

DATA = Path(__file__).parents[1] / "data" / "oracle"
CONFIG = DATA / "configs" / "Qwen--Qwen3.5-27B.json"
KEYS = {
    "fits_one_request",
    "estimated_max_model_len",
    "block_size",
    "num_groups",
    "group_size",
    "bytes_per_block",
    "num_blocks",
    "blocks_per_request_at_max_len",
    "max_concurrency",
    "kv_tokens",
    "lengths",
    "groups",
}
CASES = {
    case["id"]: case
    for case in map(json.loads, (DATA / "cases.jsonl").read_text().splitlines())
    if not case["config_overrides"]
}


def kv(*words, config=CONFIG, length="262144", available="137000000000"):
    options = ["--max-model-len", length, "--available-kv-bytes", available]
    return main(["kv", "--model-config", str(config), *options, *map(str, words)])


def command_of(case, tmp_path):
    words = ["-o", "json"]
    for option, value in {
        "--kv-cache-dtype": case["kv_cache_dtype"],
        "--tensor-parallel-size": case["tensor_parallel_size"],
        "--max-num-batched-tokens": case["max_num_batched_tokens"],
        "--kernel-block-alignment": case["align"],
        "--vllm-version": case["vllm_version"],
        "--spec-method": case["spec_method"],
        "--num-speculative-tokens": case["num_speculative_tokens"] or None,
        "--mamba-ssm-cache-dtype": case["mamba_ssm_dtype"],
        "--block-size": case["block_size_requested"]
        or (case["default_block_size"] if case["default_block_size"] != 16 else None),
    }.items():
        words += [] if value is None else [option, value]
    if case["enable_prefix_caching"] is not None:
        words.append(
            "--enable-prefix-caching"
            if case["enable_prefix_caching"]
            else "--no-enable-prefix-caching"
        )
    if case["max_concurrent_batches"] == 1:
        words.append("--no-async-scheduling")
    if case.get("draft_config"):
        draft = tmp_path / "draft.json"
        draft.write_text(json.dumps(case["draft_config"]))
        words += ["--draft-model-config", draft]
    for length in case["expected"]["blocks_per_request"]:
        words += ["--length", length]
    return words


@pytest.mark.parametrize("name", sorted(CASES)[::9] + [name for name in CASES if "eagle" in name])
def test_the_json_is_what_the_engine_planned(name, tmp_path, capsys):
    case = CASES[name]
    status = kv(
        *command_of(case, tmp_path),
        config=DATA / case["config"],
        length=str(case["max_model_len"]),
        available=str(case["available_kv_bytes"]),
    )
    found = json.loads(capsys.readouterr().out)
    expected = case["expected"]
    assert status == 0
    assert set(found) == KEYS
    for key in KEYS & set(expected) - {"groups"}:
        assert found[key] == expected[key], key
    assert {str(row["length"]): row["blocks"] for row in found["lengths"]} == expected[
        "blocks_per_request"
    ]
    for group, wanted in zip(found["groups"], expected["groups"], strict=True):
        assert set(group) == {"kind", "layers", "block_size", "page_size_bytes"}
        for key in ("layers", "block_size", "page_size_bytes"):
            assert group[key] == wanted[key]


def test_what_does_not_fit_is_told_with_status_zero(capsys):
    assert kv("-o", "json", available="1Gi") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits_one_request"] is False
    assert 0 < found["estimated_max_model_len"] < 262144
    assert kv(available="0") == 0
    assert "no length would fit" in capsys.readouterr().out


def test_the_text_is_for_people_and_plain_when_piped(capsys):
    assert kv("--length", 200000) == 0
    text = capsys.readouterr().out
    assert "one request of 262,144 tokens holds 341 blocks" in text
    assert "A request of 200,000 tokens holds" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_rules_of_an_unknown_version_are_named_on_standard_error(capsys):
    assert kv("--vllm-version", "0.50.0", "-o", "json") == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["num_blocks"] > 0
    assert "those of 0.33 are used" in output.err


def written(text):
    def write(path):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return write


def sparse_of(size):
    def write(path):
        with path.open("wb") as file:
            file.truncate(size)

    return write


def shaped(**more):
    llama = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "hidden_size": 512,
        "vocab_size": 1000,
    }
    return written(json.dumps(llama | more))


BAD_FILES = [
    pytest.param(None, "cannot read", id="a missing file"),
    pytest.param(written(""), "not JSON", id="an empty file"),
    pytest.param(written("{"), "not JSON", id="half an object"),
    pytest.param(written("name: value"), "not JSON", id="YAML"),
    pytest.param(written("[]"), "no JSON object", id="a list"),
    pytest.param(written('{"num_hidden_layers": NaN}'), "NaN", id="NaN"),
    pytest.param(written('{"num_hidden_layers": -Infinity}'), "Infinity", id="infinity"),
    pytest.param(written("9" * 5000), "not JSON", id="a number of five thousand digits"),
    pytest.param(written(b"\xff\xfe\x00\x00"), "not UTF-8", id="bytes"),
    pytest.param(shaped(num_hidden_layers=-1), "num_hidden_layers is -1", id="negative layers"),
    pytest.param(shaped(num_attention_heads=0), "num_attention_heads is 0", id="no heads"),
    pytest.param(shaped(hidden_size=10**40), "hidden_size is 1000", id="a width beyond reason"),
    pytest.param(shaped(num_key_value_heads=3), "does not divide", id="heads that do not divide"),
    pytest.param(shaped(num_hidden_layers="2"), "not a whole number", id="text for a number"),
    pytest.param(shaped(layer_types=["full_attention"]), "1 entries for 2", id="a short list"),
    pytest.param(shaped(architectures=7), "architectures is 7", id="a number for a name"),
    pytest.param(sparse_of(100 * 2**20), "larger than 16 MiB", id="a hundred megabytes"),
    pytest.param(
        written('{"a":' * 1000 + "1" + "}" * 1000), "nested", id="nested a thousand levels deep"
    ),
    pytest.param(written("[" * 100000), "nested", id="nested beyond any parser"),
    pytest.param(written('{"a":' * 200 + "1" + "}" * 200), "nested", id="nested 200 levels deep"),
]


@pytest.mark.parametrize(("write", "reason"), BAD_FILES)
def test_bad_files_get_one_line_and_status_two(write, reason, tmp_path, capsys):
    config = tmp_path / "config.json"
    if write is not None:
        write(config)
    assert kv(config=config) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert reason in output.err
    assert output.err.count("\n") == 1


def test_a_folder_is_no_configuration(tmp_path, capsys):
    assert kv(config=tmp_path) == 2
    assert capsys.readouterr().err.count("\n") == 1


BAD_WORDS = [
    pytest.param(["--tensor-parallel-size", "0"], "above zero", id="no ranks"),
    pytest.param(["--tensor-parallel-size", "-2"], "whole number", id="negative ranks"),
    pytest.param(["--tensor-parallel-size", "1.5"], "whole number", id="half a rank"),
    pytest.param(["--kv-cache-dtype", "fp3"], "fp3", id="an unknown format"),
    pytest.param(["--spec-method", "eagle3"], "num_speculative_tokens", id="no drafts"),
    pytest.param(["--vllm-version", "latest"], "latest", id="no version"),
    pytest.param(["--length", "many"], "whole number", id="a length in words"),
    pytest.param(["--bogus"], "--bogus", id="an unknown option"),
    pytest.param(["--draft-model-config", "/nowhere.json"], "nowhere", id="no draft file"),
]


@pytest.mark.parametrize(("words", "reason"), BAD_WORDS)
def test_bad_options_get_one_line_and_status_two(words, reason, capsys):
    assert kv(*words) == 2
    output = capsys.readouterr()
    assert reason in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("available", ["-5", "lots", "nan", "1e9", "9999999Ti"])
def test_bad_amounts_of_memory_get_status_two(available, capsys):
    assert kv(available=available) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("config", "words", "reason"),
    [
        pytest.param({"architectures": ["MadeUp"]}, [], "MadeUp", id="an unknown architecture"),
        pytest.param({"model_type": "made_up"}, [], "made_up", id="an unknown model type"),
        pytest.param(
            {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2},
            [],
            "hidden_size is missing",
            id="a shape that is not there",
        ),
        pytest.param(None, ["--tensor-parallel-size", "7"], "24 attention heads", id="a bad split"),
        pytest.param(None, ["--pipeline-parallel-size", "99"], "64 layers", id="too many stages"),
    ],
)
def test_what_cannot_be_sized_gets_the_reason_and_status_one(
    config, words, reason, tmp_path, capsys
):
    path = CONFIG
    if config is not None:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
    assert kv(*words, config=path) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert reason in output.err
    assert output.err.count("\n") == 1


def test_help_lists_every_command(capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in COMMANDS)


def test_help_of_a_command_leaves_with_status_zero(capsys):
    with pytest.raises(SystemExit) as left:
        main(["kv", "--help"])
    assert left.value.code == 0
    assert "--available-kv-bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(["fly"], "there is no command 'fly'", id="an unknown command"),
        pytest.param(["--bogus"], "--bogus", id="an unknown option"),
        pytest.param(["kv"], "--model-config", id="missing options"),
    ],
)
def test_a_wrong_command_gets_one_line_and_status_two(words, reason, capsys):
    assert main(words) == 2
    output = capsys.readouterr()
    assert reason in output.err
    assert output.err.count("\n") == 1


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip()


def test_help_and_kv_import_nothing_heavy():
    program = (
        "import sys; from parkade.cli.main import main; main([]);"
        f"main(['kv', '--model-config', {str(CONFIG)!r}, '--max-model-len', '8',"
        " '--available-kv-bytes', '1Gi', '-o', 'json']);"
        "heavy = {'pydantic', 'yaml', 'kopf', 'kubernetes', 'rich', 'httpx'} & set(sys.modules);"
        "sys.exit(' '.join(heavy) if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_pipe_is_no_fault():
    command = (
        f"{sys.executable} -m parkade.cli.main kv --model-config {CONFIG} --max-model-len 8"
        " --available-kv-bytes 1Gi -o json | true"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
