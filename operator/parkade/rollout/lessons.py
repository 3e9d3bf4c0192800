"""What a failure teaches: the quarantine entry, and how much smaller the next candidate is.

The size of the next step follows from where the engine was when it failed: memory for the KV
cache, graphs and run time is given back through the headroom; the profile run, the sampler and
state blocks through `max_num_seqs`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal

from parkade.api.quantity import GIB, MIB
from parkade.api.settings import FOUR_DIGITS, Settings
from parkade.rollout.causes import Blame, CauseClass, Knob
from parkade.rollout.reasons import BELOW_ONE_REQUEST
from parkade.rollout.record import Candidate, Quarantined, SeenTermination

MARGIN_BYTES = GIB // 4
MARGIN_SHARE = 0.25
"""On top of the shortfall: a quarter of it, and never under a quarter GiB. Starts of one engine
differ by some hundred MiB in what they take outside the budget."""
UNKNOWN_SHORTFALL_BYTES = GIB
"""Where the error names no figure: the order of what was missing in the known cases."""
ROUND_TO_BYTES = 64 * MIB
"""Printed figures have two decimals; a headroom is rounded up to the next sixteenth GiB."""
FEWER_SEQS = 0.75
"""One or two rungs down, where the engine names no bound."""
LEAST_UTILIZATION = Decimal("0.0500")
UTILIZATION_STEP = Decimal("0.0200")
"""Where the card's total memory is not known."""
_FEWER_HELP = frozenset(
    {
        CauseClass.OOM_DURING_PROFILE,
        CauseClass.OOM_SAMPLER_WARMUP,
        CauseClass.MAX_NUM_SEQS_EXCEEDS_MAMBA_BLOCKS,
        CauseClass.MAX_NUM_SEQS_EXCEEDS_BATCHED_TOKENS,
    }
)
"""Classes whose knob is `max_num_seqs`."""
_AT_MOST = re.compile(r"max_num_seqs \d{1,9} -> at most (\d{1,9})")
"""The words of `_message`, in which a bound outlives a lost record."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a lesson holds for, and what it stays within."""

    tuning: str
    """Hash of the tuning inputs."""
    total_bytes: int | None = None
    """What the engine calls total memory, per GPU; None where it is not known."""
    least_seqs: int = 1
    """tuning.maxNumSeqs.min, the user's word: no cap lies below it."""


def quarantined(
    candidate: Candidate,
    blamed: SeenTermination,
    limits: Limits,
    now: datetime,
    *,
    shrink_on_unknown: bool,
) -> Quarantined:
    """Return the quarantine entry of failed settings, with what it teaches.

    `shrink_on_unknown`: there is no last good template, so even an unknown cause must lead to a
    smaller try.
    """
    knobs = _knobs(blamed, shrink_on_unknown=shrink_on_unknown)
    settings = candidate.revision.settings
    raised = at_most = below = None
    if Knob.HEADROOM in knobs:
        before = candidate.headroom_bytes or 0
        blamed = _believed(blamed, settings, limits.total_bytes)
        raised = raised_headroom(before, blamed.shortfall_bytes, limits.total_bytes)
        at_most = _smaller(settings.gpu_memory_utilization, raised - before, limits.total_bytes)
    if Knob.MAX_NUM_SEQS in knobs:
        below = _fewer(settings.max_num_seqs, blamed.max_num_seqs_at_most, limits.least_seqs)
    return Quarantined(
        key=candidate.revision.quarantine_key,
        revision=candidate.revision.hash,
        fingerprint=candidate.revision.fingerprint,
        settings=settings,
        cause=blamed.cause_class.value,
        message=_message(candidate, blamed, raised, below),
        time=now,
        tuning=limits.tuning,
        shortfall_bytes=blamed.shortfall_bytes,
        headroom_bytes=raised,
        max_num_seqs_below=below,
        utilization_at_most=at_most,
    )


