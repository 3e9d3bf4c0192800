"""Real vLLM in real pods: an image that is nearly empty, and the environment mounted into it."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from testbed.demo import resources
from testbed.images.build import build_image, ensure_base, export_archive
from testbed.vllm.environment import python_of, version
from testbed.vllm.models import files

IMAGE = f"localhost/real-vllm-cpu:v{version()}"
MODEL = "tiny/dense"
FAMILY = "dense"
FOLDER = Path(__file__).with_name("image")
START_SECONDS = 900


def build(kv_cache_memory_bytes: str) -> Path:
    """The image's archive; the engine in it is given this much memory for its cache."""
    base = ensure_base()
    with tempfile.TemporaryDirectory(prefix="parkade-vllm-") as name:
        context = Path(name)
        shutil.copy(FOLDER / "vllm", context)
        (context / "model").mkdir(mode=0o755)
        for file, text in files(FAMILY).items():
            (context / "model" / file).write_text(text, encoding="utf-8")
        given = {"PYTHON_IMAGE": base, "KV_CACHE_MEMORY_BYTES": kv_cache_memory_bytes}
        build_image(FOLDER / "Dockerfile", context, IMAGE, given)
    return export_archive(IMAGE)


def config_map() -> dict[str, Any]:
    """The model's configuration, for Parkade."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tiny-config", "namespace": resources.NAMESPACE},
        "data": {"config.json": files(FAMILY)["config.json"]},
    }


def endpoint(name: str, environment: Path, max_model_len: int) -> dict[str, Any]:
    """An InferenceEndpoint of the tiny model."""
    return {
        "apiVersion": "serving.parkade.dev/v1alpha1",
        "kind": "InferenceEndpoint",
        "metadata": {"name": name, "namespace": resources.NAMESPACE},
        "spec": {
            "model": {
                "name": MODEL,
                "maxModelLen": max_model_len,
                "configMapKeyRef": {"name": "tiny-config", "key": "config.json"},
                "weightsSize": "1Mi",
            },
            "engine": {
                "image": IMAGE,
                "env": [{"name": "REAL_VLLM", "value": str(environment)}],
                "podTemplate": _pod_template(environment),
            },
            "accelerator": {"product": "NVIDIA-B200"},
            "workload": {"windowSeconds": 60, "minRequests": 10},
            # What the card has is not known: advice may be given, nothing is tuned in these tests.
            "tuning": {
                "mode": "RecommendOnly",
                "initial": {"maxNumSeqs": 4, "gpuMemoryUtilization": "0.5"},
                "cooldownSeconds": 5,
            },
            "rollout": {"soakSeconds": 5, "startDeadlineSeconds": START_SECONDS},
        },
    }


def _pod_template(environment: Path) -> dict[str, Any]:
    """The environment and the Python it was made from, at the paths they have here."""
    folders = [environment, prefix_of(environment)]
    return {
        "spec": {
            "containers": [
                {
                    "name": "vllm",
                    "imagePullPolicy": "Never",
                    "volumeMounts": [
                        {"name": f"here-{at}", "mountPath": str(folder), "readOnly": True}
                        for at, folder in enumerate(folders)
                    ],
                }
            ],
            "volumes": [
                {"name": f"here-{at}", "hostPath": {"path": str(folder), "type": "Directory"}}
                for at, folder in enumerate(folders)
            ],
        }
    }


def prefix_of(environment: Path) -> Path:
    """Where the Python lives that the environment was made from."""
    ask = "import sys; print(sys.base_prefix)"
    command = [str(python_of(environment)), "-c", ask]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())
