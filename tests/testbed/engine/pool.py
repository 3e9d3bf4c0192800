"""Who holds how many blocks, without touching every request at every step.

All decoding sequences move in step, so their lengths follow from one counter. Bounds from sums
tell in constant time that the pool cannot be short; only near its end are blocks counted one by
one.
"""

import math
from collections.abc import Iterable

from testbed.engine.blocks import Layout
from testbed.engine.requests import Request


class Pool:
    """The blocks of one engine, one of which is the null block that nobody gets."""

    def __init__(self, layout: Layout, num_blocks: int, tokens_per_step: float) -> None:
        self.layout = layout
        self.capacity = max(num_blocks - 1, 0)
        self.step = 0  # decode steps so far
        self.decoding = 0
        self._rate = tokens_per_step
        self._lengths_at_join = 0
        self._joined_steps = 0

    def join(self, request: Request) -> None:
        """A request's prompt is computed and its first token is there."""
        left = request.output_tokens - request.decoded_before
        request.joined_step = self.step
        request.finish_step = self.step + math.ceil(max(left, 0) / self._rate)
        request.decoding = True
        self.decoding += 1
        self._lengths_at_join += request.prompt_tokens + request.decoded_before
        self._joined_steps += request.joined_step

    def leave(self, request: Request, *, finished: bool = False) -> None:
        """A request finishes or is preempted; what it generated is written down."""
        self.decoding -= 1
        self._lengths_at_join -= request.prompt_tokens + request.decoded_before
        self._joined_steps -= request.joined_step
        request.decoded_before = request.output_tokens if finished else self.generated(request)
        request.decoding = False

    def generated(self, request: Request) -> int:
        """Tokens so far."""
        if not request.decoding:
            return request.decoded_before
        gained = int((self.step - request.joined_step) * self._rate)
        return min(request.output_tokens, request.decoded_before + gained)

    def mean_context(self) -> float:
        """Tokens in the cache of a decoding sequence, on average."""
        if not self.decoding:
            return 0.0
        steps = self.step * self.decoding - self._joined_steps
        return (self._lengths_at_join + steps * self._rate) / self.decoding

    def _length(self, request: Request, steps: int = 0) -> int:
        if not request.decoding:
            return request.computed
        ahead = math.ceil(steps * self._rate)
        return request.prompt_tokens + self.generated(request) + ahead

    def used_blocks(self, running: Iterable[Request], steps: int = 0) -> int:
        """Blocks in use, counted one by one, after so many more steps."""
        blocks = self.layout.blocks
        return sum(blocks(self._length(request, steps)) for request in running)

    def free_blocks(self, running: Iterable[Request]) -> int:
        """Blocks for new requests, once all that run took a step and prompts have all of theirs."""
        return self.capacity - self._needed_blocks(running)

    def fits(self, running: Iterable[Request], prompts: int, count: int) -> bool:
        """Whether `count` requests can go on for a step; `prompts` are the tokens in prefill."""
        bound = self._at_most(count, 1, prompts)
        return bound <= self.capacity or self._needed_blocks(running) <= self.capacity

    def _needed_blocks(self, running: Iterable[Request]) -> int:
        blocks = self.layout.blocks
        return sum(
            blocks(self._length(request, 1) if request.decoding else request.to_compute)
            for request in running
        )

    def steps_that_fit(self, running: dict[Request, None], steps: int) -> int:
        """The largest number of steps up to `steps` for which there are blocks; at least one."""
        if self._at_most(len(running), steps) <= self.capacity:
            return steps
        low, high = 1, steps
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.used_blocks(running, middle) <= self.capacity
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def _at_most(self, running: int, steps: int, prompts: int = 0) -> float:
        """An upper bound on the blocks in use: each sequence's last block is taken as full."""
        tokens = self.mean_context() * self.decoding + prompts
        tokens += running * (math.ceil(steps * self._rate) + self.layout.block_size)
        full = self.layout.full_groups * tokens / self.layout.block_size
        return full + running * self.layout.state_blocks
