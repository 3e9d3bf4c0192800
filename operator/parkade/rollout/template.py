"""The pod template of an engine: the rules for running vLLM on Kubernetes, in one place."""

from __future__ import annotations

import math
from typing import Any

from parkade.api import names
from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.api.spec import EndpointSpec, Engine, Volume
from parkade.rollout.arguments import DRAIN_SECONDS, engine_arguments
from parkade.rollout.merge import merged
from parkade.rollout.revision import GPU_PRODUCT_LABEL

RENDERER_VERSION = "1"
"""Of these rules; an upgraded operator keeps running templates until the next revision."""

GPU_RESOURCE = "nvidia.com/gpu"
SCALE_UP_DELAY_ANNOTATION = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
SCALE_UP_DELAY = "60s"
"""A surge pod that is tried for 30 s buys no GPU node."""

PROBE_PERIOD_SECONDS = 5
ENDPOINT_REMOVAL_SECONDS = 5
"""A stopping pod still gets requests until every proxy has heard of it."""
START_MARGIN_SECONDS = 300
"""The kubelet's own limit on a start lies above startDeadlineSeconds, so that Parkade judges
first and a probe never ends a pod that is still loading."""

MODEL_PATH = "/models"
CACHE_PATH = "/var/cache/parkade"


def pod_template(endpoint: Endpoint, settings: Settings) -> dict[str, Any]:
    """Return the template without fingerprint and revision. Needs `spec.engine`."""
    spec, engine = endpoint.spec, endpoint.spec.engine
    if engine is None:
        raise ValueError(f"{endpoint.namespace}/{endpoint.name} has no spec.engine to render")
    ours: dict[str, Any] = {
        "metadata": {
            "labels": {names.ENDPOINT_LABEL: endpoint.name},
            "annotations": {
                names.SETTINGS_ANNOTATION: settings.to_json(),
                names.RENDERER_ANNOTATION: RENDERER_VERSION,
                SCALE_UP_DELAY_ANNOTATION: SCALE_UP_DELAY,
            },
        },
        "spec": _pod_spec(spec, engine, settings),
    }
    return _with_ours_on_top(merged(ours, engine.pod_template), ours)


def _pod_spec(spec: EndpointSpec, engine: Engine, settings: Settings) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        # A Service called `vllm` would otherwise set VLLM_PORT in every pod, which vLLM reads.
        "enableServiceLinks": False,
        "nodeSelector": {GPU_PRODUCT_LABEL: spec.accelerator.product},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": ENDPOINT_REMOVAL_SECONDS + DRAIN_SECONDS + 25,
        "containers": [_container(spec, engine, settings)],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            *_claim("models", spec.model.volume),
            *_claim("cache", engine.cache_volume),
        ],
    }
    if engine.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": one.name} for one in engine.image_pull_secrets]
    return pod


def _container(spec: EndpointSpec, engine: Engine, settings: Settings) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108
    if spec.model.volume is not None:
        mounts.append({"name": "models", "mountPath": MODEL_PATH, "readOnly": True})
    if engine.cache_volume is not None:
        mounts.append({"name": "cache", "mountPath": CACHE_PATH})
    return {
        "name": names.ENGINE_CONTAINER,
        "image": engine.image,
        "args": engine_arguments(spec, engine, settings),
        "env": _environment(spec, engine),
        "ports": [
            {
                "name": names.HTTP_PORT_NAME,
                "containerPort": names.HTTP_PORT,
                "protocol": "TCP",
            }
        ],
        "resources": {"limits": _gpus(engine), "requests": _gpus(engine)},
        "volumeMounts": mounts,
        # vLLM's image runs as root; all else of the restricted profile holds.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {"preStop": {"sleep": {"seconds": ENDPOINT_REMOVAL_SECONDS}}},
        **_probes(spec),
    }


def _probes(spec: EndpointSpec) -> dict[str, Any]:
    """Return the probes: /health exists only once the engine is up, and is 503 when it died."""
    budget = spec.rollout.start_deadline_seconds + START_MARGIN_SECONDS
    return {
        "startupProbe": {
            **_health(),
            "periodSeconds": PROBE_PERIOD_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": math.ceil(budget / PROBE_PERIOD_SECONDS),
        },
        "readinessProbe": {
            **_health(),
            "periodSeconds": PROBE_PERIOD_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        # The process ends by itself when its engine dies; this only catches a hang.
        "livenessProbe": {
            **_health(),
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 12,
        },
    }


def _health() -> dict[str, Any]:
    return {"httpGet": {"path": "/health", "port": names.HTTP_PORT_NAME}}


def _environment(spec: EndpointSpec, engine: Engine) -> list[dict[str, Any]]:
    ours: list[dict[str, Any]] = [{"name": "VLLM_NO_USAGE_STATS", "value": "1"}]
    if spec.model.token_secret_key_ref is not None:
        ref = spec.model.token_secret_key_ref
        source = {"secretKeyRef": {"name": ref.name, "key": ref.key}}
        ours.append({"name": "HF_TOKEN", "valueFrom": source})
    if engine.cache_volume is not None:
        ours.append({"name": "VLLM_CACHE_ROOT", "value": f"{CACHE_PATH}/vllm"})
    given = {one.get("name") for one in engine.env}
    return [one for one in ours if one["name"] not in given] + [dict(one) for one in engine.env]


def _gpus(engine: Engine) -> dict[str, str]:
    return {GPU_RESOURCE: str(engine.gpus_per_pod)}


def _claim(name: str, volume: Volume | None) -> list[dict[str, Any]]:
    if volume is None:
        return []
    claim = {"claimName": volume.persistent_volume_claim.claim_name}
    return [{"name": name, "persistentVolumeClaim": claim}]


def _with_ours_on_top(template: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Put back what a user's podTemplate may not change: labels, arguments, probes, GPUs."""
    template["metadata"] = {
        "labels": {
            **(template["metadata"].get("labels") or {}),
            **ours["metadata"]["labels"],
        },
        "annotations": {
            **(template["metadata"].get("annotations") or {}),
            **{
                key: value
                for key, value in ours["metadata"]["annotations"].items()
                if key != SCALE_UP_DELAY_ANNOTATION
            },
        },
    }
    template["metadata"]["labels"].pop(names.REVISION_LABEL, None)
    template["spec"]["restartPolicy"] = "Always"
    engine = ours["spec"]["containers"][0]
    for container in template["spec"]["containers"]:
        if container["name"] != names.ENGINE_CONTAINER:
            continue
        for field in ("args", "startupProbe", "readinessProbe", "livenessProbe"):
            container[field] = engine[field]
        for kind in ("limits", "requests"):
            resources = container.setdefault("resources", {})
            resources[kind] = {**(resources.get(kind) or {}), **engine["resources"][kind]}
    return template
