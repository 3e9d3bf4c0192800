"""The engine's command line, as a list: nothing is quoted, nothing is split by a shell."""

from __future__ import annotations

import json
import re

from parkade.api.settings import Settings
from parkade.api.spec import EndpointSpec, Engine, utilization_of

DRAIN_SECONDS = 30
"""How long a stopping engine may finish requests in flight (vLLM's --shutdown-timeout)."""

_SHUTDOWN_TIMEOUT_SINCE = (0, 18)
"""vLLM 0.18 has --shutdown-timeout; an older one ends with exit code 2 on it."""


def engine_arguments(spec: EndpointSpec, engine: Engine, settings: Settings) -> list[str]:
    """Return the arguments after `vllm serve`, the user's own last."""
    arguments = [spec.model.name]
    if spec.model.revision is not None:
        arguments += ["--revision", spec.model.revision]
    arguments += [
        "--max-model-len",
        str(spec.model.max_model_len),
        "--max-num-seqs",
        str(settings.max_num_seqs),
        "--gpu-memory-utilization",
        utilization_of(settings.gpu_memory_utilization),
        "--kv-cache-dtype",
        engine.kv_cache_dtype,
        "--tensor-parallel-size",
        str(engine.tensor_parallel_size),
        "--pipeline-parallel-size",
        str(engine.pipeline_parallel_size),
    ]
    if engine.speculative_config is not None:
        arguments += ["--speculative-config", _speculative(engine)]
    if drains(engine) and not any(
        one.startswith("--shutdown-timeout") for one in engine.extra_args
    ):
        arguments += ["--shutdown-timeout", str(DRAIN_SECONDS)]
    return [*arguments, *engine.extra_args]


def drains(engine: Engine) -> bool:
    """Tell whether the engine is known to finish requests when it is asked to stop."""
    version = engine_version(engine)
    return version is not None and version >= _SHUTDOWN_TIMEOUT_SINCE


def engine_version(engine: Engine) -> tuple[int, int] | None:
    """Return major and minor version from `engine.version`, else from the image's tag."""
    text = engine.version or engine.image.partition("@")[0].rpartition(":")[2]
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\D|$)", text)
    return (int(match[1]), int(match[2])) if match else None


def _speculative(engine: Engine) -> str:
    config = engine.speculative_config
    fields = config.model_dump(mode="json", exclude_none=True) if config is not None else {}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))
