"""From raw log text to plain lines: who said it, at which level, and what.

Everything that containers, kubelets, log shippers and terminals put around an engine's line is
taken off here: ANSI colours, CRI and kubectl prefixes, JSON wrapping, process prefixes of
tensor-parallel workers, levels and file names. What is left is the message, on which the rules
match (file names and prefixes move between versions, messages hardly do).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from parkade.rollout.causes.redaction import redact_blocks

T = TypeVar("T")

MAX_LINE_CHARS = 6000
"""Longer lines (configuration dumps, prompts) are cut: an error is never that long."""

WHOLE_CHARS = 1_000_000
"""Texts up to this size are read whole; of larger ones the parts that can matter."""

HEAD_CHARS = 300_000
TAIL_CHARS = 400_000
AROUND_CHARS = 30_000
_MARGIN = 4
"""A text indented as a whole by at least this (a block of YAML) is moved back; frames are not."""

MAX_LINES = 16_000
"""Half from the beginning and half from the end, where a text has more (short) lines."""

ANSI = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[@-_]"
    r"|(?:\^\[|[\\#]033|\\x1b|\\u001b)?\[(?:\d{1,3}(?:;\d{1,3}){0,4})?m(?![\w\]])|\^\[\[[0-9;]*m"
    r"|\[\d{1,2};\d{1,2}m|\[0m"
)
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060\ufeff]")

_NEWLINES = re.compile(
    r"[\r\n]+|(?<=\S)(?=\((?:Vllm|Ray)?(?:Worker|EngineCore|A[Pp][Ii]Server)"
    r"[\w+\- ]{0,40} pid=\d)"
)
"""Where a line ends: also where another process wrote into it before its newline came."""

_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?[ \t]+"
_NUMBER = r"(?:\d{1,7}[:-])?"  # a search's
_STAMP = re.compile(
    rf"(?:[A-Z]{{4,9}} )?{_ISO}\[resource\.[\w.]{{1,60}}: [^\]\s]{{1,80}}\] ?|{_NUMBER}{_ISO}"
    rf"|\[\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\]\s]{{0,20}}\] ?"
)
_SYSLOG = re.compile(
    rf"{_NUMBER}(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? |{_ISO})"
    r"[\w.\-]{1,80} [\w.\-/@]{1,80}\[\d+\]: ?"
)
"""What journald and rsyslog put before a line: time, host, and the program with its pid."""

_CSV = re.compile(
    r'^\d{10,16},(?:"(?P<quoted>(?:[^"\n]|"")*)"|(?P<bare>[^"\n]*))\r?$', re.MULTILINE
)
"""A row of a cloud's log export: milliseconds, and a cell with its quotes doubled."""

_QUOTED = re.compile(r"[ \t]{0,4}[>|] ")
_BEFORE_PROCESS = re.compile(
    r"[^\"']{1,160}?(?=\((?:EngineCore|A[Pp][Ii]Server|Worker|VllmWorker|RayWorker)[\w+\- ]{0,40}"
    r"(?:[ ,]+rank=\d+)?[ ,]+pid=\d)"
)
"""Whatever a shipper put before the engine's own name of the process."""

_CRI = re.compile(r"(?:stdout|stderr) [FP] ")
_POD = re.compile(r"\[pod/[^\]\s]{1,300}\] |[\w.-]{1,63} +\| ")
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w.\-+]{0,80}(?: [A-Z][\w]{0,20})?)"
    r"(?P<rank>[ ,]+rank=\d+)?(?:[ ,]+pid=(?P<pid>\d+))?(?:,? ip=[\w.:]+)?\) ?"
)
_RANK = re.compile(r"\[rank(\d+)\]:\s?")
_LEVELS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|EXCEPTION"
_VLLM = re.compile(
    rf"(?P<level>{_LEVELS}) +(?:\d\d-\d\d \d\d:\d\d(?::\d\d)?(?:[.,]\d+)? +)?"
    r"(?:\[[^\]\n]{1,200}|[\w./\-]{1,80}):\d+\] ?"
)
_FOREIGN_PREFIX = re.compile(
    rf"[^\"']{{1,120}}?\s(?P<level>{_LEVELS}) \d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? "
    r"\[[^\]\n]{1,200}:\d+\] ?"
)
"""A prefix of the user's own (``VLLM_LOGGING_PREFIX``) before the engine's."""

