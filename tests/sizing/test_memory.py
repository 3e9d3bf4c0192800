"""The estimate before a first run, the known cards, and what the engine's arguments say."""

from dataclasses import replace

import pytest
import sizing_cases as cases

from parkade.api.quantity import GIB, MIB
from parkade.api.spec import Accelerator, Engine
from parkade.sizing.cards import CARDS, card_of, device, is_blackwell
from parkade.sizing.engine_args import engine_args, hint_problem, version_of
from parkade.sizing.inputs import Device
from parkade.sizing.memory import (
    Shape,
    capture_sizes,
    estimate,
    lazy_workspace_bytes,
    peak_activation_bytes,
    sampler_state_bytes,
)
from parkade.sizing.result import NotSizable


def engine(**fields) -> Engine:
    return Engine.model_validate({"image": "vllm/vllm-openai:v0.32.0", **fields})


def shape(arch="hybrid", tokens=16384, seqs=256, version="0.32.0", **fields) -> Shape:
    args = engine_args(engine(version=version), cases.b200())
    args = replace(args, max_num_batched_tokens=tokens)
    base = {
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "num_speculative_tokens": 0,
        "blackwell": True,
        "quantized_kv": True,
    }
    return Shape(cases.architecture(arch), args, max_num_seqs=seqs, **{**base, **fields})


def test_the_sampler_takes_what_the_facts_say():
    assert sampler_state_bytes(shape(), 1024) == pytest.approx(0.98 * GIB, rel=0.04)
    assert sampler_state_bytes(shape(version="0.28.0"), 1024) == 0


@pytest.mark.parametrize(
    ("seqs", "drafts", "version", "blackwell", "sizes"),
    [
        pytest.param(1, 0, "0.32.0", True, 2, id="1 and 2"),
        pytest.param(4, 0, "0.32.0", True, 4, id="1, 2, 4 and 8"),
        pytest.param(1024, 0, "0.32.0", False, 51, id="up to 512 on Hopper"),
        pytest.param(1024, 0, "0.32.0", True, 83, id="up to 1024 on Blackwell since 0.28"),
        pytest.param(1024, 0, "0.27.0", True, 51, id="up to 512 before"),
        pytest.param(16, 8, "0.32.0", True, 37, id="drafts widen the batch: 16 x 9 x 2 = 288"),
    ],
)
def test_captured_batch_sizes(seqs, drafts, version, blackwell, sizes):
    one = shape(seqs=seqs, num_speculative_tokens=drafts, version=version, blackwell=blackwell)
    assert capture_sizes(one) == sizes


def test_eager_mode_captures_nothing():
    one = shape()
    eager = replace(one, args=replace(one.args, enforce_eager=True))
    assert estimate(eager, 20 * GIB).cuda_graph_bytes == 0


def test_activations_grow_with_batch_tokens_and_shrink_with_tensor_parallelism():
    assert peak_activation_bytes(shape(tokens=16384)) > peak_activation_bytes(shape(tokens=8192))
    alone, shared = shape("dense"), shape("dense", tensor_parallel_size=4)
    assert peak_activation_bytes(shared) < peak_activation_bytes(alone)


def test_an_8b_model_is_estimated_near_what_engines_print():
    """Mistral-7B at 16,384 tokens printed 1.97 GiB; this shape is the same but its vocabulary."""
    assert peak_activation_bytes(shape("dense", seqs=64)) == pytest.approx(1.97 * GIB, rel=0.1)


def test_weights_are_split_over_the_gpus_of_a_pod():
    one = estimate(shape(tensor_parallel_size=2, pipeline_parallel_size=2), 20 * GIB)
    assert one.weights_bytes == 5 * GIB
    assert one.uncertainty_bytes > 0


@pytest.mark.parametrize(
    ("blackwell", "quantized", "size"),
    [
        pytest.param(True, True, 394 * MIB, id="trtllm-gen alone serves a quantised cache"),
        pytest.param(True, False, 394 * MIB + 16384 * 24 * 256 * 16, id="and the prefill wrapper"),
        pytest.param(False, False, 0, id="FlashAttention takes none"),
    ],
)
def test_workspaces_that_come_after_the_pool(blackwell, quantized, size):
    assert lazy_workspace_bytes(shape(blackwell=blackwell, quantized_kv=quantized)) == size


