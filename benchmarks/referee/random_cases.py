"""Random training steps: the closed form beside the simulated step.

    python benchmarks/referee/random_cases.py COUNT [--seed N] [--write]

Draws a family, its sizes, a method, precision, attention, checkpointing, optimizer, batch and length, and runs the real
model on fake tensors. --write appends to benchmarks/data/random_cases.jsonl: the seed of each case with the simulated
bytes of forward, backward and peak (torch 2.13.0, transformers 5.23.0, peft 0.21.2); benchmarks/accuracy/page.py draws
the same cases again from their seeds and estimates them anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.comparisons.random_cases import DATA, Case, case, errors


def simulated(one: Case) -> dict[str, int]:
    """Bytes of the steady step."""
    from memlint.simulation import simulate

    step = simulate(one.run, one.config)
    return {"forward": step.forward, "backward": step.backward, "peak": step.peak}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for seed in range(options.seed, options.seed + options.count):
        one = case(seed)
        try:
            found = simulated(one)
        except Exception as error:
            print(f"{seed} {one.run.path}: not simulated: {type(error).__name__}: {str(error)[:100]}", flush=True)
            continue
        shown = "  ".join(f"{name} {share:+7.2%}" for name, share in errors(one, found).items())
        run = one.run
        kind = (run.attention.implementation, run.checkpointing.mode, "pure" if not run.precision.autocast else "mixed")
        print(f"{run.path:28} {' '.join(map(str, kind)):36} {shown}", flush=True)
        if options.write:
            with DATA.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"seed": seed, "case": run.path, **found}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
