"""vLLM's scheduler on a simulated clock: admission by blocks, batching, preemption.

Each step gives every decoding sequence its tokens, then spends what is left of
`max_num_batched_tokens` on prompts in chunks: first running ones, then waiting ones, as long as
fewer than `max_num_seqs` run and the whole prompt fits into the free blocks. Where decoding finds
no block, the last that came is preempted and computed again (`v1/core/sched/scheduler.py`, 0.32).

The clock jumps: while nothing but decoding happens, many steps are one event. Nothing here reads
a real clock; `advance` is told the time.
"""

import heapq
import itertools
import math
from collections import deque
from dataclasses import dataclass

from testbed.engine.blocks import Layout
from testbed.engine.metrics import Metrics
from testbed.engine.pool import Pool
from testbed.engine.requests import Request
from testbed.engine.steptimes import StepTimes

# A jump ends when the context has grown by this share, so that step times stay right.
_CONTEXT_GROWTH = 0.02
_LEAST_JUMP_STEPS = 16
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of the scheduler."""

    max_num_seqs: int
    max_num_batched_tokens: int
    num_speculative_tokens: int = 0


@dataclass(slots=True)
class Segment:
    """Steps of one composition: `steps` times `seconds` from `start` on."""

    start: float
    seconds: float
    steps: int
    chunks: list[tuple[Request, int]]  # prompts in this step and how far it takes them
    decoding: int


class Scheduler:
    """The engine between its queue and its metrics."""

    def __init__(
        self, limits: Limits, layout: Layout, num_blocks: int, times: StepTimes, metrics: Metrics
    ) -> None:
        self.limits = limits
        self.times = times
        self.metrics = metrics
        self.now = 0.0
        self.waiting: deque[Request] = deque()
        self.running: dict[Request, None] = {}  # in the order of admission
        self.pool = Pool(layout, num_blocks, times.tokens_per_step)
        self._prefilling: dict[Request, None] = {}
        self._finishing: list[tuple[int, int, Request]] = []
        self._serial = itertools.count()  # breaks ties among those that finish together
        self._segment: Segment | None = None

    # What comes in from outside.

    def add(self, request: Request) -> None:
        """Queue a request at its time of arrival; the step under way is finished first."""
        self.advance(request.arrival)
        self.waiting.append(request)
        if self._segment and len(self.running) < self.limits.max_num_seqs:
            self._segment.steps = min(self._segment.steps, 1)

    def abort(self, request: Request) -> None:
        """Forget a request whose client has gone; nothing is recorded of it."""
        request.aborted = True
        if request in self.running:
            self._release(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        if self._segment:
            self._segment.steps = min(self._segment.steps, 1)

    def advance(self, until: float) -> None:
        """Let the clock run to `until`; a step that is not over by then stays under way."""
        while True:
            if self._segment is None:
                self.now = (
                    max(self.now, until) if not self.running and not self.waiting else self.now
                )
                self._segment = self._plan()
            segment = self._segment
            if segment is None:
                self.now = max(self.now, until)
                return
            ended = math.floor((until - segment.start) / segment.seconds + _EPSILON)
            done = min(segment.steps, ended)
            if done <= 0:
                return
            self._complete(segment, done)

    def next_event(self) -> float | None:
        """When something will have happened, if nothing comes in; None when idle."""
        if self._segment is None:
            self._segment = self._plan()
        segment = self._segment
        return None if segment is None else segment.start + segment.steps * segment.seconds

    # What can be read at any time.

    def generated(self, request: Request) -> int:
        """Tokens that the request has produced by now."""
        return self.pool.generated(request)

    def generation_tokens(self) -> int:
        """Tokens generated so far by all requests, also those that still run."""
        running = sum(map(self.generated, self.running)) + sum(map(self.generated, self.waiting))
        return self.metrics.generation_tokens_finished + running

    def kv_cache_usage(self) -> float:
        """Share of the blocks that are in use, without the null block."""
        total = self.pool.capacity
        return self.pool.used_blocks(self.running) / total if total else 0.0

    # One step.

    def _plan(self) -> Segment | None:
        if not self.running and not self.waiting:
            return None
        preempted = self._make_room()
        budget = self.limits.max_num_batched_tokens
        budget -= self.pool.decoding * (1 + self.limits.num_speculative_tokens)
        chunks: list[tuple[Request, int]] = []
        for request in self._prefilling:
            budget = self._chunk(request, budget, chunks)
        if not preempted:
            budget = self._admit(budget, chunks)
        batch = self.pool.decoding
        if not chunks and not batch:
            return None
        if chunks:
            return Segment(self.now, self._seconds(chunks), 1, chunks, batch)
        steps = self._jump()
        context = self.pool.mean_context() + self.times.tokens_per_step * steps / 2
        return Segment(self.now, self.times.decode_seconds(batch, context), steps, [], batch)

    def _chunk(self, request: Request, budget: int, chunks: list[tuple[Request, int]]) -> int:
        tokens = min(request.to_compute - request.computed, budget)
        if tokens <= 0:
            return budget
        chunks.append((request, request.computed + tokens))
        return budget - tokens

    def _admit(self, budget: int, chunks: list[tuple[Request, int]]) -> int:
        if not self.waiting or budget <= 0 or len(self.running) >= self.limits.max_num_seqs:
            return budget
        free = self.pool.free_blocks(self.running)
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            request = self.waiting[0]
            needed = self.pool.layout.blocks(request.to_compute)
            if needed > free:
                break
            free -= needed
            self.waiting.popleft()
            self._start(request)
            budget = self._chunk(request, budget, chunks)
        return budget

    def _start(self, request: Request) -> None:
        """Move a request into the batch; a cached prefix need not be computed."""
        request.computed = 0 if request.preemptions else request.cache_hits
        self.running[request] = None
        self._prefilling[request] = None
        self.metrics.prefix_cache_queries += request.to_compute
        self.metrics.prefix_cache_hits += request.computed
        if request.scheduled_at is None:
            request.scheduled_at = self.now

    def _seconds(self, chunks: list[tuple[Request, int]]) -> float:
        seconds = sum(self.times.prefill_seconds(r.computed, end) for r, end in chunks)
        if self.pool.decoding:
            seconds += self.times.decode_seconds(self.pool.decoding, self.pool.mean_context())
        return max(seconds, 1e-6)

    def _jump(self) -> int:
        """How many steps can pass before anything changes."""
        to_finish = self._next_finish() - self.pool.step
        growth = self.pool.mean_context() * _CONTEXT_GROWTH / self.times.tokens_per_step
        steps = max(1, min(to_finish, max(_LEAST_JUMP_STEPS, int(growth))))
        return self.pool.steps_that_fit(self.running, steps)

    def _next_finish(self) -> int:
        while self._finishing:
            step, _, request = self._finishing[0]
            if request.decoding and request.finish_step == step:
                return step
            heapq.heappop(self._finishing)
        return self.pool.step + 1

    def _make_room(self) -> bool:
        """Preempt the latest requests until all others can take one step."""
        preempted = False
        while len(self.running) > 1:
            prompts = sum(request.to_compute for request in self._prefilling)
            if self.pool.fits(self.running, prompts, len(self.running)):
                break
            request = next(reversed(self.running))
            self._release(request)
            request.preemptions += 1
            self.metrics.num_preemptions += 1
            self.waiting.appendleft(request)
            preempted = True
        return preempted

    def _release(self, request: Request) -> None:
        """Take a request out of the batch; its tokens stay, its cache does not."""
        del self.running[request]
        self._prefilling.pop(request, None)
        if request.decoding:
            self.pool.leave(request)
        request.computed = 0

    # What a step leads to.

    def _complete(self, segment: Segment, done: int) -> None:
        start, seconds = segment.start, segment.seconds
        self.now = start + seconds * done
        self.pool.step += done
        self._count(segment, done)
        for request, end in segment.chunks:
            if not request.aborted:
                self._computed(request, end)
        while self._finishing and self._next_finish() <= self.pool.step and self._finishing:
            self._finish(heapq.heappop(self._finishing)[2])
        rest = segment.steps - done
        segment.start, segment.steps = self.now, rest
        self._segment = segment if rest else None

    def _count(self, segment: Segment, done: int) -> None:
        chunks = segment.chunks
        tokens = sum(end - request.computed for request, end in chunks if not request.aborted)
        decoded = segment.decoding * (1 + self.limits.num_speculative_tokens)
        self.metrics.observe("iteration_tokens_total", tokens + decoded, done)
        if segment.decoding:
            outputs = segment.decoding * done
            self.metrics.observe("inter_token_latency_seconds", segment.seconds, outputs)
            if self.limits.num_speculative_tokens:
                self.metrics.num_drafts += outputs
                self.metrics.num_draft_tokens += outputs * self.limits.num_speculative_tokens
                self.metrics.num_accepted_tokens += outputs * (self.times.tokens_per_step - 1)

    def _computed(self, request: Request, end: int) -> None:
        request.computed = end
        if end < request.to_compute:
            return
        del self._prefilling[request]
        if request.first_token_at is None:
            request.first_token_at = self.now
            self.metrics.prompt_tokens += request.prompt_tokens
            self.metrics.prompt_tokens_cached += request.cache_hits
            self.metrics.observe("time_to_first_token_seconds", self.now - request.arrival)
        request.decoded_before += 1
        self.pool.join(request)
        heapq.heappush(self._finishing, (request.finish_step, next(self._serial), request))

    def _finish(self, request: Request) -> None:
        self.pool.leave(request, finished=True)
        del self.running[request]
        request.finished = True
        request.finished_at = self.now
        self._record(request)
        if request.on_finish:
            request.on_finish(request)

    def _record(self, request: Request) -> None:
        """What vLLM observes when a request ends (`v1/metrics/loggers.py`)."""
        metrics, tokens = self.metrics, request.decoded_before
        scheduled, first = request.scheduled_at or 0.0, request.first_token_at or 0.0
        decode = self.now - first
        metrics.success[request.finish_reason] += 1
        metrics.generation_tokens_finished += tokens
        metrics.observe("request_prompt_tokens", request.prompt_tokens)
        metrics.observe("request_generation_tokens", tokens)
        metrics.observe("request_max_num_generation_tokens", tokens)
        metrics.observe("request_params_n", 1)
        metrics.observe("request_params_max_tokens", request.max_tokens)
        metrics.observe("e2e_request_latency_seconds", self.now - request.arrival)
        metrics.observe("request_queue_time_seconds", scheduled - request.arrival)
        metrics.observe("request_inference_time_seconds", self.now - scheduled)
        metrics.observe("request_prefill_time_seconds", first - scheduled)
        metrics.observe("request_decode_time_seconds", decode)
        per_token = decode / (tokens - 1) if tokens > 1 else 0.0
        metrics.observe("request_time_per_output_token_seconds", per_token)
        metrics.observe("request_num_preemptions", request.preemptions)
        metrics.observe(
            "request_prefill_kv_computed_tokens", request.prompt_tokens - request.cache_hits
        )
