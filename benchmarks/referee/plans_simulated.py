"""Ten plans for runs over their card, each simulated as its files say it.

    python benchmarks/referee/plans_simulated.py             the table, from the results that are kept
    python benchmarks/referee/plans_simulated.py --run       simulate all anew (PyTorch; minutes) and keep the results
    python benchmarks/referee/plans_simulated.py --run N     only case N

A case is a config over the budget of its card. The first plan is written into the file, the file is read back, and one
step of that run is simulated on fake tensors with the real model code (memlint simulate).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.plans_simulated import CASES, RESULTS, confirmed, kept, lines, planned


def simulated(number: int) -> dict[str, Any]:
    """One case, simulated: what is kept of it."""
    from memlint.simulation import simulate

    _, option, run = planned(CASES[number])
    start = time.perf_counter()
    step = simulate(run)
    title = "; ".join(one.title for one in option.plan.steps)
    return {"case": number, "plan": title, "peak": step.peak, "seconds": round(time.perf_counter() - start, 1)}


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--run", action="store_true", help="simulate again")
    arguments.add_argument("numbers", nargs="*", type=int, default=range(len(CASES)), help="cases (default: all)")
    options = arguments.parse_args()
    if options.run:
        chosen = options.numbers
        results = kept() if RESULTS.exists() else {}
        for number in chosen:
            results[number] = simulated(number)
            print(results[number], flush=True)
            ordered = [results[key] for key in sorted(results)]
            RESULTS.write_text("".join(json.dumps(one) + "\n" for one in ordered), encoding="utf-8")
    print("\n".join(lines()))
    return 0 if all(one.holds for one in confirmed()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
