"""The scheduler against the wall clock, times a speed-up.

One thread sleeps from event to event; everything else happens under one lock. So the engine costs
a small part of a core however many tokens it makes.
"""

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from testbed.engine.requests import Request
from testbed.engine.scheduler import Scheduler

T = TypeVar("T")
# Sleeping shorter than this costs more than it tells (seconds of the wall).
_SHORTEST_SLEEP = 0.001


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request in the engine, and the event that is set when it has finished."""

    request: Request
    done: threading.Event = field(default_factory=threading.Event)


class LiveEngine:
    """A scheduler that runs; `speed` is seconds of its clock in one second of the wall."""

    def __init__(
        self, scheduler: Scheduler, speed: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._scheduler = scheduler
        self._speed = speed
        self._clock = clock
        self._started = clock()
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._closed = False

    def _now(self) -> float:
        return (self._clock() - self._started) * self._speed

    def submit(
        self,
        prompt_tokens: int,
        output_tokens: int,
        max_tokens: int,
        cached_tokens: int = 0,
    ) -> Ticket:
        """Queue a request now."""
        with self._changed:
            request = Request(
                number=next(self._numbers),
                prompt_tokens=prompt_tokens,
                output_tokens=output_tokens,
                max_tokens=max_tokens,
                arrival=self._now(),
                cached_tokens=cached_tokens,
                finish_reason="stop" if output_tokens < max_tokens else "length",
            )
            ticket = Ticket(request)
            request.on_finish = lambda _: ticket.done.set()
            self._scheduler.add(request)
            self._changed.notify()
        return ticket

    def abort(self, ticket: Ticket) -> None:
        """The client has gone."""
        with self._changed:
            if not ticket.request.finished:
                self._scheduler.advance(self._now())
                self._scheduler.abort(ticket.request)
                self._changed.notify()

    def generated(self, ticket: Ticket) -> int:
        """Tokens that there are by now, for a client that streams."""
        with self._changed:
            self._scheduler.advance(self._now())
            return self._scheduler.generated(ticket.request)

    def read(self, question: Callable[[Scheduler], T]) -> T:
        """Ask something of the scheduler as of now."""
        with self._changed:
            self._scheduler.advance(self._now())
            return question(self._scheduler)

    def run(self) -> None:
        """Advance from event to event until `close`."""
        with self._changed:
            while not self._closed:
                now = self._now()
                self._scheduler.advance(now)
                event = self._scheduler.next_event()
                pause = None
                if event is not None:
                    pause = max((event - self._now()) / self._speed, _SHORTEST_SLEEP)
                self._changed.wait(pause)

    def close(self) -> None:
        """End `run`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
