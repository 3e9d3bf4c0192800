"""The page of failure classes, made from the classifier's own words."""

from __future__ import annotations

from collections.abc import Iterator

from parkade.api.reasons import Reason
from parkade.api.reference import docstrings
from parkade.rollout.causes import Blame, CauseClass, RootCause
from parkade.rollout.causes.remedies import remedy
from parkade.rollout.reasons import REASON_OF_CAUSE

INTRODUCTION = """
Parkade reads the log of an engine that ended and what Kubernetes says of its container.
It names one class.
`parkade classify LOGFILE` does the same for a log of your own, without a cluster.

The class stands in `status.rejected[].cause`. Its *blame* decides what follows:

| Blame | What Parkade does |
|---|---|"""


def failure_classes(command: str) -> str:
    """Return the page as Markdown: what each blame leads to, then every class with its remedy."""
    blames = docstrings(Blame)
    lines = [
        f"<!-- Generated from operator/parkade/rollout/causes by `{command}`. Do not edit. -->",
        "# Failure classes",
        INTRODUCTION,
        *(f"| `{blame}` | {blames[blame]} {_CONSEQUENCE[blame]} |" for blame in Blame),
        "",
        "The last column is the reason in [conditions](conditions.md) and history, where it has a",
        "name of its own; else it is `EngineFailed`. Settings that failed while tuning show as",
        "`SettingsApplied=False/CandidateRejected`, whatever the class.",
        "",
        "| Class | What happened, and whose it is | What to do | Reason |",
        "|---|---|---|---|",
        *_rows(),
    ]
    return "\n".join(lines) + "\n"


_CONSEQUENCE = {
    Blame.SETTINGS: "One failed start is enough: the last good settings come back, and these are "
    "not tried again.",
    Blame.ENVIRONMENT: "Nothing is quarantined; a candidate that is not ready in time is withdrawn "
    "without a verdict.",
    Blame.USER: "The candidate is given up at once, and the message says what to correct.",
    Blame.UNKNOWN: "Two failed starts of one candidate give it up.",
}


def _rows() -> Iterator[str]:
    meanings = docstrings(CauseClass)
    for one in CauseClass:
        todo = remedy(RootCause(one, Blame.SETTINGS))
        todo = f"{todo[0].upper()}{todo[1:]}."
        meaning = meanings[one].replace("``", "`")
        reason = REASON_OF_CAUSE[one]
        named = "" if reason is Reason.ENGINE_FAILED else f"`{reason}`"
        yield f"| `{one}` | {meaning} | {todo} | {named} |"
