"""``plan_kv``: layers and engine options become groups of pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from parkade.sizing.architecture.model import (
    AttentionCache,
    Cache,
    DecoderLayer,
    IndexerCache,
    ModelArchitecture,
)
from parkade.sizing.planner.capacity import KVLayout
from parkade.sizing.planner.grouping import PlacedLayer, group_layers
from parkade.sizing.planner.layerspecs import layer_spec
from parkade.sizing.planner.options import DRAFT_MODEL_METHODS, EAGLE_METHODS, EngineOptions
from parkade.sizing.planner.refusal import Refusal
from parkade.sizing.planner.setting import Setting, check_split, resolve
from parkade.sizing.planner.specs import LayerSpec


@dataclass(frozen=True, slots=True)
class NotPlannable:
    """These options do not go with this model: the engine would not start, or we cannot tell."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def plan_kv(architecture: ModelArchitecture, options: EngineOptions) -> KVLayout | NotPlannable:
    """Return the cache's layout on one GPU, or why the engine would not have one.

    Reproduces ``get_kv_cache_configs`` (vllm/v1/core/kv_cache_utils.py) and the block alignment
    of ``Platform.update_block_size_for_backend`` (vllm/platforms/interface.py).
    """
    problem = options.problem()
    if problem is not None:
        return NotPlannable(architecture.name, problem)
    try:
        return _planned(architecture, options)
    except Refusal as refusal:
        return NotPlannable(architecture.name, str(refusal))


def _planned(model: ModelArchitecture, options: EngineOptions) -> KVLayout:
    setting = resolve(model, options)
    layers = _placed_layers(setting)
    if not layers:
        raise Refusal("no layer keeps a cache")
    groups = group_layers(
        layers,
        stages=options.pipeline_parallel_size,
        promote_local=_promotes_local(setting),
        rules=setting.rules,
    )
    return KVLayout(
        groups=groups,
        block_size=setting.block_size,
        max_model_len=options.max_model_len,
        kv_cache_dtype=setting.kv_cache_dtype,
        mamba_cache_mode=setting.mamba_cache_mode if model.is_hybrid else None,
        lookahead_tokens=_lookahead_tokens(options),
        reserved_blocks=1 if setting.rules.reserves_null_block else 0,
        warnings=_warnings(setting),
    )


def _warnings(setting: Setting) -> tuple[str, ...]:
    found = [setting.rules.warning] if setting.rules.warning else []
    last = setting.model.last_version
    if last is not None and setting.rules.version > last:
        found.append(
            f"vLLM after {last[0]}.{last[1]} no longer runs {setting.model.name}; "
            "the plan is what it would be"
        )
    if setting.checkpoints_assumed:
        found.append(
            "assumes the FlashInfer prefill of Gated DeltaNet (Hopper, or Blackwell with CUDA "
            "13): blocks are multiples of 64 tokens and each state costs one block more"
        )
    return tuple(found)


def _promotes_local(setting: Setting) -> bool:
    """Chunked local attention and a drafter on hidden states exclude the hybrid manager."""
    options = setting.options
    drafted = options.spec_method in EAGLE_METHODS
    return options.disable_hybrid_kv_cache_manager or (
        setting.model.chunked_local_attention and drafted
    )


def _lookahead_tokens(options: EngineOptions) -> int:
    """Slots past the sequence that a drafter writes (``VllmConfig.num_lookahead_tokens``)."""
    if options.spec_method in ("dflash", "dspark"):
        return options.num_speculative_tokens + 1
    if options.spec_method in EAGLE_METHODS or options.spec_method == "draft_model":
        return options.num_speculative_tokens
    return 0


def _placed_layers(setting: Setting) -> list[PlacedLayer]:
    stages = setting.options.pipeline_parallel_size
    counts = _partition(len(setting.model.layers), stages)
    specs: dict[int, LayerSpec] = {}
    placed: list[PlacedLayer] = []
    for stage, end in enumerate(accumulate(counts)):
        layers = setting.model.layers[end - counts[stage] : end]
        if stage == stages - 1:
            layers += _draft_layers(setting)
        placed += [
            PlacedLayer(_known_spec(setting, cache, specs), stage)
            for layer in layers
            for cache in layer
            if not _left_out(setting, cache)
        ]
    return placed


def _known_spec(setting: Setting, cache: Cache, specs: dict[int, LayerSpec]) -> LayerSpec:
    """Return the spec of a cache; equal layers mostly share one object, found by its identity."""
    spec = specs.get(id(cache))
    if spec is None:
        spec = specs[id(cache)] = layer_spec(setting, cache)
    return spec


def _left_out(setting: Setting, cache: Cache) -> bool:
    return isinstance(cache, IndexerCache) and cache.shared and setting.rules.shares_indexers


def _partition(layers: int, stages: int) -> list[int]:
    """Layers per stage; what is left over goes to the stages before the last."""
    if stages > layers:
        raise Refusal(f"{layers} layers cannot be spread over {stages} pipeline stages")
    counts = [layers // stages] * stages
    for index in range(2, layers % stages + 2):
        counts[-index] += 1
    return counts


def _draft_layers(setting: Setting) -> tuple[DecoderLayer, ...]:
    options = setting.options
    if options.spec_method == "mtp" and options.draft_architecture is None:
        if not setting.model.mtp_layers:
            raise Refusal("this checkpoint has no MTP layers: choose another spec method")
        drafts, modules = options.num_speculative_tokens, setting.model.num_mtp_modules
        if drafts > modules and drafts % modules:
            raise Refusal(
                f"num_speculative_tokens {drafts} is not a multiple of the {modules} MTP modules"
            )
        return setting.model.mtp_layers
    draft = options.draft_architecture
    if draft is None or options.spec_method not in DRAFT_MODEL_METHODS | {"mtp"}:
        return ()
    check_split(draft, setting.tp)
    window = _whole_window(setting.model)
    return tuple(tuple(_within(cache, window) for cache in layer) for layer in draft.layers)


def _whole_window(model: ModelArchitecture) -> int | None:
    """Return the window of a model all of whose layers have one, else None.

    The engine keeps it in its cache configuration, where layers without a window of their own
    find it, those of a drafter too (``Attention.__init__``).
    """
    caches = model.distinct_caches
    windows = {
        cache.sliding_window if isinstance(cache, AttentionCache) else None for cache in caches
    }
    return windows.pop() if len(windows) == 1 else None


def _within(cache: Cache, window: int | None) -> Cache:
    if window is None or not isinstance(cache, AttentionCache) or cache.sliding_window is not None:
        return cache
    return replace(cache, sliding_window=window)
