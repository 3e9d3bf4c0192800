"""Turn a request to end into an orderly end, and let nothing interrupt the cleaning up."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)


def end_in_order_when_told() -> None:
    """From now on SIGTERM and SIGHUP act like Ctrl-C: `with` and `finally` blocks still run."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _interrupt)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C and requests to end until the block is done; they act afterwards."""
    held = {signal.SIGINT, *ENDING}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
