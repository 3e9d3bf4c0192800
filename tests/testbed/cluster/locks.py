"""Locks between processes; the kernel frees them when their holder dies, however it dies."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class FileLock:
    """An exclusive lock on a file; children of the holder don't inherit it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free."""
        return self._acquire(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def acquire(self) -> None:
        """Wait for the lock."""
        self._acquire(fcntl.LOCK_EX)

    def release(self) -> None:
        """Free the lock; the file stays, since others may be waiting for it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _acquire(self, how: int) -> bool:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._descriptor = descriptor
        return True


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock at `path`; `on_wait` is called once if somebody else has it."""
    lock = FileLock(path)
    if not lock.try_acquire():
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
