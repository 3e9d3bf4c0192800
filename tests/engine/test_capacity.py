"""What the real engine gets out of given bytes, against what we say before it starts."""

import re

import pytest

from parkade.rollout.causes import read_startup
from testbed.vllm.environment import version

MIB = 2**20
LENGTH = 2048
BATCHED_TOKENS = 2048
LIMITS = (
    *("--max-model-len", str(LENGTH), "--max-num-seqs", "4"),
    *("--max-num-batched-tokens", str(BATCHED_TOKENS), "--no-async-scheduling"),
)
LABEL = re.compile(r'(\w+)="([^"]*)"')

FAMILIES = [
    pytest.param("dense", 64 * MIB, (), id="dense attention with grouped queries"),
    pytest.param("dense", 5_000_000, ("--block-size", "64"), id="... with bytes that leave a rest"),
    pytest.param("experts", 48 * MIB, (), id="mixture of experts"),
    pytest.param("sliding-window", 64 * MIB, (), id="sliding windows beside full attention"),
    pytest.param("latent-attention", 64 * MIB, (), id="multi-head latent attention"),
    pytest.param("gated-deltanet", 64 * MIB, (), id="hybrid with Gated DeltaNet"),
    pytest.param("mamba2", 64 * MIB, (), id="hybrid with Mamba2"),
]


@pytest.mark.parametrize(("name", "available", "arguments"), FAMILIES)
def test_our_capacity_is_the_engines(name, available, arguments, serve, model, parkade):
    memory = ("--kv-cache-memory-bytes", str(available))
    with serve(name, *LIMITS, *memory, *arguments) as engine:
        its = cache_config(engine.metrics())
        started = read_startup(engine.log.read_text(errors="replace"))
    ours = parkade("kv", *options(model(name) / "config.json", available, its))
    seen = {
        "num_gpu_blocks": ours["num_blocks"],
        "kv_cache_size_tokens": ours["kv_tokens"],
        "kv_cache_max_concurrency": ours["max_concurrency"],
    }
    assert {key: float(its[key]) for key in seen} == pytest.approx(seen, rel=1e-9)
    assert started.kv_tokens == ours["kv_tokens"]
    assert started.max_concurrency == pytest.approx(ours["max_concurrency"], abs=0.0051)
    assert started.max_concurrency_len == LENGTH
    assert started.complete


def cache_config(page):
    """The labels of the metric that states the engine's cache."""
    line = next(one for one in page.splitlines() if one.startswith("vllm:cache_config_info{"))
    return dict(LABEL.findall(line))


def options(config, available, its):
    """What the engine was given, and the defaults of its device.

    A CPU's attention works on other blocks than a GPU's, and its recurrent state is kept in
    float32; both are options of ours, as they are the engine's.
    """
    words = ["--model-config", config, "--max-model-len", LENGTH]
    words += ["--available-kv-bytes", available, "--vllm-version", version()]
    words += ["--block-size", its["effective_attention_block_size"]]
    words += ["--mamba-ssm-cache-dtype", its["mamba_ssm_cache_dtype"]]
    words += ["--max-num-batched-tokens", BATCHED_TOKENS, "--no-async-scheduling"]
    caching = its["enable_prefix_caching"] == "True"
    return [*words, "--enable-prefix-caching" if caching else "--no-enable-prefix-caching"]
