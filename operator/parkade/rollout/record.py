"""The durable record of one endpoint: what Parkade must remember between two passes.

It is written before the act that depends on it, so it is the intent: the Deployment is always
brought to what the record says. A crash between the two repeats nothing. `record_json.py` reads
and writes it, `rebuild.py` makes it anew from the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from parkade.api.settings import Settings
from parkade.api.status import MAX_HISTORY, Origin, Verdict
from parkade.rollout.causes import Blame, CauseClass, Knob
from parkade.rollout.revision import Revision, quarantine_key

MAX_QUARANTINE = 128
"""At the default cooldown, failures of many days; about 150 KB at most."""
MAX_RETRIES = 32
MAX_TERMINATIONS = 128
"""Above the largest rollout.maxRestarts, which is 100."""
MAX_FINGERPRINTS = 4


class Phase(StrEnum):
    """How far a candidate may go."""

    CANARY = "Canary"
    """One new pod, which is judged before the rest follow."""
    FULL = "Full"
    """All pods: it passed as canary, or there is no good pod to protect."""


@dataclass(frozen=True, slots=True)
class SeenTermination:
    """A termination of one of the candidate's pods; kept, since logs and pods vanish."""

    pod_uid: str
    number: int
    before_ready: bool
    cause_class: CauseClass = CauseClass.UNKNOWN
    blame: Blame = Blame.UNKNOWN
    knob: Knob | None = None
    message: str = ""
    remedy: str = ""
    shortfall_bytes: int | None = None
    max_num_seqs_at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A revision that is being brought up and judged."""

    revision: Revision
    origin: Origin
    since: datetime
    phase: Phase = Phase.CANARY
    knob: Knob | None = None
    """The one knob that tuning turned."""
    surge: bool = True
    """The new pod comes beside the old ones; False: in the place of one."""
    predicted_kv_tokens: int | None = None
    ready_uids: tuple[str, ...] = ()
    """Pods of it that have been seen ready."""
    terminations: tuple[SeenTermination, ...] = ()
    scale: int = 1
    """Replicas when it was started; another number withdraws a canary."""
    headroom_bytes: int | None = None
    """The headroom that it was sized with."""
    asked: bool = False
    """A person asked for it: a retry, or new initial settings in mode RecommendOnly."""
    note: str = ""
    """Free text of the person who asked for it again."""
    widened_at: datetime | None = None
    """When the rest was let follow; None: not yet, or it began with all pods."""
    earlier_ends: tuple[tuple[str, int], ...] | None = None
    """Pods that an earlier try of the same revision left, with the ends that they had; None: not
    looked at yet. Told by clocks once, since those of operator and nodes differ."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Settings that failed; never tried again under the same fingerprint unless a person asks."""

    key: str
    """Hash of fingerprint and both knobs; empty for settings that are not kept from running."""
    revision: str
    fingerprint: str
    settings: Settings
    cause: str
    """Class of the root cause."""
    message: str
    time: datetime
    tuning: str = ""
    """Hash of the tuning inputs; what it taught holds only for these."""
    shortfall_bytes: int | None = None
    headroom_bytes: int | None = None
    """The headroom that it asks for from now on; None where headroom does not help."""
    max_num_seqs_below: int | None = None
    """Settings from this on are not tried; None where fewer sequences do not help."""
    utilization_at_most: Decimal | None = None
    """The largest fraction that it leaves; None where a smaller one does not help."""


