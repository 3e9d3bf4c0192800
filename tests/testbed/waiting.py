"""Wait for something to become true, without sleeping longer than needed."""

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

INTERVAL_SECONDS = 0.1


class WaitedTooLongError(AssertionError):
    """What was awaited did not happen in time; the message shows what was seen last."""


def wait_until(
    probe: Callable[[], Seen | None],
    what: str,
    timeout_seconds: float = 30.0,
    *,
    interval_seconds: float = INTERVAL_SECONDS,
    not_yet: tuple[type[Exception], ...] = (AssertionError,),
) -> Seen:
    """Call `probe` until it returns something true, and return that.

    `what` completes the sentence "Waited 30 s for ...". Exceptions in `not_yet` count as "not
    yet" (so a probe may simply assert); every other one is a bug in the probe and passes through.
    Raises WaitedTooLongError with the last value or exception seen.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            seen = probe()
            last = repr(seen)
        except not_yet as error:
            seen, last = None, f"{type(error).__name__}: {error}"
        if seen:
            return seen
        if time.monotonic() >= deadline:
            raise WaitedTooLongError(
                f"Waited {timeout_seconds:g} s for {what}; last seen: {last or 'nothing'}"
            )
        time.sleep(interval_seconds)
