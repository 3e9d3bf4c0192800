"""Builders of sizing's inputs, so that a test says only what it is about."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from parkade.api.conditions import Reason
from parkade.api.endpoint import Endpoint, parse_endpoint
from parkade.api.quantity import GIB
from parkade.sizing.architecture import ModelArchitecture, parse_architecture
from parkade.sizing.cards import device
from parkade.sizing.histograms import Histogram, read_histogram
from parkade.sizing.inputs import Device, MeasuredMemory, SizingInputs
from parkade.sizing.ledger import PointSource, SpeedPoint
from parkade.sizing.recommend import Sizing, recommend
from parkade.sizing.workload import CannotTell, InFlight, Workload

ROOT = Path(__file__).parents[2]
ACCEPTANCE = ROOT / "examples" / "acceptance"

NOTHING = CannotTell(Reason.NO_TRAFFIC, "No request finished in the window.")

LADDER = ((8, 263.0, 0.8), (32, 120.0, 5.1), (128, 42.0, 20.0), (256, 30.0, 30.1))
"""Client concurrency, tok/s per request, seconds to the first token: medians of five runs."""

EDGES = tuple(float(m * 10**k) for k in range(7) for m in (1, 2, 5))[:-2]

DENSE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}


def architecture(name: str = "hybrid") -> ModelArchitecture:
    raw = DENSE if name == "dense" else json.loads((ACCEPTANCE / "config.json").read_text())
    parsed = parse_architecture(raw)
    assert isinstance(parsed, ModelArchitecture), parsed
    return parsed


def endpoint(**changes) -> Endpoint:
    """The long endpoint with parts of its spec replaced, as `tuning={"headroom": "1Gi"}`."""
    body = yaml.safe_load((ACCEPTANCE / "long.yaml").read_text())
    for key, value in changes.items():
        old = body["spec"].get(key)
        merged = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        body["spec"][key] = merged
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    parsed = parse_endpoint(body, strict=True)
    assert isinstance(parsed, Endpoint), parsed
    return parsed


def histogram(values: list[int], edges=EDGES) -> Histogram:
    pairs = [(edge, float(sum(1 for one in values if one <= edge))) for edge in edges]
    read = read_histogram(pairs, float(len(values)), float(sum(values)))
    assert isinstance(read, Histogram), read
    return read


def workload(prompts=(2000,) * 600, outputs=(500,) * 600, **fields) -> Workload:
    return Workload(
        window_seconds=14400.0,
        requests=float(len(prompts)),
        prompt_tokens=histogram(list(prompts)),
        output_tokens=histogram(list(outputs)),
        **fields,
    )


def in_flight(running=3.1, kv_usage=0.24, pool_tokens=2_100_000.0, **fields) -> InFlight:
    return InFlight(running, kv_usage, pool_tokens, **fields)


def point(concurrency, speed, first=(), source=PointSource.BENCHMARK, **fields) -> SpeedPoint:
    speeds = tuple(speed * factor for factor in (0.99, 1.0, 1.01, 1.0, 0.995))
    return SpeedPoint(float(concurrency), speeds, tuple(first), source=source, **fields)


def ladder() -> tuple[SpeedPoint, ...]:
    return tuple(point(seqs, speed, (first,) * 5) for seqs, speed, first in LADDER)


def b200(**sizes) -> Device:
    found = device(endpoint().spec.accelerator, **sizes)
    assert isinstance(found, Device), found
    return found


def inputs(spec=None, *, work=None, arch="hybrid", weights=20 * GIB, **fields) -> SizingInputs:
    plain = {"speculativeConfig": None} if arch == "dense" else {}
    default = endpoint(tuning={"initial": None}, engine=plain)
    return SizingInputs(
        spec=(spec or default).spec,
        architecture=architecture(arch),
        weights_bytes=weights,
        device=fields.pop("device", b200()),
        workload=work or workload(),
        **fields,
    )


def sized(*args, **kwargs) -> Sizing:
    result = recommend(inputs(*args, **kwargs))
    assert isinstance(result, Sizing), result
    return result


def measured(**fields) -> MeasuredMemory:
    base = {
        "total_bytes": round(178.35 * GIB),
        "free_bytes": round(175.81 * GIB),
        "utilization": 0.9,
        "max_num_seqs": 256,
        "non_kv_bytes": 24 * GIB,
        "available_kv_bytes": 135 * GIB,
        "graph_bytes_estimated": GIB,
        "graph_bytes_actual": GIB,
        "weights_bytes": 20 * GIB,
        "peak_activation_bytes": 3 * GIB,
    }
    return MeasuredMemory(**{**base, **fields})
