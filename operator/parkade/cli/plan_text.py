"""The decision for people: at most 80 columns, no colour where it is piped."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkade.api.quantity import gib
from parkade.api.spec import utilization_of
from parkade.sizing.kv_bound import held_blocks
from parkade.sizing.ladder import TOP
from parkade.sizing.pool import setup
from parkade.sizing.result import LIMITS, Bound, BoundKind, MemoryMap, NotSizable, Sizing
from parkade.sizing.wording import count, rough
from parkade.sizing.workload import Workload

if TYPE_CHECKING:
    from parkade.cli.plan_case import Case

WIDTH = 80
_BAR = 60
_NAMES = {
    BoundKind.KV_CACHE: "KV cache",
    BoundKind.SPEED: "speed",
    BoundKind.FIRST_TOKEN: "first token (from below)",
    BoundKind.ENGINE: "engine",
    BoundKind.USER: "user",
}


def to_text(case: Case, *, color: bool) -> str:
    """Return the whole decision as text."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=WIDTH,
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    _heading(console, case)
    _memory(console, case.sizing.memory)
    _lengths(console, case)
    _bounds(console, case.sizing)
    _notes(console, case.sizing)
    _explanation(console, case.sizing)
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "\n".join(lines).strip() + "\n"


def _heading(console: Console, case: Case) -> None:
    spec, sizing = case.endpoint.spec, case.sizing
    name = f"{case.endpoint.namespace}/{case.endpoint.name}"
    console.print(Text(f"{name}: {spec.model.name} on {spec.accelerator.product}", style="bold"))
    console.print()
    now = case.inputs.in_force
    seqs, used = (
        sizing.settings.max_num_seqs,
        utilization_of(sizing.settings.gpu_memory_utilization),
    )
    before = (
        (f"{now.max_num_seqs} -> ", f"{utilization_of(now.gpu_memory_utilization)} -> ")
        if now
        else ("", "")
    )
    by = f"   limited by {sizing.limited_by.value}" if sizing.limited_by else ""
    console.print(Text(f"  max_num_seqs            {before[0]}{seqs}{by}", style="bold green"))
    console.print(Text(f"  gpu_memory_utilization  {before[1]}{used}", style="bold green"))
    console.print(f"  saturated               {sizing.saturated.value}")
    console.print(f"  objectives              {sizing.objectives.reason.value}")


def memory_parts(memory: MemoryMap) -> list[tuple[str, str, int, str]]:
    """Return mark, name, bytes and colour of each part of the card, in order."""
    return [
        ("w", "weights", memory.weights_bytes, "blue"),
        ("a", "activations", memory.peak_activation_bytes, "cyan"),
        ("b", "buffers", memory.non_torch_bytes, "magenta"),
        ("g", "CUDA graphs", memory.cuda_graph_bytes, "yellow"),
        ("K", "KV cache", memory.available_kv_bytes, "green"),
        ("h", "left free", memory.left_bytes, "white"),
        ("x", "taken before the engine", memory.taken_before_bytes, "red"),
    ]


def _memory(console: Console, memory: MemoryMap) -> None:
    _title(console, f"Memory of each GPU, {gib(memory.total_bytes)} ({memory.basis.value.lower()})")
    bar = Text("  [")
    parts = memory_parts(memory)
    for (mark, _, _, color), width in zip(parts, _widths([one[2] for one in parts]), strict=True):
        bar.append(mark * width, style=color)
    bar.append("]")
    console.print(bar)
    for mark, name, size, color in parts:
        console.print(Text(f"  {mark} {name:<24}{gib(size):>12}", style=color))
    console.print(
        f"  The KV cache holds {count(memory.pool_tokens)} tokens in "
        f"{count(memory.num_blocks)} blocks."
    )
    if memory.uncertainty_bytes > 0:
        console.print(f"  Estimates may be off by {gib(memory.uncertainty_bytes)} together.")


