"""Bounded GET requests with httpx: time-outs, sizes, and our own errors."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx

from parkade.adapters.errors import UnavailableError, UnusableAnswerError, cut, from_status


def get_json(
    client: httpx.Client, url: str, *, limit_bytes: int, deadline_seconds: float
) -> dict[str, Any]:
    """Return the JSON object at a URL.

    Raises UnavailableError (no answer in time), UnusableAnswerError (too large, not an object)
    or the error of the HTTP status.
    """
    content = _get(client, url, limit_bytes, time.monotonic() + deadline_seconds)
    try:
        answer = json.loads(content)
    except ValueError as error:
        raise UnusableAnswerError(f"{url} is not JSON") from error
    if not isinstance(answer, dict):
        raise UnusableAnswerError(f"{url} is not a JSON object")
    return answer


def _get(client: httpx.Client, url: str, limit_bytes: int, deadline: float) -> bytes:
    content = bytearray()
    try:
        with client.stream("GET", url) as response:
            if response.status_code >= 300:
                raise from_status(
                    response.status_code,
                    f"{url}: HTTP {response.status_code}",
                    response.headers.get("Retry-After"),
                )
            for chunk in response.iter_bytes():  # as it comes: one that trickles ends in time too
                content += chunk
                if len(content) > limit_bytes:
                    raise UnusableAnswerError(f"{url} is larger than {limit_bytes} bytes")
                if time.monotonic() > deadline:
                    raise UnavailableError(f"{url}: the answer did not end in time")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnavailableError(cut(f"{url}: {error or type(error).__name__}")) from error
    return bytes(content)
