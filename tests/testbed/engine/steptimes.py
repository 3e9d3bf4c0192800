"""How long a step takes, from kernel measurements of real cards.

The tables in ``speeds/`` give the time of one decode step by context and batch, with and without a
drafter, and of a lone prompt by length, for one card (AIConfigurator 0.12.0 for vLLM 0.24). A step
that mixes prefill and decode takes about the sum of both. Between points, decode is linear in
context and in batch (it reads the weights once and each sequence's cache), and prefill is a power
law. Beyond the edge the last slope goes on, and a step never takes less than at the edge.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.engine.blocks import CacheSettings, resolved_dtype
from testbed.engine.models import Model

_SPEEDS = Path(__file__).parent / "speeds"
# Three of ten proposals are accepted where there are eight, 2.4 a step; shorter drafts are accepted
# more often, so that one or two proposals give 0.8 each.
_ACCEPTED_A_PROPOSAL = 0.8
_ACCEPTED_AT_MOST = 2.4
# What splitting a model over cards costs: each added card brings this share of its speed.
_PARALLEL_EFFICIENCY = 0.85


@dataclass(frozen=True, slots=True)
class Curve:
    """Points with linear pieces between them; the last slope goes on beyond the edge."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]

    def at(self, x: float) -> float:
        """The value at x; flat below the first point, never below the last one beyond it."""
        xs, ys = self.xs, self.ys
        if x <= xs[0] or len(xs) == 1:
            return ys[0]
        index = min(bisect_left(xs, x), len(xs) - 1)
        slope = (ys[index] - ys[index - 1]) / (xs[index] - xs[index - 1])
        value = ys[index - 1] + slope * (x - xs[index - 1])
        return max(value, ys[-1]) if x > xs[-1] else value


@dataclass(frozen=True, slots=True)
class DecodeTable:
    """Milliseconds of one decode step by context (rows) and batch."""

    contexts: tuple[float, ...]
    rows: tuple[Curve, ...]

    @classmethod
    def read(cls, table: Mapping[str, Mapping[str, float]]) -> "DecodeTable":
        """From `{context: {batch: milliseconds}}`."""
        rows = sorted((float(context), row) for context, row in table.items())
        curves = []
        for _, row in rows:
            points = sorted((float(batch), value) for batch, value in row.items())
            curves.append(Curve(tuple(b for b, _ in points), tuple(v for _, v in points)))
        return cls(tuple(context for context, _ in rows), tuple(curves))

    def at(self, batch: float, context: float) -> float:
        """Milliseconds for this batch, each sequence with this context."""
        contexts = self.contexts
        if context <= contexts[0]:
            return self.rows[0].at(batch)
        upper = min(bisect_right(contexts, context), len(contexts) - 1)
        low, high = self.rows[upper - 1].at(batch), self.rows[upper].at(batch)
        share = (context - contexts[upper - 1]) / (contexts[upper] - contexts[upper - 1])
        return max(low + (high - low) * share, low)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times of one engine's steps, in seconds of its own clock."""

    decode_tables: tuple[tuple[float, DecodeTable], ...]  # by number of proposals
    prefill_log: Curve  # log milliseconds by log tokens
    proposals: int
    scale: float

    @property
    def tokens_per_step(self) -> float:
        """Tokens that one sequence gains in a step, on average."""
        return 1 + min(_ACCEPTED_A_PROPOSAL * self.proposals, _ACCEPTED_AT_MOST)

    def decode_seconds(self, batch: float, context: float) -> float:
        """One step of `batch` sequences whose mean context is `context` tokens."""
        below, above = self._around()
        low = below[1].at(batch, context)
        if above is None:
            return low * self.scale / 1000
        share = (self.proposals - below[0]) / (above[0] - below[0])
        high = above[1].at(batch, context)
        return max(low + (high - low) * share, low) * self.scale / 1000

    def _around(self) -> tuple[tuple[float, DecodeTable], tuple[float, DecodeTable] | None]:
        tables = self.decode_tables
        for number, (proposals, _) in enumerate(tables):
            if proposals == self.proposals:
                return tables[number], None
            if proposals > self.proposals:
                return tables[number - 1], tables[number]
        return (tables[-2], tables[-1]) if len(tables) > 1 else (tables[-1], None)

    def prefill_seconds(self, start: int, end: int) -> float:
        """Computing the tokens from `start` to `end` of a prompt, the earlier ones being cached."""
        return self._lone(end) - self._lone(start)

    def _lone(self, tokens: int) -> float:
        if tokens <= 0:
            return 0.0
        return math.exp(self.prefill_log.at(math.log(tokens))) * self.scale / 1000


def step_times(model: Model, cache: CacheSettings) -> StepTimes:
    """The nearest measured model, scaled by the weights and by the number of cards."""
    table = json.loads((_SPEEDS / f"{_table_name(model, cache)}.json").read_text())
    names = {0.0: "decode_ms", 3.0: "decode_mtp3_ms", 8.0: "decode_mtp8_ms"}
    decode = [(n, DecodeTable.read(table[key])) for n, key in names.items() if key in table]
    cards = cache.tensor_parallel_size * cache.pipeline_parallel_size
    speed = 1 + _PARALLEL_EFFICIENCY * (cards - 1)
    return StepTimes(
        decode_tables=tuple(decode),
        prefill_log=_log_curve(table["prefill_ms"]),
        proposals=cache.num_speculative_tokens,
        scale=_weight_ratio(model, table) / speed,
    )


def _table_name(model: Model, cache: CacheSettings) -> str:
    if model.hybrid:
        kv = "fp8kv" if resolved_dtype(model, cache) not in {"bfloat16", "float16"} else "bf16kv"
        return f"b200-qwen3.6-27b-nvfp4-{kv}"
    large = model.hidden_size >= 6144
    return "b200-llama-3.1-70b-fp8" if large else "b200-llama-3.1-8b-bf16"


def _weight_ratio(model: Model, table: Mapping[str, Any]) -> float:
    """How much heavier the model is than the measured one; within a quarter it is taken as it."""
    measured = {"qwen3.6": 21.8e9, "70b": 72.7e9, "8b": 16.1e9}
    name = str(table["model"]).lower()
    weights = next(size for key, size in measured.items() if key in name)
    ratio = model.weights_bytes / weights
    return 1.0 if 0.75 <= ratio <= 1.25 else ratio


def _log_curve(table: Mapping[str, float]) -> Curve:
    points = sorted((math.log(float(tokens)), math.log(value)) for tokens, value in table.items())
    return Curve(tuple(x for x, _ in points), tuple(y for _, y in points))
