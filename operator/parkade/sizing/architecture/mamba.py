"""Mamba and Mamba2, alone and beside attention.

Source: the ``get_mamba_state_shape_from_config`` of each model in vllm/model_executor/models/,
0.32.0, and the configuration classes of transformers 5.19 for what a file may leave out.
"""

from __future__ import annotations

from dataclasses import replace

from parkade.sizing.architecture.common import (
    Family,
    attention_cache,
    hidden_size,
    num_heads,
    num_layers,
)
from parkade.sizing.architecture.fields import FieldError, Fields, NotUnderstoodError
from parkade.sizing.architecture.model import (
    AttentionCache,
    DecoderLayer,
    Mamba1State,
    Mamba2State,
    ShortConvState,
    State,
)

_ATTENTION_WORDS = ("attention", "full_attention")
_STATE_WORDS = ("mamba", "linear_attention", "conv")
# One layer of Nemotron-H by its letter: mamba, attention, feed-forward, experts.
_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
# Older engines cut prompts of Mamba1 into chunks of this many tokens.
_MAMBA1_CHUNK = 2048


def jamba(fields: Fields, model_type: str) -> Family:
    """Jamba: Mamba, with attention on every ``attn_layer_period``-th layer."""
    del model_type
    cache = attention_cache(fields)
    period = fields.integer("attn_layer_period", default=8)
    offset = fields.integer("attn_layer_offset", default=4, low=0)
    if offset >= period:
        raise FieldError(
            f"{fields.path('attn_layer_offset')} is {offset}, not below the period {period}"
        )
    state = Mamba1State(
        intermediate_size=fields.integer("mamba_expand") * hidden_size(fields),
        state_size=fields.integer("mamba_d_state"),
        conv_kernel=fields.integer("mamba_d_conv"),
    )
    layers = tuple(
        (cache,) if index % period == offset else (state,) for index in range(num_layers(fields))
    )
    return _hybrid(cache, layers, _MAMBA1_CHUNK)


def bamba(fields: Fields, model_type: str) -> Family:
    """Bamba: Mamba2, with attention where ``attn_layer_indices`` says; engines before 0.23."""
    del model_type
    cache = attention_cache(fields)
    attending = set(fields.integers("attn_layer_indices") or ())
    state = _mamba2(fields)
    layers = tuple(
        (cache,) if index in attending else (state,) for index in range(num_layers(fields))
    )
    family = _hybrid(cache, layers, fields.integer("mamba_chunk_size", default=256))
    return replace(family, last_version=(0, 22))


def granite_hybrid(fields: Fields, model_type: str) -> Family:
    """Granite 4: Mamba2 and attention by ``layer_types``; some sizes are attention throughout."""
    del model_type
    cache = attention_cache(fields)
    count = num_layers(fields)
    words = (*_ATTENTION_WORDS, *_STATE_WORDS)
    name = "layer_types" if fields.raw("layer_types") is not None else "layers_block_type"
    kinds = fields.words(name, count, words) or ["mamba"] * count
    state = _mamba2(fields) if set(kinds) & set(_STATE_WORDS) else None
    layers = tuple(
        (cache,) if kind in _ATTENTION_WORDS or not state else (state,) for kind in kinds
    )
    if state is None:
        return Family(layers, cache.num_kv_heads, cache.head_size)
    return _hybrid(cache, layers, fields.integer("mamba_chunk_size", default=256))


def falcon_h1(fields: Fields, model_type: str) -> Family:
    """Falcon H1: every layer has both, attention and Mamba2."""
    del model_type
    cache = attention_cache(fields)
    inner = fields.optional_int("mamba_d_ssm")
    state = _mamba2(fields, inner)
    layers = ((cache, state),) * num_layers(fields)
    return _hybrid(cache, layers, fields.integer("mamba_chunk_size", default=256))


