"""Resources for the tests of the API: the smallest that works, and one with every field."""

import copy
from typing import Any

import yaml

MINIMAL = yaml.safe_load("""
apiVersion: serving.parkade.dev/v1alpha1
kind: InferenceEndpoint
metadata: {name: contracts}
spec:
  model: {name: Qwen/Qwen3-8B, maxModelLen: 32768}
  engine: {image: "vllm/vllm-openai:v0.32.0"}
  accelerator: {product: NVIDIA-B200}
""")

FULL = yaml.safe_load("""
apiVersion: serving.parkade.dev/v1alpha1
kind: InferenceEndpoint
metadata: {name: contracts}
spec:
  replicas: 2
  model:
    name: nvidia/Qwen3.6-27B-NVFP4
    revision: 3f1c0a
    maxModelLen: 1048576
    configMapKeyRef: {name: qwen-config, key: config.json}
    weightsSize: 20Gi
    volume: {persistentVolumeClaim: {claimName: models}}
    tokenSecretKeyRef: {name: hf-token, key: token}
  engine:
    image: vllm/vllm-openai:v0.32.0
    version: "0.32.0"
    imagePullSecrets: [{name: registry}]
    kvCacheDtype: fp8
    tensorParallelSize: 1
    pipelineParallelSize: 1
    speculativeConfig: {method: mtp, num_speculative_tokens: 8, model: a/draft, use_local: true}
    extraArgs: ["--enable-prefix-caching", "--kv-cache-dtype-skip-layers", "0"]
    env:
      - {name: VLLM_LOGGING_LEVEL, value: INFO}
      - {name: TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}
    cacheVolume: {persistentVolumeClaim: {claimName: vllm-cache}}
    podTemplate:
      metadata: {labels: {team: legal}, annotations: {example.org/note: kept}}
      spec:
        priorityClassName: high
        tolerations: [{key: nvidia.com/gpu, operator: Exists}]
        containers:
          - {name: vllm, resources: {limits: {memory: 64Gi}}}
          - {name: sidecar, image: proxy, args: [--port=1], readinessProbe: {periodSeconds: 1}}
  accelerator: {product: NVIDIA-B200, memory: 178.35Gi}
  workload:
    windowSeconds: 14400
    minRequests: 500
    prometheusRef: {name: default}
    assumed: {promptTokens: 2000, outputTokens: 500}
  objectives:
    minOutputTokensPerSecond: 100
    maxTimeToFirstTokenSeconds: 10
    attainmentPercent: 90
  tuning:
    mode: Auto
    initial: {maxNumSeqs: 256, gpuMemoryUtilization: "0.90"}
    headroom: 6Gi
    maxNumSeqs: {min: 1, max: 1024}
    minGainPercent: 10
    cooldownSeconds: 3600
    interruption: InWindows
    maintenanceWindows: [{schedule: "0 2 * * *", durationSeconds: 7200, timeZone: Asia/Seoul}]
  rollout: {strategy: Auto, startDeadlineSeconds: 1800, maxRestarts: 2, soakSeconds: 600}
  suspend: false
""")

ABSENT = object()


def changed(body: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with values put at paths such as `spec.tuning.headroom` or `spec.list.0.key`.

    ABSENT takes a field away; parents that are missing are made.
    """
    copied = copy.deepcopy(body)
    for path, value in changes.items():
        *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
        place: Any = copied
        for part in parents:
            place = place[part] if isinstance(part, int) else place.setdefault(part, {})
        if value is ABSENT:
            place.pop(last, None)
        else:
            place[last] = value
    return copied
