"""The model hub: config.json and the size of the weights, by model and revision.

The hub's address is in the operator's configuration, never in a resource. Only public files are
read: the token of a gated model is for its pods, so such a model names a ConfigMap instead.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from parkade.adapters.errors import AdapterError, InvalidError, NotFoundError
from parkade.adapters.http import get_json

CONFIG_LIMIT_BYTES = 4 * 1024 * 1024
INDEX_LIMIT_BYTES = 64 * 1024 * 1024
"""Index files name every tensor: 17 MB for a model with 256 experts in 60 layers."""
DEADLINE_SECONDS = 20.0
KEEP_SECONDS = 3600.0
"""A named revision never changes, but a branch does."""
KEEP_FAILURE_SECONDS = 60.0

_MODEL = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?$")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What the hub says of a model."""

    config: dict[str, Any]
    weights_bytes: int | None
    """Of all tensors; None where the checkpoint has no index (a single file)."""


@dataclass(slots=True)
class _Kept:
    until: float
    files: ModelFiles | None
    error: AdapterError | None = None


@dataclass(slots=True)
class Hub:
    """One hub, with a memory of what it said."""

    url: str
    clock: Callable[[], float] = time.monotonic
    client: httpx.Client = field(
        default_factory=lambda: httpx.Client(
            timeout=httpx.Timeout(10.0), follow_redirects=True, trust_env=True
        )
    )
    _kept: dict[tuple[str, str], _Kept] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def files(self, model: str, revision: str | None) -> ModelFiles:
        """Return a model's config and weights size; failures are remembered for a minute.

        Raises InvalidError where the name is a path, else what `get_json` raises.
        """
        if not _MODEL.match(model):
            raise InvalidError(
                f"{model!r} is not a name on the hub: give model.configMapKeyRef and weightsSize"
            )
        key = (model, revision or "main")
        with self._lock:
            kept = self._kept.get(key)
        if kept is None or kept.until < self.clock():
            kept = self._fetch(*key)
            with self._lock:
                self._kept[key] = kept
        if kept.files is None:
            raise kept.error or NotFoundError(model)
        return kept.files

    def close(self) -> None:
        """Close idle connections."""
        self.client.close()

    def _fetch(self, model: str, revision: str) -> _Kept:
        try:
            config = self._file(model, revision, "config.json", CONFIG_LIMIT_BYTES)
            files = ModelFiles(config, self._weights(model, revision))
        except AdapterError as error:
            return _Kept(self.clock() + KEEP_FAILURE_SECONDS, None, error)
        return _Kept(self.clock() + KEEP_SECONDS, files)

    def _weights(self, model: str, revision: str) -> int | None:
        try:
            index = self._file(model, revision, "model.safetensors.index.json", INDEX_LIMIT_BYTES)
        except NotFoundError:
            return None
        total = (index.get("metadata") or {}).get("total_size")
        return total if isinstance(total, int) and 0 < total < 2**53 else None

    def _file(self, model: str, revision: str, name: str, limit_bytes: int) -> dict[str, Any]:
        url = f"{self.url.rstrip('/')}/{model}/resolve/{quote(revision, safe='')}/{name}"
        return get_json(
            self.client, url, limit_bytes=limit_bytes, deadline_seconds=DEADLINE_SECONDS
        )