_UVICORN = re.compile(r"(?P<level>INFO|WARNING|ERROR|CRITICAL|DEBUG): +")
_PLAIN = re.compile(
    rf"(?:[-|] *)?(?:[\w.:/]{{1,80}} +[-|] +)?\[?(?P<level>{_LEVELS})\]? *(?:[-|:] +|(?=[\w.]+ ))"
)
_GLOG = re.compile(r"\[?(?P<glog>[IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ [^\]\n]{1,120}\] ?")
_GLOG_LEVEL = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
_QUIET = frozenset({"DEBUG", "INFO", "WARNING", "WARN"})

_MESSAGE_KEYS = ("log", "message", "msg", "event", "text", "body", "MESSAGE")
_LEVEL_KEYS = ("levelname", "level", "severity", "log.level", "lvl")
_TRACE_KEYS = (
    "exc_info",
    "exc_text",
    "exception",
    "traceback",
    "stack_trace",
    "stack",
    "error.stack",
)
_BROKEN_JSON = re.compile(
    r'"(?P<key>log|message|msg|event|exc_info|exception|traceback|stack_trace)"\s*:\s*'
    r'"(?P<value>(?:[^"\\]|\\.){0,20000})'
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its wrapping."""

    number: int
    process: str
    """The engine's own name of the process with its pid, empty where the line does not say."""
    level: str
    text: str
    raw: str
    """The line as people know it: cleaned, but with its prefix."""

    @property
    def is_quiet(self) -> bool:
        """Whether the line speaks at a level that never carries a cause."""
        return self.level in _QUIET


def clean(text: str) -> str:
    """Take out colours and control characters; newlines and tabs stay, nothing is invalid."""
    if "[" in text or "\x1b" in text:
        text = ANSI.sub("", text)
    return CONTROL.sub("", text.encode("utf-8", "replace").decode("utf-8"))


def read_lines(text: str) -> list[Line]:
    """Return the lines of a log, unwrapped; bounded, whatever the size of the text.

    Secrets that span lines (private keys) are taken out here, those within a line when shown.
    """
    lines: list[Line] = []
    split = _NEWLINES.split(_cells(clean(redact_blocks(bounded(text)))))
    raws = _halves([x for x in split if x.strip()])
    margin = min((len(x) - len(x.lstrip(" ")) for x in raws), default=0)
    for raw in raws:
        whole = _clip(raw[margin if margin >= _MARGIN else 0 :])
        is_json = whole.lstrip().startswith("{")
        for process, level, message in _unwrap(whole, depth=0):
            shown = f"{level}: {message}" if level in _QUIET else message
            lines.append(Line(len(lines), process, level, message, shown if is_json else whole))
    return _halves(lines)


def _cells(text: str) -> str:
    """Return the cells of an export's rows; other texts stay as they are."""

    def cell(found: re.Match[str]) -> str:
        quoted = found["quoted"]
        inner = found["bare"] if quoted is None else quoted.replace('""', '"')
        return inner.removesuffix("#015")

    return _CSV.sub(cell, text)


def _halves(items: list[T]) -> list[T]:
    if len(items) <= MAX_LINES:
        return items
    return items[: MAX_LINES // 2] + items[-MAX_LINES // 2 :]


def bounded(text: str) -> str:
    """Return the parts of a very long text that can hold a start and a failure.

    That is the last start with what follows it, the end, and the surroundings of the first
    failures in between. ``str.find`` is fast enough for any size; the rules are not.
    """
    if len(text) <= WHOLE_CHARS:
        return text
    start = last_start(text)
    spans = [(start, start + HEAD_CHARS), (len(text) - TAIL_CHARS, len(text))]
    anchors = ("out of memory", "encountered a fatal error", "failed to start", "Traceback (")
    middle = [text.find(anchor, start + HEAD_CHARS) for anchor in anchors]
    spans += [(at - AROUND_CHARS, at + AROUND_CHARS) for at in middle if at >= 0]
    return "\n".join(text[a:b] for a, b in _whole_lines(text, spans))


def last_start(text: str) -> int:
    """Return where the last start in a text begins, 0 where none shows."""
    server = max(text.rfind("server version "), text.rfind("█  version "))
    if server < 0:
        server = max(text.rfind("Initializing a V1 LLM engine"), text.rfind("Initializing an LLM"))
    return max(0, server - 2000)


def _whole_lines(text: str, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield disjoint spans in order, each without the broken lines at its ends."""
    done = 0
    for begin, end in sorted(spans):
        first = max(begin, done, 0)
        if first > 0 and (newline := text.find("\n", first, first + MAX_LINE_CHARS)) >= 0:
            first = newline + 1
        last = min(end, len(text))
        if last < len(text) and (newline := text.rfind("\n", first, last)) >= 0:
            last = newline
        if last > first:
            yield first, last
            done = last


def _clip(line: str) -> str:
    """Cut an overlong line between words, so that no secret is cut in half and kept."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    if line.lstrip().startswith("{") and len(line) <= 40 * MAX_LINE_CHARS:
        return line
    cut = line.rfind(" ", MAX_LINE_CHARS - 2000, MAX_LINE_CHARS)
    return line[: cut if cut > 0 else MAX_LINE_CHARS - 2000]


def _unwrap(line: str, depth: int) -> Iterator[tuple[str, str, str]]:
    """Yield (process, level, message) of a line, several for a JSON line with a traceback."""
    process = level = ""
    if depth == 0 and not _VLLM.match(line) and (found := _BEFORE_PROCESS.match(line)):
        line = line[found.end() :]
    rest = line
    for _ in range(8):
        rest, name, said = _strip_one(rest)
        process, level = name or process, said or level
        if not (name or said) and rest == line:
            break
        line = rest
    if depth < 3 and rest.lstrip().startswith("{") and (inner := _json_parts(rest.strip())):
        inner_level, inner_process, texts = inner
        for text in texts:
            for part in _NEWLINES.split(clean(text)):
                if part.strip():
                    for p, lv, message in _unwrap(_clip(part), depth + 1):
                        yield p or inner_process or process, lv or inner_level or level, message
        return
    yield process, level, rest


def _strip_one(line: str) -> tuple[str, str, str]:
    """Take one prefix off a line; return the rest, and the process or level that it named."""
    for pattern in (_SYSLOG, _STAMP, _CRI, _POD, _QUOTED):
        if found := pattern.match(line):
            return line[found.end() :], "", ""
    if (found := _PROCESS.match(line)) and (found["pid"] or found["rank"]):
        name = found["name"] + (found["rank"] or "").replace(" ", "")
        return line[found.end() :], f"{name}:{found['pid'] or ''}", ""
    if found := _RANK.match(line):
        return line[found.end() :], f"rank{found[1]}:", ""
    if found := _GLOG.match(line):
        return line[found.end() :], "", _GLOG_LEVEL[found["glog"]]
    levels = (pattern.match(line) for pattern in (_VLLM, _UVICORN, _PLAIN, _FOREIGN_PREFIX))
    if found := next((match for match in levels if match), None):
        return line[found.end() :], "", found["level"]
    return line, "", ""


def _json_parts(line: str) -> tuple[str, str, list[str]] | None:
    """Return level, process and texts of a JSON line, also of one that was cut short."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return _broken_json_parts(line)
    if not isinstance(record, dict):
        return None
    texts = [_text(record, keys) for keys in (_MESSAGE_KEYS, _TRACE_KEYS)]
    process = str(record.get("processName") or "")
    if process and (pid := record.get("process")):
        process = f"{process}:{pid}"
    found = [text for text in texts if text]
    return (_text(record, _LEVEL_KEYS).upper(), process, found) if found else None


def _text(record: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = record.get(key)
        if isinstance(value, list):
            value = "\n".join(str(part) for part in value[:500])
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _broken_json_parts(line: str) -> tuple[str, str, list[str]] | None:
    level = re.search(r'"(?:levelname|level|severity)"\s*:\s*"(\w{1,12})"', line)
    texts = [_unescape(found["value"]) for found in _BROKEN_JSON.finditer(line)]
    return (level[1].upper() if level else "", "", texts) if texts else None


def _unescape(value: str) -> str:
    try:
        return str(json.loads(f'"{value}"'))
    except ValueError:
        return value.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
