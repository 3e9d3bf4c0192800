"""Find the failure in an attempt that explains the others."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from parkade.rollout.causes import (
    cpu_rules,
    environment_rules,
    host_rules,
    memory_rules,
    user_rules,
)
from parkade.rollout.causes.cause import Blame, CauseClass, RootCause
from parkade.rollout.causes.lines import Line
from parkade.rollout.causes.origins import CODE, by_origin
from parkade.rollout.causes.rules import Finding, Rule, Weight, rule, says
from parkade.rollout.causes.stages import ORDER, Scene

_WRAPPER = re.compile(
    r"[Ss]ee (?:the )?(?:root cause|stack trace)|Got fatal signal from worker"
    r"|check the stack trace|EngineDeadError"
    r"|EngineGenerateError|Engine core initialization failed|Failed core proc"
    r"|initialization failed due to|died unexpectedly|BrokenPipeError|ConnectionResetError"
    r"|CancelledError|EOFError|zmq\.|SystemExit|KeyboardInterrupt|GeneratorExit|ChildProcessError"
    r"|ProcessRaisedException|ActorDiedError|RayTaskError|Connection closed by peer"
    r"|resource_tracker|destroy_process_group|StopIteration|leaked (?:semaphore|shared_memory)"
)
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Failure|Timeout|Exit)(?::|$)"
)
_MAX_OF_A_RULE = 64
_TRAFFIC = re.compile(
    r"[Rr]etrying|Received request|Generated response|prompt(?:_token_ids)?['\"]?: "
    r"|There are some potential root causes|Some common causes include"
    r"|\b[A-Z]\w{2,20}Warning: |non-default args|\"(?:messages|prompt|content)\""
    r"|Initializing (?:a V1|an) LLM engine"
)
_SIGNAL = rule(
    r"^KeyboardInterrupt: terminated|received SIGTERM|Received signal 15|SIGTERM received",
    says(CauseClass.PROBE_KILLED, Blame.ENVIRONMENT),
    Weight.PLAIN,
)
_GENERIC = rule(_EXCEPTION.pattern, by_origin, Weight.PLAIN)

RULES: tuple[Rule, ...] = (
    *memory_rules.RULES,
    *cpu_rules.RULES,
    *host_rules.RULES,
    *environment_rules.RULES,
    *user_rules.RULES,
    _SIGNAL,
)
_WORDS = re.compile(
    r"rror|xception|Available mem|already uses|ailed|ailure|memory|Tried to|exceed|illed|"
    r"erminat|SIG|fault|core dumped|"
    r"Free mem|KV [Cc]ache|No avail|annot|larger|greater|must be|required|unrecognized|expected|"
    r"invalid|nvalid|not (?:support|found|recogn)|space left|in use|-\d+\b|STATUS|ERROR|"
    r"Interrupt|imed out|restricted|gated|driver|Errno|is not a|Access to|Timeout|illegal|"
    r"kernel|Illegal|No such|User-specified|dispatcher|oom"
)


def findings(scene: Scene) -> Iterator[Finding]:
    """Yield what the rules find, in the order of the log: one finding a line, 64 a rule."""
    begin = 0 if scene.started_at is None else scene.started_at
    previous: dict[str, bool] = {}
    times: Counter[Rule] = Counter()
    for index, line in enumerate(scene.lines):
        is_source = previous.get(line.process, False) and line.text.startswith("    ")
        previous[line.process] = bool(CODE.match(line.text))
        if index < begin or is_source or previous[line.process] or not _may_matter(line):
            continue
        found = _match(index, line, served=scene.served)
        if found and times[found.rule] < _MAX_OF_A_RULE:
            times[found.rule] += 1
            yield found


def _may_matter(line: Line) -> bool:
    return not line.is_quiet and bool(_WORDS.search(line.text)) and not _TRAFFIC.search(line.text)


def _match(index: int, line: Line, *, served: bool) -> Finding | None:
    for candidate in RULES:
        if served and not candidate.at_runtime:
            continue
        if found := candidate.pattern.search(line.text):
            return Finding(candidate, index, found)
    if (found := _EXCEPTION.match(line.text)) and not _WRAPPER.search(line.text):
        return Finding(_GENERIC, index, found)
    return None


def root(scene: Scene) -> tuple[Finding, RootCause] | None:
    """Return the finding that explains the end of an attempt, with its answer."""
    found = [one for one in findings(scene) if _holds(one, scene)]
    found.sort(key=lambda one: (_rank(one, scene), one.index))
    for one in found:
        siblings = tuple(x.match for x in found if x.rule is one.rule and x is not one)
        complete = replace(one, siblings=siblings)
        if answer := one.rule.answer(complete, scene):
            return complete, answer
    return _declined(found, scene)


def _declined(found: list[Finding], scene: Scene) -> tuple[Finding, RootCause] | None:
    """Return an exception that its own rule did not hold for: it is shown, and blames nobody."""
    for one in found:
        if one.rule.weight < Weight.PLAIN and _EXCEPTION.match(scene.lines[one.index].text):
            cause = RootCause(CauseClass.UNKNOWN, Blame.UNKNOWN)
            return replace(one, rule=_GENERIC, siblings=()), cause
    return None


def _rank(finding: Finding, scene: Scene) -> tuple[int, bool]:
    """Order findings; at run time those of the death come before those that were survived."""
    deadly = scene.started_at is None or _in_death(finding.index, scene)
    return (finding.rule.weight, not deadly)


def _in_death(index: int, scene: Scene) -> bool:
    return scene.death_at is not None and index >= scene.death_at - 3


def _holds(finding: Finding, scene: Scene) -> bool:
    """Tell whether a finding can have ended the attempt: the start did not go on after it."""
    if scene.started_at is not None:
        deadly = finding.rule is _GENERIC or finding.rule.only_deadly
        return not deadly or _in_death(finding.index, scene)
    if finding.rule.weight >= Weight.PLAIN and finding.rule is not _GENERIC:
        return True
    return not _survived(finding, scene)


def _survived(finding: Finding, scene: Scene) -> bool:
    """Tell whether progress was made after a failure.

    Of a certain failure only its own process's progress says so: other ranks run on for a while.
    """
    then = scene.marked_stage(finding.index)
    process = scene.lines[finding.index].process
    before = -1 if then is None else ORDER.index(then)
    certain = finding.rule.weight is Weight.CERTAIN
    return any(
        index > finding.index
        and ORDER.index(stage) > before
        and (not certain or (name == process and name != ""))
        for index, stage, name in scene.marks
    )
