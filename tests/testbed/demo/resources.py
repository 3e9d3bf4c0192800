"""What the demo applies: a namespace, a model's configuration, two endpoints of that model."""

import json
from pathlib import Path
from typing import Any

NAMESPACE = "demo"
SYSTEM_NAMESPACE = "parkade-system"
OPERATOR_IMAGE = "localhost/parkade:demo"
ENGINE_IMAGE = "localhost/simulated-vllm:v0.32.0"

MODEL = "nvidia/Qwen3.6-27B-NVFP4"
MODEL_CONFIG = Path(__file__).parents[3] / "examples" / "acceptance" / "config.json"
SHORT, LONG = "chat", "contracts"
MAX_MODEL_LEN = {SHORT: 245_760, LONG: 1_048_576}
MIN_REQUESTS = {SHORT: 2500, LONG: 50}

OBJECTIVES: dict[str, dict[str, Any]] = {
    SHORT: {"objectives": {"minOutputTokensPerSecond": 100}},
    LONG: {},
}

CLOCK_SPEED = 20
"""Seconds of the engines' clock in one second of the wall; the terminal says so."""
START_SECONDS = 4
STATE_CONFIG_MAP = "simulated-card"

BORROWED_SEQS, BORROWED_UTILIZATION = 256, "0.85"
HEADROOM = "6Gi"
GREEDY_TUNING = {"headroom": "1Gi", "minGainPercent": 1}
"""Somebody wants the last gigabytes, however little they gain."""
EXTRA_GIB = 2.5
"""What the card loses at the next start beyond the last one: more than the too small headroom."""


def setup() -> list[dict[str, Any]]:
    """The namespace, the model's configuration, and the state of the simulated card."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        _config_map("qwen-config", {"config.json": MODEL_CONFIG.read_text(encoding="utf-8")}),
        card_state({}),
    ]


def system_namespace() -> dict[str, Any]:
    """The operator's own namespace, which admits nothing but restricted pods."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": SYSTEM_NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def card_state(state: dict[str, Any]) -> dict[str, Any]:
    """What the simulated card does at the next start of an engine."""
    return _config_map(STATE_CONFIG_MAP, {"state.json": json.dumps(state)})


def endpoint(name: str) -> dict[str, Any]:
    """An InferenceEndpoint as a user writes it, with short windows so that the story fits."""
    return {
        "apiVersion": "serving.parkade.dev/v1alpha1",
        "kind": "InferenceEndpoint",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "model": {
                "name": MODEL,
                "maxModelLen": MAX_MODEL_LEN[name],
                "configMapKeyRef": {"name": "qwen-config", "key": "config.json"},
                "weightsSize": "20Gi",
            },
            "engine": {
                "image": ENGINE_IMAGE,
                "kvCacheDtype": "fp8",
                "speculativeConfig": {"method": "mtp", "num_speculative_tokens": 8},
                "env": _variables(),
                "podTemplate": _pod_template(),
            },
            "accelerator": {"product": "NVIDIA-B200"},
            "workload": {"windowSeconds": 60, "minRequests": MIN_REQUESTS[name]},
            **OBJECTIVES[name],
            "tuning": {
                "initial": {
                    "maxNumSeqs": BORROWED_SEQS,
                    "gpuMemoryUtilization": BORROWED_UTILIZATION,
                },
                "headroom": HEADROOM,
                "cooldownSeconds": 5,
            },
            "rollout": {"soakSeconds": 5, "startDeadlineSeconds": 60},
        },
    }


def operator_values(prometheus_url: str, image: str = OPERATOR_IMAGE) -> dict[str, Any]:
    """The chart's values: an image that was built here, and a quick pace."""
    repository, tag = image.split(":")
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "config": {
            "prometheus": [{"name": "default", "url": prometheus_url, "scrapeIntervalSeconds": 1}],
            "hub": {"url": ""},
            "evaluationSeconds": 3,
            "resyncSeconds": 10,
            "maxConcurrentRollouts": 2,
        },
    }


def _config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _variables() -> list[dict[str, str]]:
    values = {
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
        "PARKADE_SIM_CLOCK_SPEED": str(CLOCK_SPEED),
        "PARKADE_SIM_START_SECONDS": str(START_SECONDS),
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def _pod_template() -> dict[str, Any]:
    return {
        "spec": {
            "containers": [
                {
                    "name": "vllm",
                    "imagePullPolicy": "Never",
                    "volumeMounts": [{"name": "card", "mountPath": "/etc/parkade-sim"}],
                }
            ],
            "volumes": [{"name": "card", "configMap": {"name": STATE_CONFIG_MAP}}],
        }
    }