@pytest.mark.parametrize(
    ("product", "total"),
    [
        pytest.param("NVIDIA-B200", 178.35, id="B200"),
        pytest.param("NVIDIA-H200", 139.81, id="H200"),
        pytest.param("NVIDIA-H200-NVL", 139.81, id="a longer label of a known card"),
        pytest.param("NVIDIA-H100-80GB-HBM3", 79.19, id="H100"),
        pytest.param("NVIDIA-H20", 95.0, id="H20 is no H200"),
        pytest.param("NVIDIA-L40S", 44.39, id="L40S is no L40"),
        pytest.param("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", None, id="a slice"),
        pytest.param("NVIDIA-B200-SHARED", None, id="a shared card"),
        pytest.param("NVIDIA-B2000", None, id="a card that begins like another"),
        pytest.param("Other", None, id="an unknown card"),
    ],
)
def test_cards_are_known_by_their_whole_label(product, total):
    card = card_of(product)
    assert (None if card is None else card.total_gib) == total


def test_every_known_card_has_less_free_than_total():
    for card in CARDS:
        low, high = card.free_range_gib
        assert 0 < low <= high < card.total_gib


def test_an_unknown_card_asks_for_its_memory():
    refused = device(Accelerator(product="Other"))
    assert isinstance(refused, NotSizable)
    assert "accelerator.memory" in refused.message
    known = device(Accelerator(product="Other", memory="100Gi"))
    assert isinstance(known, Device)
    assert known.free_uncertainty_bytes > 0


def test_free_memory_that_is_given_has_no_uncertainty():
    given = device(Accelerator(product="NVIDIA-B200"), free_bytes=170 * GIB)
    assert given.certain_free_bytes == 170 * GIB
    more = device(Accelerator(product="NVIDIA-B200"), free_bytes=200 * GIB)
    assert isinstance(more, NotSizable)


def test_blackwell_is_known_by_the_card():
    assert is_blackwell("NVIDIA-B200")
    assert not is_blackwell("NVIDIA-H200")
    assert not is_blackwell("Other")


@pytest.mark.parametrize(
    ("product", "memory", "version", "extra", "tokens"),
    [
        pytest.param("NVIDIA-B200", None, "0.32.0", [], 16384, id="the largest cards since 0.28"),
        pytest.param("NVIDIA-B200", None, "0.27.1", [], 8192, id="the largest cards before"),
        pytest.param("NVIDIA-H100-80GB-HBM3", None, "0.32.0", [], 8192, id="from 70 GiB"),
        pytest.param("NVIDIA-A100-SXM4-80GB", None, "0.32.0", [], 2048, id="but not an A100"),
        pytest.param("NVIDIA-L4", None, "0.32.0", [], 2048, id="small cards"),
        pytest.param(
            "NVIDIA-B200", None, "0.32.0", ["--max-num-batched-tokens=4096"], 4096, id="as said"
        ),
        pytest.param(
            "NVIDIA-B200", None, "0.32.0", ["--max_num_batched_tokens", "99"], 99, id="underscores"
        ),
        pytest.param(
            "NVIDIA-L4",
            None,
            "0.32.0",
            ["--performance-mode", "throughput"],
            4096,
            id="throughput mode doubles",
        ),
    ],
)
def test_batch_tokens_of_the_api_server(product, memory, version, extra, tokens):
    card = device(Accelerator(product=product, memory=memory))
    assert isinstance(card, Device)
    args = engine_args(engine(version=version, extraArgs=extra), card)
    assert args.max_num_batched_tokens == tokens


def test_switches_and_values_of_arguments():
    extra = [
        "--no-enable-prefix-caching",
        "--enforce-eager",
        "--mamba-ssm-cache-dtype",
        "float32",
        "--block-size=32",
        "--no-async-scheduling",
    ]
    args = engine_args(engine(extraArgs=extra), cases.b200())
    assert args.enable_prefix_caching is False
    assert args.enforce_eager
    assert args.mamba_ssm_cache_dtype == "float32"
    assert args.block_size == 32
    assert not args.async_scheduling


@pytest.mark.parametrize(
    ("image", "version", "found"),
    [
        pytest.param("vllm/vllm-openai:v0.30.1", None, (0, 30, 1), id="from the tag"),
        pytest.param("mirror:5000/vllm@sha256:00", "0.29", (0, 29, 0), id="as said for a digest"),
        pytest.param("mirror:5000/vllm", None, (0, 32, 0), id="a port is no tag"),
        pytest.param("vllm:nightly", None, (0, 32, 0), id="a tag without a number"),
    ],
)
def test_the_engines_version(image, version, found):
    assert version_of(engine(image=image, version=version)) == found


@pytest.mark.parametrize(
    "argument",
    ["--kv-cache-memory=38842097664", "--kv-cache-memory-bytes 1G", "--kv_cache_memory=1G"],
)
def test_the_engines_hint_is_refused_with_the_reason(argument):
    typed = Engine.model_construct(
        image="vllm:v0.32.0", extra_args=(argument,), env=(), version=None
    )
    problem = hint_problem(typed)
    assert problem is not None
    assert "only for the exact run" in problem
    assert hint_problem(engine()) is None
