"""Bound and clean what is kept of an engine log.

A log can be gone seconds after the container, so it is cut when it is read: the start's figures,
the first tracebacks' last lines and the end survive, and a text that was cut classifies as the
whole one does.
"""

import re

from parkade.rollout.causes.attempts import last_attempt
from parkade.rollout.causes.cause import ContainerEvidence
from parkade.rollout.causes.lines import Line, clean, read_lines
from parkade.rollout.causes.redaction import redact
from parkade.rollout.causes.search import root
from parkade.rollout.causes.stages import Scene, is_telling

MAX_MESSAGE_CHARS = 500
MAX_KEY_LINES = 6
MAX_KEY_LINE_CHARS = 300

_HEAD_LINES = 12
_TAIL_LINES = 40
_CONTEXT_LINES = 14
_BLOCK_LINES = 400
_MAX_QUIET_CHARS = 400
_LEFT_OUT = "[... {} lines left out ...]"

_PROGRESS = re.compile(
    r"server version |█ +version |LLM engine \(v|Starting to load model|Model loading took"
    r"|KV cache|# \w+ blocks|Graph capturing|CUDA graph|requested memory|init engine \("
    r"|startup complete|block size to|max_num_active_seqs|Model Runner|Avg prompt throughput"
)
_FAILURE = re.compile(
    r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b|out of memory"
    r"|OutOfMemory|Free memory on|No available memory|To serve at least|exceeds|died "
    r"unexpectedly|error: |Value error"
    r"|failed to start|fatal error|CUDA error|Segfault|Fatal Python error|Killed|No space left"
    r"|initialization failed|startup is less|must be greater|cannot be greater|larger than"
)


def one_line(text: str, max_chars: int) -> str:
    """Return a text as one bounded line without control characters or secrets."""
    flat = " ".join(redact(clean(text)).split())
    if len(flat) <= max_chars:
        return flat
    cut = flat.rfind(" ", max(0, max_chars - 80), max_chars - 1)
    return flat[: cut if cut > 0 else max_chars - 1].rstrip() + "…"


def key_lines(texts: list[str]) -> tuple[str, ...]:
    """Return the first distinct lines, sanitised and bounded in number and length."""
    kept: dict[str, None] = {}
    for text in texts:
        if line := one_line(text, MAX_KEY_LINE_CHARS):
            kept[line] = None
        if len(kept) == MAX_KEY_LINES:
            break
    return tuple(kept)


def excerpt(text: str, max_bytes: int) -> str:
    """Cut a log to what matters: at most ``max_bytes`` of UTF-8, clean, and free of secrets.

    Kept in this order, as far as there is room: failures of the last start with the lines before
    them, its progress lines, the end, the beginning. The order of the lines stays, and gaps are
    marked. A bound of zero or less gives an empty text.
    """
    if max_bytes <= 0:
        return ""
    lines = read_lines(text)
    if sum(len(line.raw) + 1 for line in lines) <= 2 * max_bytes:
        whole = "\n".join(_shown(line) for line in lines)
        if len(whole.encode()) <= max_bytes:
            return whole
    return _assemble(lines, max_bytes)


def _assemble(lines: list[Line], max_bytes: int) -> str:
    attempt = last_attempt(lines)
    base = len(lines) - len(attempt)
    chosen: set[int] = set()
    spent = 0
    for index in _by_priority(lines, base):
        cost = len(_shown(lines[index]).encode()) + 1 + len(_LEFT_OUT) + 6
        if index in chosen or spent + cost > max_bytes:
            continue
        chosen.add(index)
        spent += cost
    return _join(lines, sorted(chosen), max_bytes)


def _by_priority(lines: list[Line], base: int) -> list[int]:
    """Return indices, the most telling first; at most a few thousand."""
    last = range(base, len(lines))
    failures = [i for i in last if not lines[i].is_quiet and _FAILURE.search(lines[i].text)]
    progress = [i for i in last if _PROGRESS.search(lines[i].text)][:200]
    found = root(Scene(lines[base:], ContainerEvidence()))
    deciding = [base + found[0].index] if found else failures[:1]
    order = [*deciding, *_telling(lines, deciding, base), *_milestones(lines, progress)]
    order += [*failures[:8], *progress, *failures[8:60]]
    for failure in [*deciding, *failures[:8]]:
        order += range(failure - 1, max(base, failure - _CONTEXT_LINES) - 1, -1)
    order += range(len(lines) - 1, max(base, len(lines) - _TAIL_LINES) - 1, -1)
    order += range(base, min(base + _HEAD_LINES, len(lines)))
    return [i for i in order if 0 <= i < len(lines)]


def _telling(lines: list[Line], failures: list[int], base: int) -> list[int]:
    """Return the traceback's lines before failures that decide the stage, and the innermost."""
    chosen: list[int] = []
    for failure in failures:
        frames: list[int] = []
        for i in range(failure - 1, max(base, failure - _BLOCK_LINES) - 1, -1):
            if lines[i].process != lines[failure].process:
                continue
            if 'File "' in lines[i].text and (not frames or is_telling(lines[i].text)):
                frames.append(i)
            if lines[i].text.startswith("Traceback ("):
                frames.append(i)
                break
        chosen += frames
    return chosen


def _milestones(lines: list[Line], progress: list[int]) -> list[int]:
    """Return the last line of each kind of progress, in the order of the log."""
    kinds = {
        found[0]: index for index in progress if (found := _PROGRESS.search(lines[index].text))
    }
    return sorted(kinds.values())


def _join(lines: list[Line], chosen: list[int], max_bytes: int) -> str:
    parts: list[str] = []
    previous = -1
    for index in chosen:
        if index - previous > 1:
            parts.append(_LEFT_OUT.format(index - previous - 1))
        parts.append(_shown(lines[index]))
        previous = index
    cut = "\n".join(parts).encode()[:max_bytes]
    return cut.decode("utf-8", "ignore")


def _shown(line: Line) -> str:
    """Return a line as it is kept: dumps of the configuration are cut, errors are not."""
    limit = _MAX_QUIET_CHARS if line.is_quiet and "requested memory" not in line.raw else None
    text = redact(line.raw.rstrip())
    return text if limit is None or len(text) <= limit else text[:limit] + "…"
