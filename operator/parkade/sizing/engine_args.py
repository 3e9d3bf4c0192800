"""What the engine's arguments say that sizing needs, and which may not be there at all.

vLLM's parser takes `--flag value`, `--flag=value`, underscores for dashes, and unambiguous
prefixes (`--kv-cache-memory` for `--kv-cache-memory-bytes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from parkade.api.quantity import GIB
from parkade.api.spec import Engine
from parkade.sizing.inputs import Device

_HINT_ENV = "VLLM_ENABLE_STARTUP_PLAN"
_LARGE_CARD_BYTES = 160 * GIB
_MIDDLE_CARD_BYTES = 70 * GIB
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_DEFAULT_VERSION = (0, 32, 0)
DEFAULT_VERSION = ".".join(str(part) for part in _DEFAULT_VERSION)
"""Whose rules hold where nothing says the version."""


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """Arguments that decide memory, with vLLM's names. None: the engine's default holds."""

    version: tuple[int, int, int]
    max_num_batched_tokens: int
    block_size: int | None = None
    enable_prefix_caching: bool | None = None
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    disable_hybrid_kv_cache_manager: bool = False
    async_scheduling: bool = True
    enforce_eager: bool = False
    max_cudagraph_capture_size: int | None = None
    max_num_active_seqs: int | None = None
    max_num_batched_tokens_given: bool = False

    @property
    def version_text(self) -> str:
        """The version as vLLM writes it."""
        return ".".join(str(part) for part in self.version)


def hint_problem(engine: Engine) -> str | None:
    """Return why an argument or variable that fixes the pool is refused, or None."""
    return hint_in(engine.extra_args, engine.env)


def hint_in(extra_args: Iterable[str], env: Iterable[Mapping[str, object]]) -> str | None:
    """Return why these arguments and variables are refused, or None.

    The engine's own hint (`--kv-cache-memory=...`) holds only for the exact run that printed it.
    """
    for argument in extra_args:
        name = argument.strip().split("=", 1)[0].split(" ", 1)[0].replace("_", "-")
        if name.startswith("--kv-cache-mem"):
            return (
                f"engine.extraArgs has {argument[:80]!r}: the engine's hint holds only for the "
                "exact run that printed it (another KV format, drafter, length or version voids "
                "it, and it leaves 150 MiB free), and with it the fraction has no effect; remove "
                "it, tuning.headroom says what stays free."
            )
    for variable in env:
        if variable.get("name") == _HINT_ENV and str(variable.get("value", "0")) not in {"0", ""}:
            return (
                f"engine.env sets {_HINT_ENV}: the engine would start from a stored hint that "
                "another configuration may have printed; remove it."
            )
    return None


def engine_args(engine: Engine, device: Device) -> EngineArgs | str:
    """Return what the arguments say, or in one line what is wrong with them."""
    flags = _flags(engine.extra_args)
    try:
        batched = _integer(flags, "max-num-batched-tokens")
        version = version_of(engine)
        return EngineArgs(
            version=version,
            max_num_batched_tokens=batched or default_batched_tokens(device, version, flags),
            block_size=_integer(flags, "block-size"),
            enable_prefix_caching=_switch(flags, "enable-prefix-caching"),
            mamba_cache_dtype=flags.get("mamba-cache-dtype") or "auto",
            mamba_ssm_cache_dtype=flags.get("mamba-ssm-cache-dtype") or "auto",
            disable_hybrid_kv_cache_manager=bool(_switch(flags, "disable-hybrid-kv-cache-manager")),
            async_scheduling=_switch(flags, "async-scheduling") is not False,
            enforce_eager=bool(_switch(flags, "enforce-eager")),
            max_cudagraph_capture_size=_integer(flags, "max-cudagraph-capture-size"),
            max_num_active_seqs=_integer(flags, "max-num-active-seqs"),
            max_num_batched_tokens_given=batched is not None,
        )
    except ValueError as error:
        return str(error)


def version_of(engine: Engine) -> tuple[int, int, int]:
    """Return the engine's version: as said, else from the image's tag, else 0.32.0."""
    return _said_version(engine) or _DEFAULT_VERSION


def says_version(engine: Engine) -> bool:
    """Whether the version or the image's tag says which vLLM it is."""
    return _said_version(engine) is not None


def _said_version(engine: Engine) -> tuple[int, int, int] | None:
    tag = engine.image.split("@", 1)[0].rsplit("/", 1)[-1].partition(":")[2]
    for text in (engine.version, tag):
        match = _VERSION.match(text or "")
        if match:
            return int(match[1]), int(match[2]), int(match[3] or 0)
    return None


def default_batched_tokens(
    device: Device, version: tuple[int, int, int], flags: Mapping[str, str | None]
) -> int:
    """Return the API server's default (`EngineArgs.get_batch_defaults`, vllm/engine/arg_utils.py).

    16384 from 160 GiB since 0.28, 8192 from 70 GiB but not on an A100, else 2048;
    `--performance-mode throughput` doubles it.
    """
    if device.total_bytes >= _LARGE_CARD_BYTES and version >= (0, 28, 0):
        tokens = 16384
    elif device.total_bytes >= _MIDDLE_CARD_BYTES and "A100" not in device.product:
        tokens = 8192
    else:
        tokens = 2048
    return tokens * (2 if flags.get("performance-mode") == "throughput" else 1)


def _flags(arguments: Iterable[str]) -> dict[str, str | None]:
    """Return flags without dashes; a switch has the value None."""
    flags: dict[str, str | None] = {}
    name: str | None = None
    for word in (part for argument in arguments for part in argument.split(None, 1)):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = name.replace("_", "-")
            flags[name] = value if equals else None
        elif name is not None and flags[name] is None:
            flags[name] = word
    return flags


def _integer(flags: Mapping[str, str | None], name: str) -> int | None:
    if name not in flags:
        return None
    text = flags[name] or ""
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) < 1:
        raise ValueError(f"engine.extraArgs: --{name} {text!r} is not a whole number from 1")
    return int(text)


def _switch(flags: Mapping[str, str | None], name: str) -> bool | None:
    if f"no-{name}" in flags:
        return False
    return True if name in flags else None
