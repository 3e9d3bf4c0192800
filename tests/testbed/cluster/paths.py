"""Where the test equipment keeps things: a cache to keep, a state folder to throw away."""

import os
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def cache_folder() -> Path:
    """Things that take long to make and stay valid: binaries, Go itself, image layers."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """Things of running clusters: data, logs, sockets, who owns what."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def _xdg(variable: str, below_home: str) -> Path:
    base = os.environ.get(variable, "")
    # The XDG specification: a relative path is invalid and to be ignored.
    root = Path(base) if base.startswith("/") else Path.home() / below_home
    folder = root / "parkade" / "testbed"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
