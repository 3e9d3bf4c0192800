"""Distributions of request lengths, and how they are written on the command line.

`300` or `constant:300`; `lognormal:median=2000,sigma=1.0,max=200000` (sigma of the logarithm);
`bucketed:100000=210,200000=485,500000=693` (cumulative counts by upper edge, as a traffic file has
them; within a bucket lengths are spread evenly on a logarithmic scale).
"""

import bisect
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from testbed.load.errors import LoadError

LONGEST = 4_194_304


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    tokens: int

    def sample(self, _random: random.Random) -> int:
        """Draw a length."""
        return self.tokens


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Most requests short, a few long: what services see."""

    median: float
    sigma: float
    least: int = 1
    largest: int = LONGEST

    def sample(self, generator: random.Random) -> int:
        """Draw a length; what falls outside the range is drawn again, at most a hundred times."""
        for _ in range(100):
            tokens = round(generator.lognormvariate(math.log(self.median), self.sigma))
            if self.least <= tokens <= self.largest:
                return tokens
        return min(max(round(self.median), self.least), self.largest)


@dataclass(frozen=True, slots=True)
class Bucketed:
    """Counts by upper edge, cumulative; the last edge has them all."""

    edges: tuple[int, ...]
    counts: tuple[float, ...]

    def sample(self, generator: random.Random) -> int:
        """Draw a bucket, then a length within it."""
        index = bisect.bisect_right(self.counts, generator.random() * self.counts[-1])
        index = min(index, len(self.counts) - 1)
        high = self.edges[index]
        low = self.edges[index - 1] + 1 if index else max(high // 10, 1)
        return min(round(math.exp(generator.uniform(math.log(low), math.log(high)))), high)


Lengths = Constant | LogNormal | Bucketed


def parse(text: str) -> Lengths:
    """Read a distribution; raises LoadError that says what is wrong."""
    kind, _, rest = text.partition(":")
    try:
        if not rest:
            return Constant(_tokens(kind))
        return _KINDS[kind](rest)
    except (KeyError, ValueError, TypeError):
        raise LoadError(
            f"{text!r} is not a distribution of lengths: write 300, "
            "lognormal:median=2000,sigma=1.0,max=200000 or bucketed:1000=70,5000=100"
        ) from None


def _tokens(text: str) -> int:
    tokens = int(text)
    if not 1 <= tokens <= LONGEST:
        raise ValueError(text)
    return tokens


def _pairs(text: str) -> dict[str, float]:
    pairs = dict(part.split("=", 1) for part in text.split(","))
    values = {key: float(value) for key, value in pairs.items()}
    if not all(math.isfinite(value) for value in values.values()):
        raise ValueError(text)
    return values


def _lognormal(text: str) -> LogNormal:
    values = _pairs(text)
    least, largest = int(values.pop("min", 1)), int(values.pop("max", LONGEST))
    found = LogNormal(values.pop("median"), values.pop("sigma"), least, largest)
    if values or found.median < 1 or found.sigma < 0 or not 1 <= least <= largest <= LONGEST:
        raise ValueError(text)
    return found


def _bucketed(text: str) -> Bucketed:
    pairs = sorted((_tokens(edge), count) for edge, count in _pairs(text).items())
    counts = [count for _, count in pairs]
    if counts != sorted(counts) or counts[0] < 0 or counts[-1] <= 0:
        raise ValueError(text)
    return Bucketed(tuple(edge for edge, _ in pairs), tuple(counts))


_KINDS: dict[str, Callable[[str], Lengths]] = {
    "constant": lambda text: Constant(_tokens(text)),
    "lognormal": _lognormal,
    "bucketed": _bucketed,
}
