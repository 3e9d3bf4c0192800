"""The real engine's own page of metrics through the reader of `parkade plan --traffic`."""

import pytest

PROMPTS = ("short", "a somewhat longer prompt " * 4, "long " * 100)
ROUNDS, TOKENS = 4, 16
RESOURCE = """
apiVersion: serving.parkade.dev/v1alpha1
kind: InferenceEndpoint
metadata: {name: tiny}
spec:
  model: {name: tiny/dense, maxModelLen: 2048, weightsSize: 1Mi}
  engine: {image: "vllm/vllm-openai:v0.32.0"}
  accelerator: {product: NVIDIA-H100-80GB-HBM3}
  workload: {windowSeconds: 600, minRequests: 10}
"""


def test_what_was_sent_is_what_is_read(serve, model, tmp_path, parkade):
    limits = ("--max-model-len", "2048", "--kv-cache-memory-bytes", "64M")
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    with serve("dense", *limits) as engine:
        engine.complete("not counted", 4)
        before.write_text(engine.metrics(), encoding="utf-8")
        used = [engine.complete(one, TOKENS)["usage"] for one in PROMPTS * ROUNDS]
        after.write_text(engine.metrics(), encoding="utf-8")
    resource = tmp_path / "endpoint.yaml"
    resource.write_text(RESOURCE, encoding="utf-8")
    files = ("-f", resource, "--model-config", model("dense") / "config.json")
    workload = parkade("plan", *files, "--traffic", before, after)["workload"]
    assert workload["requests"] == len(used)
    mean = sum(one["prompt_tokens"] for one in used) / len(used)
    assert float(workload["promptTokens"]["mean"]) == pytest.approx(mean, abs=1)
    assert float(workload["outputTokens"]["mean"]) == TOKENS
