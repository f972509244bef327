"""Accuracy of the closed form: against simulated steps, phase by phase.

python benchmarks/referee/simulated.py simulated_steps.jsonl

Belongs to benchmarks/accuracy/page.py, which prints every comparison.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.simulated import table


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of `values` lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def report(path: str) -> None:
    """Print the table and its summary."""
    rows = table(path)
    for name, found in rows:
        print(f"{name:56s}", "  ".join(f"{key} {value:+8.3%}" for key, value in found.items()) or "no figure")
    for key in ("peak", "forward", "backward", "optimizer_step"):
        values = [abs(found[key]) for _, found in rows if key in found]
        if values:
            print(
                f"{key:16s} n={len(values):3d} median {quantile(values, 0.5):.3%} p90 {quantile(values, 0.9):.3%}"
                f" worst {max(values):.3%}"
            )


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("path", help="a file of simulated steps, one JSON object a line")
    report(arguments.parse_args().path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
