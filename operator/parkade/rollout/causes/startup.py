"""What an engine printed about its memory while it started.

The lines, by version (``vllm/v1/worker/gpu_worker.py``, ``vllm/v1/core/kv_cache_utils.py``):
the hint line says F, T, utilisation and use (0.10.2 to 0.26 with non-torch memory, since 0.27
with consumed memory; at DEBUG in some versions); capacity is two lines up to 0.29 and one since;
the V2 runner prints the end of graph capture twice, once while profiling. V0 had a block of its
own. What is not there, or cannot be true, is ``None``.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from parkade.rollout.causes.attempts import last_attempt
from parkade.rollout.causes.cause import ContainerEvidence, Stage
from parkade.rollout.causes.figures import GIB, count, gib, number
from parkade.rollout.causes.lines import Line, read_lines
from parkade.rollout.causes.stages import Scene

_GIB = r"(-?[\d.]{1,20}) ?GiB"
_FREE_TOTAL = re.compile(
    r"Free memory on device (?:\S{1,20} )?\((?P<free>[\d.]{1,15})/(?P<total>[\d.]{1,15}) ?GiB\) on "
    r"startup(?:\. Desired GPU memory utilization is| is less than desired GPU memory utilization) "
    r"\((?P<util>[\d.]{1,12}), (?P<requested>[\d.]{1,15}) GiB\)"
)
_INITIAL = re.compile(
    rf"Initial free memory:? {_GIB}; Requested memory: ([\d.]{{1,12}}) \(util\), {_GIB}"
)
_RESERVED = re.compile(rf"Initial free memory {_GIB}, reserved {_GIB} memory for KV Cache")
_V0_BUDGET = re.compile(
    rf"total_gpu_memory \({_GIB}\) x gpu_memory_utilization \(([\d.]{{1,12}})\) = {_GIB}"
)
_ARGUMENT = re.compile(r"'gpu_memory_utilization': ([\d.]{1,12})")
_VERSION = re.compile(
    r"(?:LLM engine \(v|server version |[█▄▀] +version )(?P<version>\d[\w.+\-]{0,80})"
)
_LOADED = re.compile(r"(?:Model loading|Loading model weights) took (-?[\d.]{1,20}) ?Gi?B")
_WEIGHT = re.compile(rf"(?:Actual usage is {_GIB} for weight|model weights take {_GIB})")
_CONSUMED = re.compile(rf"Actual usage is {_GIB} for consumed memory")
_PEAK = re.compile(rf"{_GIB} for peak activation|activation peak memory takes {_GIB}")
_NON_TORCH = re.compile(rf"{_GIB} for non-torch memory|non_torch_memory takes {_GIB}")
_GRAPHS_USED = re.compile(rf"and {_GIB} for CUDAGraph memory")
_GRAPH_POOL = re.compile(rf"CUDA graph pool memory: {_GIB} \(actual\)(?:, {_GIB} \(estimated\))?")
_GRAPHS_ESTIMATED = re.compile(rf"Estimated CUDA graph memory: {_GIB} total")
_CAPTURED = re.compile(rf"Graph capturing finished in .{{1,20}} secs?, took {_GIB}")
_ESTIMATE_ON = re.compile(r"CUDA graph memory profiling is enabled")
_AVAILABLE = re.compile(
    rf"Available KV cache memory: {_GIB}|memory reserved for KV Cache is {_GIB}"
    rf"|[Ss]et \(([\d.]{{1,15}})/[\d.]{{1,15}}\) GiB for KV cache"
)
_IN_USE = re.compile(rf"Current kv cache memory in use is (?:{_GIB}|(\d{{1,16}}) bytes)")
_TOKENS = re.compile(r"KV cache size: ([\d,]{1,25}) tokens")
_CONCURRENCY = re.compile(
    r"Maximum concurrency for ([\d,]{1,25}) tokens per request: ([\d.]{1,20})x"
)
_BLOCK = re.compile(r"Setting (?P<kind>attention|kv cache) block size to (\d{1,9})")
_ACTIVE = re.compile(r"Overriding max_num_active_seqs from \d{1,9} to (\d{1,9})")
_TELLS = re.compile(r"mem|version|KV|raph|took|concurrency|weights")
_RUNNER = re.compile(r"Using V2 Model Runner|using the V1 model runner instead")


@dataclass(frozen=True, slots=True)
class StartupReport:
    """Figures of the last start in a log; ``None`` where the text does not say.

    All are per GPU. Where ranks differ the smallest of what is free or available counts and the
    largest of what is used. Sizes in GiB have two decimals: each is known to plus or minus
    ``rounding_bytes``.
    """

    version: str | None = None
    runner: str | None = None
    """``v1`` or ``v2``, the engine's model runner."""

    total_bytes: int | None = None
    """T: what the device has."""
    free_bytes: int | None = None
    """F: what was free when the engine started."""
    utilization: float | None = None
    """``gpu_memory_utilization`` as asked for."""
    requested_bytes: int | None = None
    weights_bytes: int | None = None
    """``Model loading took``, drafter included."""
    peak_activation_bytes: int | None = None
    """As printed. Since 0.27 it contains the graph estimate, where that is on."""
    non_torch_bytes: int | None = None
    """Printed up to 0.26."""
    consumed_bytes: int | None = None
    """Weights and everything else that stays; printed since 0.27."""
    graph_bytes_estimated: int | None = None
    graph_bytes_actual: int | None = None
    graph_estimate_applied: bool = False
    """The estimate was taken from the KV cache's share (off by default before 0.20)."""
    non_kv_bytes: int | None = None
    """Requested minus available minus the applied estimate: neither KV cache nor graphs."""
    available_kv_bytes: int | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    max_concurrency_len: int | None = None
    """The length in tokens that the concurrency is stated for."""
    block_size: int | None = None
    """Tokens per attention block, where the engine says that it chose one."""
    max_num_active_seqs: int | None = None
    """The engine's own lower limit on running requests, where it set one."""
    complete: bool = False
    """The start came to its end: the engine serves."""

    @property
    def rounding_bytes(self) -> int:
        """Half of the last printed digit: 0.005 GiB, rounded up."""
        return -(-GIB // 200)


def read_startup(text: str) -> StartupReport:
    """Read the last start in an engine log: any version, any prefix, any size, whole or cut."""
    whole = Scene(last_attempt(read_lines(text)), ContainerEvidence())
    # What comes after the start is traffic, in which anybody can write anything.
    scene = Scene(whole.lines[: whole.started_at], ContainerEvidence())
    lines = scene.lines
    said = [line.text for line in lines if _TELLS.search(line.text)]
    free, total, utilization, requested = _budget(said)
    actual, estimated = _graphs(scene, said)
    available = _available(said)
    applied = any(_ESTIMATE_ON.search(text) for text in said)
    length, concurrency = _concurrency(said)
    return StartupReport(
        version=_version(said),
        runner=_runner(lines),
        total_bytes=total,
        free_bytes=free,
        utilization=utilization,
        requested_bytes=requested,
        weights_bytes=_weights(said),
        peak_activation_bytes=_largest(said, _PEAK),
        non_torch_bytes=_largest(said, _NON_TORCH),
        consumed_bytes=_largest(said, _CONSUMED),
        graph_bytes_estimated=estimated,
        graph_bytes_actual=actual,
        graph_estimate_applied=applied,
        non_kv_bytes=_non_kv(said, requested, available, estimated if applied else 0),
        available_kv_bytes=available,
        kv_tokens=min(_counts(said, _TOKENS), default=None),
        max_concurrency=concurrency,
        max_concurrency_len=length,
        block_size=_block_size(lines),
        max_num_active_seqs=min(_counts((x.text for x in lines), _ACTIVE), default=None),
        complete=whole.started_at is not None,
    )


def _figures(texts: Iterable[str], pattern: re.Pattern[str]) -> list[int]:
    """Return the believable sizes in GiB that a pattern's groups hold."""
    found = (match for text in texts if (match := pattern.search(text)))
    sizes = (gib(next((group for group in match.groups() if group), None)) for match in found)
    return [value for value in sizes if value is not None]


def _largest(texts: Iterable[str], pattern: re.Pattern[str]) -> int | None:
    return max(_figures(texts, pattern), default=None)


def _counts(texts: Iterable[str], pattern: re.Pattern[str]) -> list[int]:
    found = (count(match[1]) for text in texts if (match := pattern.search(text)))
    return [value for value in found if value is not None]


def _budget(
    texts: Sequence[str],
) -> tuple[int | None, int | None, float | None, int | None]:
    """Return F, T, utilisation and requested bytes of the rank with the least free memory."""
    rows = [row for text in texts if (row := _budget_row(text))]
    free = min((row[0] for row in rows if row[0] is not None), default=None)
    total = min((row[1] for row in rows if row[1] is not None), default=None)
    shares = [row[2] for row in rows if row[2] is not None]
    arguments = [number(match[1]) for text in texts if (match := _ARGUMENT.search(text))]
    share = next((s for s in [*shares, *arguments] if s is not None and 0 < s <= 1), None)
    requested = min((row[3] for row in rows if row[3] is not None), default=None)
    if free is not None and total is not None and free > total:
        free = total = None
    return free, total, share, requested


def _budget_row(text: str) -> tuple[int | None, int | None, float | None, int | None] | None:
    if found := _FREE_TOTAL.search(text):
        return (
            gib(found["free"]), gib(found["total"]), number(found["util"]), gib(found["requested"])
        )  # fmt: skip
    if found := _INITIAL.search(text):
        return gib(found[1]), None, number(found[2]), gib(found[3])
    if found := _RESERVED.search(text):
        return gib(found[1]), None, None, None
    if found := _V0_BUDGET.search(text):
        return None, gib(found[1]), number(found[2]), gib(found[3])
    return None


def _weights(texts: Sequence[str]) -> int | None:
    """Return what loading took; up to 0.7 it says GB and means GiB."""
    found = [gib(match[1]) for text in texts if (match := _LOADED.search(text))]
    loaded = max((value for value in found if value is not None), default=None)
    return loaded if loaded is not None else _largest(texts, _WEIGHT)


def _available(texts: Sequence[str]) -> int | None:
    """Return the smallest rank's pool; the hint line says it too, in bytes up to 0.10."""
    if pools := _figures(texts, _AVAILABLE):
        return min(pools)
    found = [match for text in texts if (match := _IN_USE.search(text))]
    sizes = [count(match[2], 10 * 2**40) if match[2] else gib(match[1]) for match in found]
    return min((value for value in sizes if value is not None), default=None)


def _graphs(scene: Scene, texts: Sequence[str]) -> tuple[int | None, int | None]:
    """Return actual and estimated bytes of CUDA graphs; a capture while profiling is neither."""
    pools = [match for text in texts if (match := _GRAPH_POOL.search(text))]
    actual = [value for match in pools if (value := gib(match[1])) is not None]
    estimated = [value for match in pools if match[2] and (value := gib(match[2])) is not None]
    if not actual:
        actual = _figures(texts, _GRAPHS_USED) or _real_captures(scene)
    estimated = estimated or _figures(texts, _GRAPHS_ESTIMATED)
    return max(actual, default=None), max(estimated, default=None)


def _real_captures(scene: Scene) -> list[int]:
    begin = next((i for i, stage, _ in scene.marks if stage is Stage.GRAPHS), len(scene.lines))
    return _figures((line.text for line in scene.lines[begin:]), _CAPTURED)


def _non_kv(
    texts: Sequence[str], requested: int | None, available: int | None, graphs: int | None
) -> int | None:
    """Return ``requested - available - applied graph estimate`` (gpu_worker.py since 0.18)."""
    given = any(_RESERVED.search(text) for text in texts)
    if requested is None or available is None or graphs is None or given:
        return None
    rest = requested - available - graphs
    return rest if rest > 0 else None


def _concurrency(texts: Sequence[str]) -> tuple[int | None, float | None]:
    """Return the length and the concurrency of the smallest engine."""
    rows = [
        (value, length)
        for text in texts
        if (match := _CONCURRENCY.search(text))
        and (value := number(match[2])) is not None
        and (length := count(match[1])) is not None
    ]
    concurrency, length = min(rows, default=(None, None))
    return length, concurrency


def _version(texts: Sequence[str]) -> str | None:
    found = [match["version"] for text in texts if (match := _VERSION.search(text))]
    return found[-1].rstrip(".") if found else None


def _runner(lines: Sequence[Line]) -> str | None:
    found = [match[0] for line in lines if (match := _RUNNER.search(line.text))]
    if not found:
        return None
    return "v2" if found[-1].startswith("Using") else "v1"


def _block_size(lines: Sequence[Line]) -> int | None:
    found = [match for line in lines if (match := _BLOCK.search(line.text))]
    attention = [match for match in found if match["kind"] == "attention"]
    sizes = [count(match[2], 10**7) for match in attention or found]
    return next((size for size in reversed(sizes) if size), None)
