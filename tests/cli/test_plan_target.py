"""A Deployment that Parkade does not own, read as an endpoint; traffic from a live Prometheus."""

import json
import re
import time
from pathlib import Path

import pytest

from parkade.adapters.vllm_metrics import DeploymentScope, Scope
from parkade.cli.errors import UsageError
from parkade.cli.main import main
from parkade.cli.plan_target import Extra, endpoint_of
from support.metrics_server import busy_pod, prometheus_with
from support.servers import Reply, serving

EXAMPLES = Path(__file__).parents[2] / "examples" / "acceptance"
EXTRA = Extra(None, 262144, "20Gi", None)
ARGS = (
    "--model",
    "nvidia/Qwen3.6-27B-NVFP4",
    "--max-model-len=1048576",
    "--max_num_seqs",
    "256",
    "-tp",
    "1",
    "--gpu-memory-utilization",
    "0.95",
    "--kv-cache-dtype",
    "fp8",
    "--enforce-eager",
)


def deployment(args=ARGS, command=None, selector=True, image="vllm/vllm-openai:v0.32.0"):
    pod = {"containers": [{"name": "proxy", "image": "nginx"}, {"name": "x", "image": image}]}
    pod["containers"][1] |= {"args": list(args)} if command is None else {"command": command}
    if selector:
        pod["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-B200"}
    return {
        "metadata": {"namespace": "serving", "name": "qwen"},
        "spec": {"replicas": 2, "template": {"spec": pod}},
    }


def test_arguments_become_a_spec_and_settings_what_is_in_force():
    endpoint = endpoint_of(deployment(), EXTRA)
    spec = endpoint.spec
    assert (endpoint.namespace, endpoint.name, spec.replicas) == ("serving", "qwen", 2)
    assert (spec.model.name, spec.model.max_model_len) == ("nvidia/Qwen3.6-27B-NVFP4", 1048576)
    assert spec.engine.kv_cache_dtype == "fp8"
    assert spec.engine.extra_args == ("--enforce-eager",)
    assert spec.tuning.initial.max_num_seqs == 256
    assert spec.tuning.initial.gpu_memory_utilization == "0.95"
    assert spec.accelerator.product == "NVIDIA-B200"


def test_a_shell_line_is_read_too():
    line = "exec vllm serve 'org/m' --max-num-seqs 64 -tp=2 --speculative-config '{\"method\": "
    line += '"ngram", "num_speculative_tokens": 3}\''
    spec = endpoint_of(deployment(command=["sh", "-c", line]), EXTRA).spec
    assert spec.model.name == "org/m"
    assert spec.model.max_model_len == 262144
    assert spec.engine.tensor_parallel_size == 2
    assert spec.engine.speculative_config.num_speculative_tokens == 3


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["/bin/bash", "-lc"], id="a login shell"),
        pytest.param(["sh", "-ec"], id="one that stops at errors"),
        pytest.param(["tini", "--", "bash", "-euxc"], id="behind another program"),
    ],
)
def test_options_of_a_shell_hide_no_line(command):
    line = "vllm serve org/m --max-num-seqs 28 --gpu-memory-utilization 0.9521"
    tuning = endpoint_of(deployment(command=[*command, line]), EXTRA).spec.tuning
    assert tuning.initial.max_num_seqs == 28
    assert tuning.initial.gpu_memory_utilization == "0.9521"


@pytest.mark.parametrize(
    ("product", "seqs"),
    [
        pytest.param("NVIDIA-B200", 1024, id="a card from 70 GiB on"),
        pytest.param("NVIDIA-A100-SXM4-80GB", 256, id="but not an A100"),
        pytest.param("NVIDIA-L4", 256, id="a small one"),
        pytest.param("NVIDIA-unheard-of", 256, id="one that nobody knows"),
    ],
)
def test_what_nobody_says_is_the_engine_s_default(product, seqs):
    made = deployment(args=("--model", "org/m"), selector=False)
    tuning = endpoint_of(made, Extra(product, 32768, None, None)).spec.tuning
    assert tuning.initial.max_num_seqs == seqs
    assert tuning.initial.gpu_memory_utilization == "0.92"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        pytest.param(deployment(image="nginx", args=()), "runs vLLM", id="no engine"),
        pytest.param(deployment(selector=False), "--gpu-product", id="no card"),
        pytest.param(deployment(args=("--max-num-seqs=9",)), "no model", id="no model"),
        pytest.param(deployment(args=(*ARGS, "-tp", "two")), "'two'", id="words for numbers"),
        pytest.param(deployment(args=(*ARGS, "--max-num-seqs=0")), "max", id="impossible"),
        pytest.param(
            deployment(args=(*ARGS, "--speculative-config", "{")), "not JSON", id="broken JSON"
        ),
        pytest.param(deployment(command=["sh", "-c", "vllm 'a"]), "shell line", id="open quote"),
        pytest.param(
            deployment(args=(*ARGS, "--config", "/etc/vllm.yaml")), "/etc/vllm.yaml", id="a file"
        ),
        pytest.param({}, "runs vLLM", id="nothing at all"),
    ],
)
def test_what_cannot_be_read_is_refused(made, words):
    with pytest.raises(UsageError, match=words):
        endpoint_of(made, EXTRA)


