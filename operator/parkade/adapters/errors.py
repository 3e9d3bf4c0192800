"""What can go wrong with other parties, by what the caller should do next.

    AdapterError
    +-- ConflictError         409: what we saw is old, or another UID stands there: observe again
    +-- NotFoundError         404: it is not there
    +-- ForbiddenError        401, 403: a person must grant something
    +-- InvalidError          400, 422: what we sent is refused, and will be the next time too
    +-- TooManyRequestsError  429: come back after `retry_after_seconds`
    +-- UnavailableError      5xx, time-outs, no connection: come back later
    +-- UnusableAnswerError   2xx, but not what the contract says: bad JSON, too large

No exception of a client library leaves this package; each is chained as the cause.
"""

from __future__ import annotations

MAX_MESSAGE_LENGTH = 512
"""Foreign texts are cut: they end up in conditions and logs."""


class AdapterError(Exception):
    """Another party did not do what was asked; the message names the party and the request."""


class ConflictError(AdapterError):
    """What we saw is old (resourceVersion) or belongs to another (UID): observe again."""


class NotFoundError(AdapterError):
    """It is not there."""


class ForbiddenError(AdapterError):
    """We may not; a person must grant it."""


class InvalidError(AdapterError):
    """What we sent is refused, and will be the next time too."""


class TooManyRequestsError(AdapterError):
    """We ask too often."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class UnavailableError(AdapterError):
    """No answer now; a later try may succeed."""


class UnusableAnswerError(AdapterError):
    """An answer came, but not one that can be read."""


_BY_STATUS: dict[int, type[AdapterError]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    410: ConflictError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
}


def from_status(status: int, message: str, retry_after: str | None = None) -> AdapterError:
    """Return the error for an HTTP status that is not a success.

    `retry_after` is the header's text; only a number of seconds is understood.
    """
    text = cut(message)
    if status == 429:
        return TooManyRequestsError(text, _seconds(retry_after))
    return _BY_STATUS.get(status, UnavailableError)(text)


def cut(text: str, limit: int = MAX_MESSAGE_LENGTH) -> str:
    """Return one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _seconds(text: str | None) -> float | None:
    if text is None or not text.strip().isdigit():
        return None
    return min(float(text), 3600.0)
