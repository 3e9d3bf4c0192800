"""``python -m testbed.load``: load from the command line; the summary is one line of JSON."""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from testbed.load import lengths
from testbed.load.addresses import checked
from testbed.load.arrivals import MOST_REQUESTS, MOST_SECONDS, Arrival, Bounds, poisson, trace
from testbed.load.client import MOST_IN_FLIGHT, Load, Options, Summary
from testbed.load.errors import LoadError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m testbed.load",
        description="Open-loop load for engines on this machine, bounded in number and time.",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", action="append", help="an engine; may be given several times")
    where.add_argument(
        "--targets-file", type=Path, help="a file with one address a line, read again every second"
    )
    parser.add_argument("--rate", type=float, help="requests a second (Poisson)")
    parser.add_argument("--prompt-tokens", help=lengths.__doc__)
    parser.add_argument("--output-tokens", help="likewise")
    parser.add_argument("--trace", type=Path, help="CSV with arrivals and lengths, instead")
    parser.add_argument("--trace-speed", type=float, default=1.0, help="times faster than recorded")
    parser.add_argument("--count", type=int, default=MOST_REQUESTS, help="at most so many requests")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="at most so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", help="the served name; the engine's first one if left out")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one answer")
    parser.add_argument("--max-in-flight", type=int, default=MOST_IN_FLIGHT)
    parser.add_argument(
        "--real-prompts", action="store_true", help="send token ids, for an engine that is real"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the load; 0 when all was answered, 1 when some failed, 2 for a wrong order."""
    options = _parser().parse_args(argv)
    try:
        load = Load(
            _arrivals(options),
            _targets(options),
            Options(options.model, options.timeout, options.max_in_flight, options.real_prompts),
        )
        summary = _run(load)
    except LoadError as error:
        print(f"load: {error}", file=sys.stderr)
        return 2
    print(json.dumps(summary.as_dict()), flush=True)
    return 1 if summary.failed or summary.not_sent else 0


def _run(load: Load) -> Summary:
    """Run until all is answered or a signal comes; a signal still brings the summary."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: load.stop()) for number in signals]
    try:
        return load.run()
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _arrivals(options: argparse.Namespace) -> Iterator[Arrival]:
    if options.count == MOST_REQUESTS and options.seconds == MOST_SECONDS:
        raise LoadError("say where it ends: --count or --seconds (or both)")
    bounds = Bounds(options.count, options.seconds)
    if options.trace:
        return trace(options.trace, bounds, speed=options.trace_speed)
    if not (options.rate and options.prompt_tokens and options.output_tokens):
        raise LoadError("say --rate, --prompt-tokens and --output-tokens, or --trace")
    prompts, outputs = lengths.parse(options.prompt_tokens), lengths.parse(options.output_tokens)
    return poisson(options.rate, prompts, outputs, bounds, options.seed)


def _targets(options: argparse.Namespace) -> Callable[[], Sequence[str]]:
    if options.url:
        for url in options.url:
            checked(url)
        return lambda: options.url
    return _TargetsFile(options.targets_file)


class _TargetsFile:
    """Addresses that change while the load runs, as pods come and go."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = -1.0
        self._urls: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def __call__(self) -> Sequence[str]:
        with self._lock:
            now = time.monotonic()
            if now - self._read_at >= 1 or self._read_at < 0:
                self._read_at = now
                try:
                    self._urls = tuple(self._path.read_text().split())
                except FileNotFoundError:
                    self._urls = ()
            return self._urls


if __name__ == "__main__":
    sys.exit(main())
