"""Attention with a window on some layers, or on all.

Which layer looks how far back is said layer by layer (``layer_types``), or follows the pattern
that the model's configuration class makes of its fields (transformers 5.19). Where all layers have
windows, or nothing names the kinds, the engine keeps one window for the whole model
(``EngineArgs.create_engine_config``, vllm/engine/arg_utils.py, 0.32.0), which every layer without
a window of its own then has. Models that do not look at ``layer_types`` know only that one.
"""

from __future__ import annotations

from collections.abc import Collection

from parkade.sizing.architecture.fields import MAX_TOKENS, Fields, NotUnderstoodError
from parkade.sizing.architecture.model import AttentionCache, DecoderLayer

FULL = "full_attention"
SLIDING = "sliding_attention"
_WORDS = (FULL, SLIDING, "attention", "chunked_attention", "global_attention", "local_attention")

# Every n-th layer is full where the class makes the pattern: the field that sets n, and n.
_FULL_EVERY = {
    "gemma2": ("", 2),
    "gemma3_text": ("sliding_window_pattern", 6),
    "gemma3n_text": ("", 5),
    "gemma4_text": ("", 6),
    "gemma4_unified_text": ("", 6),
    "cohere2": ("sliding_window_pattern", 4),
    "olmo3": ("", 4),
    "exaone4": ("sliding_window_pattern", 4),
    "exaone_moe": ("sliding_window_pattern", 4),
    "afmoe": ("global_attn_every_n_layers", 4),
    "gpt_oss": ("", 2),
    "vaultgemma": ("", 2),
}
# Every n-th layer is full, beginning with the first.
_FULL_FIRST = {"cwm": 4, "granite_swa": 4, "granitemoe_swa": 4}
# Classes that keep the window from `max_window_layers` on.
_LATE = frozenset(
    {
        "dots1",
        "dots_ocr",
        "mimo",
        "qwen2",
        "qwen2_5_omni_text",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "qwen2_vl",
        "qwen2_vl_text",
        "qwen3",
        "qwen3_omni_moe_text",
    }
)
# Classes that make every layer full, whatever the window.
_FULL_THROUGHOUT = frozenset({"laguna"})
# Classes that make every layer full where there is no window.
_FULL_WITHOUT_WINDOW = _LATE | _FULL_THROUGHOUT | {"ministral", "qwen2_moe", "smollm3"}
# Classes that drop the window unless `use_sliding_window` is set.
_GATED = (_LATE - {"dots1", "qwen3_omni_moe_text"}) | {"qwen2_moe", "qwen3_moe", "smollm3"}
# Models whose layers have no window of their own (vllm/model_executor/models/, 0.32.0).
_BLIND = frozenset(
    {
        "baichuan",
        "deepseek",
        "dots_ocr",
        "exaone",
        "glm4",
        "glm4_moe",
        "glm4v_moe_text",
        "glm4v_text",
        "hy_v3",
        "internlm2",
        "mimo",
        "minicpm",
        "minimax_m2",
        "mixtral",
        "nemotron",
        "olmoe",
        "orion",
        "phimoe",
        "qwen2",
        "qwen2_5_omni_text",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "qwen2_moe",
        "qwen2_vl",
        "qwen2_vl_text",
        "qwen3",
        "qwen3_moe",
        "qwen3_omni_moe_text",
        "qwen3_vl_moe_text",
        "qwen3_vl_text",
        "stablelm",
    }
)
# Of these, those with which the engine does not start where only some layers have a window
# (``Qwen2Model.__init__``).
_ALL_OR_NONE = _LATE - {"dots1", "qwen3_omni_moe_text"} | {"qwen3_vl_text"}
# The kernel's window counts the token itself (commandr.py, cohere2_moe.py).
_ONE_MORE = frozenset({"cohere2", "cohere2_moe"})
_LAST_FULL = frozenset({"gemma4_text", "gemma4_unified_text"})


def window_of(fields: Fields, name: str = "sliding_window") -> int | None:
    """Return the window in tokens; zero and ``null`` mean none."""
    return fields.optional_int(name, low=0, high=MAX_TOKENS) or None


def own_window(fields: Fields, model_type: str) -> int | None:
    """Return the window that the configuration class leaves in force."""
    if model_type in _GATED and not fields.flag("use_sliding_window"):
        return None
    return window_of(fields)


