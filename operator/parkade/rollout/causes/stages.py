"""How far an engine had come: from its tracebacks first, then from its progress lines.

Order of a start in every version since 0.9 (``vllm/v1/worker/gpu_worker.py``): device, free
memory check, weights, profile run, KV plan and allocation, kernel warm-up, graph capture, and
with the V1 model runner the sampler's warm-up last. Absence proves nothing, since logs are cut
at both ends: a stage needs a line that was seen.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from parkade.rollout.causes.cause import ContainerEvidence, Stage
from parkade.rollout.causes.lines import Line

ORDER = tuple(Stage)

_MARKS = (
    (re.compile(r"Initializing (?:a V1|an) LLM engine|Starting to load model"), Stage.LOAD),
    (
        re.compile(r"Loading safetensors checkpoint shards|Loading weights took"),
        Stage.LOAD,
    ),
    (re.compile(r"Model loading took |Loading model weights took [\d.]+ G"), Stage.PROFILE),
    (re.compile(r"Available KV cache memory|GiB memory for KV Cache as specified by"), Stage.KV),
    (re.compile(r"reserved for KV Cache is "), Stage.KV),
    (re.compile(r"KV cache size: [\d,]{3,}|# \w+ blocks: \d+"), Stage.GRAPHS),
    (re.compile(r"to fit into requested memory|CUDA graph pool memory: "), Stage.WARMUP),
    (re.compile(r"init engine \(profile"), Stage.WARMUP),
    (re.compile(r"Application startup complete|Avg prompt throughput"), Stage.RUNTIME),
    (re.compile(r'"(?:GET|POST) /\S* HTTP/1\.[01]" 200'), Stage.RUNTIME),
)
_MARK_WORDS = re.compile(
    r"nitializing|tarting|oading |KV [Cc]ache|blocks: |raph|requested memory|init engine|"
    r"startup complete|throughput|HTTP/1"
)
_DEATH = re.compile(
    r"encountered a fatal error|(?:WorkerProc|EngineCore) hit an exception|EngineDeadError"
    r"|WorkerProc failed|died unexpectedly|output_handler failed"
    r"|Engine core proc|Got fatal signal from worker"
)
_SERVED = re.compile(
    r"EngineCore encountered a fatal error|output_handler failed|Application shutdown complete"
    r'|"(?:GET|POST) /\S* HTTP/1\.[01]" [1-5]\d\d'
)
_AT_WORK = re.compile(r'EngineCore encountered a fatal error|"POST /\S* HTTP/1\.[01]" [1-5]\d\d')
_SENTENCE = re.compile(r"[.!?)\]}'\"`]\s*$")
_CAPTURED = re.compile(r"Graph capturing finished")

_SAMPLER = frozenset({"_dummy_sampler_run", "_dummy_pooler_run", "_dummy_pooler_run_task"})
_PROFILE = frozenset(
    {
        "profile_run",
        "determine_available_memory",
        "determine_num_available_blocks",
        "profile_cudagraph_memory",
        "_profile_cudagraph_memory",
    }
)
_GRAPHS = frozenset({"capture_model", "_warmup_and_capture", "_capture_cudagraphs"})
_WARM = frozenset(
    {
        "compile_or_warm_up_model",
        "_compile_or_warm_up_model",
        "_warm_up_model",
        "kernel_warmup",
        "warmup_kernels",
    }
)
_KV = frozenset(
    {
        "initialize_kv_cache",
        "initialize_kv_cache_tensors",
        "_allocate_kv_cache_tensors",
        "_allocate_kv_cache",
        "init_kv_cache",
        "_init_cache_engine",
    }
)
_LOAD = frozenset({"load_model", "load_weights", "initialize_model", "create_weights"})
_RUNTIME = frozenset({"execute_model", "sample_tokens", "execute_dummy_batch", "add_lora"})
_SERVING = frozenset({"run_busy_loop", "_process_engine_step"})
"""The core's loop: it begins when the start is over."""

