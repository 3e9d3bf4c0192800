"""Where no max_num_seqs meets both objectives: the one at which most requests meet both.

More requests at a time make each slower; fewer make them queue. When the bound from below exceeds
the bound from above, the endpoint needs more pods; until they come, the best is in between. That
can be told only where shares of requests were measured, not from medians.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from parkade.sizing.first_token import Service
from parkade.sizing.ladder import RUNGS
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.wording import number


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The rung at which most requests get both their speed and their first token."""

    rung: int
    speed_share: float
    first_token_share: float

    @property
    def share(self) -> float:
        """Share that meets both, taken as independent."""
        return self.speed_share * self.first_token_share

    @property
    def sentence(self) -> str:
        """The arithmetic."""
        return (
            f"Both objectives: {number(self.speed_share)} of requests get the speed × "
            f"{number(self.first_token_share)} get a slot at the peak = {number(self.share)} with "
            f"{self.rung} at a time, more than with any other rung between the two bounds."
        )


def best_between(
    points: Sequence[SpeedPoint],
    seconds_per_token: float,
    times: Service | None,
    requests_per_second: float,
    rungs: tuple[int, int],
) -> TradeOff | None:
    """Return the best rung from the first to the second of `rungs`; None where not known.

    `requests_per_second` is the peak on one pod. Shares are linear between the points.
    """
    shares = _shares(points, seconds_per_token)
    if times is None or len(shares) < 2 or requests_per_second <= 0:
        return None
    low, high = rungs
    candidates = [
        TradeOff(
            rung,
            _linear(shares, float(rung)),
            min(1.0, times.requests_per_second(float(rung)) / requests_per_second),
        )
        for rung in RUNGS
        if low <= rung <= high
    ]
    return max(candidates, key=lambda one: (one.share, -one.rung), default=None)


def _shares(points: Sequence[SpeedPoint], limit: float) -> list[tuple[float, float]]:
    """Return concurrency and share within the limit, the middle where it is an interval."""
    found: dict[float, float] = {}
    for point in points:
        times = point.time_per_output_token
        if times is not None and times.total > 0:
            low, high = times.share_at_most(limit)
            found[point.concurrency] = (low + high) / 2
    return sorted(found.items())


def _linear(line: list[tuple[float, float]], at: float) -> float:
    if at <= line[0][0]:
        return line[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if at <= x1:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return line[-1][1]
