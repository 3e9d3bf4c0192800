"""One request in the engine: what it asks for, and how far it has come."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Request:
    """Lengths in tokens, times in seconds of the engine's clock.

    While a request decodes, its progress is not written down: it is `decoded_before` and the
    scheduler's count of steps since `joined_step`. So a jump over many steps touches no request.
    """

    number: int
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    arrival: float
    cached_tokens: int = 0
    finish_reason: str = "length"
    on_finish: Callable[["Request"], None] | None = None

    computed: int = 0  # tokens whose cache is computed, while in prefill
    decoded_before: int = 0  # tokens generated when decoding began (again)
    joined_step: int = 0
    finish_step: int = 0
    decoding: bool = False
    finished: bool = False
    aborted: bool = False
    preemptions: int = 0
    scheduled_at: float | None = None
    first_token_at: float | None = None
    finished_at: float | None = None

    @property
    def to_compute(self) -> int:
        """Tokens that prefill must have computed: after a preemption also what was generated."""
        return self.prompt_tokens + self.decoded_before

    @property
    def cache_hits(self) -> int:
        """Tokens of the prompt that a prefix cache saves: never the last one."""
        return min(self.cached_tokens, self.prompt_tokens - 1)
