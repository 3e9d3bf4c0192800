"""What the simulation is told beside vLLM's own flags: the card, the clock, and faults.

Environment variables describe the card and the clock. A state file (JSON, optional, usually a
mounted ConfigMap) can change what the *next* start does without changing the pod template; it is
read once, at start. ``README.md`` beside this file documents both.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

GIB = 1 << 30
DEFAULT_STATE_FILE = "/etc/parkade-sim/state.json"


class EnvironmentValueError(ValueError):
    """A variable or the state file holds something that cannot be used."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What the state file asks of this start; the defaults ask for nothing."""

    extra_outside_budget_gib: float = 0.0
    gpu_free_gib: float | None = None
    start_seconds: float | None = None
    start_failure_text: str | None = None
    start_failure_exit_code: int = 1
    die_after_serving_seconds: float | None = None
    die_exit_code: int = 0
    die_text: str | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """The card and the clock that are simulated."""

    gpu_total_bytes: int
    gpu_free_bytes: int
    model_config: str | None
    weights_gib: float | None
    clock_speed: float
    start_seconds: float
    extra_outside_budget_bytes: int
    allow_long_max_model_len: bool
    faults: Faults

    @classmethod
    def read(cls, variables: Mapping[str, str], faults: Faults | None = None) -> "Environment":
        """Read the variables; raises EnvironmentValueError with the cure."""
        faults = faults or Faults()
        total = _number(variables, "PARKADE_SIM_GPU_TOTAL_GIB", 178.35)
        free = _number(variables, "PARKADE_SIM_GPU_FREE_GIB", min(175.81, total * 0.9858))
        extra = _number(variables, "PARKADE_SIM_EXTRA_OUTSIDE_BUDGET_GIB", 0.0, zero=True)
        start = _number(variables, "PARKADE_SIM_START_SECONDS", 5.0, zero=True)
        weights = variables.get("PARKADE_SIM_WEIGHTS_GIB")
        return cls(
            gpu_total_bytes=int(total * GIB),
            gpu_free_bytes=int(
                (free if faults.gpu_free_gib is None else faults.gpu_free_gib) * GIB
            ),
            model_config=variables.get("PARKADE_SIM_MODEL_CONFIG") or None,
            weights_gib=_number(variables, "PARKADE_SIM_WEIGHTS_GIB", 0.0) if weights else None,
            clock_speed=_number(variables, "PARKADE_SIM_CLOCK_SPEED", 1.0),
            start_seconds=start if faults.start_seconds is None else faults.start_seconds,
            extra_outside_budget_bytes=int((extra + faults.extra_outside_budget_gib) * GIB),
            allow_long_max_model_len=variables.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") == "1",
            faults=faults,
        )


def _number(
    variables: Mapping[str, str], name: str, default: float, *, zero: bool = False
) -> float:
    text = variables.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        least = "zero or more" if zero else "above zero"
        raise EnvironmentValueError(f"{name} must be a number {least}, not {text!r}")
    return value


def read_faults(variables: Mapping[str, str], hostname: str) -> Faults:
    """Read the state file; a missing one asks for nothing, so that its volume can be optional."""
    path = Path(variables.get("PARKADE_SIM_STATE_FILE") or DEFAULT_STATE_FILE)
    try:
        text = path.read_text()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return Faults()
    try:
        state = json.loads(text)
    except json.JSONDecodeError as error:
        raise EnvironmentValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(state, dict):
        raise EnvironmentValueError(f"{path} must hold one JSON object")
    return _checked(path, _of_pod(path, state, hostname))


def _of_pod(path: Path, state: dict[str, Any], hostname: str) -> dict[str, Any]:
    """Merge `pods: {PREFIX: {...}}` where the pod's name starts with PREFIX and a dash."""
    pods = state.pop("pods", {})
    if not isinstance(pods, dict) or not all(isinstance(v, dict) for v in pods.values()):
        raise EnvironmentValueError(f"{path}: pods must be an object of pod name prefixes")
    for prefix, values in sorted(pods.items(), key=lambda item: len(item[0])):
        if hostname == prefix or hostname.startswith(f"{prefix}-"):
            state = {**state, **values}
    return state


def _checked(path: Path, state: dict[str, Any]) -> Faults:
    known = {field.name for field in fields(Faults)}
    unknown = sorted(set(state) - known)
    if unknown:
        raise EnvironmentValueError(f"{path}: unknown keys {unknown}; known are {sorted(known)}")
    for name, value in state.items():
        wanted = _wanted(name)
        if value is not None and not wanted[1](value):
            raise EnvironmentValueError(f"{path}: {name} must be {wanted[0]}, not {value!r}")
    return Faults(**{name: value for name, value in state.items() if value is not None})


def _wanted(name: str) -> tuple[str, Callable[[Any], bool]]:
    if name.endswith("_text"):
        return "a string", lambda value: isinstance(value, str)
    if name.endswith("_code"):
        return (
            "a whole number from 0 to 255",
            lambda value: type(value) is int and 0 <= value <= 255,
        )
    return (
        "a number of zero or more",
        lambda value: type(value) in {int, float} and math.isfinite(value) and value >= 0,
    )
