"""How memlint judges configs that programs read in ways of their own: `python benchmarks/corpus/readers.py [-v]`.

tests/readers.py has the ways, each as a small repository. A cell is one way with the config of one framework. It is
wrong where an error is said of a file that its reader takes, or where one is lost of a file that the framework reads.
`-v` prints each wrong cell.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.laws.test_reader_laws import JSON_PATH, PATH, WRONG, errors, with_value, worded
from tests.readers import BY_FRAMEWORK, CONFIGS, FORKS, MADE, OWN, REFUSED, SET


class Cell(NamedTuple):
    table: str
    framework: str
    way: str
    is_wrong: bool


def cells() -> Iterator[Cell]:
    for framework, config in CONFIGS.items():
        for way, files in OWN.items():
            path = PATH.replace("configs/", "own/") if way == "package data" else PATH
            yield Cell("programs that read it by themselves", framework, way, bool(errors(config, files, path)))
        for way, files in BY_FRAMEWORK[framework].items():
            yield Cell("the framework's own code", framework, way, not errors(config, files) >= WRONG[framework])
    for framework, one in REFUSED.items():
        path = JSON_PATH if framework == "deepspeed" else PATH
        for way, files in SET.items():
            found = errors(with_value(one), worded(files, framework), path)
            yield Cell("values that something sets", framework, way, bool(found))
    for framework in ("trainer", "trl", "axolotl"):
        config = {**REFUSED[framework].config, "deepspeed": "configs/made.json"}
        for way, files in MADE.items():
            yield Cell(
                "files that something makes", framework, way, "REF001" in errors(config, worded(files, framework))
            )
    for way, fork in FORKS.items():
        config = {**REFUSED[fork.framework].config, fork.key: fork.value}
        said = errors(config, fork.files, severities=("error", "warning"))
        is_wrong = any(rule.startswith(("CFG", "TRN019", "AXO")) for rule in said)
        yield Cell("forks and argument classes", fork.framework, way, is_wrong)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("-v", "--verbose", action="store_true", help="print each wrong cell")
    options = arguments.parse_args()
    found = list(cells())
    for name in dict.fromkeys(cell.table for cell in found):
        of = [cell for cell in found if cell.table == name]
        print(f"{name:40}{len(of):6} cells{sum(cell.is_wrong for cell in of):6} wrong")
    print(f"{'all':40}{len(found):6} cells{sum(cell.is_wrong for cell in found):6} wrong")
    if options.verbose:
        for cell in found:
            if cell.is_wrong:
                print(f"  {cell.framework}: {cell.way} ({cell.table})")


if __name__ == "__main__":
    main()
