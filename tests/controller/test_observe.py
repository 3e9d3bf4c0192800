"""What an observation remembers of the last recommendation, and where it is kept."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parkade.adapters.traffic import Traffic
from parkade.adapters.vllm_metrics import DeploymentScope
from parkade.api.endpoint import parse_endpoint
from parkade.controller.models import ModelFacts
from parkade.controller.observe import Observation
from parkade.controller.size import size
from parkade.rollout.record import Record
from parkade.rollout.running import read_running
from parkade.sizing.architecture import parse_architecture
from support.traffic import served

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WINDOW_SECONDS = 3600
CONFIG = Path(__file__).parents[1] / "data" / "qwen3.6-27b-config.json"
MODEL = ModelFacts(parse_architecture(json.loads(CONFIG.read_text("utf-8"))), 20 * 2**30)
THEIRS = {
    "name": "server",
    "image": "vllm/vllm-openai:v0.32.0",
    "args": ["--model=m", "--max-num-seqs=32", "--gpu-memory-utilization=0.95",
             "--kv-cache-dtype=fp8"],
}  # fmt: skip


def advised(status=None):
    """An endpoint that advises on a Deployment of somebody else, at 32."""
    raw = {
        "metadata": {"namespace": "ns", "name": "iep", "uid": "u", "generation": 2},
        "spec": {
            "model": {"name": "m", "maxModelLen": 200_000},
            "targetRef": {"name": "server"},
            "accelerator": {"product": "NVIDIA-B200"},
            "workload": {"windowSeconds": WINDOW_SECONDS, "minRequests": 10},
            "tuning": {"minGainPercent": 10},
        },
        "status": status or {},
    }
    deployment = {"spec": {"template": {"spec": {"containers": [THEIRS]}}}}
    running = read_running(deployment, lambda _product: 256)
    found = (None, None, None, (), (), (), ())
    return Observation(parse_endpoint(raw), NOW, Record("u"), *found, running=running)


def told(value, generation=2):
    return {"observedGeneration": generation, "recommendation": {"maxNumSeqs": value}}


@pytest.mark.parametrize(
    ("status", "remembered"),
    [
        pytest.param(told(40), 40, id="of this spec"),
        pytest.param(told(40, 1), None, id="of the spec before"),
        pytest.param({"observedGeneration": 2}, None, id="nothing was recommended"),
        pytest.param({}, None, id="no status yet"),
        pytest.param(told("40"), None, id="words"),
        pytest.param(told(True), None, id="no number"),
        pytest.param(told(-1), None, id="an absurd number"),
        pytest.param({**told(40), "recommendation": "40"}, None, id="no object"),
    ],
)
def test_advice_alone_is_remembered_by_the_status(status, remembered):
    assert advised(status).recommended_max_num_seqs == remembered


def traffic(running):
    """Requests of which so many hold a tenth of the KV cache."""
    pods = {("ns", ""): {"p": served(NOW, running, milliseconds=30)}}
    scope = DeploymentScope(WINDOW_SECONDS, namespaces=("ns",), deployment="server")
    return Traffic(scope, NOW.timestamp(), pods, {})


@pytest.mark.parametrize(
    ("running", "before", "advice"),
    [
        pytest.param(1.70, None, 40, id="beyond the hysteresis"),
        pytest.param(1.60, None, 32, id="within it"),
        pytest.param(1.60, 40, 40, id="half of it is left of what was recommended"),
        pytest.param(1.50, 40, 32, id="less than half"),
    ],
)
def test_noise_does_not_take_advice_back(running, before, advice):
    status = {} if before is None else told(before)
    found = size(advised(status), traffic(running), MODEL, None)
    assert found.desired.settings.max_num_seqs == advice
