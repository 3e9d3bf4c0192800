"""A vLLM Deployment that Parkade does not own, read by its arguments: what its engine runs.

People write arguments in many ways; what can't be read is refused with what is missing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from parkade.api.flags import names_owned_flag
from parkade.api.settings import Settings, fraction
from parkade.api.spec import Engine
from parkade.rollout.revision import GPU_PRODUCT_LABEL

_SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "sc": "speculative-config"}

DEFAULT_UTILIZATION = "0.92"
"""vLLM from 0.20.2 on (vllm/config/cache.py)."""

_SHELLS = ("sh", "bash", "dash", "ash", "zsh")


class UnreadableError(ValueError):
    """The Deployment can't be read; one line says what is missing."""


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """What a Deployment's engine runs."""

    engine: Engine
    settings: Settings
    model: str | None
    max_model_len: int | None
    """None: the model's own."""
    product: str | None
    """Card that its node selector names."""
    replicas: int


def read_running(
    deployment: Mapping[str, Any], default_max_num_seqs: Callable[[str | None], int]
) -> RunningEngine:
    """Return what the Deployment's engine runs. Raises UnreadableError.

    `default_max_num_seqs` says what vLLM takes on a card, given the one that the pods select.
    """
    spec = deployment.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    container = _engine_container(pod)
    flags, positional = _flags(_words(container))
    if "config" in flags:
        raise UnreadableError(
            f"its arguments are in a file (--config {flags['config']}), which is not read: give "
            "them in the Deployment"
        )
    length = flags.get("max-model-len")
    product = (pod.get("nodeSelector") or {}).get(GPU_PRODUCT_LABEL) or None
    replicas = spec.get("replicas", 1)
    return RunningEngine(
        engine=_engine(container, flags),
        settings=_settings(flags, default_max_num_seqs(product)),
        model=_model(flags, positional),
        max_model_len=_whole(length) if length else None,
        product=product,
        replicas=replicas if isinstance(replicas, int) else 1,
    )


def _engine_container(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = [one for one in pod.get("containers") or () if isinstance(one, Mapping)]
    for container in containers:
        if "vllm" in " ".join([str(container.get("image", "")), *_words(container)]):
            return container
    raise UnreadableError(
        "no container of the Deployment runs vLLM (neither image nor command says so)"
    )


def _words(container: Mapping[str, Any]) -> list[str]:
    words = [
        str(one) for one in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]
    try:
        at = next((at for at in range(len(words)) if _is_shell_line(words, at)), None)
        if at is not None:
            words = shlex.split(words[at + 1])
    except (IndexError, ValueError) as error:
        raise UnreadableError(f"the container's shell line can't be read: {error}") from error
    return words


def _is_shell_line(words: Sequence[str], at: int) -> bool:
    """Tell whether a shell's whole line follows this word: `-c`, or `-lc` and the like of one."""
    of_a_shell = any(PurePosixPath(word).name in _SHELLS for word in words[:at])
    return words[at] == "-c" or (of_a_shell and bool(re.fullmatch("-[a-z]*c", words[at])))


def _flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return flags by long name (a switch is empty) and the other words."""
    flags: dict[str, str] = {}
    positional: list[str] = []
    name = ""
    for word in words:
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("_", "-") if word.startswith("--") else _SHORT.get(name, name)
            flags[name] = value
            name = "" if equals else name
        elif name:
            flags[name], name = word, ""
        else:
            positional.append(word)
    return flags, positional


def _model(flags: Mapping[str, str], positional: list[str]) -> str | None:
    after = positional[positional.index("serve") + 1 :] if "serve" in positional else positional
    return flags.get("model") or next(iter(after), None)


def _engine(container: Mapping[str, Any], flags: Mapping[str, str]) -> Engine:
    rest = [
        f"--{name}={value}" if value else f"--{name}"
        for name, value in flags.items()
        if not names_owned_flag(f"--{name}")
    ]
    engine: dict[str, Any] = {
        "image": container.get("image") or "unknown",
        "kvCacheDtype": flags.get("kv-cache-dtype", "auto"),
        "tensorParallelSize": _whole(flags.get("tensor-parallel-size", "1")),
        "pipelineParallelSize": _whole(flags.get("pipeline-parallel-size", "1")),
        "extraArgs": rest,
    }
    if flags.get("speculative-config"):
        try:
            engine["speculativeConfig"] = json.loads(flags["speculative-config"])
        except ValueError as error:
            raise UnreadableError(f"--speculative-config is not JSON: {error}") from error
    try:
        return Engine.model_validate(engine)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnreadableError(f"its engine can't be read: {where}: {first['msg']}") from error


def _settings(flags: Mapping[str, str], default_max_num_seqs: int) -> Settings:
    text = flags.get("gpu-memory-utilization", DEFAULT_UTILIZATION)
    try:
        share = float(text)
    except ValueError as error:
        raise UnreadableError(f"--gpu-memory-utilization {text!r} is not a number") from error
    seqs = _whole(flags.get("max-num-seqs", str(default_max_num_seqs)))
    if not 0 < share <= 1 or seqs < 1:
        raise UnreadableError(f"max_num_seqs {seqs} and a fraction of {text} can't run")
    return Settings(seqs, fraction(share))


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise UnreadableError(f"an argument of the Deployment, {text!r}, is not a whole number")
    return int(text)
