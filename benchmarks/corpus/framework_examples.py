"""What memlint says of the frameworks' own examples: `python benchmarks/corpus/framework_examples.py FOLDER [-v]
[--save FILE] [--then FILE]`.

FOLDER holds a checkout of each framework's repository: verl, verl-recipe, ms-swift, OpenRLHF, trl, axolotl,
LLaMA-Factory, and Unsloth's notebooks. Their examples are read as `memlint estimate` reads a folder, for cards of
80 GB, as many as the example says, and 8 where it says no number. Printed is a table: runs of each framework, runs with
a figure, with a figure for each reading, with a lower bound, those that train nothing by themselves, and those that
have neither; below it, with `-v`, the reasons of each. `--save` writes the counts, `--then` prints those of an earlier
state before them.
"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.corpus.unknown_runs import CARDS, GROUPS, counts, group, report

# A repository's folder, and the folder of its examples.
_EXAMPLES = {
    "verl": "examples",
    "verl-recipe": ".",
    "ms-swift": "examples",
    "OpenRLHF": "examples",
    "trl": "examples",
    "axolotl": "examples",
    "LLaMA-Factory": "examples",
    "notebooks": "nb",
}
_CARD = CARDS[:2]
_UNSAID = "nobody said how many GPUs"
_COLUMNS = ("runs", "have a figure", *GROUPS)

Found = dict[str, Any]  # runs, and the reasons of those without a figure


def read(root: Path, examples: str) -> Found:
    """Runs of a repository's examples, and how many have no figure, by reason."""
    own, with_eight = (report(root, examples, cards)["runs"] for cards in (_CARD, CARDS))
    runs = [given if _says_no_number(said) else said for said, given in zip(own, with_eight, strict=True)]
    return {"runs": len(runs), "reasons": dict(counts(runs))}


def _says_no_number(run: dict[str, Any]) -> bool:
    return run["verdict"] == "unknown" and any(_UNSAID in one["reason"] for one in run["unknown"])


def row(found: Found) -> list[int]:
    """The counts under `_COLUMNS`."""
    groups: collections.Counter[str] = collections.Counter()
    for reason, count in found["reasons"].items():
        groups[group(reason)] += count
    return [found["runs"], found["runs"] - sum(groups.values()), *(groups[name] for name in GROUPS)]


def table(found: dict[str, Found]) -> list[str]:
    """Markdown: a row for each framework, and their sum."""
    rows = {name: row(one) for name, one in found.items()}
    rows["together"] = [sum(column) for column in zip(*rows.values(), strict=True)] or [0] * len(_COLUMNS)
    head = ["| framework | " + " | ".join(_COLUMNS) + " |", "|---|" + "---|" * len(_COLUMNS)]
    return head + [f"| {name} | " + " | ".join(map(str, one)) + " |" for name, one in rows.items()]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("-v", "--verbose", action="store_true", help="print the reasons")
    arguments.add_argument("--save", type=Path, help="write the counts there")
    arguments.add_argument("--then", type=Path, help="counts of an earlier state, to be printed before")
    asked = arguments.parse_args()
    if asked.then:
        print("before:", *table(json.loads(asked.then.read_text(encoding="utf-8"))), "", sep="\n")
    present = {name: examples for name, examples in _EXAMPLES.items() if (asked.folder / name).is_dir()}
    found = {name: read(asked.folder / name, examples) for name, examples in present.items()}
    print(*table(found), sep="\n")
    for name, one in found.items() if asked.verbose else ():
        print(f"\n{name}")
        for reason, count in sorted(one["reasons"].items(), key=lambda pair: -pair[1]):
            print(f"  {count:5}  {group(reason)}: {reason}")
    if asked.save:
        asked.save.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
