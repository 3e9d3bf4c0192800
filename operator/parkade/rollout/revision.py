"""What identifies a rendered pod template: its hash, its fingerprint, and the quarantine key.

Three hashes, from wide to narrow. The *fingerprint* covers all that a measured memory figure
depends on. The *quarantine key* adds the two knobs: settings that failed under it fail again. The
*revision* covers the whole template, so that any change of a pod has its own name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parkade.api import names
from parkade.api.settings import Settings
from parkade.api.spec import EndpointSpec

GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"
"""Written by NVIDIA's GPU feature discovery; node selectors match it."""

KNOB_FLAGS = ("--max-num-seqs", "--gpu-memory-utilization")

_LENGTH = 10


@dataclass(frozen=True, slots=True)
class Revision:
    """A rendered pod template with the settings in it."""

    hash: str
    settings: Settings
    fingerprint: str
    inputs: str
    """Hash of the spec's parts it was rendered from: what a user changes beside the knobs."""
    generation: int
    """Of the endpoint's spec."""
    template: Mapping[str, Any] = field(repr=False)

    @property
    def quarantine_key(self) -> str:
        """Hash of the fingerprint and both knobs."""
        return quarantine_key(self.fingerprint, self.settings)


def short_hash(value: object) -> str:
    """Return ten hex digits of the SHA-256 of a value's canonical JSON; fits a label."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def revision_hash(template: Mapping[str, Any]) -> str:
    """Return the hash of a pod template, the place of the hash itself left out."""
    meta = dict(template.get("metadata") or {})
    labels = dict(meta.get("labels") or {})
    labels.pop(names.REVISION_LABEL, None)
    meta["labels"] = labels
    return short_hash({**template, "metadata": meta})


def fingerprint_of(template: Mapping[str, Any]) -> str:
    """Return the hash of all that a measured memory figure depends on, the knobs left out.

    Image, model and revision, every argument except the two knobs, every environment variable,
    the GPU product, the number of GPUs; the KV dtype is one of the arguments. The renderer's
    version and what does not reach the engine (labels, probes) are not part of it.
    """
    spec = template.get("spec") or {}
    containers = spec.get("containers") or []
    engine: Mapping[str, Any] = next(
        (one for one in containers if one.get("name") == names.ENGINE_CONTAINER), {}
    )
    resources = (engine.get("resources") or {}).get("limits") or {}
    return short_hash(
        {
            "image": engine.get("image"),
            "command": engine.get("command"),
            "args": without_knobs(engine.get("args") or ()),
            "env": sorted(
                (engine.get("env") or []), key=lambda one: (str(one.get("name")), str(one))
            ),
            "envFrom": engine.get("envFrom"),
            "product": (spec.get("nodeSelector") or {}).get(GPU_PRODUCT_LABEL),
            "gpus": resources.get("nvidia.com/gpu"),
        }
    )


def without_knobs(args: Iterable[str]) -> list[str]:
    """Return the engine's arguments without the two knobs and their values."""
    kept: list[str] = []
    skip = False
    for one in args:
        if skip:
            skip = False
        elif one in KNOB_FLAGS:
            skip = True
        elif not one.startswith(tuple(f"{flag}=" for flag in KNOB_FLAGS)):
            kept.append(one)
    return kept


def quarantine_key(fingerprint: str, settings: Settings) -> str:
    """Return the hash that a failed setting is remembered by."""
    return short_hash([fingerprint, settings.to_dict()])


def inputs_hash(spec: EndpointSpec) -> str:
    """Return the hash of the spec's parts that shape the pod template, the knobs left out.

    It decides whether a user changed the template. Defaults are left out, so that neither a new
    field nor a new renderer of an upgraded operator looks like a change of the user.
    """
    model = spec.model.model_dump(
        mode="json",
        exclude_defaults=True,
        by_alias=True,
        exclude={"config_map_key_ref", "weights_size"},
    )
    engine = (
        spec.engine.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        if spec.engine is not None
        else {}
    )
    return short_hash(
        {
            "model": model,
            "engine": engine,
            "product": spec.accelerator.product,
            "startDeadlineSeconds": spec.rollout.start_deadline_seconds,
        }
    )


def sizing_hash(spec: EndpointSpec) -> str:
    """Return the hash of all that the user tells sizing: under other inputs it starts clean."""
    told = spec.model_dump(
        mode="json",
        exclude_defaults=True,
        by_alias=True,
        include={"tuning", "objectives", "workload", "accelerator"},
    )
    return short_hash(told)


def tuning_hash(spec: EndpointSpec) -> str:
    """Return the hash of the tuning inputs: a change of them forgets what failures taught."""
    return short_hash(
        {
            "headroom": spec.tuning.headroom_bytes,
            "maxNumSeqs": [spec.tuning.max_num_seqs.min, spec.tuning.max_num_seqs.max],
            "initial": spec.tuning.initial.settings.to_dict() if spec.tuning.initial else None,
            "memory": spec.accelerator.memory,
        }
    )
