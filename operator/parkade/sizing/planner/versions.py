"""Which rules of the planner an engine version has. Versions read: 0.20 to 0.33."""

from __future__ import annotations

import re
from dataclasses import dataclass

OLDEST = (0, 20)
NEWEST = (0, 33)
DEFAULT_VERSION = "0.32.0"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in force, by the release that brought them (see facts in each comment)."""

    version: tuple[int, int]
    warning: str | None = None

    @property
    def padding_factor(self) -> float:
        """Buckets closer than this factor share the larger size."""
        return 1.5

    @property
    def pads_pages(self) -> bool:
        """Pages that do not divide the largest are padded, rather than refused."""
        return self.version >= (0, 29)

    @property
    def merges_buckets(self) -> bool:
        """Layers that differ only in a window they merely compute with share a bucket."""
        return self.version >= (0, 29)

    @property
    def falls_back_to_full(self) -> bool:
        """MLA beside an unfitting window: the window keeps all tokens."""
        return self.version >= (0, 31)

    @property
    def reserves_null_block(self) -> bool:
        """The fit check leaves out the block that the pool keeps for itself."""
        return self.version >= (0, 29)

    @property
    def counts_concurrent_batches(self) -> bool:
        """Tokens in flight count once per concurrent batch, not once."""
        return self.version >= (0, 26)

    @property
    def caches_prefixes_of_hybrids(self) -> bool:
        """Prefix caching is on by default for models with constant state."""
        return self.version >= (0, 26)

    @property
    def exports_prefill_checkpoints(self) -> bool:
        """Mamba2 keeps one more block in align mode for a prefill checkpoint."""
        return self.version >= (0, 29)

    @property
    def runs_v2_model_runner(self) -> bool:
        """Pipeline parallelism has one batch more than stages in flight."""
        return self.version >= (0, 29)


def rules_for(version: str) -> Rules | None:
    """Return the rules of an engine version, or None where the text is no version."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})", version.strip())
    if match is None:
        return None
    found = (int(match[1]), int(match[2]))
    used = min(max(found, OLDEST), NEWEST)
    if used == found:
        return Rules(found)
    age = "older" if found < OLDEST else "newer"
    return Rules(
        used,
        f"vLLM {version} is {age} than the versions whose rules are known; "
        f"those of {used[0]}.{used[1]} are used",
    )