def raised_headroom(
    before_bytes: int, shortfall_bytes: int | None, total_bytes: int | None = None
) -> int:
    """Return the headroom after a failure: by the shortfall plus a margin, rounded up.

    1.0 GiB short at 6 GiB gives 7.25 GiB. Never more than the card has, where that is known.
    """
    short = UNKNOWN_SHORTFALL_BYTES if shortfall_bytes is None else max(0, shortfall_bytes)
    margin = max(MARGIN_BYTES, math.ceil(short * MARGIN_SHARE))
    raised = math.ceil((before_bytes + short + margin) / ROUND_TO_BYTES) * ROUND_TO_BYTES
    return raised if total_bytes is None else max(before_bytes, min(raised, total_bytes))


def _believed(
    blamed: SeenTermination, settings: Settings, total_bytes: int | None
) -> SeenTermination:
    """Drop a shortfall as large as the whole budget: no such start would have got that far."""
    short = blamed.shortfall_bytes
    if short is None or total_bytes is None:
        return blamed
    budget = int(settings.gpu_memory_utilization * total_bytes)
    return blamed if short < budget else replace(blamed, shortfall_bytes=None)


def fewer_again(settings: Settings, cause: str, message: str, least: int = 1) -> int | None:
    """Return the number from which on settings are not tried, of a failure that the status tells.

    None where fewer sequences do not help. The message names the number; where it was cut off,
    the class of the cause tells that fewer help.
    """
    named = _AT_MOST.findall(message)
    if named or cause in _FEWER_HELP:
        return _fewer(settings.max_num_seqs, int(named[-1]) if named else None, least)
    return None


def _knobs(blamed: SeenTermination, *, shrink_on_unknown: bool) -> tuple[Knob, ...]:
    if blamed.cause_class.value in BELOW_ONE_REQUEST:
        return ()
    if blamed.cause_class is CauseClass.MAX_NUM_SEQS_BELOW_ACTIVE_SEQS:
        return ()
    if blamed.knob is not None:
        return (blamed.knob,)
    if blamed.blame is Blame.UNKNOWN and shrink_on_unknown:
        return (Knob.HEADROOM, Knob.MAX_NUM_SEQS)
    return ()


def _smaller(failed: Decimal, by_bytes: int, total_bytes: int | None) -> Decimal:
    """Return the fraction left, to the nearest digit: the failed one was rounded down already.

    Rounded down twice, it would lie a digit below what sizing recommends, and a pod would be
    replaced for that digit.
    """
    step = Decimal(by_bytes) / Decimal(total_bytes) if total_bytes else UTILIZATION_STEP
    smaller = (failed - step).quantize(FOUR_DIGITS, rounding=ROUND_HALF_UP)
    return max(min(smaller, failed - FOUR_DIGITS), min(LEAST_UTILIZATION, failed))


def _fewer(failed: int, at_most: int | None, least: int) -> int:
    """Return the number from which on settings are not tried any more."""
    if at_most is not None and 1 <= at_most < failed:
        return max(least, at_most) + 1
    return max(least + 1, min(failed, math.floor(failed * FEWER_SEQS) + 1))


def _message(
    candidate: Candidate, blamed: SeenTermination, raised: int | None, below: int | None
) -> str:
    settings = candidate.revision.settings
    utilization = f"{settings.gpu_memory_utilization.normalize():f}"
    what = f"max_num_seqs {settings.max_num_seqs} with gpu_memory_utilization {utilization} failed"
    parts = [f"{what}: {blamed.message or 'the error is not known'}"]
    if raised is not None:
        parts.append(_headroom_sentence(candidate.headroom_bytes or 0, blamed, raised))
    if below is not None and below <= settings.max_num_seqs:
        parts.append(f"max_num_seqs {settings.max_num_seqs} -> at most {below - 1}")
    elif below is not None:
        parts.append(f"tuning.maxNumSeqs.min {below - 1} allows no fewer")
    return ". ".join(one.rstrip(". ") for one in parts) + "."


def _headroom_sentence(before: int, blamed: SeenTermination, raised: int) -> str:
    change = f"headroom {_gib(before)} -> {_gib(raised)} GiB"
    if blamed.shortfall_bytes is None:
        return f"Shortfall not named, {_gib(UNKNOWN_SHORTFALL_BYTES)} GiB assumed: {change}"
    return f"{blamed.shortfall_bytes / GIB:.1f} GiB short: {change}"


def _gib(size_bytes: int) -> str:
    text = f"{size_bytes / GIB:.2f}"
    return text.rstrip("0").rstrip(".")
