"""Send requests when they are due, whatever became of the earlier ones.

A thread for each request in flight, up to a bound: beyond it requests are counted as not sent
rather than delayed, since a delay would close the loop.
"""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from testbed.load.addresses import checked
from testbed.load.arrivals import Arrival
from testbed.load.errors import LoadError

MOST_IN_FLIGHT = 2000
_STACK_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Options:
    """How requests are written and how long an answer may take."""

    model: str | None = None
    timeout_seconds: float = 600.0
    most_in_flight: int = MOST_IN_FLIGHT
    real_prompts: bool = False  # lists of token ids, for engines that are not simulated


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of the requests; times in seconds of the wall."""

    sent: int
    answered: int
    failed: dict[str, int]  # by HTTP status or kind of error
    not_sent: int
    mean_seconds: float
    latest_start_seconds: float  # how far behind its time the latest request was sent

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


class Load:
    """One run of requests. `run` returns when all are sent and answered, or after `stop`."""

    def __init__(
        self,
        arrivals: Iterable[Arrival],
        targets: Callable[[], Sequence[str]],
        options: Options | None = None,
    ) -> None:
        self._arrivals = arrivals
        self._targets = targets
        self._options = options or Options()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._in_flight = 0
        self._seconds = 0.0
        self._latest = 0.0
        self._allowed: dict[str, tuple[str, int, str]] = {}

    def stop(self) -> None:
        """Send no more; what is in flight is not waited for."""
        self._stop.set()

    def run(self) -> Summary:
        """Send all; raises LoadError for an address that is not on this machine."""
        threading.stack_size(_STACK_BYTES)
        began = time.monotonic()
        for number, arrival in enumerate(self._arrivals):
            wait = began + arrival.seconds - time.monotonic()
            if self._stop.wait(max(wait, 0)):
                break
            self._latest = max(self._latest, -wait)
            self._dispatch(number, arrival)
        while not self._stop.is_set() and self.in_flight:
            self._stop.wait(0.05)
        return self.summary()

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""
        with self._lock:
            return self._in_flight

    def summary(self) -> Summary:
        """The counts so far; can be asked while it runs."""
        with self._lock:
            counts = dict(self._counts)
            sent, answered = counts.pop("sent", 0), counts.pop("answered", 0)
            return Summary(
                sent=sent,
                answered=answered,
                not_sent=counts.pop("not_sent", 0),
                failed=counts,
                mean_seconds=self._seconds / answered if answered else 0.0,
                latest_start_seconds=self._latest,
            )

    def _dispatch(self, number: int, arrival: Arrival) -> None:
        targets = self._targets()
        with self._lock:
            if not targets or self._in_flight >= self._options.most_in_flight:
                self._counts["not_sent"] += 1
                return
            self._counts["sent"] += 1
            self._in_flight += 1
        url = targets[number % len(targets)]
        try:
            target = self._allowed.get(url) or self._allowed.setdefault(url, checked(url))
        except LoadError:
            with self._lock:
                self._in_flight -= 1
            raise
        threading.Thread(target=self._send, args=(target, arrival), daemon=True).start()

    def _send(self, target: tuple[str, int, str], arrival: Arrival) -> None:
        began = time.monotonic()
        try:
            outcome = self._ask(target, arrival)
        except (OSError, http.client.HTTPException) as error:
            outcome = type(error).__name__
        with self._lock:
            self._in_flight -= 1
            self._counts[outcome] += 1
            if outcome == "answered":
                self._seconds += time.monotonic() - began

    def _ask(self, target: tuple[str, int, str], arrival: Arrival) -> str:
        host, port, path = target
        connection = http.client.HTTPConnection(host, port, timeout=self._options.timeout_seconds)
        try:
            headers = {"Content-Type": "application/json", "Connection": "close"}
            body = json.dumps(self._body(arrival))
            connection.request("POST", f"{path}/v1/completions", body, headers)
            answer = connection.getresponse()
            answer.read()
            return "answered" if answer.status == 200 else str(answer.status)
        finally:
            connection.close()

    def _body(self, arrival: Arrival) -> dict[str, object]:
        body: dict[str, object] = {"max_tokens": arrival.output_tokens, "ignore_eos": True}
        if self._options.model:
            body["model"] = self._options.model
        if self._options.real_prompts:
            return {**body, "prompt": [index % 500 + 1 for index in range(arrival.prompt_tokens)]}
        return {
            **body,
            "prompt_token_count": arrival.prompt_tokens,
            "cached_prompt_token_count": arrival.cached_tokens,
            "omit_text": True,
        }
