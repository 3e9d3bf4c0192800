"""Which lines belong to the last start: a log often holds several."""

import re

from parkade.rollout.causes.lines import Line

SERVER_BANNER = re.compile(r"vLLM (?:API )?server version |[█▄▀] +version \d")
ENGINE_BANNER = re.compile(r"Initializing (?:a V1|an) LLM engine")
_ACTIVITY = re.compile(
    r"Initializing (?:a V1|an) LLM engine|Traceback \(most recent call last\)|Model loading took"
    r"|KV cache size|startup complete|initialization failed|Starting to load model|[Ee]rror: "
)


def last_attempt(lines: list[Line]) -> list[Line]:
    """Return the lines from the last banner on; all of them where there is none.

    A server's banner begins a start, unless a sibling of the same start (another API server
    process) printed it. An engine's banner begins one only if the same process name printed one
    before: data-parallel engines print one each.
    """
    begin = 0
    seen: set[tuple[str, str]] = set()
    active = False
    for index, line in enumerate(lines):
        kind = _banner(line)
        if kind and active and _is_new(kind, line, seen):
            begin, active, seen = index, False, set()
        if kind:
            seen.add((kind, _name(line)))
        if not active and _ACTIVITY.search(line.text):
            active = True
    return lines[begin:]


def _banner(line: Line) -> str:
    if line.level not in {"", "INFO"}:
        return ""
    if SERVER_BANNER.search(line.text):
        return "server"
    return "engine" if ENGINE_BANNER.match(line.text) else ""


def _is_new(kind: str, line: Line, seen: set[tuple[str, str]]) -> bool:
    if kind == "engine":
        return (kind, _name(line)) in seen
    siblings = {name for seen_kind, name in seen if seen_kind == "server"}
    return not siblings or "" in siblings or _name(line) in siblings or not _name(line)


def _name(line: Line) -> str:
    return line.process.partition(":")[0]
