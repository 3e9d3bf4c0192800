"""Slow questions, asked in the background: a pass takes the newest answer and never waits.

So a slow Prometheus or hub delays sizing, and never a revert. An answer that is old is asked for
again; when the new one comes, whoever uses it is told.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

FAILURE_SECONDS = 10.0
MAX_IDLE_READS = 30
"""An answer that nobody took for so many intervals is dropped."""


@dataclass(slots=True)
class _Held(Generic[Value]):
    asked_at: float
    answer: Value


@dataclass(slots=True)
class Background(Generic[Key, Value]):
    """Answers by key. `ask` turns every failure into an answer of its own."""

    name: str
    ask: Callable[[Key], Value]
    clock: Callable[[], float]
    keep_seconds: float
    on_new: Callable[[Key], None]
    threads: int = 2
    prefer: Callable[[Value, Value], Value] = lambda _old, new: new
    """Which of an old and a new answer to hold: a failure need not replace a success."""
    passes: Callable[[Value], bool] = lambda _answer: False
    """Whether an answer is a failure that may pass: it is asked for again within seconds."""
    _held: dict[Key, _Held[Value]] = field(default_factory=dict)
    _used: dict[Key, float] = field(default_factory=dict)
    _asked: set[Key] = field(default_factory=set)
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pool: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix=self.name)

    def newest(self, key: Key) -> Value | None:
        """Return the newest answer, None before the first; see to it that a newer one comes."""
        with self._lock:
            now = self.clock()
            self._used[key] = now
            held = self._held.get(key)
            old = held is None or now - held.asked_at >= self.kept_seconds(held.answer)
            if old and key not in self._asked and not self._stopped:
                self._asked.add(key)
                self._pool.submit(self._ask, key)
            return None if held is None else held.answer

    def kept_seconds(self, answer: Value) -> float:
        """Return how long an answer is taken without asking again."""
        return min(FAILURE_SECONDS, self.keep_seconds) if self.passes(answer) else self.keep_seconds

    def stop(self) -> None:
        """Ask no more; questions under way end by their own time-outs, answers stay."""
        with self._lock:
            self._stopped = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, key: Key) -> None:
        try:
            answer = self.ask(key)
        except Exception:
            logger.exception("%s: asking for %s failed", self.name, key)
            with self._lock:
                self._asked.discard(key)
            return
        with self._lock:
            held = self._held.get(key)
            kept = answer if held is None else self.prefer(held.answer, answer)
            self._held[key] = _Held(self.clock(), kept)
            self._asked.discard(key)
            self._forget_idle()
        self.on_new(key)

    def _forget_idle(self) -> None:
        limit = self.clock() - MAX_IDLE_READS * self.keep_seconds
        for key in [key for key, used in self._used.items() if used < limit]:
            self._held.pop(key, None)
            self._used.pop(key, None)
