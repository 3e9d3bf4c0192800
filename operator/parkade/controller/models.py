"""What an endpoint's model is: its architecture and weights, from a ConfigMap or the hub."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from parkade.adapters.cluster import Cluster
from parkade.adapters.errors import (
    AdapterError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnusableAnswerError,
)
from parkade.adapters.hub import Hub, ModelFiles
from parkade.api.conditions import Reason
from parkade.api.endpoint import Endpoint
from parkade.api.quantity import parse_bytes
from parkade.api.spec import KeyRef
from parkade.controller.background import Background
from parkade.sizing.architecture import (
    ModelArchitecture,
    UnsupportedArchitecture,
    parse_architecture,
)
from parkade.sizing.result import NotSizable
from parkade.sizing.workload import CannotTell

KEEP_SECONDS = 60.0
"""A changed ConfigMap counts after at most this long."""
MAX_CONFIG_BYTES = 1024 * 1024
MAX_CONFIG_MAPS = 500

_HOW = "Put its config.json into a ConfigMap and name it in model.configMapKeyRef"
_PERMANENT = (ForbiddenError, InvalidError, NotFoundError, UnusableAnswerError)

Source: TypeAlias = tuple[str, str]
"""Model and revision on the hub."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What sizing needs to know of a model."""

    architecture: ModelArchitecture
    weights_bytes: int | None
    """None where neither the spec nor the hub says it."""


Answer: TypeAlias = ModelFacts | NotSizable | CannotTell


@dataclass(slots=True)
class Models:
    """Facts by endpoint; the hub is asked in the background."""

    cluster: Cluster
    hub: Hub | None
    """None: the operator's configuration names none."""
    clock: Callable[[], float]
    on_new: Callable[[], None]
    _files: Background[Source, ModelFiles | NotSizable | CannotTell] = field(init=False)
    _maps: dict[tuple[str, str, str], tuple[float, str | None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._files = Background(
            "hub",
            self._ask_hub,
            self.clock,
            KEEP_SECONDS,
            on_new=lambda _source: self.on_new(),
            prefer=lambda old, new: (
                old if isinstance(old, ModelFiles) and not isinstance(new, ModelFiles) else new
            ),
        )

    def of(self, endpoint: Endpoint) -> Answer:
        """Return the facts, what a person must do (NotSizable), or that it can't be told now."""
        model = endpoint.spec.model
        weights = parse_bytes(model.weights_size) if model.weights_size else None
        if model.config_map_key_ref is not None:
            config = self._config(endpoint.namespace, model.config_map_key_ref)
            return config if isinstance(config, NotSizable) else _facts(config, weights)
        if self.hub is None:
            return NotSizable(
                Reason.MODEL_UNAVAILABLE, f"No hub is configured to read {model.name} from. {_HOW}."
            )
        files = self._files.newest((model.name, model.revision or "main"))
        if files is None:
            return CannotTell(Reason.INITIALIZING, f"The hub is being asked for {model.name}.")
        if not isinstance(files, ModelFiles):
            return files
        return _facts(files.config, weights or files.weights_bytes)

    def stop(self) -> None:
        """Ask no more."""
        self._files.stop()

    def _config(self, namespace: str, ref: KeyRef) -> dict[str, Any] | NotSizable:
        text = self._config_map(namespace, ref)
        where = f"ConfigMap {ref.name}, key {ref.key}"
        if text is None:
            return NotSizable(
                Reason.MISSING_CONFIG_MAP,
                f"{where}, which model.configMapKeyRef names, is not there: create it with the "
                "model's config.json.",
            )
        try:
            config = json.loads(text) if len(text) <= MAX_CONFIG_BYTES else None
        except (ValueError, RecursionError):
            config = None
        if not isinstance(config, dict):
            return NotSizable(
                Reason.MODEL_UNAVAILABLE, f"{where} does not hold a config.json (a JSON object)."
            )
        return config

    def _config_map(self, namespace: str, ref: KeyRef) -> str | None:
        slot = (namespace, ref.name, ref.key)
        with self._lock:
            read_at, text = self._maps.get(slot, (float("-inf"), None))
        if text is not None and self.clock() - read_at < KEEP_SECONDS:
            return text
        text = self.cluster.config_map_key(*slot)
        with self._lock:
            self._maps[slot] = (self.clock(), text)
            while len(self._maps) > MAX_CONFIG_MAPS:
                del self._maps[next(iter(self._maps))]
        return text

    def _ask_hub(self, source: Source) -> ModelFiles | NotSizable | CannotTell:
        assert self.hub is not None  # noqa: S101 - only asked where there is one
        model, revision = source
        try:
            return self.hub.files(model, revision)
        except AdapterError as error:
            message = f"The config.json of {model} can't be read from the hub: {error}. {_HOW}."
            if isinstance(error, _PERMANENT):
                return NotSizable(Reason.MODEL_UNAVAILABLE, message)
            return CannotTell(Reason.MODEL_UNAVAILABLE, message)


def _facts(config: dict[str, Any], weights_bytes: int | None) -> Answer:
    architecture = parse_architecture(config)
    if isinstance(architecture, UnsupportedArchitecture):
        return NotSizable(
            Reason.UNSUPPORTED_MODEL,
            f"The architecture is not understood, and never guessed: {architecture}.",
        )
    return ModelFacts(architecture, weights_bytes)
