"""The arithmetic of a decision as sentences, in the order in which it was made."""

from __future__ import annotations

from dataclasses import dataclass

from parkade.api.quantity import gib
from parkade.api.spec import utilization_of
from parkade.sizing.case import Case
from parkade.sizing.choice import Choice, Target
from parkade.sizing.fraction import TOLERANCE_BYTES, FractionBasis
from parkade.sizing.pool import pool_at, pool_sentences
from parkade.sizing.traffic import traffic_sentences
from parkade.sizing.wording import number


@dataclass(frozen=True, slots=True)
class Said:
    """What was found beside the bounds."""

    alarm: str | None
    """That time per token stands still, which is overhead."""
    replicas: str
    """That more pods are needed; empty where these keep up."""
    start: int
    """The max_num_seqs at which the fraction was settled."""


def explanation(case: Case, wanted: Target, choice: Choice, said: Said) -> tuple[str, ...]:
    """Return all sentences, each to be redone by hand from its own numbers and those before it."""
    workload, alarm = case.traffic.workload, said.alarm
    return (
        case.at.fraction_basis().sentence(case.wanted_fraction),
        *_fraction_held(case, said.start),
        *pool_sentences(case.pool),
        *(traffic_sentences(workload, case.traffic.basis) if workload else ()),
        *case.bounds.sentences,
        *wanted.sentences,
        *((f"Replicas: {said.replicas}",) if said.replicas else ()),
        *((choice.message,) if choice.message else ()),
        *((alarm,) if alarm and alarm not in choice.message else ()),
    )


def _fraction_held(case: Case, start: int) -> tuple[str, ...]:
    """Return why the fraction in force stays, with what it leaves."""
    if case.run_fraction == case.wanted_fraction:
        return ()
    basis = case.at.fraction_basis()
    left, why = basis.left_sentence(case.run_fraction), _why_held(case, basis, start)
    return (f"Fraction in force: {left}; {why}: {utilization_of(case.run_fraction)} stays.",)


def _why_held(case: Case, basis: FractionBasis, seqs: int) -> str:
    if case.wanted_fraction < case.run_fraction:
        return f"less than {gib(TOLERANCE_BYTES)} of the headroom {gib(basis.headroom_bytes)} lacks"
    wanted = utilization_of(case.wanted_fraction)
    if case.traffic.observed is not None:
        return f"without traffic that tells, it is not raised to {wanted}"
    now, larger = (
        pool_at(case.at, one, seqs).memory.available_kv_bytes
        for one in (case.run_fraction, case.wanted_fraction)
    )
    return (
        f"with {seqs} at a time {wanted} would give {gib(larger)} of KV cache for {gib(now)}, "
        f"{number(100 * (larger / now - 1), 1)} % more and less than minGainPercent "
        f"{case.inputs.spec.tuning.min_gain_percent} %"
    )
