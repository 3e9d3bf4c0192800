"""How long a person waits for `parkade --help` and for `parkade plan`.

Prints the fastest of some runs of each in a fresh process (others may use the machine), the
limit, and how many times the limit holds it (the ratio to watch: it should stay above one). With
--aiconfigurator PATH, the program of that name from an environment of its own, its `estimate` for
the same model stands beside.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from time import perf_counter

EXAMPLES = Path(__file__).parents[1] / "examples" / "acceptance"
PARKADE = [sys.executable, "-m", "parkade.cli.main"]
PLAN = [
    *PARKADE,
    "plan",
    "-f",
    str(EXAMPLES / "short.yaml"),
    "--model-config",
    str(EXAMPLES / "config.json"),
    "--traffic",
    str(EXAMPLES / "short.traffic.yaml"),
]
LIMITS = {"parkade --help": ([*PARKADE, "--help"], 0.3), "parkade plan": (PLAN, 1.0)}


def seconds(command: list[str], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(perf_counter() - start)
    return min(times)


def estimate(program: str) -> list[str]:
    """The same question to AIConfigurator: one B200, 27B in 4 bits, prompts of 7,900 tokens."""
    return [
        program,
        *("cli", "estimate", "--model-path", "nvidia/Qwen3.6-27B-NVFP4", "--system", "b200_sxm"),
        *("--backend", "vllm", "--isl", "7900", "--osl", "550", "--batch-size", "32"),
        *("--tp-size", "1", "--gemm-quant-mode", "nvfp4"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="runs of each")
    parser.add_argument("--aiconfigurator", metavar="PATH", help="its program")
    args = parser.parse_args()
    slow = 0
    for name, (command, limit) in LIMITS.items():
        took = seconds(command, args.runs)
        slow += took > limit
        print(f"{name:<26}{took:7.3f} s, {limit / took:5.2f} times within its {limit:g} s")
    if args.aiconfigurator is None:
        print("aiconfigurator estimate    not measured: give its program with --aiconfigurator")
    else:
        took = seconds(estimate(args.aiconfigurator), min(args.runs, 3))
        print(
            f"aiconfigurator estimate   {took:7.3f} s, {took / seconds(PLAN, 3):5.1f} times a plan"
        )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
