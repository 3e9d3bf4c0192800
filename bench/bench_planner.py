"""How long a plan takes once the configuration is parsed, as a share of a millisecond.

Prints one line per model: microseconds per plan with its capacity, and how many times that fits
into a millisecond (the ratio to watch: it should stay above one).
"""

import argparse
import json
import sys
from pathlib import Path
from timeit import repeat

from parkade.sizing.architecture import ModelArchitecture, parse_architecture
from parkade.sizing.planner import EngineOptions, KVLayout, plan_kv

CONFIGS = Path(__file__).parents[1] / "tests" / "data" / "oracle" / "configs"
AVAILABLE_BYTES = 137_000_000_000
ROUNDS = 7


def measure(model: ModelArchitecture, loops: int) -> float:
    options = EngineOptions(max_model_len=131072, spec_method=None)

    def plan_once() -> object:
        layout = plan_kv(model, options)
        if not isinstance(layout, KVLayout):
            raise SystemExit(str(layout))
        capacity = layout.capacity(AVAILABLE_BYTES)
        return capacity.kv_tokens, capacity.fits_one_request

    return min(repeat(plan_once, number=loops, repeat=ROUNDS)) / loops * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=200, help="plans per round")
    loops = parser.parse_args().loops
    slowest = 0.0
    for path in sorted(CONFIGS.glob("*.json")):
        config = json.loads(path.read_text())
        model = parse_architecture(config)
        if not isinstance(model, ModelArchitecture):
            raise SystemExit(str(model))
        plan_us = measure(model, loops)
        slowest = max(slowest, plan_us)
        print(f"{path.stem:<45}{plan_us:8.0f} us a plan, {1000 / plan_us:6.1f} in a millisecond")
    print(f"slowest: {slowest:.0f} us, {1000 / slowest:.1f} times faster than a millisecond")
    return 0 if slowest < 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