def test_pods_are_asked_for_by_their_names():
    scope = DeploymentScope(60, namespaces=("serving",), deployment="a.b")
    safe = "[bcdfghjklmnpqrstvwxz2456789]"
    pods = f"a\\\\.b-{safe}{{1,10}}-{safe}{{5}}"
    assert scope.selector == f'{{pod=~"{pods}",namespace="serving"}}'


def pod_of(deployment, replica_set_hash="7d9c5b8f6d", suffix="x4k9z"):
    """Name a pod as the ReplicaSet controller does."""
    return f"{deployment}-{replica_set_hash}-"[:58] + suffix


@pytest.mark.parametrize("length", [1, 45, 46, 47, 50, 56, 57, 58, 63])
@pytest.mark.parametrize("hashed", ["7d9c5b8f6d", "7d9c5b8f6", "7d9c5b8f"])
def test_pods_of_a_deployment_with_a_name_of_any_length_are_found(length, hashed):
    name = "a" * length
    pattern = DeploymentScope(60, namespaces=("ns",), deployment=name).selector.split('"')[1]
    assert re.fullmatch(pattern, pod_of(name, hashed))


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param("vllm-0", id="a StatefulSet's"),
        pytest.param("vllm-decode-0", id="one of a longer name"),
        pytest.param("vllm-0-1", id="a LeaderWorkerSet's"),
        pytest.param("vllm-bench-x4k9z", id="a Job's"),
        pytest.param(pod_of("vllm-prefill"), id="another Deployment's"),
    ],
)
def test_pods_of_others_are_not_counted_in(pod):
    pattern = DeploymentScope(60, namespaces=("ns",), deployment="vllm").selector.split('"')[1]
    assert not re.fullmatch(pattern, pod)


def kubeconfig(url: str, path: Path) -> str:
    cluster = {"name": "a", "cluster": {"server": url}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    text = {"apiVersion": "v1", "kind": "Config", "current-context": "a"}
    text |= {"clusters": [cluster], "contexts": [context], "users": [{"name": "a", "user": {}}]}
    path.write_text(json.dumps(text))
    return str(path)


def test_a_running_deployment_is_told_what_it_should_be(tmp_path, capsys):
    now = time.time()
    table = busy_pod()
    for samples in table.values():
        for sample in samples:
            sample["metric"] |= {"namespace": "serving", Scope(1).endpoint_label: ""}
    for what in ("newest", "newest_in_window"):
        table[what][0]["value"][1] = str(now)
    scope = DeploymentScope(14400, namespaces=("serving",), deployment="qwen")
    with (
        serving(lambda _asked: Reply(body=deployment())) as api,
        prometheus_with(table, scope) as prometheus,
    ):
        status = main(
            [
                *("plan", "--deployment", "serving/qwen", "--prometheus", prometheus.url),
                *("--kubeconfig", kubeconfig(api.url, tmp_path / "kubeconfig")),
                *("--model-config", str(EXAMPLES / "config.json"), "--weights-size", "20Gi"),
            ]
        )
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert "max_num_seqs            256 -> 28   limited by KVCache" in out


@pytest.mark.parametrize("target", ["serving", "/qwen", "a/b/c", "serving/"], ids=repr)
def test_a_target_without_namespace_and_name_is_refused(target, capsys):
    args = ["plan", "--deployment", target, "--model-config", str(EXAMPLES / "config.json")]
    assert main(args) == 2
    assert "NAMESPACE/NAME" in capsys.readouterr().err


def test_a_live_prometheus_is_asked_as_the_operator_asks(tmp_path, capsys):
    now = time.time()
    table = busy_pod()
    for what in ("newest", "newest_in_window"):
        table[what][0]["value"][1] = str(now)
    path = tmp_path / "endpoint.yaml"
    text = (EXAMPLES / "short.yaml").read_text()
    path.write_text(text.replace("name: short\n  namespace: serving", "name: iep\n  namespace: ns"))
    with prometheus_with(table, Scope(14400, namespaces=("ns",))) as served:
        args = ["plan", "-f", str(path), "--model-config", str(EXAMPLES / "config.json")]
        assert main([*args, "--prometheus", served.url, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"]["requests"] == 693


@pytest.mark.parametrize(
    ("url", "words"),
    [
        pytest.param("ftp:x", "not the address", id="no address"),
        pytest.param("http://127.0.0.1:1", "--prometheus", id="nobody listens"),
    ],
)
def test_a_prometheus_that_does_not_answer_is_one_line(url, words, capsys):
    args = ["plan", "-f", str(EXAMPLES / "short.yaml"), "--prometheus", url]
    assert main([*args, "--model-config", str(EXAMPLES / "config.json")]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