_INIT = frozenset({"init_device", "init_worker_distributed_environment"})
TELLING = (
    _SAMPLER | _PROFILE | _GRAPHS | _WARM | _KV | _LOAD | _RUNTIME | _SERVING | _INIT | {"wake_up"}
)
"""The functions that decide a stage; an excerpt keeps their lines."""

_TEARDOWN = frozenset({"destroy_process_group", "destroy_model_parallel", "destroy"})

_FRAME = re.compile(r'\s*File "[^"]*", line \d+, in (\w+)')
_METHOD = re.compile(r"while processing method (\w{1,60})")
"""The old engine's workers name the method in the error's own line."""

_HEADER = "Traceback (most recent call last)"
_CHAIN = re.compile(r"During handling of the above|The above exception was the direct cause")
_BLOCK_LINES = 600


@dataclass(frozen=True)
class Scene:
    """One attempt's lines, and what the container says; the rules look at nothing else."""

    lines: Sequence[Line]
    container: ContainerEvidence
    is_whole: bool = False
    """Whether the last line's end was seen, so that it is not cut."""

    @cached_property
    def marks(self) -> tuple[tuple[int, Stage, str], ...]:
        """Progress lines as (index, stage that begins there, process), to the end of the start."""
        return tuple(self._marks())

    def _marks(self) -> Iterator[tuple[int, Stage, str]]:
        planned = False
        for index, line in enumerate(self.lines):
            if line.level == "ERROR" or not _MARK_WORDS.search(line.text):
                continue
            if _CAPTURED.search(line.text) and planned:
                yield index, Stage.WARMUP, line.process
            for pattern, stage in _MARKS:
                if pattern.search(line.text):
                    planned = planned or stage is Stage.GRAPHS
                    yield index, stage, line.process
                    if stage is Stage.RUNTIME:
                        return
                    break

    @cached_property
    def death_at(self) -> int | None:
        """The index of the first line that says that the engine is dead or dying."""
        return next((i for i, line in enumerate(self.lines) if _DEATH.search(line.text)), None)

    @cached_property
    def started_at(self) -> int | None:
        """The index of the line that says that the server serves."""
        return next((index for index, stage, _ in self.marks if stage is Stage.RUNTIME), None)

    @cached_property
    def served(self) -> bool:
        """Whether the engine served: its start was seen, or it died in the way of one that did.

        A tail alone can show it; what refuses only starts is then a request's error.
        """
        return self.started_at is not None or any(_AT_WORK.search(x.text) for x in self.lines)

    def ends_within(self, index: int) -> bool:
        """Whether the log ends in this line, and perhaps not at the line's end."""
        is_last = not self.is_whole and index == len(self.lines) - 1
        return is_last and not _SENTENCE.search(self.lines[index].text)

    @cached_property
    def reached(self) -> Stage | None:
        """The furthest stage of the attempt."""
        return furthest(stage for _, stage, _ in self.marks)

    def marked_stage(self, index: int) -> Stage | None:
        """Return the stage at a line by the progress lines before it.

        Ranks differ: of a rank that did not say that it had loaded, while a sibling did, nothing
        is known (some versions let only the first rank say it), unless several ranks said it.
        Data-parallel engines are on their own altogether.
        """
        before = [mark for mark in self.marks if mark[0] < index]
        process = self.lines[index].process
        own = {stage for _, stage, name in before if name == process}
        reached = furthest(stage for _, stage, _ in before)
        if reached is Stage.RUNTIME or not self._has_siblings(process):
            return reached
        if process.startswith("EngineCore"):
            return furthest(own)
        if reached is Stage.PROFILE and Stage.PROFILE not in own:
            return Stage.LOAD if _printed_by_several(before, Stage.PROFILE) and own else None
        return reached

    def _has_siblings(self, process: str) -> bool:
        """Whether other ranks of the same kind speak in this log."""
        base, rank = _rank_of(process)
        return rank != "" and any(
            other[0] == base and other[1] not in {"", rank}
            for other in map(_rank_of, {line.process for line in self.lines})
        )

    def stage_at(self, index: int) -> Stage | None:
        """Return the stage of a failure: its traceback's, else by progress, else the pod's.

        The core calls an error fatal only after its start; before it says that it failed to
        start (``vllm/v1/engine/core.py``). So a tail alone can show that the engine had served.
        """
        marked = self.marked_stage(index)
        if framed := self._framed_stage(index, marked):
            return framed
        if self._died_serving or (marked is None and self.container.ready_before):
            return Stage.RUNTIME
        return marked

    @cached_property
    def _died_serving(self) -> bool:
        return any(_SERVED.search(line.text) for line in self.lines)

    def _framed_stage(self, index: int, marked: Stage | None) -> Stage | None:
        names, whole = self._frames(index)
        return frame_stage(names, whole=whole, marked=None if self.served else marked)

    def frames(self, index: int) -> set[str]:
        """Return the function names of the traceback that ends at a line."""
        return self._frames(index)[0]

    def is_teardown(self, index: int) -> bool:
        """Whether an error came while the process groups were taken down: it explains nothing."""
        return bool(_TEARDOWN & self.frames(index))

    def _frames(self, index: int) -> tuple[set[str], bool]:
        process = self.lines[index].process
        names: set[str] = set()
        whole = False
        back = (self.lines[i] for i in range(index - 1, max(-1, index - _BLOCK_LINES), -1))
        if found := _METHOD.search(self.lines[index].text):
            names.add(found[1])
            whole = True
        for line in (line for line in back if line.process == process):
            if whole or line.text.strip().startswith(_HEADER):
                whole = True
                break
            if found := _FRAME.match(line.text):
                names.add(found[1])
        return names | self._chained(index, process), whole

    def _chained(self, index: int, process: str) -> set[str]:
        """Return the frames of the tracebacks that say they follow from this one."""
        names: set[str] = set()
        linked = False
        after = (line for line in self.lines[index + 1 : index + _BLOCK_LINES])
        for position, line in enumerate(islice((x for x in after if x.process == process), 200)):
            if _CHAIN.search(line.text):
                linked = True
            elif position > 4 and not linked:
                break
            elif linked and (found := _FRAME.match(line.text)):
                names.add(found[1])
        return names


