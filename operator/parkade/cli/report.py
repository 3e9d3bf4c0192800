"""`parkade report NAME`: what runs and why, as one page that stands alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from parkade.api.conditions import utc_seconds
from parkade.api.quantity import gib, parse_bytes
from parkade.api.status import Interval, Lengths, Memory, Recommendation
from parkade.cli import cluster_view
from parkade.cli.cluster_view import ClusterView
from parkade.cli.errors import UsageError
from parkade.cli.explain import BOUNDS
from parkade.cli.history import settings_text

WIDTH = 720
PARTS = (
    ("weights", "weights", "#4c78a8"),
    ("peak_activation", "activations", "#72b7b2"),
    ("non_torch", "buffers", "#b279a2"),
    ("cuda_graphs", "CUDA graphs", "#eeca3b"),
    ("available_kv", "KV cache", "#54a24b"),
)
"""Parts of the engine's budget as status names them; what is left of the card is free or taken."""
REST_COLOR = "#d8d8d8"
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.3em .6em;vertical-align:top}
td.n{text-align:right;white-space:nowrap}svg{width:100%;height:auto}.big{font-size:1.3em}
@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}svg text{fill:#ddd}}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    cluster_view.add_arguments(parser)
    parser.add_argument("-o", "--output", choices=("html",), default="html")
    parser.add_argument("-f", "--file", type=Path, metavar="FILE", help="default: standard output")


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    text = page(cluster_view.view(args))
    if args.file is None:
        print(text, end="")
        return 0
    try:
        args.file.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{args.file} can't be written: {error.strerror}") from error
    return 0


def page(seen: ClusterView) -> str:
    """Return the whole page: decision, memory map, lengths, speed, revisions, arithmetic."""
    title = escape(seen.title)
    body = "\n".join(
        (
            f"<h1>{title}</h1>",
            _decision(seen),
            *_section("Memory of each GPU", _memory(seen.status.memory)),
            *_section("Lengths against the pool", _lengths(seen)),
            *_section("Speed per request against concurrency", _speed(seen)),
            *_section("Bounds on max_num_seqs", _bounds(seen.status.recommendation)),
            *_section("Conditions", _conditions(seen)),
            *_section("Revisions", _revisions(seen)),
            *_section("The arithmetic", _arithmetic(seen.status.recommendation)),
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _section(title: str, content: str) -> tuple[str, ...]:
    return (f"<h2>{title}</h2>", content) if content else ()


def _table(rows: Iterable[tuple[str, ...]], *, number: int = -1) -> str:
    """Return a table of plain texts; the column `number` stands to the right."""
    lines = [
        "<tr>"
        + "".join(
            f'<td class="n">{escape(cell)}</td>' if at == number else f"<td>{escape(cell)}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    ]
    return f"<table>{''.join(lines)}</table>" if lines else ""


def _decision(seen: ClusterView) -> str:
    applied, wanted = seen.status.applied, seen.status.recommendation
    runs = "nothing yet"
    if applied is not None:
        runs = settings_text(applied.max_num_seqs, applied.gpu_memory_utilization)
    advised = "nothing yet"
    if wanted is not None:
        advised = settings_text(wanted.max_num_seqs, wanted.gpu_memory_utilization)
        advised += f", limited by {wanted.limited_by.value}" if wanted.limited_by else ""
    return (
        f'<p class="big">Runs: <b>{escape(runs)}</b><br>Recommended: <b>{escape(advised)}</b></p>'
    )


def _memory(memory: Memory | None) -> str:
    total = parse_bytes(memory.total) if memory is not None and memory.total else None
    if memory is None or not total:
        return ""
    sizes = [
        (name, parse_bytes(getattr(memory, key) or "") or 0, color) for key, name, color in PARTS
    ]
    rest = max(0, total - sum(size for _, size, _ in sizes))
    sizes.append(("free, or taken before the engine", rest, REST_COLOR))
    x, boxes = 0.0, []
    for name, size, color in sizes:
        width = WIDTH * size / total
        boxes.append(
            f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="40" fill="{color}">'
            f"<title>{name} {gib(size)}</title></rect>"
        )
        x += width
    rows = [
        f'<tr><td><span style="color:{color}">&#9632;</span> {name}</td>'
        f'<td class="n">{gib(size)}</td></tr>'
        for name, size, color in sizes
    ]
    basis = memory.basis.value.lower() if memory.basis is not None else "not known how"
    tokens = f"{memory.pool_tokens:,}" if memory.pool_tokens is not None else "?"
    return (
        f'<svg viewBox="0 0 {WIDTH} 40" role="img" aria-label="memory map">{"".join(boxes)}</svg>'
        f"<table>{''.join(rows)}</table><p>The KV cache holds {tokens} tokens ({basis}).</p>"
    )


def _lengths(seen: ClusterView) -> str:
    workload, memory = seen.status.workload, seen.status.memory
    pool = memory.pool_tokens if memory is not None else None
    if workload is None:
        return ""
    rows: list[tuple[str, ...]] = []
    for name, lengths in (("prompts", workload.prompt_tokens), ("outputs", workload.output_tokens)):
        rows += [(name, *row) for row in _quantiles(lengths, pool)]
    return _table(rows, number=3)


def _quantiles(lengths: Lengths | None, pool: int | None) -> Iterator[tuple[str, str, str]]:
    if lengths is None:
        return
    for name, interval in (
        ("half", lengths.median),
        ("9 in 10", lengths.p90),
        ("99 in 100", lengths.p99),
    ):
        if interval is not None:
            yield name, _interval(interval), _fits(interval, pool)


def _interval(interval: Interval) -> str:
    if interval.up_to is None:
        return f"more than {interval.above or 0:,} tokens"
    return f"up to {interval.up_to:,} tokens"


def _fits(interval: Interval, pool: int | None) -> str:
    if not pool or not interval.up_to:
        return ""
    return f"{pool / interval.up_to:,.1f} times that in the pool"


def _speed(seen: ClusterView) -> str:
    from parkade.cli.plan_html import curve_svg  # noqa: PLC0415 - brings sizing along
    from parkade.sizing.ledger import SpeedPoint  # noqa: PLC0415

    raw = seen.record.ledger if seen.record is not None else ()
    points = tuple(point for one in raw if (point := SpeedPoint.from_dict(one)) is not None)
    if len(points) < 2:
        return ""
    objectives = seen.endpoint.spec.objectives
    return curve_svg(points, objectives.min_output_tokens_per_second if objectives else None)


def _bounds(wanted: Recommendation | None) -> str:
    if wanted is None or wanted.bounds is None:
        return ""
    found = ((name, getattr(wanted.bounds, field)) for field, name in BOUNDS.items())
    return _table(
        (
            (name, bound.value or "not known", bound.why)
            for name, bound in found
            if bound is not None
        ),
        number=1,
    )


def _conditions(seen: ClusterView) -> str:
    return _table(
        (one.type.value, one.status.value, one.reason, one.message)
        for one in seen.status.conditions
    )


def _revisions(seen: ClusterView) -> str:
    return _table(
        (
            one.revision or "?",
            utc_seconds(one.since) if one.since else "?",
            one.verdict.value,
            settings_text(one.max_num_seqs, one.gpu_memory_utilization),
            one.message,
        )
        for one in seen.status.history
    )


def _arithmetic(wanted: Recommendation | None) -> str:
    sentences = wanted.explanation if wanted is not None else ()
    items = "".join(f"<li>{escape(one)}</li>" for one in sentences)
    return f"<ol>{items}</ol>" if items else ""
