"""What memlint knows of every class of text generation in the installed transformers.

    python benchmarks/referee/census.py              counts by mapping
    python benchmarks/referee/census.py --all        every model_type with what is known of it

A family is *simulated* where a small member's steps are within LIMIT of steps on fake tensors, *bounded* where the
interval covers a larger distance, *not simulated* where its class does not run on fake tensors, *state alone* where
its parameters are known and a run has a lower bound, and *unknown* where it has no block list (`--exact` counts it
with its own class). Figures are those of benchmarks/data/families.jsonl, see benchmarks/referee/families.py.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.referee.families import DATA, LIMIT, worst
from memlint.architectures.builder import families

MAPPINGS = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "image and text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "sequence to sequence": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
}
KINDS = ("simulated", "bounded", "not simulated", "state alone", "unknown")


def kinds() -> Mapping[str, str]:
    """What is known of each family with a block list."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in DATA.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rows[row["family"].partition("/")[0]].append(row)
    return {family: kind(rows[family]) for family in families()}


def kind(rows: list[dict[str, Any]]) -> str:
    if any("estimated" in row for row in rows):
        return "simulated" if worst(rows) <= LIMIT else "bounded"
    return "state alone" if any("refused" in row for row in rows) else "not simulated"


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--all", action="store_true", help="every model_type")
    every = arguments.parse_args().all
    from transformers.models.auto import modeling_auto

    known = kinds()
    print(f"{'':22}{'classes':>9}" + "".join(f"{name:>15}" for name in KINDS))
    for name, mapping in MAPPINGS.items():
        found = {family: known.get(family, "unknown") for family in sorted(getattr(modeling_auto, mapping))}
        counts = Counter(found.values())
        print(f"{name:22}{len(found):9}" + "".join(f"{counts[one]:15}" for one in KINDS))
        for one in KINDS if every else ():
            print(f"  {one}: {', '.join(family for family, its in found.items() if its == one)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
