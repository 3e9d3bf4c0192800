"""The entry point: find the command, import it alone, turn its outcome into an exit status."""

from __future__ import annotations

import argparse
import importlib
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
    program = "parkade"
    try:
        if not words or words[0] not in COMMANDS:
            return _without_command(words)
        program = f"parkade {words[0]}"
        return _run(words[0], words[1:])
    except UsageError as error:
        return _failed(program, error, 2)
    except CannotSize as error:
        return _failed(program, error, 1)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough, as with `| head`; nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


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
