"""Rendered manifests of endpoints of all kinds, word for word. `make golden` writes them anew."""

import os
from pathlib import Path

import pytest
import yaml

from parkade.rollout.actions import CANARY_MIN_READY_SECONDS, Target
from parkade.rollout.render import manifests, render_revision
from rollout.support.objects import endpoint, settings

GOLDEN = Path(__file__).parents[1] / "golden"

CASES = {
    "small": ({}, {}),
    "canary-no-surge": ({"replicas": 3}, {"surge": False, "min_ready": CANARY_MIN_READY_SECONDS}),
    "speculative-volumes-secret": (
        {
            "model": {
                "name": "/models/hybrid",
                "revision": "3f1c",
                "configMapKeyRef": {"name": "hybrid", "key": "config.json"},
                "weightsSize": "20Gi",
                "volume": {"persistentVolumeClaim": {"claimName": "models"}},
                "tokenSecretKeyRef": {"name": "hf-token", "key": "token"},
            },
            "engine": {
                "imagePullSecrets": [{"name": "registry"}],
                "tensorParallelSize": 2,
                "pipelineParallelSize": 2,
                "speculativeConfig": {"method": "mtp", "num_speculative_tokens": 8},
                "extraArgs": ["--enable-prefix-caching"],
                "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"}],
                "cacheVolume": {"persistentVolumeClaim": {"claimName": "vllm-cache"}},
            },
            "rollout": {"startDeadlineSeconds": 1800},
        },
        {},
    ),
    "pod-template": (
        {
            "engine": {
                "image": "registry.example/vllm@sha256:" + "0" * 64,
                "podTemplate": {
                    "metadata": {"labels": {"team": "legal"}, "annotations": {"note": "x"}},
                    "spec": {
                        "priorityClassName": "serving",
                        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                        "nodeSelector": {"pool": "b200"},
                        "terminationGracePeriodSeconds": 300,
                        "volumes": [{"name": "scratch", "emptyDir": {}}],
                        "containers": [
                            {
                                "name": "vllm",
                                "resources": {"limits": {"memory": "64Gi"}},
                                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                            },
                            {"name": "proxy", "image": "envoy:1"},
                        ],
                    },
                },
            }
        },
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_manifests_are_word_for_word_as_before(name: str) -> None:
    spec, target = CASES[name]
    one = endpoint(spec)
    revision = render_revision(one, settings(64, "0.9543"))
    rendered = manifests(
        one,
        Target(
            revision,
            one.spec.replicas,
            surge=target.get("surge", True),
            min_ready_seconds=target.get("min_ready", 0),
        ),
    )
    text = yaml.safe_dump_all(rendered, sort_keys=False, width=100)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), "run `make golden` and review the difference"
