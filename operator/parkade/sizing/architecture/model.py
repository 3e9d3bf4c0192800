"""What the planner knows of a model: its caches, layer by layer, and a few sizes around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class AttentionCache:
    """Keys and values of one attention layer, before tensor parallelism.

    A window or a chunk bounds how far back the layer looks; with neither it keeps every token.
    ``own_dtype``: the layer is not told of ``--kv-cache-dtype`` and keeps the model's type.
    """

    num_kv_heads: int
    head_size: int
    head_size_v: int
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    own_dtype: bool = False


@dataclass(frozen=True, slots=True)
class MLACache:
    """One latent vector per token (``kv_lora_rank`` + ``qk_rope_head_dim``), on every rank.

    ``sparse`` layers read it through an index; ``leads_index_group`` says that this layer has
    the indexer itself, rather than sharing that of an earlier one.
    """

    head_size: int
    sparse: bool = False
    leads_index_group: bool = False
    sliding_window: int | None = None


@dataclass(frozen=True, slots=True)
class IndexerCache:
    """Keys of a sparse indexer: fp8 with one fp32 scale per ``quant_block`` values, else bf16.

    ``shared``: the checkpoint lets this layer use the choice of an earlier one; engines before
    0.24 kept the cache all the same. ``kernel_block`` is the one block that its kernel reads.
    """

    head_size: int
    quant_block: int | None = 128
    shared: bool = False
    kernel_block: int = 64

    @property
    def bytes_per_token(self) -> int:
        """Bytes per token: 132 for 128 values (``Indexer.__init__``, deepseek_v2.py, 0.32)."""
        if self.quant_block is None:
            return self.head_size * 2
        return self.head_size + self.head_size // self.quant_block * 4


@dataclass(frozen=True, slots=True)
class GatedDeltaState:
    """Gated DeltaNet: a convolution tail and a matrix per value head."""

    num_k_heads: int
    num_v_heads: int
    head_k_dim: int
    head_v_dim: int
    conv_kernel: int


@dataclass(frozen=True, slots=True)
class Mamba2State:
    """Mamba2: a convolution tail over values and groups, and a matrix per head."""

    intermediate_size: int
    n_groups: int
    num_heads: int
    head_dim: int
    state_size: int
    conv_kernel: int


@dataclass(frozen=True, slots=True)
class Mamba1State:
    """Mamba: a convolution tail and a vector per channel. It knows no speculative tail."""

    intermediate_size: int
    state_size: int
    conv_kernel: int


@dataclass(frozen=True, slots=True)
class LinearAttentionState:
    """Lightning attention: one square matrix per head."""

    num_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class ShortConvState:
    """A convolution tail alone (LFM2)."""

    intermediate_size: int
    conv_kernel: int


@dataclass(frozen=True, slots=True)
class KimiDeltaState:
    """Kimi Delta Attention: a convolution tail over q, k and v, and a matrix per head.

    ``exports_checkpoints``: its prefill kernel can store a state in the middle of a prompt, for
    which the engine keeps one more block. ``float32_only``: the layer does not ask for
    ``--mamba-ssm-cache-dtype``.
    """

    num_heads: int
    head_dim: int
    conv_kernel: int
    exports_checkpoints: bool = False
    float32_only: bool = False


State: TypeAlias = (
    GatedDeltaState
    | Mamba2State
    | Mamba1State
    | LinearAttentionState
    | ShortConvState
    | KimiDeltaState
)
Cache: TypeAlias = AttentionCache | MLACache | IndexerCache | State
# What one decoder layer keeps; empty where it keeps nothing (shared caches, pure MLP layers).
DecoderLayer: TypeAlias = tuple[Cache, ...]


@dataclass(frozen=True, slots=True)
class Feed:
    """The feed-forward part, for estimates of weights and activations."""

    intermediate_size: int
    num_experts: int
    num_experts_per_token: int
    moe_intermediate_size: int
    shared_intermediate_size: int


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """A model that the planner understands; sizes are those of the file, before any split.

    ``kv_cache_dtype`` is what the checkpoint forces when the engine is left on ``auto`` (None:
    the model's own dtype); ``mamba_ssm_dtype`` what it wants for recurrent states.
    ``mtp_layers`` are the caches that the MTP drafter adds, ``num_mtp_modules`` what the
    configuration calls ``num_nextn_predict_layers``. ``mamba_chunk_size`` is set where older
    engines cached a state for every block (mode ``all``), ``last_version`` where newer engines
    no longer run the architecture.
    """

    name: str
    model_type: str
    layers: tuple[DecoderLayer, ...]
    dtype: str
    num_attention_heads: int
    num_kv_heads: int
    head_size: int
    hidden_size: int
    vocab_size: int
    max_position_embeddings: int | None
    feed: Feed
    tie_word_embeddings: bool
    uses_mla: bool = False
    is_hybrid: bool = False
    kv_cache_dtype: str | None = None
    quantization: str | None = None
    mamba_ssm_dtype: str | None = None
    mtp_layers: tuple[DecoderLayer, ...] = ()
    num_mtp_modules: int = 0
    chunked_local_attention: bool = False
    mamba_chunk_size: int | None = None
    last_version: tuple[int, int] | None = None

    @property
    def is_attention_free(self) -> bool:
        """Whether no layer grows with the length of a request."""
        return not any(
            isinstance(cache, AttentionCache | MLACache | IndexerCache)
            for cache in self.distinct_caches
        )

    @property
    def caches(self) -> tuple[Cache, ...]:
        """Every cache of the model, in the order in which the engine registers them."""
        return tuple(cache for layer in self.layers for cache in layer)

    @property
    def distinct_caches(self) -> tuple[Cache, ...]:
        """The caches that differ: a family's reader uses one object for all equal layers."""
        return tuple({id(cache): cache for layer in self.layers for cache in layer}.values())

    @property
    def num_hidden_layers(self) -> int:
        """Decoder layers, those without a cache included."""
        return len(self.layers)


@dataclass(frozen=True, slots=True)
class UnsupportedArchitecture:
    """A refusal: the architecture's name and why it cannot be planned.

    ``malformed``: the file says what no model can be, rather than what is not understood.
    """

    name: str
    reason: str
    malformed: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"
