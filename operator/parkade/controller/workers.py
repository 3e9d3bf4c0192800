"""The threads that take keys from the queue, and what a pass's end means for the key."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from parkade.adapters.errors import (
    AdapterError,
    ConflictError,
    NotFoundError,
    TooManyRequestsError,
)
from parkade.controller.metrics import Metrics
from parkade.controller.queue import WorkQueue
from parkade.controller.views import EndpointKey

logger = logging.getLogger(__name__)

CONFLICT_SECONDS = 0.2
"""After a conflict the watch brings what stands; the pass starts over from that."""
TERMINATING = "because it is being terminated"
"""What the API server says of writes into a namespace that is going away."""


@dataclass(slots=True)
class Workers:
    """Some threads that each do one pass at a time, until the queue stops."""

    queue: WorkQueue[EndpointKey]
    work: Callable[[EndpointKey, datetime], float | None]
    metrics: Metrics
    count: int
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Start the threads; they end when the queue stops."""
        for number in range(self.count):
            thread = threading.Thread(target=self._loop, name=f"worker-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def alive(self) -> bool:
        """Whether every worker still works."""
        return all(thread.is_alive() for thread in self._threads)

    def join(self, timeout_seconds: float) -> bool:
        """Wait for passes under way to end; False where one did not in time."""
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _loop(self) -> None:
        while True:
            key = self.queue.take()
            if key is None:
                return
            with self.metrics.pass_seconds.time():
                outcome = self._pass(key)
            self.metrics.passes.labels(outcome).inc()

    def _pass(self, key: EndpointKey) -> str:
        try:
            self.queue.done(key, self.work(key, self.now()))
        except ConflictError as error:
            logger.debug("%s/%s: %s", *key, error)
            self.queue.done(key, CONFLICT_SECONDS)
            return "conflict"
        except NotFoundError as error:
            logger.info("%s/%s is gone: %s", *key, error)
            self.queue.done(key)
            return "gone"
        except AdapterError as error:
            return self._failed(key, error)
        except Exception:
            wait = self.queue.failed(key)
            logger.exception("%s/%s: the pass failed; again in %.1f s", *key, wait)
            return "error"
        return "done"

    def _failed(self, key: EndpointKey, error: AdapterError) -> str:
        if TERMINATING in str(error):
            logger.info("%s/%s: the namespace is being deleted", *key)
            self.queue.done(key)
            return "gone"
        asked = error.retry_after_seconds if isinstance(error, TooManyRequestsError) else None
        wait = self.queue.failed(key, asked or 0.0)
        logger.warning("%s/%s: %s; again in %.1f s", *key, error, wait)
        return "unavailable"
