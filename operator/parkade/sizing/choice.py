"""From bounds to a rung, and from a rung in force to the one to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parkade.api.conditions import Reason
from parkade.api.status import LimitedBy, TriState
from parkade.sizing.ladder import rung_above, rung_below, snap
from parkade.sizing.result import LIMITS, Bound, BoundKind
from parkade.sizing.wording import number, rough

HARD = (BoundKind.ENGINE, BoundKind.USER)
"""What is above one of these is lowered whatever the hysteresis says."""


@dataclass(frozen=True, slots=True)
class Target:
    """The smallest upper bound and the rung for it."""

    unsnapped: float
    kind: BoundKind
    rung: int
    ceiling: float
    sentences: tuple[str, ...]
    urgent: bool = False
    """It moves whatever the hysteresis says."""

    @property
    def limited_by(self) -> LimitedBy:
        """The word for the smallest bound."""
        return LIMITS[self.kind]


def target(bounds: Mapping[BoundKind, Bound], floor: int) -> Target:
    """Return the smallest upper bound, snapped. `floor` is the user's least max_num_seqs.

    Snapped to the nearest rung, which may be above the KV bound (soft) and is never above a
    speed, engine or user bound.
    """
    upper = {
        kind: bounds[kind].value or 0.0
        for kind in LIMITS
        if kind in bounds and bounds[kind].value is not None
    }
    kind = min(upper, key=lambda one: upper[one])
    value = upper[kind]
    ceiling = min((upper[one] for one in upper if one is not BoundKind.KV_CACHE), default=value)
    rung = max(1, snap(value, ceiling))
    words = ", ".join(f"{rough(size)} {_WORDS[one]}" for one, size in upper.items())
    sentences = [
        f"Smallest upper bound: the smallest of {words} = {rough(value)} ({LIMITS[kind].value})."
    ]
    if rung < floor:
        sentences.append(f"Rung: tuning.maxNumSeqs.min {floor} is above {rung} and holds.")
        rung = floor
    else:
        sentences.append(
            f"Rung: nearest to {rough(value)} and not above {rough(ceiling)} = {rung}."
        )
    return Target(value, kind, rung, ceiling, tuple(sentences))


_WORDS = {
    BoundKind.KV_CACHE: "KV cache",
    BoundKind.SPEED: "speed",
    BoundKind.ENGINE: "engine",
    BoundKind.USER: "user",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What decides whether the rung in force moves."""

    min_gain_percent: float
    standard_error_percent: float
    saturated: TriState
    overhead: str | None
    """The alarm's sentence, where time per token stands still."""
    previous: int | None = None
    """The rung that was left for the one in force."""

    @property
    def margin_percent(self) -> float:
        """The hysteresis: minGainPercent or two standard errors, whichever is more."""
        return max(self.min_gain_percent, 2 * self.standard_error_percent)

    def goes_back(self, wanted: Target) -> bool:
        """Tell whether a soft bound wants the rung that was left.

        The nearer rung changes in the middle between the two, so noise there would swing N to and
        fro: the rung that was left is gone back to only when the bound reaches it.
        """
        soft = wanted.kind is BoundKind.KV_CACHE and not wanted.urgent
        return soft and wanted.rung == self.previous


@dataclass(frozen=True, slots=True)
class Choice:
    """The rung to run, and why it is not the target where it is not."""

    rung: int
    held: Reason | None
    message: str
    firm: bool = True
    """The traffic asks for a change now; False: it did, and noise took the reason back."""


def hard_limit(bounds: Mapping[BoundKind, Bound]) -> float:
    """Return what no max_num_seqs may be above, whatever the hysteresis says."""
    return min(bounds[kind].value or 1.0 for kind in HARD if kind in bounds)


