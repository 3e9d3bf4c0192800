"""What serving teaches: the last good settings may run out of memory long after they soaked.

They go on running, since nothing better is known, and so are not quarantined. Yet the headroom
grows as after a candidate's failure, and tuning then heads for less.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from parkade.api.status import Origin
from parkade.rollout.actions import PlanInputs
from parkade.rollout.causes import Blame, Knob, Stage
from parkade.rollout.lessons import Limits, quarantined
from parkade.rollout.record import Candidate, Quarantined, Record, SeenTermination
from parkade.rollout.revision import Revision, tuning_hash
from parkade.rollout.witness import seen_end

NEWS = timedelta(seconds=600)
"""Older ends may have taught under other tuning inputs, and are not gone back to."""

NOT_KEPT_FROM_RUNNING = ""
"""Key of a lesson of settings that run."""


def with_lesson_of_serving(record: Record, inputs: PlanInputs) -> Record:
    """Return the record with what an end of the last good template's pods taught, once for each.

    Only memory that ran out while serving teaches; all else is judged by `last_good_fails`.
    """
    good, spec = record.last_good, inputs.endpoint.spec
    ended = _ran_out(good, inputs) if good is not None else None
    if good is None or ended is None:
        return record
    tuning = tuning_hash(spec)
    known = record.lessons(good.fingerprint, tuning)
    if any(one.key == NOT_KEPT_FROM_RUNNING and one.revision == good.hash for one in known):
        return record
    headroom = record.effective_headroom(good.fingerprint, tuning, spec.tuning.headroom_bytes)
    ran = Candidate(good, Origin.TUNING, inputs.now, headroom_bytes=headroom)
    limits = Limits(tuning, inputs.desired.total_bytes, spec.tuning.max_num_seqs.min)
    lesson = quarantined(ran, ended, limits, inputs.now, shrink_on_unknown=False)
    return record.with_quarantined(replace(lesson, key=NOT_KEPT_FROM_RUNNING))


def lessons_of_serving(record: Record) -> tuple[Quarantined, ...]:
    """Return the lessons of settings that are not kept from running."""
    return tuple(one for one in record.quarantine if one.key == NOT_KEPT_FROM_RUNNING)


def _ran_out(good: Revision, inputs: PlanInputs) -> SeenTermination | None:
    """Return a fresh end of one of its pods that ran out of memory while it served."""
    for pod in inputs.pods:
        cause = inputs.evidence.get((pod.uid, pod.terminations))
        ended = pod.last_termination.finished_at if pod.last_termination is not None else None
        if pod.revision != good.hash or cause is None or ended is None:
            continue
        ran_out = cause.blame is Blame.SETTINGS and cause.knob is Knob.HEADROOM
        if ran_out and cause.stage is Stage.RUNTIME and inputs.now - ended < NEWS:
            return seen_end(pod.uid, pod.terminations, inputs.evidence, before_ready=False)
    return None
