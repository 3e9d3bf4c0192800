"""The engine's options that decide its cache, under the engine's own names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from parkade.sizing.architecture.model import ModelArchitecture
from parkade.sizing.planner.dtypes import DTYPE_BYTES
from parkade.sizing.planner.versions import DEFAULT_VERSION, rules_for

# Drafters that read the target's hidden states (``SpeculativeConfig.use_eagle``, 0.32).
EAGLE_METHODS = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
# Drafters with layers of their own in a second configuration file.
DRAFT_MODEL_METHODS = frozenset({"eagle", "eagle3", "dflash", "dspark", "draft_model"})
# Drafters that the engine schedules asynchronously; others switch that off.
ASYNC_METHODS = EAGLE_METHODS | {"draft_model", "ngram_gpu"}
METHODS = EAGLE_METHODS | DRAFT_MODEL_METHODS | {"ngram", "ngram_gpu", "suffix"}
MAMBA_DTYPES = ("auto", "float32", "float16", "bfloat16")
# Defaults that the engine changes only for the card at hand.
DEFAULT_BLOCK_SIZE = 16
_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What ``vllm serve`` is started with. ``None`` leaves a choice to the engine.

    ``max_num_batched_tokens`` has no default that fits every card: the API server takes 16384
    from 160 GiB, 8192 from 70 GiB, else 2048; 8192 stands here. ``kernel_block_alignment`` is
    the smallest block of the attention backend in tokens.
    """

    max_model_len: int
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    max_num_batched_tokens: int = 8192
    block_size: int | None = None
    enable_prefix_caching: bool | None = None
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    disable_hybrid_kv_cache_manager: bool = False
    async_scheduling: bool = True
    spec_method: str | None = None
    num_speculative_tokens: int = 0
    draft_architecture: ModelArchitecture | None = None
    kernel_block_alignment: int = 16
    vllm_version: str = DEFAULT_VERSION

    def problem(self) -> str | None:
        """Return what is wrong with these options in one line, or None."""
        return self._number_problem() or self._format_problem() or self._drafter_problem()

    def _number_problem(self) -> str | None:
        for name, low, high in (
            ("max_model_len", 1, _LIMIT),
            ("max_num_batched_tokens", 1, _LIMIT),
            ("tensor_parallel_size", 1, 4096),
            ("pipeline_parallel_size", 1, 4096),
            ("kernel_block_alignment", 1, 1 << 20),
            ("num_speculative_tokens", 0, 1 << 16),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                return f"{name} is {value!r}, not a whole number from {low} to {high}"
        if self.block_size is not None and not 1 <= self.block_size <= 1 << 20:
            return f"block_size is {self.block_size}, not a whole number from 1 to {1 << 20}"
        return None

    def _format_problem(self) -> str | None:
        if rules_for(self.vllm_version) is None:
            return f"vllm_version is {self.vllm_version!r}, not a version such as 0.32.0"
        if self.kv_cache_dtype != "auto" and self.kv_cache_dtype not in DTYPE_BYTES:
            known = ", ".join(["auto", *sorted(DTYPE_BYTES)])
            return f"kv_cache_dtype {self.kv_cache_dtype!r} is not modelled; known are {known}"
        for name in ("mamba_cache_dtype", "mamba_ssm_cache_dtype"):
            if getattr(self, name) not in MAMBA_DTYPES:
                return f"{name} is {getattr(self, name)!r}, none of {', '.join(MAMBA_DTYPES)}"
        return None

    def _drafter_problem(self) -> str | None:
        if self.spec_method is None:
            if self.num_speculative_tokens:
                return "num_speculative_tokens is given without a spec method"
            return None
        if self.spec_method not in METHODS:
            return f"spec method {self.spec_method!r} is none of {', '.join(sorted(METHODS))}"
        if not self.num_speculative_tokens:
            return f"spec method {self.spec_method} needs num_speculative_tokens"
        if self.spec_method in DRAFT_MODEL_METHODS and self.draft_architecture is None:
            return f"spec method {self.spec_method} needs the configuration of its draft model"
        return None
