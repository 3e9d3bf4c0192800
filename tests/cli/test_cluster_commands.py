"""explain, history and report against an API server that holds one endpoint."""

import json

import pytest
import yaml

from parkade.cli.main import main
from support.servers import Reply, serving

SPEC = {
    "model": {"name": "org/model", "maxModelLen": 1000},
    "engine": {"image": "vllm/vllm-openai:v0.32.0"},
    "accelerator": {"product": "NVIDIA-B200"},
    "objectives": {"minOutputTokensPerSecond": 100},
}
SETTINGS = {"maxNumSeqs": 12, "gpuMemoryUtilization": "0.95"}
REVISION = {"revision": "abc", **SETTINGS, "since": "2026-11-29T23:00:00Z"}
STATUS = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Serving",
            "message": "1 of 1 pods are ready.",
            "lastTransitionTime": "2026-11-29T23:00:00Z",
        }
    ],
    "applied": REVISION,
    "lastGood": REVISION,
    "recommendation": {
        **SETTINGS,
        "limitedBy": "KVCache",
        "saturated": "True",
        "bounds": {"kvCache": {"value": "12.4", "why": "The pool holds 12 <requests>."}},
        "explanation": ["Fraction: a / b = c.", "Rung: nearest to 12."],
    },
    "memory": {
        "total": "182630Mi",
        "weights": "20480Mi",
        "availableKV": "140000Mi",
        "poolTokens": 2_100_000,
        "basis": "Measured",
    },
    "workload": {
        "requests": 693,
        "promptTokens": {"mean": "174603", "median": {"above": 100_000, "upTo": 200_000}},
        "outputTokens": {"mean": "600", "p99": {"above": 2000}},
    },
    "rejected": [
        {"hash": "dead", **SETTINGS, "cause": "no_cache_blocks", "message": "No room.",
         "shortfall": "1024Mi"}
    ],
    "history": [
        {**REVISION, "origin": "Tuning", "verdict": "Successful", "message": "It served.",
         "predictedKVTokens": 2_000_000, "measuredKVTokens": 2_100_000}
    ],
}  # fmt: skip
META = {"namespace": "ns", "name": "iep", "uid": "u-1", "generation": 1}


@pytest.fixture
def cluster(tmp_path):
    """Returns a function that runs a command against an API server with these objects."""

    def call(*words, status=STATUS, spec=SPEC, found=True):
        endpoint = {"metadata": META, "spec": spec, "status": status}

        def answer(asked):
            here = asked.path.endswith("/inferenceendpoints/iep") and found
            return Reply(body=endpoint) if here else Reply(404, {"message": "not found"})

        with serving(answer) as served:
            path = tmp_path / "kubeconfig"
            path.write_text(
                yaml.safe_dump(
                    {
                        "apiVersion": "v1",
                        "kind": "Config",
                        "current-context": "c",
                        "contexts": [
                            {
                                "name": "c",
                                "context": {"cluster": "c", "user": "u", "namespace": "ns"},
                            }
                        ],
                        "clusters": [{"name": "c", "cluster": {"server": served.url}}],
                        "users": [{"name": "u", "user": {}}],
                    }
                )
            )
            return main([*words, "iep", "--kubeconfig", str(path)])

    return call


def test_explain_tells_what_runs_and_the_arithmetic(cluster, capsys):
    assert cluster("explain") == 0
    told = capsys.readouterr().out
    for words in (
        "ns/iep: org/model on NVIDIA-B200",
        "runs         seqs 12, util 0.95 (abc since",
        "limited by KVCache",
        "Ready             True     Serving",
        "KV cache      12.4",
        "The KV cache holds 2,100,000 tokens (measured).",
        "mean 174603 tokens, half of them up to 200,000 tokens",
        " 2. Rung: nearest to 12.",
    ):
        assert words in told
    assert max(len(line) for line in told.splitlines()) <= 80


def test_explain_as_json_has_the_keys_of_status(cluster, capsys):
    assert cluster("explain", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["recommendation"]["limitedBy"] == "KVCache"


def test_history_lists_verdicts_and_says_how_to_retry(cluster, capsys):
    assert cluster("history") == 0
    told = capsys.readouterr().out
    assert "Tuning  Successful   seqs 12, util 0.95" in told
    assert "2,000,000 tokens predicted, 2,100,000 measured" in told
    assert "no_cache_blocks (1024Mi short): No room." in told
    assert "kubectl annotate --overwrite iep -n ns iep" in told
    assert "'serving.parkade.dev/retry=dead REASON'" in told


def test_history_as_json(cluster, capsys):
    assert cluster("history", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["history"][0]["verdict"], told["rejected"][0]["hash"]) == ("Successful", "dead")


def test_a_report_stands_alone_and_escapes_what_it_shows(cluster, tmp_path):
    file = tmp_path / "report.html"
    assert cluster("report", "-o", "html", "-f", str(file)) == 0
    page = file.read_text("utf-8")
    for words in (
        "memory map",
        "KV cache",
        "10.5 times that in the pool",
        "It served.",
        "Rung: nearest",
    ):
        assert words in page
    assert "12 &lt;requests&gt;" in page
    assert "http://" not in page
    assert "<script" not in page


@pytest.mark.parametrize("command", ["explain", "history", "report"])
@pytest.mark.parametrize("status", [{}, {"observedGeneration": "?"}], ids=["empty", "nonsense"])
def test_an_endpoint_that_was_just_made_is_told_too(cluster, capsys, command, status):
    assert cluster(command, status=status) == 0
    assert "org/model" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["explain", "history", "report"])
def test_an_endpoint_that_is_not_there_is_one_line_and_status_2(cluster, capsys, command):
    assert cluster(command, found=False) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "there is no InferenceEndpoint 'iep' in namespace 'ns'" in told


def test_a_spec_that_can_not_be_read_is_status_1(cluster, capsys):
    assert cluster("explain", spec={}) == 1
    assert "can't be read" in capsys.readouterr().err


def test_a_report_that_can_not_be_written_is_told(cluster, capsys, tmp_path):
    assert cluster("report", "-f", str(tmp_path / "no" / "folder")) == 2
    assert "can't be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: [", id="broken YAML"),
        pytest.param("[]", id="a list"),
        pytest.param("5", id="a number"),
        pytest.param("contexts: 5\ncurrent-context: x\n", id="contexts that are none"),
        pytest.param("", id="empty"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_one_line_and_status_2(capsys, tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    assert main(["explain", "iep", "--kubeconfig", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "Give --kubeconfig" in told
