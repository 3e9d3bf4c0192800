"""From a log and what Kubernetes says to one root cause.

The order: what Kubernetes decides alone; the log of the last start; the termination message,
where the log has nothing; a stop that was asked for and a probe that killed; the exit code.
"""

import re
from dataclasses import replace

from parkade.rollout.causes import container as pod
from parkade.rollout.causes.attempts import last_attempt
from parkade.rollout.causes.cause import (
    Blame,
    CauseClass,
    ContainerEvidence,
    RootCause,
    Stage,
    unknown,
)
from parkade.rollout.causes.evidence import MAX_MESSAGE_CHARS, key_lines, one_line
from parkade.rollout.causes.lines import read_lines
from parkade.rollout.causes.memory_rules import empty_pool, pool_bytes
from parkade.rollout.causes.remedies import UNKNOWN_AT_RUNTIME, remedy
from parkade.rollout.causes.rules import Finding, Weight
from parkade.rollout.causes.search import root
from parkade.rollout.causes.stages import Scene

_LIBRARY = re.compile(r"(lib[\w.+\-]{1,60}\.so[\w.]{0,20}): cannot open shared object file")
_LOADER = re.compile(r"cannot open shared object file|undefined symbol|Failed to import from")
_WRAPPER = re.compile(
    r"[Ss]ee (?:the )?(?:root cause|stack trace)|Failed core proc|died unexpectedly"
    r"|EngineDeadError|encountered a fatal error|failed to start"
)
_PROGRESS_SHOWN = 1


def classify(text: str, container: ContainerEvidence | None = None) -> RootCause:
    """Return the root cause of an engine's end.

    ``text`` is the engine's log or any part of it, of any size; ``container`` what Kubernetes
    says. ``unknown`` is an answer: it blames nothing. Nothing raises.
    """
    evidence = container or ContainerEvidence()
    if decided := pod.before_the_log(evidence):
        return _finish(decided)
    cause, weight = _from_log(text, evidence)
    if cause.cause_class is CauseClass.UNKNOWN and evidence.message:
        told, told_weight = _from_log(evidence.message, evidence)
        if told.cause_class is not CauseClass.UNKNOWN or not cause.message:
            cause, weight = told, told_weight
    return _finish(_with_container(cause, weight, evidence))


def _with_container(cause: RootCause, weight: Weight, evidence: ContainerEvidence) -> RootCause:
    """Weigh the log's answer against how the container ended."""
    by_signal = cause.cause_class is CauseClass.PROBE_KILLED
    if pod.stopped(evidence) or (evidence.deletion_requested and by_signal):
        return replace(cause, cause_class=CauseClass.STOPPED_BY_REQUEST, blame=Blame.ENVIRONMENT,
                       knob=None, shortfall_bytes=None,
                       message=cause.message or "the pod was asked to stop")  # fmt: skip
    if weight is not Weight.CERTAIN and (killed := pod.probe_killed(evidence)):
        return replace(killed, key_lines=(*killed.key_lines, *cause.key_lines))
    if cause.cause_class is not CauseClass.UNKNOWN:
        return cause
    if (weight is Weight.SYMPTOM or not cause.message) and (told := pod.after_the_log(evidence)):
        return replace(told, key_lines=(*told.key_lines, *cause.key_lines))
    return replace(cause, message=cause.message or pod.exit_message(evidence))


def _from_log(text: str, evidence: ContainerEvidence) -> tuple[RootCause, Weight]:
    """Return the log's answer and how sure it is."""
    scene = Scene(last_attempt(read_lines(text)), evidence, text.endswith("\n"))
    if found := root(scene):
        finding, answer = found
        told = replace(
            answer,
            stage=answer.stage or scene.stage_at(finding.index),
            message=_message(finding, scene),
            key_lines=_shown(finding, scene),
        )
        return told, finding.rule.weight
    return _without_failure(scene), Weight.SYMPTOM


def _without_failure(scene: Scene) -> RootCause:
    """Return what can be said of a log in which nothing failed: an empty pool, or how it ends."""
    if scene.started_at is None and (pool := pool_bytes(scene)) is not None and pool < 0:
        said = [line for line in scene.lines if "KV" in line.text and "-" in line.text]
        return replace(empty_pool(scene), message=said[-1].text, key_lines=(said[-1].raw,))
    wrappers = [x.text for x in scene.lines if not x.is_quiet and _WRAPPER.search(x.text)]
    last = [line.raw for line in scene.lines[-2:]]
    told = unknown(message=wrappers[-1] if wrappers else "", key_lines=(*wrappers[-2:], *last))
    return replace(told, stage=scene.reached)


def _message(finding: Finding, scene: Scene) -> str:
    """Return the engine's own error; pydantic puts it on the lines after its headline."""
    line = scene.lines[finding.index]
    texts = [line.text]
    if re.search(r"validation errors? for|(?:Error|Exception): ?$", line.text):
        after = scene.lines[finding.index + 1 : finding.index + 8]
        texts += [x.text for x in after if x.process == line.process][:2]
    return " ".join(text.strip() for text in texts)


def _shown(finding: Finding, scene: Scene) -> tuple[str, ...]:
    """Return the lines that decided: the error, where it was raised, what came before."""
    line = scene.lines[finding.index]
    shown = [line.raw, *(match.string for match in finding.siblings[:2])]
    back = scene.lines[max(0, finding.index - 8) : finding.index]
    frames = [x.raw for x in back if x.process == line.process and 'File "' in x.text]
    shown += frames[-1:]
    shown += [x.raw for x in scene.lines if _LOADER.search(x.text)][:2]
    marks = [index for index, _, _ in scene.marks if index < finding.index]
    return (*shown, *(scene.lines[index].raw for index in marks[-_PROGRESS_SHOWN:]))


def _finish(cause: RootCause) -> RootCause:
    """Bound and sanitise every text, and add the remedy."""
    advice = cause.remedy or remedy(cause)
    if cause.cause_class is CauseClass.BROKEN_BUILD:
        missing = [found[1] for line in cause.key_lines if (found := _LIBRARY.search(line))]
        advice = f"{advice} ({missing[0]} is missing)" if missing else advice
    if cause.cause_class is CauseClass.UNKNOWN and cause.stage is Stage.RUNTIME:
        advice = UNKNOWN_AT_RUNTIME
    return replace(
        cause,
        message=one_line(cause.message, MAX_MESSAGE_CHARS),
        remedy=one_line(advice, MAX_MESSAGE_CHARS),
        key_lines=key_lines(list(cause.key_lines)),
    )
