"""Constant state per layer and slot: shapes, types, bytes.

Source: ``MambaStateShapeCalculator`` and ``MambaStateDtypeCalculator``
(vllm/model_executor/layers/mamba/mamba_utils.py) and the models' own use of them, 0.32.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from parkade.sizing.architecture.model import (
    GatedDeltaState,
    KimiDeltaState,
    LinearAttentionState,
    Mamba1State,
    Mamba2State,
    ShortConvState,
    State,
)
from parkade.sizing.planner.dtypes import DTYPE_BYTES
from parkade.sizing.planner.refusal import Refusal

_NARROW = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class StateLayout:
    """What one slot of a layer's state holds on one GPU."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @property
    def state_bytes(self) -> int:
        """Bytes of one slot."""
        return sum(
            prod(shape) * DTYPE_BYTES[dtype]
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )


def state_layout(
    state: State, *, tensor_parallel_size: int, lookahead: int, conv_dtype: str, ssm_dtype: str
) -> StateLayout:
    """Return the state of one layer on one GPU.

    ``lookahead`` is the number of speculative tokens, by which most convolution tails are
    longer; ``ssm_dtype`` is ``auto`` where nobody chose one. Raises Refusal where a size is
    not divisible by the tensor parallel size.
    """
    if isinstance(state, KimiDeltaState) and state.float32_only and ssm_dtype in _NARROW:
        raise Refusal(
            f"the engine does not start: Kimi Linear keeps float32 states, whatever "
            f"mamba_ssm_cache_dtype {ssm_dtype} says"
        )
    shapes = _shapes(state, tensor_parallel_size, lookahead)
    recurrent = ssm_dtype if ssm_dtype != "auto" else conv_dtype
    match state:
        case LinearAttentionState() | ShortConvState():
            dtypes: tuple[str, ...] = (conv_dtype,)
        case KimiDeltaState() if ssm_dtype == "auto":
            dtypes = (conv_dtype, "float32")
        case _:
            dtypes = (conv_dtype, recurrent)
    return StateLayout(shapes, dtypes)


def _shapes(state: State, tp: int, lookahead: int) -> tuple[tuple[int, ...], ...]:
    match state:
        case GatedDeltaState():
            return _gated_delta_shapes(state, tp, lookahead)
        case Mamba2State():
            return _mamba2_shapes(state, tp, lookahead)
        case KimiDeltaState():
            width = 3 * state.num_heads * state.head_dim
            tail = state.conv_kernel - 1 + lookahead
            heads = _split(state.num_heads, tp, "linear attention heads")
            return (
                (tail, _split(width, tp, "the convolution's width")),
                (heads, state.head_dim, state.head_dim),
            )
        case Mamba1State():
            width = _split(state.intermediate_size, tp, "the state's inner size")
            return ((state.conv_kernel - 1, width), (width, state.state_size))
        case LinearAttentionState():
            return ((state.num_heads // tp, state.head_dim, state.head_dim),)
        case ShortConvState():
            width = _split(state.intermediate_size, tp, "the convolution's width")
            return ((state.conv_kernel - 1, width),)


def _gated_delta_shapes(
    state: GatedDeltaState, tp: int, lookahead: int
) -> tuple[tuple[int, ...], ...]:
    keys = 2 * state.num_k_heads * state.head_k_dim
    width = _split(keys + state.num_v_heads * state.head_v_dim, tp, "the convolution's width")
    heads = _split(state.num_v_heads, tp, "linear attention value heads")
    return (
        (state.conv_kernel - 1 + lookahead, width),
        (heads, state.head_v_dim, state.head_k_dim),
    )


def _mamba2_shapes(state: Mamba2State, tp: int, lookahead: int) -> tuple[tuple[int, ...], ...]:
    """Replicate a single group on every rank; several must divide (mamba_mixer2.py)."""
    groups = tp if state.n_groups == 1 else state.n_groups
    _split(groups, tp, "mamba groups")
    width = state.intermediate_size + 2 * groups * state.state_size
    heads = _split(state.num_heads, tp, "mamba heads")
    return (
        (state.conv_kernel - 1 + lookahead, _split(width, tp, "the convolution's width")),
        (heads, state.head_dim, state.state_size),
    )


def _split(size: int, tp: int, what: str) -> int:
    if size % tp:
        raise Refusal(f"{what} ({size}) cannot be divided by tensor_parallel_size {tp}")
    return size // tp
