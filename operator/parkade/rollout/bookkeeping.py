"""How the record changes when a candidate starts, is promoted, fails or is taken back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from parkade.api.status import Origin, Verdict
from parkade.rollout.record import (
    MAX_RETRIES,
    Candidate,
    HistoryEntry,
    Quarantined,
    Record,
    RejectedSpec,
    Retry,
)
from parkade.rollout.revision import Revision


def started(record: Record, candidate: Candidate, message: str) -> Record:
    """Return the record with a candidate in flight; one that flew before is superseded."""
    if record.candidate is not None:
        record = _concluded(
            record, Verdict.INCONCLUSIVE, "Superseded", "The spec changed again.", candidate.since
        )
    entry = HistoryEntry(
        revision=candidate.revision.hash,
        settings=candidate.revision.settings,
        fingerprint=candidate.revision.fingerprint,
        generation=candidate.revision.generation,
        origin=candidate.origin,
        since=candidate.since,
        message=f"{message} (asked for: {candidate.note})" if candidate.note else message,
        predicted_kv_tokens=candidate.predicted_kv_tokens,
    )
    retry = record.retry
    if retry is not None and retry.settings == candidate.revision.settings:
        retry = None
    return replace(record.with_history(entry), candidate=candidate, retry=retry)


def promoted(record: Record, message: str, now: datetime, measured: int | None) -> Record:
    """Return the record with the candidate as the last good revision."""
    candidate = record.candidate
    if candidate is None:
        return record
    done = _concluded(record, Verdict.SUCCESSFUL, "Promoted", message, now, measured)
    return replace(
        done,
        last_good=candidate.revision,
        last_good_since=now,
        previous_max_num_seqs=_left(record, candidate.revision),
        surge=candidate.surge,
        settled_at=now,
        withdrawals=0,
        rejected_spec=None,
    )


def _left(record: Record, new: Revision) -> int | None:
    """Return the max_num_seqs that is left for a new good revision of the same fingerprint."""
    old = record.last_good
    if old is None or old.fingerprint != new.fingerprint:
        return None
    same = old.settings.max_num_seqs == new.settings.max_num_seqs
    return record.previous_max_num_seqs if same else old.settings.max_num_seqs


def failed(
    record: Record,
    reason: str,
    message: str,
    now: datetime,
    quarantined: Quarantined | None,
    rejected: RejectedSpec | None,
) -> Record:
    """Return the record with the verdict, so that the revert that follows can't be forgotten."""
    surge = record.candidate.surge if record.candidate is not None else record.surge
    done = _concluded(record, Verdict.FAILED, reason, message, now)
    if quarantined is not None:
        done = done.with_quarantined(quarantined)
    if rejected is not None:
        done = replace(done, rejected_spec=rejected)
    # A wish for a retry ends: it failed again, or a step towards it did.
    return replace(done, surge=surge, settled_at=now, retry=None)


def withdrawn(
    record: Record,
    reason: str,
    message: str,
    now: datetime,
    *,
    back_off: bool = False,
    rejected: RejectedSpec | None = None,
) -> Record:
    """Return the record with the candidate taken back; `back_off` doubles the next cooldown."""
    candidate = record.candidate
    done = _concluded(record, Verdict.INCONCLUSIVE, reason, message, now)
    tuning = candidate is not None and candidate.origin is Origin.TUNING
    return replace(
        done,
        surge=candidate.surge if candidate is not None else record.surge,
        settled_at=now,
        withdrawals=record.withdrawals + (1 if back_off and tuning else 0),
        rejected_spec=rejected or done.rejected_spec,
    )


def retry_for(record: Record, fingerprint: str) -> Retry | None:
    """Return the settings that a person asked to be tried again under this fingerprint."""
    retry = record.retry
    return retry if retry is not None and retry.fingerprint == fingerprint else None


def with_retry(record: Record, annotation: str | None) -> Record:
    """Return the record with a person's wish for a retry taken in, once for each annotation.

    `<hash>` is a quarantine key or a revision; free text follows a space. The wait for the
    cooldown ends with it. An annotation that was removed may be set again.
    """
    if annotation is None:
        return replace(record, handled_retries=())
    if annotation in record.handled_retries:
        return record
    handled = (annotation, *record.handled_retries)[:MAX_RETRIES]
    wanted, _, note = annotation.strip().partition(" ")
    done = replace(record, handled_retries=handled)
    found = [one for one in record.quarantine if wanted and wanted in {one.key, one.revision}]
    rejected = record.rejected_spec
    if rejected is not None and wanted in {rejected.key, rejected.revision}:
        done = replace(done, rejected_spec=None, settled_at=None, withdrawals=0)
    if not found:
        return done
    return replace(
        done,
        quarantine=tuple(one for one in record.quarantine if one not in found),
        retry=Retry(found[0].key, found[0].fingerprint, found[0].settings, note.strip()[:256]),
        settled_at=None,
        withdrawals=0,
    )


def _concluded(
    record: Record,
    verdict: Verdict,
    reason: str,
    message: str,
    now: datetime,
    measured: int | None = None,
) -> Record:
    """Return the record without its candidate, the verdict on its entry of the history."""
    candidate = record.candidate
    if candidate is None:
        return record
    pending = next(
        (
            at
            for at, one in enumerate(record.history)
            if one.revision == candidate.revision.hash and one.verdict is Verdict.PENDING
        ),
        None,
    )
    history = record.history
    if pending is not None:
        note = f" (asked for: {candidate.note})" if candidate.note else ""
        entry = replace(
            history[pending],
            verdict=verdict,
            reason=reason,
            message=message + note,
            measured_kv_tokens=measured,
            until=None if verdict is Verdict.SUCCESSFUL else now,
        )
        if verdict is Verdict.SUCCESSFUL:
            history = tuple(_ended(one, now) for one in history)
        history = (*history[:pending], entry, *history[pending + 1 :])
    return replace(record, candidate=None, history=history)


def _ended(entry: HistoryEntry, now: datetime) -> HistoryEntry:
    """End the reign of the entry that was in force."""
    if entry.verdict is Verdict.SUCCESSFUL and entry.until is None:
        return replace(entry, until=now)
    return entry
