"""Flags of vLLM that `engine.extraArgs` may not name, since Parkade sets them or relies on them.

vLLM 0.33 (`utils/argparse_utils.py`) reads `--max_num_seqs` as `--max-num-seqs`, `--flag=value`
as two arguments, `--flag.key value` as a part of a JSON value, and, as Python's argparse does, any
unambiguous beginning of a flag as the flag (`--kv-cache-mem`). All these spellings are refused.
Not covered: what a flag's value may do (`--hf-overrides` can change the architecture that Parkade
reads from config.json), and environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from parkade.api.base import Rule

OWNED_FLAGS = (
    # The two knobs, and what would act in their place.
    "--max-num-seqs",
    "--gpu-memory-utilization",
    "--device-memory-utilization",
    "--max-num-active-seqs",
    "--kv-cache-memory-bytes",
    "--num-gpu-blocks-override",
    # Fields of the resource.
    "--model",
    "--model-tag",
    "--revision",
    "--max-model-len",
    "--kv-cache-dtype",
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--speculative-config",
    "--spec-method",
    "--spec-model",
    "--spec-tokens",
    # More GPUs, pods or shares of the cache than Parkade counts.
    "--data-parallel-size",
    "--data-parallel-size-local",
    "--decode-context-parallel-size",
    "--prefill-context-parallel-size",
    "--nnodes",
    "--headless",
    # Where probes, the Service and Prometheus look.
    "--host",
    "--port",
    "--uds",
    "--ssl-keyfile",
    "--ssl-certfile",
    "--disable-log-stats",
    # A file that could name any of these.
    "--config",
)
"""Long flags, with dashes."""

OWNED_SHORT_FLAGS = ("-tp", "-t", "-pp", "-dp", "-dpl", "-dcp", "-pcp", "-sc", "-s", "-n")
"""Short forms of the same, and the beginnings of them that argparse takes."""

_LONG = "^--[A-Za-z0-9_-]{1,64}"
_SHORT = f"^({'|'.join(OWNED_SHORT_FLAGS)})([0-9=. ]|$)"
_LISTED = f"|{'|'.join(OWNED_FLAGS)}|"


def names_owned_flag(argument: str) -> bool:
    """Return whether an argument is, spells or abbreviates a flag that Parkade owns."""
    long = re.match(_LONG, argument)
    if long is not None:
        return f"|{long.group().replace('_', '-')}" in _LISTED
    return re.match(_SHORT, argument) is not None


def owned_flags(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that name a flag that Parkade owns."""
    return tuple(argument for argument in arguments if names_owned_flag(argument))


EXTRA_ARGS_RULE = Rule(
    message=(
        "extraArgs may not name a flag that Parkade sets or relies on, in any spelling or "
        "abbreviation (--max-num-seqs, --gpu-memory-utilization, --model, --max-model-len, "
        "--kv-cache-dtype, -tp, --speculative-config, --port and others, listed in "
        "docs/reference.md); use the resource's own field instead"
    ),
    cel=(
        f"self.all(a, !a.matches('{_SHORT}') && (a.find('{_LONG}') == '' || "
        f"!'{_LISTED}'.contains('|' + a.find('{_LONG}').replace('_', '-'))))"
    ),
    check=lambda arguments: not owned_flags(arguments),
)
