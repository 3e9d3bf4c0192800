"""The shape of a rule: a text that engines print, and what follows from it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from parkade.rollout.causes.cause import Blame, CauseClass, Knob, RootCause, Stage
from parkade.rollout.causes.stages import Scene


class Weight(IntEnum):
    """How sure a text is to be the root; of equals the first in the log wins."""

    CERTAIN = 0
    """The engine's own statement of a failure that ends it."""

    LIKELY = 1
    """Errors that are also printed when they were survived: not if the start went on."""

    PLAIN = 2
    """An exception without a rule, or the signal that ended a start."""

    SYMPTOM = 3
    """What follows from a death: exit codes of child processes, aborted collectives, timeouts."""


Answer = Callable[["Finding", Scene], RootCause | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, its weight, and the answer; ``None`` from the answer means: not this."""

    pattern: re.Pattern[str]
    weight: Weight
    answer: Answer
    at_runtime: bool = True
    """Whether it can end a server that serves."""
    only_deadly: bool = False
    """At run time it counts only as a part of the death: elsewhere it was survived."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that matched a line."""

    rule: Rule
    index: int
    match: re.Match[str]
    siblings: tuple[re.Match[str], ...] = ()
    """Matches of the same rule on other lines: other ranks say the same with their figures."""


def rule(
    pattern: str,
    answer: Answer,
    weight: Weight = Weight.CERTAIN,
    *,
    at_runtime: bool = True,
    only_deadly: bool = False,
) -> Rule:
    """Return a rule for a pattern."""
    return Rule(re.compile(pattern), weight, answer, at_runtime, only_deadly)


def says(
    cause_class: CauseClass,
    blame: Blame,
    stage: Stage | None = None,
    knob: Knob | None = None,
) -> Answer:
    """Return an answer that is always the same."""

    def answer(finding: Finding, scene: Scene) -> RootCause:
        _ = (finding, scene)
        return RootCause(cause_class, blame, stage=stage, knob=knob)

    return answer
