"""The work queue: keys that are dirty, and when each may be worked on.

Level-triggered, as client-go's: marking a dirty key again changes nothing, a key is never worked
on twice at a time, and one that becomes dirty meanwhile is worked on again afterwards. A failing
key waits longer each time, up to a cap, with jitter. Nothing here knows what a key stands for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 120.0
JITTER = 0.2
"""Waits are stretched by up to this share, so that keys that failed together part."""


@dataclass(slots=True)
class _Entry:
    """What is known of a key that waits: when it is due, and since when it has been dirty."""

    due: float
    dirty_since: float | None = None


@dataclass(frozen=True, slots=True)
class QueueState:
    """The truth about the queue for metrics and probes."""

    waiting: int
    """Keys that are due and wait for a worker."""
    running: int
    scheduled: int
    """Keys that will be due later."""
    oldest_dirty_seconds: float
    """How long the oldest due key has waited or been worked on; 0 where there is none."""


@dataclass(slots=True)
class WorkQueue(Generic[Key]):
    """Keys with due times. `clock` and `random` are given, so that tests decide both."""

    clock: Callable[[], float]
    random: Callable[[], float]
    first_backoff_seconds: float = FIRST_BACKOFF_SECONDS
    max_backoff_seconds: float = MAX_BACKOFF_SECONDS
    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _running: dict[Key, float] = field(default_factory=dict)
    _failures: dict[Key, int] = field(default_factory=dict)
    _stopped: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def mark(self, key: Key, *, afresh: bool = False) -> None:
        """Say that something about the key changed: it is due now, unless it is backing off.

        A key that failed keeps its wait: a broken resource whose pods flicker would otherwise be
        tried in a tight loop. `afresh` ends the wait, since a person changed the resource.
        """
        with self._changed:
            now = self.clock()
            if afresh:
                self._failures.pop(key, None)
            entry = self._entries.get(key)
            if entry is None:
                self._entries[key] = _Entry(now, now)
            elif self._failures.get(key):
                entry.dirty_since = entry.dirty_since or now
            else:
                entry.due = min(entry.due, now)
                entry.dirty_since = now if entry.dirty_since is None else entry.dirty_since
            self._changed.notify()

    def take(self, timeout_seconds: float | None = None) -> Key | None:
        """Return a key that is due and not being worked on; None on time-out or when stopped."""
        deadline = None if timeout_seconds is None else self.clock() + timeout_seconds
        with self._changed:
            while not self._stopped:
                key = self._first_due()
                if key is not None:
                    entry = self._entries.pop(key)
                    self._running[key] = (
                        entry.due if entry.dirty_since is None else entry.dirty_since
                    )
                    return key
                wait = self._wait_seconds(deadline)
                if wait is not None and wait <= 0:
                    return None
                self._changed.wait(wait)
        return None

    def done(self, key: Key, requeue_after_seconds: float | None = None) -> None:
        """Say that the work succeeded, and when the key wants to be looked at again."""
        with self._changed:
            self._failures.pop(key, None)
            self._running.pop(key, None)
            if requeue_after_seconds is not None:
                self._schedule(key, self.clock() + max(requeue_after_seconds, 0.0))
            self._changed.notify()

    def failed(self, key: Key, at_least_seconds: float = 0.0) -> float:
        """Say that the work failed; return for how long the key now waits."""
        with self._changed:
            self._running.pop(key, None)
            failures = self._failures.get(key, 0) + 1
            self._failures[key] = failures
            wait = max(self.backoff_seconds(failures), at_least_seconds)
            now = self.clock()
            entry = self._entries.get(key)
            self._entries[key] = _Entry(now + wait, entry.dirty_since if entry else None)
            self._changed.notify()
            return wait

    def forget(self, key: Key) -> None:
        """Drop a key that no longer exists; a worker that has it says `done` itself."""
        with self._changed:
            self._entries.pop(key, None)
            self._failures.pop(key, None)
            self._changed.notify()

    def stop(self) -> None:
        """Let every worker that waits return."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @property
    def stopped(self) -> bool:
        """True once `stop` has been called."""
        return self._stopped

    def state(self) -> QueueState:
        """Return the truth about the queue now."""
        with self._changed:
            now = self.clock()
            due = [entry for key, entry in self._entries.items() if entry.due <= now]
            ages = [now - entry.due for entry in due]
            ages += [now - since for since in self._running.values()]
            return QueueState(
                waiting=len(due),
                running=len(self._running),
                scheduled=len(self._entries) - len(due),
                oldest_dirty_seconds=max(ages, default=0.0),
            )

    def backoff_seconds(self, failures: int) -> float:
        """Return the wait after so many failures in a row: doubled each time, capped, jittered."""
        wait = min(
            self.first_backoff_seconds * 2.0 ** min(failures - 1, 30), self.max_backoff_seconds
        )
        return wait * (1 + JITTER * self.random())

    def _schedule(self, key: Key, due: float) -> None:
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = _Entry(due)
        else:
            entry.due = min(entry.due, due)

    def _first_due(self) -> Key | None:
        now = self.clock()
        due = [
            (entry.due, index, key)
            for index, (key, entry) in enumerate(self._entries.items())
            if entry.due <= now and key not in self._running
        ]
        return min(due, key=lambda item: item[:2])[2] if due else None

    def _wait_seconds(self, deadline: float | None) -> float | None:
        now = self.clock()
        times = [entry.due for key, entry in self._entries.items() if key not in self._running]
        times += [] if deadline is None else [deadline]
        return max(min(times) - now, 0.0) if times else None