def layer_windows(fields: Fields, model_type: str, layers: int) -> list[int | None]:
    """Return the window of each layer, None where the layer keeps every token."""
    window = own_window(fields, model_type)
    kinds = _kinds(fields, model_type, layers, window)
    everywhere = window if kinds is None or set(kinds) == {SLIDING} else None
    if kinds is None or model_type in _BLIND:
        _check_all_or_none(fields, model_type, kinds)
        return [everywhere] * layers
    own = _own_windows(fields, model_type, layers, window)
    if model_type == "gpt_oss":
        kinds = [SLIDING if index % 2 == 0 else FULL for index in range(layers)]
    if SLIDING in kinds and own is None and fields.sequence("layer_types") is not None:
        raise NotUnderstoodError(f"{fields.path('sliding_window')} is missing for sliding layers")
    return [
        own[index] if own is not None and kind == SLIDING else everywhere
        for index, kind in enumerate(kinds)
    ]


def _check_all_or_none(fields: Fields, model_type: str, kinds: list[str] | None) -> None:
    if kinds is None or model_type not in _ALL_OR_NONE or len(set(kinds)) == 1:
        return
    if fields.optional_int("max_window_layers", low=0) != len(kinds):
        raise NotUnderstoodError(
            f"{fields.path('max_window_layers')} gives some layers a window and others none, with "
            "which the engine does not start"
        )


def _own_windows(
    fields: Fields, model_type: str, layers: int, window: int | None
) -> list[int] | None:
    """Return what each layer's window would be, were it a sliding one."""
    if model_type == "exaone_moe":
        each = fields.integers("sliding_windows", layers)
        if each is not None:
            return each
    if window is None:
        return None
    return [window + (model_type in _ONE_MORE)] * layers


def _kinds(fields: Fields, model_type: str, layers: int, window: int | None) -> list[str] | None:
    """Return the kind of each layer; None where neither the file nor the class names them."""
    kinds = fields.words("layer_types", layers, _WORDS)
    if kinds is None:
        kinds = _class_kinds(fields, model_type, layers, window)
    if kinds is not None and model_type in _LAST_FULL:
        kinds[-1] = FULL
    return kinds


def _class_kinds(
    fields: Fields, model_type: str, layers: int, window: int | None
) -> list[str] | None:
    full = _full_layers(fields, model_type, layers, window)
    if full is None:
        return None
    full = frozenset(full)
    return [FULL if index in full else SLIDING for index in range(layers)]


def _full_layers(
    fields: Fields, model_type: str, layers: int, window: int | None
) -> Collection[int] | None:
    """Return the layers that the configuration class makes full."""
    every = range(layers)
    if model_type in _FULL_EVERY:
        field, count = _FULL_EVERY[model_type]
        count = fields.optional_int(field) or count if field else count
        return every[count - 1 :: count]
    if model_type in _FULL_FIRST:
        return every[:: _FULL_FIRST[model_type]]
    if model_type == "cohere2_moe":
        return _cohere2_moe_full(fields, layers)
    if model_type not in _FULL_WITHOUT_WINDOW:
        return None
    return every if window is None else _full_beside_window(fields, model_type, every)


def _full_beside_window(fields: Fields, model_type: str, every: range) -> Collection[int]:
    """Return the full layers of the classes that make all full where there is no window."""
    if model_type == "ministral":
        return ()
    if model_type == "smollm3":
        return _rotary_layers(fields, len(every))
    if model_type in _FULL_THROUGHOUT:
        return every
    start = fields.integer("max_window_layers", default=0, low=0)
    if model_type == "qwen2_moe":
        return [index for index in every if index % 2 or index >= start]
    return every[:start]


def _rotary_layers(fields: Fields, layers: int) -> Collection[int]:
    flags = fields.integers("no_rope_layers", layers)
    if flags is None:
        interval = fields.integer("no_rope_layer_interval", default=4)
        flags = [int((index + 1) % interval != 0) for index in range(layers)]
    return [index for index, flag in enumerate(flags) if flag]


def _cohere2_moe_full(fields: Fields, layers: int) -> Collection[int]:
    """Return the full layers; the dense ones at the front have a pattern of their own."""
    dense = min(fields.integer("first_k_dense_replace", default=0, low=0), layers)
    first = fields.integer("prefix_dense_sliding_window_pattern", default=1)
    rest = fields.integer("sliding_window_pattern", default=4)
    return (*range(dense)[first - 1 :: first], *range(dense, layers)[rest - 1 :: rest])


def attention_layers(
    fields: Fields, model_type: str, layers: int, cache: AttentionCache
) -> tuple[DecoderLayer, ...]:
    """Return ``layers`` layers with the same heads and their own windows."""
    local: dict[int, DecoderLayer] = {}
    layer = (cache,)
    return tuple(
        layer if window is None else local.setdefault(window, (_within(cache, window),))
        for window in layer_windows(fields, model_type, layers)
    )


def _within(cache: AttentionCache, window: int) -> AttentionCache:
    return AttentionCache(
        cache.num_kv_heads, cache.head_size, cache.head_size_v, sliding_window=window
    )
