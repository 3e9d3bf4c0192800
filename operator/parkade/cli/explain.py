"""`parkade explain NAME`: why an endpoint runs what it runs, from its status."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator

from parkade.api.conditions import utc_seconds
from parkade.api.status import Bound, Lengths, Memory, Recommendation, Revision, Workload, dump
from parkade.cli import cluster_view
from parkade.cli.cluster_view import ClusterView
from parkade.cli.history import WIDTH, settings_text, wrapped

BOUNDS = {
    "kv_cache": "KV cache",
    "speed": "speed",
    "first_token": "first token",
    "engine": "engine",
    "user": "user",
}
MEMORY = {
    "total": "total",
    "free_at_start": "free at the engine's start",
    "effective_headroom": "headroom",
    "weights": "weights",
    "peak_activation": "activations",
    "non_torch": "buffers",
    "cuda_graphs": "CUDA graphs",
    "available_kv": "KV cache",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    cluster_view.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="default: text"
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    seen = cluster_view.view(args)
    if args.output == "json":
        print(json.dumps(dump(seen.status), indent=2))
    else:
        print("\n".join(lines(seen)))
    return 0


def lines(seen: ClusterView) -> Iterator[str]:
    """Yield the explanation for people, at most 80 columns wide."""
    status = seen.status
    yield seen.title
    yield ""
    yield _settings("runs", status.applied)
    yield _settings("last good", status.last_good)
    yield from _recommended(status.recommendation)
    yield from _titled("Conditions", _conditions(seen))
    yield from _titled("Bounds on max_num_seqs", _bounds(status.recommendation))
    yield from _titled("Traffic", _traffic(status.workload))
    yield from _titled("Memory of each GPU", _memory(status.memory))
    yield from _titled("The arithmetic", _arithmetic(status.recommendation))


def _titled(title: str, content: Iterator[str]) -> Iterator[str]:
    found = list(content)
    if found:
        yield from ("", title, *found)


def _settings(what: str, revision: Revision | None) -> str:
    if revision is None:
        return f"  {what:<13}nothing yet"
    words = settings_text(revision.max_num_seqs, revision.gpu_memory_utilization)
    since = f" since {utc_seconds(revision.since)}" if revision.since else ""
    return f"  {what:<13}{words} ({revision.revision or '?'}{since})"


def _recommended(recommendation: Recommendation | None) -> Iterator[str]:
    if recommendation is None:
        yield "  recommended  nothing yet"
        return
    words = settings_text(recommendation.max_num_seqs, recommendation.gpu_memory_utilization)
    by = f", limited by {recommendation.limited_by.value}" if recommendation.limited_by else ""
    yield f"  recommended  {words}{by}"
    yield f"  saturated    {recommendation.saturated.value}"


def _conditions(seen: ClusterView) -> Iterator[str]:
    for one in seen.status.conditions:
        yield f"  {one.type.value:<18}{one.status.value:<9}{one.reason}"
        yield from wrapped(one.message)


def _bounds(recommendation: Recommendation | None) -> Iterator[str]:
    if recommendation is None or recommendation.bounds is None:
        return
    for field, name in BOUNDS.items():
        bound: Bound | None = getattr(recommendation.bounds, field)
        if bound is not None:
            yield f"  {name:<14}{bound.value or 'not known'}"
            yield from wrapped(bound.why)


def _traffic(workload: Workload | None) -> Iterator[str]:
    if workload is None:
        return
    for name, value in dump(workload).items():
        if isinstance(value, str | int):
            yield f"  {name:<26}{value}"
    for name, lengths in (("prompts", workload.prompt_tokens), ("outputs", workload.output_tokens)):
        if lengths is not None:
            yield f"  {name:<13}{_lengths(lengths)}"


def _lengths(lengths: Lengths) -> str:
    median = lengths.median
    half = ""
    if median is not None:
        upper = "more" if median.up_to is None else f"{median.up_to:,}"
        half = f", half of them up to {upper} tokens"
    return f"mean {lengths.mean or 'not known'} tokens{half}"


def _memory(memory: Memory | None) -> Iterator[str]:
    if memory is None:
        return
    for field, name in MEMORY.items():
        value = getattr(memory, field)
        if value is not None:
            yield f"  {name:<28}{value:>12}"
    if memory.pool_tokens is not None:
        basis = f" ({memory.basis.value.lower()})" if memory.basis is not None else ""
        yield f"  The KV cache holds {memory.pool_tokens:,} tokens{basis}."


def _arithmetic(recommendation: Recommendation | None) -> Iterator[str]:
    sentences = recommendation.explanation if recommendation is not None else ()
    for number, sentence in enumerate(sentences, 1):
        head = f"  {number:>2}. "
        yield from textwrap.wrap(sentence, WIDTH, initial_indent=head, subsequent_indent=" " * 6)