def is_telling(text: str) -> bool:
    """Tell whether a traceback's line names a function that decides a stage."""
    found = _FRAME.match(text)
    return bool(found and found[1] in TELLING) or text.strip().startswith(_HEADER)


def _rank_of(process: str) -> tuple[str, str]:
    """Return kind and rank of a process name: ``Worker_TP3:201`` is ("Worker_TP", "3")."""
    name = process.partition(":")[0]
    base = name.rstrip("0123456789")
    return base, name[len(base) :]


def _printed_by_several(marks: list[tuple[int, Stage, str]], stage: Stage) -> bool:
    return len({name for _, marked, name in marks if marked is stage}) > 1


def furthest(stages: Iterable[Stage]) -> Stage | None:
    """Return the last of some stages in the order of a start."""
    return max(stages, key=ORDER.index, default=None)


def frame_stage(names: set[str], *, whole: bool, marked: Stage | None) -> Stage | None:
    """Return the stage that a traceback's functions belong to.

    Inner functions are shared (a profile run and a warm-up both run the dummy batch, and the old
    engine profiled with ``execute_model``), so the telling ones are asked first. Of a traceback
    whose head is missing only those count that no other stage calls.
    """
    if names & _SERVING:
        return Stage.RUNTIME
    if names & _SAMPLER:
        return Stage.WARMUP
    if names & _PROFILE:
        return Stage.PROFILE
    if "load_model" in names:
        return Stage.LOAD
    return _whole_frame_stage(names, marked) if whole else None


def _whole_frame_stage(names: set[str], marked: Stage | None) -> Stage | None:
    if names & _GRAPHS:
        return Stage.GRAPHS
    if names & _WARM:
        return Stage.WARMUP if marked is Stage.WARMUP else Stage.GRAPHS
    if marked is Stage.PROFILE and names & _RUNTIME:
        return Stage.PROFILE
    for telling, stage in ((_KV, Stage.KV), (_LOAD, Stage.LOAD), (_RUNTIME, Stage.RUNTIME)):
        if names & telling:
            return stage
    return Stage.INIT if names & _INIT else None