def choose(
    wanted: Target,
    in_force: int | None,
    bounds: Mapping[BoundKind, Bound],
    floor: int,
    evidence: Evidence,
) -> Choice:
    """Return the rung to run after hysteresis."""
    if in_force is None:
        return Choice(wanted.rung, None, "")
    if in_force > hard_limit(bounds) or in_force < floor:
        message = (
            f"{in_force} in force is outside what the engine and the user allow: {wanted.rung}."
        )
        return Choice(wanted.rung, None, message)
    return _within(wanted, in_force, evidence)


def _within(wanted: Target, in_force: int, evidence: Evidence) -> Choice:
    margin = evidence.margin_percent
    moved = 100 * (wanted.unsnapped / in_force - 1)
    if wanted.rung == in_force or (moved > 0) != (wanted.rung > in_force):
        return Choice(in_force, None, f"{in_force} in force is the rung for it.")
    change = (
        f"Change: 100 × ({number(wanted.unsnapped, 2)} / {in_force} in force - 1) = "
        f"{number(moved, 1)} %"
    )
    largest = (
        f"the larger of {number(evidence.min_gain_percent)} % (minGainPercent) and 2 × "
        f"{number(evidence.standard_error_percent, 2)} % standard error"
    )
    if abs(moved) < margin and not wanted.urgent:
        message = f"{change}, less than {largest}: {in_force} stays."
        return Choice(in_force, Reason.WITHIN_HYSTERESIS, message)
    held = _held(wanted, in_force, evidence, change)
    why = f"beyond {largest}" if abs(moved) >= margin else "and the hysteresis does not hold it"
    return held or Choice(wanted.rung, None, f"{change}, {why}: {wanted.rung}.")


def _held(wanted: Target, in_force: int, evidence: Evidence, change: str) -> Choice | None:
    """Return what keeps a change that is large enough; None: nothing does."""
    if evidence.goes_back(wanted) and not _reached(wanted, in_force):
        message = (
            f"{change}, but {wanted.rung} was left for {in_force}, and is gone back to when the "
            f"bound reaches it: {in_force} stays."
        )
        return Choice(in_force, Reason.WITHIN_HYSTERESIS, message)
    if wanted.rung < in_force:
        return None
    if evidence.overhead is not None:
        message = f"{evidence.overhead} So {in_force} stays."
        return Choice(in_force, Reason.OVERHEAD_BOUND, message)
    if evidence.saturated is TriState.FALSE:
        message = (
            f"{change}, but at most 1 % of requests queue for more than 0.3 s, so more than "
            f"{in_force} would bring nothing."
        )
        return Choice(in_force, Reason.UNSATURATED, message)
    return None


def _reached(wanted: Target, in_force: int) -> bool:
    """Tell whether the bound has come as far as the rung, or passed it."""
    if wanted.rung > in_force:
        return wanted.unsnapped >= wanted.rung
    return wanted.unsnapped <= wanted.rung


def still_recommended(
    wanted: Target, choice: Choice, in_force: int, before: int, evidence: Evidence
) -> Choice | None:
    """Return what was recommended `before` and is not in force, where noise alone speaks against.

    Half of the hysteresis must be left in its direction, and it must be the rung for the bound
    within minGainPercent, or the first one on the way.
    """
    if wanted.urgent or choice.rung == before or choice.held is Reason.OVERHEAD_BOUND:
        return None
    margin = evidence.margin_percent
    moved = 100 * (wanted.unsnapped / in_force - 1)
    apart = 100 * (wanted.unsnapped / before - 1)
    on_its_way = moved >= margin / 2 if before > in_force else moved <= -margin / 2
    beside = rung_above(in_force) if before > in_force else rung_below(in_force)
    stays = choice.rung == in_force and before == beside
    if (
        before == in_force
        or not on_its_way
        or not (stays or abs(apart) < evidence.min_gain_percent)
    ):
        return None
    message = (
        f"Recommended before: 100 × ({number(wanted.unsnapped, 2)} / {in_force} in force - 1) = "
        f"{number(moved, 1)} %, at least half of the hysteresis, so {before} stays recommended."
    )
    return Choice(before, None, message, firm=choice.rung != in_force)
