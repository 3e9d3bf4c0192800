"""One knob at a time: which of the two goes first."""

from __future__ import annotations

from dataclasses import replace

from parkade.api.settings import Settings
from parkade.rollout.causes import Knob


def next_steps(running: Settings, wanted: Settings) -> tuple[tuple[Settings, Knob], ...]:
    """Return the single-knob changes towards `wanted`, the least memory risk first.

    What frees memory goes before what takes some: fraction down, sequences down, sequences up
    (within the same budget), fraction up.
    """
    fraction = replace(running, gpu_memory_utilization=wanted.gpu_memory_utilization)
    seqs = replace(running, max_num_seqs=wanted.max_num_seqs)
    less_memory = wanted.gpu_memory_utilization < running.gpu_memory_utilization
    by_fraction = [] if fraction == running else [(fraction, Knob.HEADROOM)]
    by_seqs = [] if seqs == running else [(seqs, Knob.MAX_NUM_SEQS)]
    return tuple([*by_fraction, *by_seqs] if less_memory else [*by_seqs, *by_fraction])
