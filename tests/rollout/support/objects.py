"""Raw objects for tests, small and valid."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from parkade.api.endpoint import Endpoint, InvalidEndpoint, parse_endpoint
from parkade.api.settings import Settings
from parkade.rollout.merge import merged

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
GIB = 1024**3
TOTAL = 178 * GIB


def at(seconds: float) -> datetime:
    """A time of the test's own day."""
    return START + timedelta(seconds=seconds)


def settings(seqs: int = 256, utilization: str = "0.9") -> Settings:
    return Settings(seqs, Decimal(utilization))


def body(
    spec: dict[str, Any] | None = None,
    *,
    name: str = "contracts",
    uid: str = "uid-1",
    generation: int = 1,
    status: dict[str, Any] | None = None,
    retry: str | None = None,
    deleting: bool = False,
) -> dict[str, Any]:
    """A whole resource; `spec` is merged into a small one."""
    small = {
        "replicas": 1,
        "model": {"name": "acme/hybrid-27b", "maxModelLen": 1_048_576},
        "engine": {"image": "vllm/vllm-openai:v0.32.0", "kvCacheDtype": "fp8"},
        "accelerator": {"product": "NVIDIA-B200"},
        "tuning": {"cooldownSeconds": 600, "headroom": "6Gi"},
        "rollout": {"startDeadlineSeconds": 600, "soakSeconds": 60},
    }
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "serving",
        "uid": uid,
        "generation": generation,
        "resourceVersion": "1",
    }
    if retry is not None:
        meta["annotations"] = {"serving.parkade.dev/retry": retry}
    if deleting:
        meta["deletionTimestamp"] = "2026-03-02T12:00:00Z"
    return {
        "apiVersion": "serving.parkade.dev/v1alpha1",
        "kind": "InferenceEndpoint",
        "metadata": meta,
        "spec": merged(small, spec or {}),
        "status": status or {"observedGeneration": -1},
    }


def endpoint(spec: dict[str, Any] | None = None, **identity: Any) -> Endpoint:
    """The same, parsed."""
    parsed = parse_endpoint(body(spec, **identity))
    assert not isinstance(parsed, InvalidEndpoint), parsed
    return parsed