@dataclass(frozen=True, slots=True)
class RejectedSpec:
    """A user's change that was taken back; it is not tried again until the spec changes."""

    inputs: str
    tuning: str
    generation: int
    key: str
    """Quarantine key of what failed: the retry annotation may name it, or the revision."""
    revision: str
    cause: str
    message: str
    time: datetime


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One revision with its verdict."""

    revision: str
    settings: Settings
    fingerprint: str
    generation: int
    origin: Origin
    since: datetime
    verdict: Verdict = Verdict.PENDING
    reason: str = ""
    message: str = ""
    until: datetime | None = None
    predicted_kv_tokens: int | None = None
    measured_kv_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """Settings that a person asked to be tried again."""

    key: str
    fingerprint: str
    settings: Settings
    note: str = ""


@dataclass(frozen=True, slots=True)
class Recommended:
    """What sizing recommended last, while it is not in force."""

    max_num_seqs: int
    fingerprint: str
    inputs: str
    """Hash of what the user tells sizing; under other inputs it starts clean."""


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that outlives a pass. Bound to the resource's uid; histories newest first."""

    uid: str
    last_good: Revision | None = None
    last_good_since: datetime | None = None
    candidate: Candidate | None = None
    quarantine: tuple[Quarantined, ...] = ()
    rejected_spec: RejectedSpec | None = None
    history: tuple[HistoryEntry, ...] = ()
    surge: bool = True
    """Strategy in force; a revert keeps that of its candidate."""
    settled_at: datetime | None = None
    """When the last disruption ended: cooldowns count from here."""
    withdrawals: int = 0
    """Candidates taken back in a row without a verdict: each doubles the cooldown."""
    handled_retries: tuple[str, ...] = ()
    retry: Retry | None = None
    initial: Settings | None = None
    """tuning.initial as last acted on: in RecommendOnly a new one is the user's wish."""
    previous_max_num_seqs: int | None = None
    """What was left for that of the last good revision, under the same fingerprint."""
    recommended: Recommended | None = None
    """Protected from noise as what is in force is; None: what is in force is recommended."""
    ledger: tuple[Mapping[str, Any], ...] = ()
    """Measured points, sizing's own JSON."""
    learned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Measured memory by fingerprint, sizing's own JSON; newest last."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a newer version, kept as they are."""

    @property
    def target(self) -> Revision | None:
        """The revision that the Deployment must have."""
        return self.candidate.revision if self.candidate is not None else self.last_good

    @property
    def _revisions(self) -> tuple[Revision, ...]:
        candidate = self.candidate.revision if self.candidate is not None else None
        return tuple(one for one in (candidate, self.last_good) if one is not None)

    def recommended_max_num_seqs(self, fingerprint: str, inputs: str) -> int | None:
        """Return what was recommended last under these inputs; None: nothing but what runs."""
        last = self.recommended
        if last is None or (last.fingerprint, last.inputs) != (fingerprint, inputs):
            return None
        return last.max_num_seqs

    def is_quarantined(self, key: str) -> bool:
        """Tell whether these settings failed before under this fingerprint."""
        return any(one.key == key for one in self.quarantine)

    def with_quarantined(self, failed: Quarantined) -> Record:
        """Return the record with failed settings added.

        Where there are too many, those of configurations that do not run go, then the oldest.
        """
        found = [failed, *(one for one in self.quarantine if one.key != failed.key)]
        runs = {failed.fingerprint, *(one.fingerprint for one in self._revisions)}
        while len(found) > MAX_QUARANTINE:
            others = [one for one in found if one.fingerprint not in runs]
            found.remove(others[-1] if others else found[-1])
        return replace(self, quarantine=tuple(found))

    def with_history(self, entry: HistoryEntry) -> Record:
        """Return the record with an entry on top."""
        return replace(self, history=(entry, *self.history)[:MAX_HISTORY])

    def with_learned(self, fingerprint: str, memory: Mapping[str, Any]) -> Record:
        """Return the record with measured memory of a fingerprint; the oldest go first."""
        rest = {key: one for key, one in self.learned.items() if key != fingerprint}
        kept = [*rest.items(), (fingerprint, memory)][-MAX_FINGERPRINTS:]
        return replace(self, learned=dict(kept))

    def lessons(self, fingerprint: str, tuning: str) -> tuple[Quarantined, ...]:
        """Return the failures that still teach something under these inputs."""
        return tuple(
            one
            for one in self.quarantine
            if one.fingerprint == fingerprint and one.tuning == tuning
        )

    def effective_headroom(self, fingerprint: str, tuning: str, asked_bytes: int) -> int:
        """Return the headroom to size with: the one asked for, or what failures have shown."""
        raised = [one.headroom_bytes or 0 for one in self.lessons(fingerprint, tuning)]
        return max([asked_bytes, *raised])

    def max_num_seqs_cap(self, fingerprint: str, tuning: str) -> int | None:
        """Return the most sequences that failures leave; None where none of them says."""
        below = [one.max_num_seqs_below for one in self.lessons(fingerprint, tuning)]
        return min((max(1, one - 1) for one in below if one is not None), default=None)

    def cut(self, settings: Settings, fingerprint: str, tuning: str, least: int = 1) -> Settings:
        """Return settings within what failures left.

        Other tuning inputs start clean, yet nothing that failed is tried again: where the answer
        is in quarantine, all failures of the fingerprint count. `least` is tuning.maxNumSeqs.min,
        below which nothing is cut: the answer may then be in quarantine still.
        """
        within = _within(settings, self.lessons(fingerprint, tuning), least)
        if not self.is_quarantined(quarantine_key(fingerprint, within)):
            return within
        all_of_it = [one for one in self.quarantine if one.fingerprint == fingerprint]
        return _within(settings, all_of_it, least)


def _within(settings: Settings, lessons: Iterable[Quarantined], least: int) -> Settings:
    seqs, utilization = settings.max_num_seqs, settings.gpu_memory_utilization
    for one in lessons:
        if one.max_num_seqs_below is not None:
            seqs = min(seqs, max(least, one.max_num_seqs_below - 1))
        if one.utilization_at_most is not None:
            utilization = min(utilization, one.utilization_at_most)
    return Settings(seqs, utilization)
