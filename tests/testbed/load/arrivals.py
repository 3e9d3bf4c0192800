"""When requests come, and how long they are: drawn, or read from a trace."""

import csv
import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.load.errors import LoadError
from testbed.load.lengths import Lengths

MOST_REQUESTS = 1_000_000
MOST_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: seconds after the start, and lengths in tokens."""

    seconds: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where the load ends, whichever comes first."""

    requests: int = MOST_REQUESTS
    seconds: float = MOST_SECONDS

    def __post_init__(self) -> None:
        if not 1 <= self.requests <= MOST_REQUESTS:
            raise LoadError(f"the number of requests must be from 1 to {MOST_REQUESTS}")
        if not 0 < self.seconds <= MOST_SECONDS:
            raise LoadError(f"the duration must be above 0 and at most {MOST_SECONDS:.0f} seconds")


def poisson(
    rate: float, prompts: Lengths, outputs: Lengths, bounds: Bounds, seed: int = 0
) -> Iterator[Arrival]:
    """Independent arrivals, `rate` a second on average."""
    if not 0 < rate <= 10_000:
        raise LoadError(f"the rate must be above 0 and at most 10000 a second, not {rate}")
    generator = random.Random(seed)
    seconds = 0.0
    for _ in range(bounds.requests):
        seconds += generator.expovariate(rate)
        if seconds > bounds.seconds:
            return
        yield Arrival(seconds, prompts.sample(generator), outputs.sample(generator))


def trace(path: Path, bounds: Bounds, *, speed: float = 1.0) -> Iterator[Arrival]:
    """Requests as recorded, `speed` times faster.

    CSV, plain or gzip, with the columns `seconds`, `prompt_tokens`, `output_tokens` and, where it
    has it, `prefix_seen_tokens` (of the prompt, seen in an earlier request).
    """
    if not 0 < speed <= 10_000:
        raise LoadError(f"the speed must be above 0 and at most 10000, not {speed}")
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", newline="") as file:
            for number, row in enumerate(csv.DictReader(file)):
                arrival = _row(row, speed)
                if number >= bounds.requests or arrival.seconds > bounds.seconds:
                    return
                yield arrival
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise LoadError(f"{path} is not a trace of requests: {error!r}") from None


def _row(row: dict[str, str], speed: float) -> Arrival:
    prompt = max(int(row["prompt_tokens"]), 1)
    return Arrival(
        seconds=float(row["seconds"]) / speed,
        prompt_tokens=prompt,
        output_tokens=max(int(row["output_tokens"]), 1),
        cached_tokens=min(int(row.get("prefix_seen_tokens") or 0), prompt),
    )