def _widths(sizes: list[int]) -> list[int]:
    """Share the bar out; what is there at all gets at least one column."""
    total = sum(max(0, size) for size in sizes) or 1
    widths = [max(1, round(_BAR * size / total)) if size > 0 else 0 for size in sizes]
    largest = max(range(len(widths)), key=lambda index: widths[index])
    widths[largest] += _BAR - sum(widths)
    return widths


def _lengths(console: Console, case: Case) -> None:
    rows = length_rows(case)
    if not rows:
        return
    _title(console, "Prompts against the pool")
    widest = max(share for _, _, share, _ in rows)
    for low, high, share, fits in rows:
        bar = "#" * max(1, round(28 * share / widest))
        edges = f"{count(low)} to {count(high)}"
        console.print(f"  {edges:<23}{share:>5.0%} {bar:<28} {_fitting(fits):>18}")


def length_rows(case: Case) -> list[tuple[float, float, float, float]]:
    """Return above, up to, share of requests, and how many of `up to` tokens the pool holds.

    By blocks, as the engine allocates: in a hybrid model most of a short request is its state.
    """
    workload, at = case.inputs.workload, setup(case.inputs)
    if not isinstance(workload, Workload) or isinstance(at, NotSizable):
        return []
    lengths, layout = workload.prompt_tokens, at.layout
    usable = case.sizing.memory.num_blocks - layout.reserved_blocks
    return [
        (
            bucket.low,
            bucket.high,
            bucket.count / max(lengths.total, 1e-9),
            usable / held_blocks(layout, max(1, round(bucket.high))),
        )
        for bucket in lengths.buckets()
    ]


def _fitting(fits: float) -> str:
    return f"{rough(fits)} fit at a time" if fits < 1000 else "1000s fit"


def _bounds(console: Console, sizing: Sizing) -> None:
    _title(console, "Bounds on max_num_seqs")
    table = Table(box=None, padding=(0, 1), show_edge=False, header_style="dim", width=WIDTH)
    table.add_column("", width=1)
    table.add_column("bound", width=12)
    table.add_column("value", justify="right", width=8)
    table.add_column("why", overflow="fold", ratio=1)
    for kind in BoundKind:
        bound = sizing.bounds.get(kind)
        if bound is None:
            continue
        bit = kind in LIMITS and LIMITS[kind] is sizing.limited_by
        value = bound_value(bound)
        style = "bold green" if bit else ""
        table.add_row(">" if bit else "", _NAMES[kind], value, bound.why, style=style)
    console.print(table)


def bound_value(bound: Bound) -> str:
    """Return the value of a bound for people; a first-token bound may be above all rungs."""
    if bound.value is None:
        return "?"
    return (
        f"> {TOP:,}"
        if bound.value > TOP and bound.kind is BoundKind.FIRST_TOKEN
        else rough(bound.value)
    )


def plan_notes(sizing: Sizing) -> list[str]:
    """Return what is to be known beside the numbers: objectives, and why nothing moves."""
    notes = [sizing.objectives.message]
    observed, held = sizing.observed, sizing.held_message
    if observed is not None:
        # What is held for want of traffic begins with the same words.
        rest = held if held.startswith(observed.message) else observed.message
        notes.append(f"{observed.reason.value}: {rest}")
    if sizing.held is not None and not (observed and held.startswith(observed.message)):
        notes.append(f"{sizing.held.value}: {held}")
    return notes


def _notes(console: Console, sizing: Sizing) -> None:
    _title(console, "Notes")
    for note in plan_notes(sizing):
        console.print(_wrapped("- ", note))


def _explanation(console: Console, sizing: Sizing) -> None:
    _title(console, "The arithmetic")
    for index, sentence in enumerate(sizing.explanation, 1):
        console.print(_wrapped(f"{index:>2}. ", sentence))


def _wrapped(mark: str, text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {mark}",
        subsequent_indent="  " + " " * len(mark),
        break_long_words=True,
        break_on_hyphens=False,
    )


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))
