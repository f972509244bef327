"""memlint's figures beside simulated ones: what the scripts of this folder that have cases and phases share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import parser

Case = dict[str, Any]
Figures = dict[str, int]  # bytes by phase


def compare(
    cases: Iterable[Case],
    simulated: Callable[[Case], Figures],
    predicted: Callable[[Case], Figures],
    title: Callable[[Case], str],
    engine: Callable[[Case], str] = lambda case: "",
) -> str:
    """Print each phase of each case with memlint's relative error, then their spread by engine and phase.

    Returns the cases with their simulated figures as JSON lines.
    """
    lines: list[str] = []
    errors: dict[str, list[float]] = {}
    for case in cases:
        real, said = simulated(case), predicted(case)
        lines.append(json.dumps({**case, "result": real}) + "\n")
        for name, value in real.items():
            error = said[name] / value - 1
            errors.setdefault(f"{engine(case):15} {name:18}", []).append(abs(error))
            print(f"{title(case)} {name:18} {value / 2**20:9.0f} MiB {error:+.2%}")
    for group in sorted(errors):
        print(f"{group} {spread(errors[group])}")
    print(f"{'all':34} {spread([error for group in errors.values() for error in group])}")
    return "".join(lines)


def main(
    about: str | None,
    data: Path,
    cases: Callable[[], Iterable[Case]],
    simulated: Callable[[Case], Figures],
    predicted: Callable[[Case], Figures],
    title: Callable[[Case], str],
    engine: Callable[[Case], str] = lambda case: "",
) -> int:
    """The command of a script: `compare`, with `--write` also written to `data`. `about`: the script's docstring."""
    arguments = parser(about)
    arguments.add_argument("--write", action="store_true", help="write the simulated figures")
    asked = arguments.parse_args()
    figures = compare(cases(), simulated, predicted, title, engine)
    if asked.write:
        data.write_text(figures, encoding="utf-8")
    return 0


def spread(errors: Sequence[float]) -> str:
    """Number, median, 95th percentile and greatest of relative errors."""
    ordered = sorted(errors)
    tail = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"n={len(ordered)} median {ordered[len(ordered) // 2]:.2%} p95 {tail:.2%} worst {ordered[-1]:.2%}"
