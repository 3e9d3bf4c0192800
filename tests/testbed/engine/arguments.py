"""The command line of ``vllm serve``, as far as a deployment needs it.

Flags that change what the simulation does become ``EngineArguments``; other flags of the real
engine that a user may well set are accepted and ignored; anything else ends as argparse ends it,
with exit code 2.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from testbed.engine.blocks import KV_CACHE_DTYPES, CacheSettings

_IGNORED_WITH_VALUE = (
    "--api-key", "--attention-backend", "--block-size", "--chat-template", "--compilation-config",
    "--config-format", "--download-dir", "--dtype", "--generation-config", "--load-format",
    "--max-num-active-seqs", "--max-num-queued-reqs", "--max-num-queued-tokens",
    "--override-generation-config", "--quantization", "--reasoning-parser", "--root-path",
    "--rope-scaling", "--seed", "--swap-space", "--tokenizer", "--tokenizer-mode",
    "--tool-call-parser", "--uvicorn-log-level",
)  # fmt: skip
_IGNORED_SWITCHES = (
    "--async-scheduling", "--disable-log-requests", "--disable-log-stats",
    "--disable-uvicorn-access-log", "--enable-auto-tool-choice", "--enable-chunked-prefill",
    "--enable-log-requests", "--enforce-eager", "--no-async-scheduling",
    "--no-enable-chunked-prefill", "--no-enable-log-requests", "--trust-remote-code",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """What was asked for on the command line."""

    model: str
    served_model_names: tuple[str, ...]
    max_model_len: int | None
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    kv_cache_memory_bytes: int | None
    cache: CacheSettings
    hf_overrides: str | None
    custom_histogram_buckets: dict[str, list[float]]
    host: str
    port: int
    quiet_endpoints: tuple[str, ...]
    shutdown_timeout_seconds: float
    non_default: dict[str, Any]


class _Parser(argparse.ArgumentParser):
    """Exits with 2 and vLLM's form of message; shows only the first line of the usage."""

    def error(self, message: str) -> NoReturn:
        print("usage: vllm serve [model_tag] [options]", file=sys.stderr)
        print(f"vllm serve: error: {message}", file=sys.stderr)
        raise SystemExit(2)


def human_readable_int(text: str) -> int:
    """Read `1048576`, `1k` (1000) or `1K` (1024), as vLLM does for lengths and sizes."""
    factors = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    factor = factors.get(text[-1:], 1)
    number = text[:-1] if text[-1:] in factors else text
    try:
        return int(float(number) * factor) if text[-1:] in "kmg" else int(number) * factor
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid integer: {text!r}") from None


def _length(text: str) -> int | None:
    return None if text in {"auto", "-1"} else human_readable_int(text)


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError("gpu_memory_utilization must be in (0, 1]")
    return value


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to <function loads>.")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="vllm serve", allow_abbrev=True)
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--served-model-name", nargs="+", default=[])
    parser.add_argument("--revision")
    parser.add_argument("--max-model-len", type=_length)
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--max-num-batched-tokens", type=human_readable_int)
    parser.add_argument("--gpu-memory-utilization", type=_fraction, default=0.92)
    parser.add_argument("--kv-cache-memory-bytes", type=human_readable_int)
    parser.add_argument("--kv-cache-dtype", choices=KV_CACHE_DTYPES, default="auto")
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1)
    parser.add_argument("--speculative-config", type=_json_object)
    parser.add_argument(
        "--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True
    )
    parser.add_argument("--hf-overrides")
    parser.add_argument("--custom-histogram-buckets", type=_json_object, default={})
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--disable-access-log-for-endpoints", default="")
    parser.add_argument("--shutdown-timeout", type=float, default=0.0)
    for flag in _IGNORED_WITH_VALUE:
        parser.add_argument(flag)
    for flag in _IGNORED_SWITCHES:
        parser.add_argument(flag, action="store_true")
    return parser


def parse(argv: Sequence[str], total_memory_bytes: int) -> EngineArguments:
    """Parse the arguments after ``vllm serve``; defaults depend on the card, as in vLLM.

    ``max_num_seqs`` is 1024 from 70 GiB of device memory and 256 below, ``max_num_batched_tokens``
    is 16384 from 160 GiB, 8192 from 70 GiB and 2048 below (``arg_utils.get_batch_defaults``).
    """
    parser = _parser()
    options = parser.parse_args([_dashes(word) for word in argv])
    model = options.model_tag or options.model
    if not model:
        parser.error("the following arguments are required: model_tag")
    gib = total_memory_bytes / (1 << 30)
    default_tokens = 16384 if gib >= 160 else 8192 if gib >= 70 else 2048
    tokens = options.max_num_batched_tokens or default_tokens
    seqs = options.max_num_seqs or min(1024 if gib >= 70 else 256, tokens)
    method, proposals = _speculation(parser, options.speculative_config)
    return EngineArguments(
        model=model,
        served_model_names=tuple(options.served_model_name) or (model,),
        max_model_len=options.max_model_len,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=options.gpu_memory_utilization,
        kv_cache_memory_bytes=options.kv_cache_memory_bytes,
        cache=CacheSettings(
            kv_cache_dtype=options.kv_cache_dtype,
            tensor_parallel_size=options.tensor_parallel_size,
            pipeline_parallel_size=options.pipeline_parallel_size,
            enable_prefix_caching=options.enable_prefix_caching,
            spec_method=method,
            num_speculative_tokens=proposals,
        ),
        hf_overrides=options.hf_overrides,
        custom_histogram_buckets=options.custom_histogram_buckets,
        host=options.host,
        port=options.port,
        quiet_endpoints=tuple(filter(None, options.disable_access_log_for_endpoints.split(","))),
        shutdown_timeout_seconds=options.shutdown_timeout,
        non_default=_non_default(parser, options, model),
    )


def _dashes(word: str) -> str:
    """vLLM accepts underscores in flag names."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _speculation(
    parser: argparse.ArgumentParser, config: dict[str, Any] | None
) -> tuple[str | None, int]:
    if config is None:
        return None, 0
    method, proposals = config.get("method"), config.get("num_speculative_tokens")
    if method in {"qwen3_next_mtp", "qwen3_5_mtp"}:
        method = "mtp"
    if method not in {"mtp", "ngram"}:
        parser.error(f"the simulated engine knows the methods mtp and ngram, not {method!r}")
    if not isinstance(proposals, int) or not 1 <= proposals <= 64:
        parser.error("--speculative-config: num_speculative_tokens must be an integer from 1 to 64")
    return method, proposals


def _non_default(
    parser: argparse.ArgumentParser, options: argparse.Namespace, model: str
) -> dict[str, Any]:
    given = {"model_tag": model, "model": model}
    for name, value in vars(options).items():
        if name not in given and value != parser.get_default(name):
            given[name] = value
    return given
