"""The entry point: find the command, import it alone, turn its outcome into an exit status."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

from parkade.cli.errors import CannotSize, UsageError

# Command: the module that has it, and what it does in one line.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("parkade.cli.run", "start the operator"),
    "plan": ("parkade.cli.plan", "make the whole decision for a resource, offline"),
    "kv": ("parkade.cli.kv", "plan an engine's KV cache from its config.json"),
    "classify": ("parkade.cli.classify", "name the root cause in an engine's log"),
    "explain": ("parkade.cli.explain", "tell why an endpoint runs what it runs"),
    "history": ("parkade.cli.history", "list an endpoint's revisions and their verdicts"),
    "report": ("parkade.cli.report", "write an endpoint's report as a page"),
    "crd": ("parkade.cli.crd", "print the custom resource definition"),
}
INTERRUPTED = 130
DEBUG = "PARKADE_DEBUG"
"""Set to anything, it lets a fault of ours be seen with its traceback."""
_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class Command(Protocol):
    """What a command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work and return the exit status."""


class OneLineParser(argparse.ArgumentParser):
    """Errors are one line, without the usage in front."""

    def error(self, message: str) -> NoReturn:
        """Leave with status 2 and one line on standard error."""
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 1 for "cannot size this", or 2 for bad input."""
    words = list(sys.argv[1:] if argv is None else argv)
    known = bool(words) and words[0] in COMMANDS
    program = f"parkade {words[0]}" if known else "parkade"
    _print_what_is_foreign()
    try:
        return _run(words[0], words[1:]) if known else _without_command(words)
    except (UsageError, CannotSize) as error:
        return _failed(program, error, 1 if isinstance(error, CannotSize) else 2)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _write_no_more()  # the reader has seen enough, as with `| head`
        return 0
    except OSError as error:
        return _unwritten(program, error)
    except Exception as error:  # noqa: BLE001 - whatever it is, one line tells of it
        return _fault(program, error)


def _unwritten(program: str, error: OSError) -> int:
    """Say that the output has no place; what else an operating system says is a fault of ours."""
    if error.errno not in _CANNOT_WRITE:
        return _fault(program, error)
    _write_no_more()
    return _failed(program, UsageError(f"cannot write the output: {error.strerror}"), 2)


def _fault(program: str, error: Exception) -> int:
    """Say in one line what nobody foresaw; the operator's own log keeps the whole story."""
    if program == "parkade run" or os.environ.get(DEBUG):
        raise error
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" in {at.tb_frame.f_globals.get('__name__')}:{at.tb_lineno}" if at else ""
    said = " ".join(str(error).split())[:200]
    told = f"{type(error).__name__}: {said}{where}"
    hint = f"check the input; {DEBUG}=1 shows where it happens, for a report"
    return _failed(
        program, UsageError(f"this fails in a way that was not foreseen ({told}): {hint}"), 2
    )


def _print_what_is_foreign() -> None:
    """Let a terminal or a locale that lacks a character show its number instead."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _write_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(name: str, words: list[str]) -> int:
    module, summary = COMMANDS[name]
    command = cast(Command, importlib.import_module(module))
    parser = OneLineParser(
        prog=f"parkade {name}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    status = command.run(parser.parse_args(words))
    sys.stdout.flush()
    return status


def _without_command(words: list[str]) -> int:
    listed = "\n".join(f"  {name:<10}{summary}" for name, (_, summary) in COMMANDS.items())
    parser = OneLineParser(
        prog="parkade",
        usage="parkade [--help] [--version] COMMAND ...",
        description="Sizes vLLM deployments on Kubernetes from the traffic they really get.",
        epilog=f"commands:\n{listed}\n\n`parkade COMMAND --help` tells more about one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    if words and not words[0].startswith("-"):
        raise UsageError(f"there is no command {words[0]!r}; choose from {', '.join(COMMANDS)}")
    if parser.parse_args(words).version:
        print(_version())
    else:
        parser.print_help()
    return 0


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, rarely used

    try:
        return version("parkade")
    except PackageNotFoundError:
        return "unknown (not installed)"


def _failed(program: str, error: Exception, status: int) -> int:
    print(f"{program}: {' '.join(str(error).split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
