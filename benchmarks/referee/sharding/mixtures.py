"""Random mixtures of sharding settings on the real engines, beside the closed form.

    python benchmarks/referee/sharding/mixtures.py                      how far the closed form is from what is kept
    python benchmarks/referee/sharding/mixtures.py --run 100 --seed 7   run that many more mixtures of the seed

What ran is kept in mixtures.jsonl, so that printing needs no engine: each row has the setting and the ranks' bytes. A
mixture that its engine refuses is kept with the reason and drawn anew.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from draw import mixtures

from benchmarks.command import parser
from tests.comparisons.sharding import MIXTURES, mixture_lines, mixture_rows


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--run", type=int, default=0, metavar="N", help="until N mixtures of the seed are kept")
    arguments.add_argument("--seed", type=int, default=0, help="of the draw; printing: of one seed alone")
    arguments.add_argument("-v", "--verbose", action="store_true", help="every mixture")
    options = arguments.parse_args()
    if options.run:
        _run(options.seed, options.run)
    kept = [row for row in mixture_rows() if not options.seed or row["seed"] == options.seed]
    print("\n".join(mixture_lines(kept, options.verbose)))
    return 0


def _run(seed: int, wanted: int) -> None:
    """Append mixtures of `seed` that are not there yet."""
    import run

    run.preload()
    known = {row["setting"]["name"] for row in _rows(seed)}
    for setting in islice(mixtures(seed), 3 * wanted):
        if sum("ranks" in row for row in _rows(seed)) >= wanted:
            break
        if setting["name"] not in known:
            row = _measured(setting)
            print(f"{setting['name']:28s} {row.get('refused', '')[:150]}", flush=True)
            with MIXTURES.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"seed": seed, **row}, sort_keys=True) + "\n")


def _rows(seed: int) -> list[dict[str, Any]]:
    lines = MIXTURES.read_text(encoding="utf-8").splitlines() if MIXTURES.exists() else []
    return [row for row in map(json.loads, lines) if row["seed"] == seed]


def _measured(setting: dict[str, Any]) -> dict[str, Any]:
    import run

    found = run.run(setting)
    if "error" in found:
        return {"setting": setting, "refused": found["error"].strip().splitlines()[-1]}
    return {"setting": setting, "versions": run.versions(), **found}


if __name__ == "__main__":
    sys.exit(main())
