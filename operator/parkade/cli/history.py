"""`parkade history NAME`: an endpoint's revisions and their verdicts, newest first."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator

from parkade.api.conditions import utc_seconds
from parkade.api.status import HistoryEntry, Rejected, dump
from parkade.cli import cluster_view
from parkade.cli.cluster_view import ClusterView

WIDTH = 80
INDENT = "    "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    cluster_view.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="default: text"
    )


def run(args: argparse.Namespace) -> int:
    """Print the revisions."""
    seen = cluster_view.view(args)
    if args.output == "json":
        kept = {"history": seen.status.history, "rejected": seen.status.rejected}
        print(
            json.dumps({key: [dump(one) for one in many] for key, many in kept.items()}, indent=2)
        )
    else:
        print("\n".join(lines(seen)))
    return 0


def lines(seen: ClusterView) -> Iterator[str]:
    """Yield the history for people, at most 80 columns wide."""
    yield seen.title
    yield ""
    if not seen.status.history:
        yield "No revision yet."
    for entry in seen.status.history:
        yield from revision_lines(entry)
    if seen.status.rejected:
        yield "In quarantine (not tried again unless you ask for it):"
    for rejected in seen.status.rejected:
        yield from rejected_lines(rejected, seen)


def revision_lines(entry: HistoryEntry) -> Iterator[str]:
    """Yield one revision: what ran, since when, whose change it was, and its verdict."""
    since = utc_seconds(entry.since) if entry.since else "?"
    origin = entry.origin.value if entry.origin else "?"
    yield (
        f"  {entry.revision or '?':<12}{since:<22}{origin:<8}{entry.verdict.value:<13}"
        f"{settings_text(entry.max_num_seqs, entry.gpu_memory_utilization)}"
    )
    if entry.message:
        yield from wrapped(entry.message)
    if entry.predicted_kv_tokens and entry.measured_kv_tokens:
        yield from wrapped(
            f"KV cache: {entry.predicted_kv_tokens:,} tokens predicted, "
            f"{entry.measured_kv_tokens:,} measured."
        )


def rejected_lines(rejected: Rejected, seen: ClusterView) -> Iterator[str]:
    """Yield one setting in quarantine, with the command that asks for a retry."""
    settings = settings_text(rejected.max_num_seqs, rejected.gpu_memory_utilization)
    yield f"  {rejected.hash:<12}{settings}"
    short = f" ({rejected.shortfall} short)" if rejected.shortfall else ""
    yield from wrapped(f"{rejected.cause}{short}: {rejected.message}")
    yield (
        f"{INDENT}kubectl annotate --overwrite iep -n {seen.endpoint.namespace} "
        f"{seen.endpoint.name} 'serving.parkade.dev/retry={rejected.hash} REASON'"
    )


def settings_text(seqs: int | None, utilization: str | None) -> str:
    """Return the two knobs in few words."""
    return f"seqs {seqs if seqs is not None else '?'}, util {utilization or '?'}"


def wrapped(text: str) -> list[str]:
    """Return a text as indented lines."""
    return textwrap.wrap(text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
