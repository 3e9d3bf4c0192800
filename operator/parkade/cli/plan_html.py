"""The decision as one page that stands alone: no script, no font, nothing fetched."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from parkade.api.quantity import gib
from parkade.api.spec import utilization_of
from parkade.cli.plan_text import bound_value, length_rows, memory_parts, plan_notes
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.result import LIMITS, BoundKind, Sizing
from parkade.sizing.wording import count, rough
from parkade.sizing.workload import Workload

if TYPE_CHECKING:
    from parkade.cli.plan_case import Case

_WIDTH, _HEIGHT = 720, 220
_COLORS = {
    "w": "#4c78a8",
    "a": "#72b7b2",
    "b": "#b279a2",
    "g": "#eeca3b",
    "K": "#54a24b",
    "h": "#d8d8d8",
    "x": "#e45756",
}
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.3em .6em;vertical-align:top}
tr.bit{background:#e6f4e4;font-weight:600}td.n{text-align:right;white-space:nowrap}
svg{width:100%;height:auto}.big{font-size:1.3em}li{margin:.2em 0}
@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}tr.bit{background:#243d22}
svg text{fill:#ddd}}
"""


def to_html(case: Case) -> str:
    """Return the page."""
    spec, sizing = case.endpoint.spec, case.sizing
    title = escape(f"{case.endpoint.namespace}/{case.endpoint.name}")
    parts = [
        f"<h1>{title}</h1><p>{escape(spec.model.name)} on {escape(spec.accelerator.product)}</p>",
        _decision(case),
        f"<h2>Memory of each GPU, {gib(sizing.memory.total_bytes)}</h2>",
        _memory(sizing),
        *_lengths(case),
        *_curve(case),
        "<h2>Bounds on max_num_seqs</h2>",
        _bounds(sizing),
        "<h2>The arithmetic</h2><ol>",
        *(f"<li>{escape(sentence)}</li>" for sentence in sizing.explanation),
        "</ol>",
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _decision(case: Case) -> str:
    sizing, now = case.sizing, case.inputs.in_force
    seqs, used = sizing.settings.max_num_seqs, sizing.settings.gpu_memory_utilization
    was = ""
    if now is not None:
        was = f" (from {now.max_num_seqs} and {utilization_of(now.gpu_memory_utilization)})"
    by = f", limited by {sizing.limited_by.value}" if sizing.limited_by else ""
    notes = (note.removeprefix(f"{sizing.held}: ") for note in plan_notes(sizing))
    return (
        f'<p class="big">max_num_seqs <b>{seqs}</b>, gpu_memory_utilization '
        f"<b>{utilization_of(used)}</b>{was}{by}</p>"
        f"<p>{'<br>'.join(escape(note) for note in notes)}</p>"
    )


def _memory(sizing: Sizing) -> str:
    memory = sizing.memory
    x, rects, rows = 0.0, [], []
    for mark, name, size, _ in memory_parts(memory):
        width = _WIDTH * max(0, size) / memory.total_bytes
        rects.append(
            f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="40" fill="{_COLORS[mark]}">'
            f"<title>{name} {gib(size)}</title></rect>"
        )
        rows.append(
            f'<tr><td><span style="color:{_COLORS[mark]}">&#9632;</span> {name}</td>'
            f'<td class="n">{gib(size)}</td></tr>'
        )
        x += width
    return (
        f'<svg viewBox="0 0 {_WIDTH} 40" role="img" aria-label="memory map">{"".join(rects)}</svg>'
        f"<table>{''.join(rows)}</table><p>The KV cache holds {count(memory.pool_tokens)} tokens "
        f"in {count(memory.num_blocks)} blocks ({memory.basis.value.lower()}).</p>"
    )


def _lengths(case: Case) -> list[str]:
    rows = length_rows(case)
    if not rows:
        return []
    cells = [
        f'<tr><td class="n">{count(low)} to {count(high)}</td><td class="n">{share:.0%}</td>'
        f'<td style="width:50%"><div style="background:#4c78a8;height:1em;'
        f'width:{100 * share:.1f}%"></div></td><td class="n">{rough(fits)} fit</td></tr>'
        for low, high, share, fits in rows
    ]
    return ["<h2>Prompts against the pool</h2>", f"<table>{''.join(cells)}</table>"]


def _curve(case: Case) -> list[str]:
    workload = case.inputs.workload
    points = case.inputs.ledger + (workload.speed if isinstance(workload, Workload) else ())
    if len(points) < 2:
        return []
    objectives = case.endpoint.spec.objectives
    wanted = objectives.min_output_tokens_per_second if objectives else None
    return ["<h2>Speed per request against concurrency</h2>", curve_svg(points, wanted)]


def curve_svg(points: tuple[SpeedPoint, ...], wanted: float | None) -> str:
    """Return the measured speed curve with the objective as a line."""
    ordered = sorted(points, key=lambda one: one.concurrency)
    right = ordered[-1].concurrency * 1.05
    top = max([one.speed for one in ordered] + ([float(wanted)] if wanted else [])) * 1.1

    def at(concurrency: float, speed: float) -> tuple[float, float]:
        return 50 + (_WIDTH - 70) * concurrency / right, 10 + (_HEIGHT - 40) * (1 - speed / top)

    spots = [at(one.concurrency, one.speed) for one in ordered]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    marks = [f'<polyline points="{line}" fill="none" stroke="#4c78a8" stroke-width="2"/>']
    for one, (x, y) in zip(ordered, spots, strict=True):
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#4c78a8"/>'
            f'<text x="{x + 6:.1f}" y="{y - 6:.1f}" font-size="12">{rough(one.speed)}</text>'
            f'<text x="{x:.1f}" y="{_HEIGHT - 8}" font-size="12">{rough(one.concurrency)}</text>'
        )
    if wanted:
        _, y = at(0, float(wanted))
        marks.append(
            f'<line x1="50" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e45756" '
            f'stroke-dasharray="5 4"/><text x="0" y="{y + 4:.1f}" font-size="12">'
            f"{rough(wanted)}</text>"
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="speed curve">'
        f"{''.join(marks)}</svg>"
    )


def _bounds(sizing: Sizing) -> str:
    rows = []
    for kind in BoundKind:
        bound = sizing.bounds.get(kind)
        if bound is None:
            continue
        bit = kind in LIMITS and LIMITS[kind] is sizing.limited_by
        value = escape(bound_value(bound))
        rows.append(
            f'<tr class="{"bit" if bit else ""}"><td>{kind.value}</td>'
            f'<td class="n">{value}</td><td>{escape(bound.why)}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"
