"""A start as a script: the lines that are printed, when, and how it ends.

Pure: the same arguments, card and faults give the same script. Playing it (waiting, printing,
exiting) is ``__main__``'s part.
"""

import json
from dataclasses import dataclass

from testbed.engine import blocks, failures, progress
from testbed.engine.arguments import EngineArguments
from testbed.engine.environment import Environment
from testbed.engine.logs import LogLine
from testbed.engine.memory import MIB, Budget, budget
from testbed.engine.models import Model, UnsupportedModelError, load_model


@dataclass(frozen=True, slots=True)
class Started:
    """An engine that serves."""

    model: Model
    max_model_len: int
    layout: blocks.Layout
    num_blocks: int
    kv_cache_bytes: int


@dataclass(frozen=True, slots=True)
class StartScript:
    """What a start prints and how it ends: an engine, or an exit code."""

    lines: tuple[LogLine, ...]
    started: Started | None
    exit_code: int = 1


def start(arguments: EngineArguments, environment: Environment) -> StartScript:
    """Go through a start: configuration, weights, profile, KV cache, graphs, warm-up."""
    faults = environment.faults
    if faults.start_failure_text is not None:
        line = LogLine(progress.AT_CONFIG, "", faults.start_failure_text)
        return StartScript(
            (*progress.banner(arguments), line), None, faults.start_failure_exit_code
        )
    try:
        model = load_model(arguments.model, environment.model_config, environment.weights_gib)
    except (UnsupportedModelError, OSError, KeyError, json.JSONDecodeError) as error:
        lines = failures.configuration_lines("ModelConfig", str(error), progress.AT_CONFIG)
        return StartScript((*progress.banner(arguments), *lines), None)
    max_model_len = arguments.max_model_len or _derived_length(model, arguments)
    refused = _refused(model, arguments, environment, max_model_len)
    if refused:
        lines = failures.configuration_lines(*refused, progress.AT_CONFIG)
        return StartScript((*progress.banner(arguments), *lines), None)
    return _engine(model, arguments, environment, max_model_len)


def _refused(
    model: Model, arguments: EngineArguments, environment: Environment, max_model_len: int
) -> tuple[str, str] | None:
    derived = _derived_length(model, arguments)
    if max_model_len > derived and not environment.allow_long_max_model_len:
        return "ModelConfig", (
            f"User-specified max_model_len ({max_model_len}) is greater than the derived "
            f"max_model_len (max_position_embeddings={derived} or model_max_length=None in "
            "model's config.json). To allow overriding this maximum, set the env var "
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with "
            "extreme caution."
        )
    if arguments.max_num_batched_tokens < arguments.max_num_seqs:
        return "SchedulerConfig", (
            f"max_num_batched_tokens ({arguments.max_num_batched_tokens}) must be greater than or "
            f"equal to max_num_seqs ({arguments.max_num_seqs})."
        )
    return None


def _derived_length(model: Model, arguments: EngineArguments) -> int:
    """The model's length, or the one that `--hf-overrides` gives it."""
    try:
        overrides = json.loads(arguments.hf_overrides or "{}")
    except json.JSONDecodeError:
        return model.max_position_embeddings
    text = {**overrides, **overrides.get("text_config", {})}
    length = int(text.get("max_position_embeddings") or model.max_position_embeddings)
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    original = int(rope.get("original_max_position_embeddings") or length)
    return max(length, int(original * float(rope.get("factor") or 1.0)))


def _engine(
    model: Model, arguments: EngineArguments, environment: Environment, max_model_len: int
) -> StartScript:
    plan = blocks.layout(model, arguments.cache)
    parts = budget(
        model,
        arguments,
        environment.gpu_total_bytes,
        environment.gpu_free_bytes,
        environment.extra_outside_budget_bytes,
    )
    lines = [
        *progress.banner(arguments),
        *progress.configured(model, arguments, plan, max_model_len),
    ]
    if parts.free_at_start < parts.requested:
        failure = failures.free_memory(parts, arguments.gpu_memory_utilization)
        return _failed(arguments, lines, failure, progress.AT_CONFIG)
    if parts.consumed > parts.free_at_start:
        return _failed(arguments, lines, _weights_failure(model, parts), progress.AT_LOADED)
    seconds = environment.start_seconds * environment.clock_speed
    lines += progress.loaded(arguments, parts, seconds * (progress.AT_LOADED - progress.AT_CONFIG))
    left = parts.free_at_start - parts.consumed
    if parts.peak_activation > left:
        failure = failures.out_of_memory("profile", parts, parts.peak_activation, left)
        return _failed(arguments, lines, failure, progress.AT_PROFILED)
    available = arguments.kv_cache_memory_bytes or parts.available_kv
    lines += progress.profiled(arguments, parts, available, seconds)
    started = Started(model, max_model_len, plan, plan.pool(available), available)
    return _with_cache(lines, arguments, parts, started, seconds)


def _with_cache(
    lines: list[LogLine],
    arguments: EngineArguments,
    parts: Budget,
    started: Started,
    seconds: float,
) -> StartScript:
    """From the KV cache on: it must hold one request, and the graphs must fit beside it."""
    refused = _cache_failure(started)
    if refused:
        return _failed(arguments, lines, refused, progress.AT_PROFILED)
    lines.append(progress.cache_line(started.layout, started.num_blocks, started.max_model_len))
    refused = _capture_failure(arguments, parts, started)
    if refused:
        return _failed(arguments, lines, refused, progress.AT_CAPTURED)
    lines += progress.captured(arguments, parts, started.kv_cache_bytes, seconds)
    return StartScript((*lines, *progress.serving(arguments)), started, 0)


def _failed(
    arguments: EngineArguments, lines: list[LogLine], failure: failures.Failure, at: float
) -> StartScript:
    told = failures.engine_lines(failure, at, progress.worker(arguments))
    return StartScript((*lines, *told), None)


def _weights_failure(model: Model, parts: Budget) -> failures.Failure:
    """Weights are loaded piece by piece; the one that no longer fits is named."""
    tried = max(model.weights_bytes // 64, 32 * MIB)
    return failures.out_of_memory("load_model", parts, tried, parts.free_at_start % tried)


def _cache_failure(started: Started) -> failures.Failure | None:
    plan, length = started.layout, started.max_model_len
    if started.kv_cache_bytes <= 0:
        return failures.no_cache_blocks()
    if plan.blocks(length) <= started.num_blocks - 1:
        return None
    needed = (plan.blocks(length) + 1) * plan.bytes_per_block
    longest = blocks.longest_request(plan, started.num_blocks, length)
    return failures.below_one_request(length, needed, started.kv_cache_bytes, longest)


def _capture_failure(
    arguments: EngineArguments, parts: Budget, started: Started
) -> failures.Failure | None:
    if started.model.hybrid and arguments.max_num_seqs > started.num_blocks:
        return failures.mamba_blocks(arguments.max_num_seqs, started.num_blocks)
    free = parts.free_after(started.num_blocks * started.layout.bytes_per_block)
    if parts.outside > free:
        return failures.out_of_memory("capture", parts, parts.outside, free)
    return None
