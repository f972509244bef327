"""Models that answer requests: a prefill and the last decode on fake tensors, beside the estimate of the same question.

    python benchmarks/referee/generation.py             the estimate now beside the figures that were simulated
    python benchmarks/referee/generation.py --summary   how many are equal, and how far off the others are
    python benchmarks/referee/generation.py --simulate  simulates every row again (the `exact` extra, some minutes)

Each model is built from the catalog's config.json. Every row has the peak of each phase and the bytes that
`past_key_values` holds after the prompt and after the last token, counted tensor by tensor.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.generation import PHASES, RESULTS, Row, asked, cases, estimated, named, rows


def simulated() -> Iterator[dict[str, Any]]:
    """One row a case, in the order of `cases`; a case that cannot be simulated says why."""
    from memlint.architectures.resolve import resolve
    from memlint.simulation import simulate_requests

    for case in cases():
        run = asked(case).neutral
        found = simulate_requests(run, resolve(str(run.model.name)).config or {})
        figures = {name: getattr(found, name) for name in ("load", "prefill", "decode", "cached_prompt", "cached")}
        yield {**case, **figures}


def line(row: Row) -> str:
    """How far the estimate is from the simulation, phase by phase."""
    mine = estimated(row)
    parts = [f"{name} {100 * (mine[name] / row[name] - 1):+6.2f} %" for name in ("load", "prefill", "decode")]
    caches = (
        "equal" if (mine["cached_prompt"], mine["cached"]) == (row["cached_prompt"], row["cached"]) else "DIFFERENT"
    )
    return f"{named(row)[:74]:74} {'  '.join(parts)}  caches {caches}"


def summary(found: list[Row]) -> Iterator[str]:
    """Caches that are equal, and the largest difference of a peak, by model where it is above 1 %."""
    mine = [estimated(row) for row in found]
    equal = sum(
        all(one[name] == row[name] for name in ("cached_prompt", "cached"))
        for one, row in zip(mine, found, strict=True)
    )
    yield f"{len(found)} cases of {len({row['model'] for row in found})} models; caches equal in {equal}"
    off: dict[str, float] = {}
    for one, row in zip(mine, found, strict=True):
        worst = max(abs(one[name] / row[name] - 1) for name in PHASES)
        name = row["model"] if worst > 0.01 else "all others"
        off[name] = max(off.get(name, 0.0), worst)
    yield from (
        f"peaks differ by at most {worst:.1%}: {name}" for name, worst in sorted(off.items(), key=lambda x: x[1])
    )


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--summary", action="store_true", help="two figures and what is far off")
    arguments.add_argument("--simulate", action="store_true", help="simulate every row again and write the file")
    given = arguments.parse_args()
    if given.summary:
        print("\n".join(summary(rows())))
        return 0
    if given.simulate:
        with RESULTS.open("w", encoding="utf-8") as file:
            for row in simulated():
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(line(row), flush=True)
        return 0
    for row in rows():
        print(line(row))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
