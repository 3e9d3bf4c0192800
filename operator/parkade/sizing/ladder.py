"""The rungs that max_num_seqs is snapped to.

Rungs exist because max_num_seqs is part of the compile cache's key since vLLM 0.29
(`SchedulerConfig.compute_hash`): each new value costs a cold compile. Steps are an eighth to a
quarter, no finer than the bounds are known.
"""

from __future__ import annotations

TOP = 1024
"""The largest max_num_seqs: vLLM's own default on the largest cards."""


def _rungs() -> tuple[int, ...]:
    rungs = [*range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    while rungs[-1] < TOP:
        octave = 2 ** (rungs[-1].bit_length() - 1)
        rungs += [octave * (4 + quarter) // 4 for quarter in range(1, 5)]
    return tuple(rungs)


RUNGS = _rungs()
"""1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, ... 1024."""


def rung_below(value: float) -> int:
    """Return the largest rung below a value; 1 where none is."""
    return max((rung for rung in RUNGS if rung < value), default=RUNGS[0])


def rung_above(value: float) -> int:
    """Return the smallest rung above a value; the top where none is."""
    return min((rung for rung in RUNGS if rung > value), default=TOP)


def snap(value: float, ceiling: float = TOP) -> int:
    """Return the rung nearest to `value` that is not above `ceiling`; at least 1.

    Between two rungs the nearer counts, the lower one on a tie.
    """
    allowed = [rung for rung in RUNGS if rung <= ceiling] or [RUNGS[0]]
    return min(allowed, key=lambda rung: (abs(rung - value), rung))
