"""A Prometheus server (or Thanos, Mimir, VictoriaMetrics) asked for instant vectors.

`prometheus-api-client` brings the session. Its own query call drops warnings (so a partial answer
looks complete), sends POST queries in the URL, and has neither time-outs nor error types; this
wrapper takes its session and does these things. Nothing is retried here: the queue comes back.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from urllib3.util.retry import Retry

from parkade.adapters.errors import (
    AdapterError,
    ForbiddenError,
    InvalidError,
    UnavailableError,
    UnusableAnswerError,
    cut,
    from_status,
)

CONNECT_TIMEOUT_SECONDS = 5.0
TOTAL_TIMEOUT_SECONDS = 30.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""About 200,000 series; more is a mistake in a query."""
_CHUNK_BYTES = 64 * 1024
_TOKEN = re.compile("[!-~]+")

_BY_ERROR_TYPE: dict[str, type[AdapterError]] = {
    "bad_data": InvalidError,
    "execution": InvalidError,
    "not_acceptable": InvalidError,
    "not_found": InvalidError,
    "timeout": UnavailableError,
    "canceled": UnavailableError,
    "unavailable": UnavailableError,
    "internal": UnavailableError,
}
"""Prometheus' `errorType` (web/api/v1/api.go): what will fail again, and what may pass."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a Prometheus is, and how to be let in. From the operator's configuration alone."""

    url: str
    tenant_header: str = "X-Scope-OrgID"
    tenant: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    timeout_seconds: float = TOTAL_TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector. The value may be NaN or infinite: see `finite`."""

    labels: Mapping[str, str]
    value: float
    timestamp: float

    @property
    def finite(self) -> bool:
        """Whether the value is a number that can be reckoned with."""
        return math.isfinite(self.value)


@dataclass(frozen=True, slots=True)
class Answer:
    """An instant vector with what the server said about it."""

    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = ()
    """Not empty: the answer may be partial (Thanos, Mimir), so it decides nothing."""
    infos: tuple[str, ...] = ()


class _Session(PrometheusConnect):  # type: ignore[misc] # the library has no types
    """The library's client, with its session where our request can reach it."""

    def post_form(self, path: str, form: Mapping[str, str], **options: Any) -> requests.Response:
        response: requests.Response = self._session.post(f"{self.url}{path}", data=form, **options)
        return response

    def close(self) -> None:
        self._session.close()


@dataclass(slots=True)
class Prometheus:
    """One server. Safe to share between threads that ask one after the other."""

    server: Server
    _client: _Session = field(init=False)

    def __post_init__(self) -> None:
        session = requests.Session()
        session.trust_env = False
        if self.server.ca_file is not None:
            session.verify = str(self.server.ca_file)
        self._client = _Session(
            url=self.server.url.rstrip("/"), session=session, retry=Retry(0, redirect=False)
        )

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()

    def query(self, promql: str, *, at: float | None = None) -> Answer:
        """Evaluate an expression as an instant vector at a Unix time (default: the server's now).

        Raises InvalidError (the query is refused), ForbiddenError, UnavailableError (no answer,
        too slow) or UnusableAnswerError (not a vector, not Prometheus, too large).
        """
        form = {"query": promql, "timeout": f"{self.server.timeout_seconds:g}s"}
        if at is not None:
            form["time"] = f"{at:.3f}"
        deadline = time.monotonic() + self.server.timeout_seconds
        try:
            with self._client.post_form(
                "/api/v1/query",
                form,
                headers=self._headers(),
                timeout=(CONNECT_TIMEOUT_SECONDS, self.server.timeout_seconds),
                stream=True,
                allow_redirects=False,
            ) as response:
                content = _read(response, deadline)
                return _answer(response, content)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise UnavailableError(f"Prometheus {self.server.url}: {_why(error)}") from error

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self.server.tenant is not None:
            headers[self.server.tenant_header] = self.server.tenant
        if self.server.token_file is not None:
            headers["Authorization"] = f"Bearer {_token(self.server.token_file)}"
        return headers


def _why(error: Exception) -> str:
    """Return the cause in steady words: the library's own hold addresses of objects.

    These words end up in a condition, and a condition that changes at each try is a write.
    """
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return "no connection in time"
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not accepted; check caFile"
    if isinstance(error, requests.ConnectionError | urllib3.exceptions.ProtocolError):
        return "no connection (refused, reset, or no such host)"
    return type(error).__name__  # whose words may quote a header, and so the token


def escape(value: str) -> str:
    """Return a label value as it stands between double quotes in PromQL."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _token(path: Path) -> str:
    """Read the token for each request, since it rotates; no error quotes what it holds."""
    try:
        token = path.read_text("utf-8").strip()
    except OSError as error:
        raise ForbiddenError(f"The Prometheus token file {path} can't be read: {error}") from error
    except UnicodeDecodeError:
        token = ""
    if not _TOKEN.fullmatch(token):
        raise ForbiddenError(f"The Prometheus token file {path} does not hold one line of a token")
    return token


def _read(response: requests.Response, deadline: float) -> bytes:
    """Return the body. What has come is taken at once: one that trickles ends in time too."""
    content = bytearray()
    while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise UnusableAnswerError(f"Prometheus answered more than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise UnavailableError("Prometheus: the answer did not end in time")
    return bytes(content)


def _answer(response: requests.Response, content: bytes) -> Answer:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    status = response.status_code
    if not isinstance(document, dict):
        if status >= 400:
            text = content[:512].decode("utf-8", "replace")
            retry_after = response.headers.get("Retry-After")
            raise from_status(status, f"Prometheus: HTTP {status}: {text}", retry_after)
        raise UnusableAnswerError(
            f"HTTP {status} from {response.url} is not an answer of a Prometheus; check its URL"
        )
    if document.get("status") != "success":
        raise _refusal(status, document, response.headers.get("Retry-After"))
    return Answer(
        _vector(document.get("data")), _texts(document, "warnings"), _texts(document, "infos")
    )


def _refusal(status: int, document: Mapping[str, Any], retry_after: str | None) -> AdapterError:
    kind = str(document.get("errorType", "unknown"))
    text = cut(f"Prometheus: {kind}: {document.get('error', 'no reason given')}")
    if status in {401, 403, 429}:
        return from_status(status, text, retry_after)
    known = _BY_ERROR_TYPE.get(kind)
    if known is not None:
        return known(text)
    return from_status(status, text) if status >= 400 else UnusableAnswerError(text)


def _vector(data: Any) -> tuple[Sample, ...]:
    if not isinstance(data, dict) or data.get("resultType") != "vector":
        kind = data.get("resultType") if isinstance(data, dict) else type(data).__name__
        raise UnusableAnswerError(f"Prometheus: expected a vector, got {kind!r}")
    try:
        return tuple(
            Sample(
                {str(name): str(value) for name, value in one["metric"].items()},
                float(one["value"][1]),
                float(one["value"][0]),
            )
            for one in data["result"]
            if "histogram" not in one
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UnusableAnswerError(f"Prometheus: a sample can't be read: {error!r}") from error


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    texts = document.get(key) or ()
    return tuple(cut(str(text)) for text in texts) if isinstance(texts, list) else ()
