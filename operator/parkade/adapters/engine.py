"""An engine's own HTTP endpoints: which version runs, and which length it advertises."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from parkade.adapters.errors import UnusableAnswerError
from parkade.adapters.http import get_json

LIMIT_BYTES = 1024 * 1024
DEADLINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What a running engine says of itself."""

    version: str
    max_model_len: int | None


def new_client() -> httpx.Client:
    """Return a client for engines: short time-outs, no redirects, no proxies."""
    return httpx.Client(timeout=httpx.Timeout(3.0), follow_redirects=False, trust_env=False)


def read_engine(client: httpx.Client, base_url: str) -> EngineFacts:
    """Ask `/version` and `/v1/models`.

    Raises what `get_json` raises, and UnusableAnswerError where an answer is not an engine's.
    """
    version = _get(client, f"{base_url}/version").get("version")
    if not isinstance(version, str) or len(version) > 64:
        raise UnusableAnswerError(f"{base_url}/version does not answer as vLLM does")
    models = _get(client, f"{base_url}/v1/models").get("data")
    lengths = [
        one["max_model_len"]
        for one in (models if isinstance(models, list) else ())
        if isinstance(one, dict) and isinstance(one.get("max_model_len"), int)
    ]
    return EngineFacts(version, max(lengths, default=None))


def _get(client: httpx.Client, url: str) -> dict[str, object]:
    return get_json(client, url, limit_bytes=LIMIT_BYTES, deadline_seconds=DEADLINE_SECONDS)
