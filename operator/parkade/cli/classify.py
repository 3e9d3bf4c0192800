"""``parkade classify LOGFILE``: the root cause of an engine log."""

import argparse
import json
import sys
from pathlib import Path
from typing import IO

from parkade.cli.errors import UsageError
from parkade.rollout.causes import RootCause, classify

MAX_BYTES = 64 * 2**20
"""A start's log is a few hundred kilobytes; the end of a longer one is read with ``tail -c``."""

_BINARY_SAMPLE = 65536
_MAX_CONTROL_SHARE = 0.05
_TEXT_CONTROLS = b"\t\n\r\x0b\x0c\x08\x1b"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``parkade classify``."""
    parser.add_argument(
        "logfile", metavar="LOGFILE", help="an engine's log; - reads standard input"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format (default: text)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the root cause of a log; raise ``UsageError`` for what is no log."""
    cause = classify(read_log(args.logfile))
    print(to_json(cause) if args.output == "json" else to_text(cause))
    return 0


def read_log(name: str) -> str:
    """Return a log's text from a file or, for ``-``, from standard input."""
    shown = "standard input" if name == "-" else repr(name)
    try:
        if name == "-":
            data = _read(sys.stdin.buffer)
        else:
            with Path(name).open("rb") as file:
                data = _read(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read {shown}: {reason}; give the path of an engine log, or - for stdin"
        ) from error
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{shown} is larger than {MAX_BYTES // 2**20} MiB; give the part from the last start "
            "on, for example with tail -c 16M"
        )
    return decode(data, shown)


def decode(data: bytes, shown: str) -> str:
    """Return the text of a log; UTF-16 with its mark is understood, broken UTF-8 repaired."""
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return data.decode("utf-16", "replace")
    sample = data[:_BINARY_SAMPLE]
    controls = sum(sample.count(bytes([code])) for code in range(32) if code not in _TEXT_CONTROLS)
    if controls > _MAX_CONTROL_SHARE * len(sample) or sample.count(0) > len(sample) // 500:
        raise UsageError(f"{shown} is not a text; give an engine's log as kubectl logs prints it")
    return data.decode("utf-8", "replace")


def to_json(cause: RootCause) -> str:
    """Return the cause as JSON with the documented keys."""
    return json.dumps(
        {
            "class": cause.cause_class,
            "blame": cause.blame,
            "stage": cause.stage,
            "message": cause.message,
            "shortfall_bytes": cause.shortfall_bytes,
            "remedy": cause.remedy,
            "knob": cause.knob,
            "key_lines": list(cause.key_lines),
        },
        indent=2,
        ensure_ascii=False,
    )


def to_text(cause: RootCause) -> str:
    """Return the cause as a few lines for people."""
    rows = [
        ("Cause", f"{cause.cause_class} (blames {cause.blame})"),
        ("Stage", cause.stage or "not known"),
        ("Message", cause.message or "the log names no error"),
    ]
    if cause.shortfall_bytes is not None:
        rows.append(("Shortfall", f"{cause.shortfall_bytes / 2**30:.2f} GiB"))
    rows.append(("Remedy", cause.remedy))
    evidence = [f"  {line}" for line in cause.key_lines]
    return "\n".join([*(f"{name + ':':<11}{text}" for name, text in rows), "Evidence:", *evidence])


def _read(file: IO[bytes]) -> bytes:
    return file.read(MAX_BYTES + 1)