def zamba2(fields: Fields, model_type: str) -> Family:
    """Zamba2: Mamba2 on every layer, and on hybrid ones a shared attention with its own cache."""
    del model_type
    heads = num_heads(fields)
    size = 2 * hidden_size(fields) // heads
    cache = AttentionCache(heads, size, size)
    mamba_heads = fields.integer("n_mamba_heads")
    inner = fields.integer("mamba_expand") * hidden_size(fields)
    state = Mamba2State(
        intermediate_size=inner,
        n_groups=fields.integer("mamba_ngroups"),
        num_heads=mamba_heads,
        head_dim=_divided(fields, inner, mamba_heads, "n_mamba_heads"),
        state_size=fields.integer("mamba_d_state"),
        conv_kernel=fields.integer("mamba_d_conv"),
    )
    kinds = fields.words(
        "layers_block_type", num_layers(fields), ("hybrid", "mamba", "linear_attention")
    )
    if kinds is None:
        raise NotUnderstoodError(f"{fields.path('layers_block_type')} is missing")
    # The engine makes the shared blocks, with a cache for each use, before it makes the layers.
    shared = (cache,) * kinds.count("hybrid")
    layers: tuple[DecoderLayer, ...] = ((*shared, state), *((state,),) * (len(kinds) - 1))
    return _hybrid(cache, layers, fields.integer("chunk_size", default=256))


