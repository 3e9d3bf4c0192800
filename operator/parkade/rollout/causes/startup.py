"""What an engine printed about its memory while it started."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StartupReport:
    """Figures of the last start in a log; ``None`` where the text does not say.

    All are per GPU and of the smallest rank where ranks differ: the smallest of what is free or
    available, the largest of what is used. Sizes are printed in GiB with two decimals, so each
    is known to plus or minus ``rounding_bytes``.
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
    non_torch_bytes: int | None = None
    """Printed up to 0.26."""
    consumed_bytes: int | None = None
    """Weights and everything else that stays; printed since 0.27."""
    graph_bytes_estimated: int | None = None
    graph_bytes_actual: int | None = None
    non_kv_bytes: int | None = None
    """Requested minus available minus the graph estimate: what is neither KV cache nor graphs."""
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

    rounding_bytes: int = 5 * 2**20 + 128 * 2**10
    """Half of the last printed digit, 0.005 GiB, rounded up."""


def read_startup(text: str) -> StartupReport:
    """Read the last start in an engine log."""
    _ = text
    return StartupReport()
