"""Log lines in the form of vLLM 0.32, and sizes in the two spellings that appear in them."""

import sys
from dataclasses import dataclass
from datetime import datetime

GIB = 1 << 30
MIB = 1 << 20
VERSION = "0.32.0"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line (or several that belong together) to be printed at a share of the start time."""

    at: float
    process: str  # "APIServer", "EngineCore" or "" for raw output
    text: str
    level: str = "INFO"
    source: str = "core.py:133"


def format_gib(size: int) -> str:
    """Two decimals at most, as vLLM's `format_gib` prints sizes."""
    return f"{round(size / GIB, 2)}"


def torch_size(size: int) -> str:
    """As torch's allocator prints sizes."""
    if size >= GIB:
        return f"{size / GIB:.2f} GiB"
    if size >= MIB:
        return f"{size / MIB:.2f} MiB"
    return f"{size / 1024:.2f} KiB"


def rendered(line: LogLine, pids: dict[str, int], now: datetime) -> str:
    """The line as it appears, each of its rows with the prefix of its process."""
    if not line.process:
        return line.text
    stamp = f"{now:%m-%d %H:%M:%S}"
    prefix = f"({line.process} pid={pids.get(line.process, 1)}) {line.level} {stamp}"
    return "\n".join(f"{prefix} [{line.source}] {row}" for row in line.text.split("\n"))


def emit(text: str) -> None:
    """Print now; container logs are followed, so nothing may stay in a buffer."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