def nemotron_h(fields: Fields, model_type: str) -> Family:
    """Nemotron-H: a pattern of Mamba2, attention and feed-forward layers; fp32 states.

    MTP is one module whose pattern says how many of its layers attend (nemotron_h_mtp.py).
    """
    del model_type
    cache = attention_cache(fields)
    kinds = _nemotron_kinds(fields, "hybrid_override_pattern", "layers_block_type")
    if kinds is None:
        raise NotUnderstoodError(f"{fields.path('hybrid_override_pattern')} is missing")
    heads, size = fields.integer("mamba_num_heads"), fields.integer("mamba_head_dim")
    state = Mamba2State(
        intermediate_size=heads * size,
        n_groups=fields.integer("n_groups", "mamba_n_groups"),
        num_heads=heads,
        head_dim=size,
        state_size=fields.integer("ssm_state_size"),
        conv_kernel=fields.integer("conv_kernel", "mamba_d_conv"),
    )
    by_kind: dict[str, DecoderLayer] = {"mamba": (state,), "attention": (cache,)}
    layers = tuple(by_kind.get(kind, ()) for kind in kinds)
    modules = fields.optional_int("num_nextn_predict_layers", low=0, high=64) or 0
    drafter = _nemotron_kinds(fields, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    drafter = drafter or ["attention", "moe"]
    return Family(
        layers=layers,
        num_kv_heads=cache.num_kv_heads,
        head_size=cache.head_size,
        is_hybrid=True,
        mamba_ssm_dtype=fields.text("mamba_ssm_cache_dtype") or "float32",
        mtp_layers=tuple(by_kind.get(kind, ()) for kind in drafter) if modules else (),
        num_mtp_modules=modules,
        mamba_chunk_size=fields.integer("chunk_size", "mamba_chunk_size", default=128),
    )


def plamo2(fields: Fields, model_type: str) -> Family:
    """PLaMo 2: Mamba2 without groups, attention once every ``mamba_step``; before 0.26.

    Source: ``is_mamba`` and Plamo2ForCausalLM (vllm/model_executor/models/plamo2.py), 0.25.1.
    """
    del model_type
    cache = attention_cache(fields)
    count = num_layers(fields)
    heads, size = fields.integer("mamba_num_heads"), fields.integer("hidden_size_per_head")
    state = Mamba2State(
        intermediate_size=heads * size,
        n_groups=0,
        num_heads=heads,
        head_dim=size,
        state_size=fields.integer("mamba_d_state"),
        conv_kernel=fields.integer("mamba_d_conv"),
    )
    step = fields.integer("mamba_step", low=2)
    attending = set(range(count)[step // 2 :: step]) or {count - 1}
    layers = tuple((cache,) if index in attending else (state,) for index in range(count))
    family = Family(layers, cache.num_kv_heads, cache.head_size, is_hybrid=True)
    return replace(family, last_version=(0, 25))


def lfm2(fields: Fields, model_type: str) -> Family:
    """LFM2: short convolutions and attention."""
    del model_type
    cache = attention_cache(fields)
    count = num_layers(fields)
    kinds = fields.words("layer_types", count, (*_ATTENTION_WORDS, "conv"))
    if kinds is None:
        chosen = fields.integers("full_attn_idxs")
        attending = set(range(count) if chosen is None else chosen)
        kinds = ["full_attention" if index in attending else "conv" for index in range(count)]
    state = ShortConvState(
        fields.optional_int("conv_dim") or hidden_size(fields), fields.integer("conv_L_cache")
    )
    layers = tuple((state,) if kind == "conv" else (cache,) for kind in kinds)
    return Family(layers, cache.num_kv_heads, cache.head_size, is_hybrid=True)


def mamba1(fields: Fields, model_type: str) -> Family:
    """Mamba without attention."""
    del model_type
    inner = fields.optional_int("intermediate_size")
    state = Mamba1State(
        intermediate_size=inner or fields.integer("expand") * hidden_size(fields),
        state_size=fields.integer("state_size"),
        conv_kernel=fields.integer("conv_kernel"),
    )
    return _attention_free(fields, state, _MAMBA1_CHUNK)


def mamba2(fields: Fields, model_type: str) -> Family:
    """Mamba2 without attention."""
    del model_type
    state = Mamba2State(
        intermediate_size=fields.integer("expand") * hidden_size(fields),
        n_groups=fields.integer("n_groups"),
        num_heads=fields.integer("num_heads"),
        head_dim=fields.integer("head_dim"),
        state_size=fields.integer("state_size"),
        conv_kernel=fields.integer("conv_kernel"),
    )
    return _attention_free(fields, state, fields.integer("chunk_size", default=256))


def _mamba2(fields: Fields, inner: int | None = None) -> Mamba2State:
    """Read the names that Bamba, Granite 4 and Falcon H1 share; ``auto`` heads are derived."""
    inner = inner or fields.integer("mamba_expand") * hidden_size(fields)
    heads = fields.integer("mamba_n_heads")
    size = fields.raw("mamba_d_head")
    derived = _divided(fields, inner, heads, "mamba_n_heads")
    return Mamba2State(
        intermediate_size=inner,
        n_groups=fields.integer("mamba_n_groups"),
        num_heads=heads,
        head_dim=derived if size in (None, "auto") else fields.integer("mamba_d_head"),
        state_size=fields.integer("mamba_d_state"),
        conv_kernel=fields.integer("mamba_d_conv"),
    )


def _divided(fields: Fields, size: int, parts: int, name: str) -> int:
    if size % parts:
        raise FieldError(f"{fields.path(name)} is {parts}, which does not divide {size}")
    return size // parts


def _nemotron_kinds(fields: Fields, pattern_name: str, list_name: str) -> list[str] | None:
    named = fields.sequence(list_name)
    if named is not None:
        known = {"linear_attention": "mamba", "full_attention": "attention"}
        words = [known.get(str(word), str(word)) for word in named]
    else:
        pattern = fields.text(pattern_name)
        if not pattern:
            return None
        words = [_NEMOTRON_LETTERS.get(letter, letter) for letter in pattern]
    strange = set(words) - set(_NEMOTRON_LETTERS.values())
    if strange:
        raise NotUnderstoodError(f"{fields.path(pattern_name)} has layers of kind {min(strange)!r}")
    return words


def _hybrid(cache: AttentionCache, layers: tuple[DecoderLayer, ...], chunk: int) -> Family:
    return Family(
        layers=layers,
        num_kv_heads=cache.num_kv_heads,
        head_size=cache.head_size,
        is_hybrid=True,
        mamba_chunk_size=chunk,
    )


def _attention_free(fields: Fields, state: State, chunk: int) -> Family:
    return Family(
        layers=((state,),) * num_layers(fields),
        num_kv_heads=0,
        head_size=0,
        num_attention_heads=0,
        mamba_chunk_size=chunk,
    )
