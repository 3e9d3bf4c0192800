"""Open-loop traffic to an endpoint's ready pods, as a Service would spread it."""

import threading
import time
from collections.abc import Callable, Sequence

import httpx

from testbed.demo import resources
from testbed.load import lengths
from testbed.load.arrivals import Bounds, poisson
from testbed.load.client import Load, Options

LENGTHS = {
    resources.SHORT: (
        "lognormal:median=2000,sigma=0.6,max=30000",
        "lognormal:median=400,sigma=0.5,max=2000",
    ),
    resources.LONG: (
        "bucketed:100000=210,200000=485,500000=693",
        "lognormal:median=500,sigma=0.4,max=2000",
    ),
}
"""Prompt and output. The long ones are those of a real endpoint: 70 % up to 200k, 30 % to 500k."""

ENGINE_REQUESTS_PER_SECOND = {resources.SHORT: 6.5, resources.LONG: 0.09}
"""In seconds of the engine's clock: about what one card can just serve."""
MOST_IN_FLIGHT = {resources.SHORT: 160, resources.LONG: 60}
MOST_SECONDS = 1800.0


class Traffic:
    """A load that follows the pods as they come and go."""

    def __init__(self, name: str, addresses: Callable[[], Sequence[str]]) -> None:
        self._addresses = addresses
        self._known: tuple[str, ...] = ()
        self._stop = threading.Event()
        prompts, outputs = (lengths.parse(text) for text in LENGTHS[name])
        rate = ENGINE_REQUESTS_PER_SECOND[name] * resources.CLOCK_SPEED
        bounds = Bounds(seconds=MOST_SECONDS)
        options = Options(model=resources.MODEL, most_in_flight=MOST_IN_FLIGHT[name])
        self.load = Load(poisson(rate, prompts, outputs, bounds), lambda: self._known, options)

    def start(self) -> None:
        """Begin, in threads of its own."""
        threading.Thread(target=self._follow, daemon=True).start()
        threading.Thread(target=self.load.run, daemon=True).start()

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()
        self.load.stop()

    def _follow(self) -> None:
        while not self._stop.wait(0.5):
            try:
                self._known = tuple(self._addresses())
            except httpx.HTTPError:
                time.sleep(0.5)
