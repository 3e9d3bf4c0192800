"""``parkade kv``: the engine's cache planner alone, from a ``config.json``."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from parkade.cli.configs import read_architecture
from parkade.cli.errors import CannotSize, UsageError
from parkade.sizing.planner import (
    CacheGroup,
    EngineOptions,
    KVCapacity,
    NotPlannable,
    plan_kv,
)
from parkade.sizing.planner.options import MAMBA_DTYPES, METHODS
from parkade.sizing.planner.versions import DEFAULT_VERSION

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_MAX_BYTES = 2**60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``parkade kv``, under the engine's own names and defaults."""
    parser.add_argument(
        "--model-config", metavar="FILE", type=Path, required=True, help="the model's config.json"
    )
    parser.add_argument(
        "--max-model-len", metavar="N", type=_whole, required=True, help="the longest request"
    )
    parser.add_argument(
        "--available-kv-bytes",
        metavar="B",
        type=_bytes,
        required=True,
        help="what one GPU has for the cache; units such as Gi are understood",
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="default: text"
    )
    parser.add_argument(
        "--length",
        metavar="L",
        type=_whole,
        action="append",
        default=[],
        help="also tell the blocks of a request of L tokens; may be repeated",
    )
    _add_engine_arguments(parser)
    _add_drafter_arguments(parser)


def _add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("options of the engine")
    group.add_argument("--kv-cache-dtype", metavar="TYPE", default="auto", help="default: auto")
    for name in ("--tensor-parallel-size", "--pipeline-parallel-size"):
        group.add_argument(name, metavar="N", type=_whole, default=1, help="default: 1")
    group.add_argument(
        "--max-num-batched-tokens", metavar="N", type=_whole, default=8192, help="default: 8192"
    )
    group.add_argument("--block-size", metavar="N", type=_whole, help="default: the backend's")
    group.add_argument(
        "--enable-prefix-caching",
        action=argparse.BooleanOptionalAction,
        help="default: as the version has it for this model",
    )
    for name in ("--mamba-cache-dtype", "--mamba-ssm-cache-dtype"):
        group.add_argument(name, choices=MAMBA_DTYPES, default="auto", help="default: auto")
    group.add_argument("--disable-hybrid-kv-cache-manager", action="store_true")
    group.add_argument("--async-scheduling", action=argparse.BooleanOptionalAction, default=True)
    group.add_argument(
        "--kernel-block-alignment",
        metavar="A",
        type=_whole,
        default=16,
        help="the attention backend's smallest block in tokens (default: 16)",
    )
    group.add_argument(
        "--vllm-version",
        metavar="V",
        default=DEFAULT_VERSION,
        help=f"whose rules hold (default: {DEFAULT_VERSION})",
    )


def _add_drafter_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("speculative decoding")
    group.add_argument("--spec-method", metavar="M", help=f"one of {', '.join(sorted(METHODS))}")
    group.add_argument(
        "--num-speculative-tokens", metavar="n", type=_count, default=0, help="default: 0"
    )
    group.add_argument(
        "--draft-model-config",
        metavar="FILE",
        type=Path,
        help="config.json of the drafter, if it has its own",
    )


def run(args: argparse.Namespace) -> int:
    """Print the plan; return 0 also when nothing fits."""
    options = _options(args)
    problem = options.problem()
    if problem is not None:
        raise UsageError(problem)
    layout = plan_kv(read_architecture(args.model_config), options)
    if isinstance(layout, NotPlannable):
        raise CannotSize(f"cannot size {str(args.model_config)!r}: {layout}")
    for warning in layout.warnings:
        print(f"parkade kv: {warning}", file=sys.stderr)
    capacity = layout.capacity(args.available_kv_bytes)
    if args.output == "json":
        print(json.dumps(to_dict(capacity, args.length), indent=2))
    else:
        _print_text(capacity, args.length)
    return 0


