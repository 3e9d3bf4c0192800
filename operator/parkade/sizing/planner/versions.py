"""Which rules of the planner an engine version has. Versions read: 0.20 to 0.33."""

from __future__ import annotations

import re
from dataclasses import dataclass

OLDEST = (0, 20)
NEWEST = (0, 33)
DEFAULT_VERSION = "0.32.0"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in force, each with the release that brought it.

    Read in the published source of 0.20.2, 0.21.0, 0.22.1, 0.23.0, 0.24.0, 0.25.1, 0.26.0,
    0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.31.0, 0.32.0 and 0.33.0.
    """

    version: tuple[int, int]
    warning: str | None = None

    @property
    def padding_factor(self) -> float:
        """Buckets closer than this factor share the larger size."""
        return 1.5

    @property
    def pads_attention_pages(self) -> bool:
        """Attention pages that do not divide the largest are padded, rather than refused."""
        return self.version >= (0, 24)

    @property
    def pads_state_pages(self) -> bool:
        """States are padded to a larger page that a drafter brings, rather than refused."""
        return self.version >= (0, 26)

    @property
    def merges_buckets(self) -> bool:
        """Layers that differ only in a window they merely compute with share a bucket."""
        return self.version >= (0, 27)

    @property
    def falls_back_to_full(self) -> bool:
        """MLA beside a window that does not fit: the window keeps all tokens."""
        return self.version >= (0, 27)

    @property
    def fits_windows_to_kernel(self) -> bool:
        """Windows take the largest kernel block within the configured one, not that one."""
        return self.version >= (0, 25)

    @property
    def retains_for_mtp_chain(self) -> bool:
        """Windows keep the tokens that a chain of MTP modules may read again."""
        return self.version >= (0, 28)

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
        return self.version >= (0, 28)

    @property
    def caches_every_state(self) -> bool:
        """Prefix caching of Mamba keeps a state per block (mode ``all``), where supported."""
        return self.version < (0, 28)

    @property
    def aligns_instead_when_drafting(self) -> bool:
        """With a drafter, mode ``all`` gives way to ``align``."""
        return self.version < (0, 22)

    @property
    def mla_alignment(self) -> int:
        """Blocks of hybrids with MLA are multiples of this."""
        return 128 if self.version >= (0, 27) else 1

    @property
    def shares_indexers(self) -> bool:
        """Layers that share an indexer keep no cache for it."""
        return self.version >= (0, 24)

    @property
    def rounds_to_kernel_block(self) -> bool:
        """The aligned block is a multiple of every kernel's smallest block."""
        return self.version >= (0, 32)

    @property
    def mamba2_exports_checkpoints(self) -> bool:
        """Mamba2 keeps one more block in align mode for a state inside a prompt."""
        return self.version >= (0, 32)

    @property
    def kda_exports_checkpoints(self) -> bool:
        """KDA does so where its prefill kernel can (FlashKDA)."""
        return self.version >= (0, 29)

    @property
    def gated_delta_checkpoint_alignment(self) -> int | None:
        """Gated DeltaNet does so too, on boundaries of this many tokens (FlashInfer prefill)."""
        return 64 if self.version >= (0, 33) else None

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