def to_dict(capacity: KVCapacity, lengths: list[int]) -> dict[str, Any]:
    """Return a capacity with the documented keys."""
    return {
        "fits_one_request": capacity.fits_one_request,
        "estimated_max_model_len": capacity.estimated_max_model_len,
        "block_size": capacity.block_size,
        "num_groups": capacity.num_groups,
        "group_size": capacity.group_size,
        "bytes_per_block": capacity.bytes_per_block,
        "num_blocks": capacity.num_blocks,
        "blocks_per_request_at_max_len": capacity.blocks_per_request_at_max_len,
        "max_concurrency": float(capacity.max_concurrency),
        "kv_tokens": capacity.kv_tokens,
        "lengths": [{"length": length, "blocks": capacity.blocks(length)} for length in lengths],
        "groups": [_group_dict(group) for group in capacity.groups],
    }


def _group_dict(group: CacheGroup) -> dict[str, Any]:
    """Return a group; its pages are a list, since layers of one group can differ in size."""
    return {
        "kind": str(group.kind),
        "layers": group.layers,
        "block_size": group.block_size,
        "page_size_bytes": list(group.page_sizes_bytes),
    }


def _options(args: argparse.Namespace) -> EngineOptions:
    draft = args.draft_model_config
    return EngineOptions(
        max_model_len=args.max_model_len,
        kv_cache_dtype=args.kv_cache_dtype,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
        max_num_batched_tokens=args.max_num_batched_tokens,
        block_size=args.block_size,
        enable_prefix_caching=args.enable_prefix_caching,
        mamba_cache_dtype=args.mamba_cache_dtype,
        mamba_ssm_cache_dtype=args.mamba_ssm_cache_dtype,
        disable_hybrid_kv_cache_manager=args.disable_hybrid_kv_cache_manager,
        async_scheduling=args.async_scheduling,
        spec_method=args.spec_method,
        num_speculative_tokens=args.num_speculative_tokens,
        draft_architecture=None if draft is None else read_architecture(draft),
        kernel_block_alignment=args.kernel_block_alignment,
        vllm_version=args.vllm_version,
    )


def _print_text(capacity: KVCapacity, lengths: list[int]) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and JSON does without
    from rich.table import Table  # noqa: PLC0415

    console = Console(highlight=False)
    for line in _sentences(capacity):
        console.print(line)
    table = Table("group", "kind", "layers", "block", "page", "blocks at max len", box=None)
    for index, group in enumerate(capacity.groups, 1):
        pages = " and ".join(f"{page:,}" for page in group.page_sizes_bytes)
        blocks = group.blocks(capacity.layout.max_model_len)
        table.add_row(
            str(index),
            str(group.kind),
            str(group.layers),
            f"{group.block_size:,}",
            f"{pages} B",
            f"{blocks:,}",
        )
    console.print(table)
    for length in lengths:
        console.print(
            f"A request of {length:,} tokens holds {capacity.blocks(length):,} blocks; "
            f"the pool holds {capacity.max_requests(length):,} of them."
        )


def _sentences(capacity: KVCapacity) -> list[str]:
    layout = capacity.layout
    needed = capacity.blocks_per_request_at_max_len
    lines = [
        (
            f"{capacity.num_blocks:,} blocks of {capacity.bytes_per_block:,} bytes "
            f"({capacity.available_kv_bytes:,} bytes, {layout.kv_cache_dtype} cache)"
        ),
        (
            f"one request of {layout.max_model_len:,} tokens holds {needed:,} blocks: "
            f"{float(capacity.max_concurrency):.2f} at a time, {capacity.kv_tokens:,} tokens"
        ),
    ]
    estimate = capacity.estimated_max_model_len
    if estimate is not None:
        lines.append(
            "one such request does not fit: the engine refuses to start; "
            + (f"a max-model-len of {estimate:,} would fit" if estimate else "no length would fit")
        )
    return lines


def _whole(text: str) -> int:
    value = _count(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return value


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number")
    return int(text)


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)([kMGT]|[KMGT]i)?B?", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not a number of bytes such as 137000000000 or 128Gi"
        )
    unit = _UNITS[match[2] or ""]
    value = int(match[1]) * unit if match[1].isdigit() else int(float(match[1]) * unit)
    if value > _MAX_BYTES:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is more memory than any GPU has")
    return value
