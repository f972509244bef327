"""Runs in Python files and notebooks: their own, and those of the programs that they start.

`python benchmarks/corpus/started.py FOLDER... [-v]`. Each FOLDER is a repository, or one without launches, such as an
environment's site-packages, where every run that a program starts is a false one. `-v` names the files.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.repository.programs import PYTHON
from memlint.repository.workspace import on_disk

OWN, STARTED = "runs of their own", "runs of programs that they start"


def runs(folder: Path) -> Iterator[tuple[Path, str]]:
    """(file, OWN or STARTED) for each run in the Python below a folder, and (file, "files") for each file."""
    workspace = on_disk(str(folder), str(folder))
    for path in sorted(folder.rglob("*")):
        if path.suffix in PYTHON and path.is_file():
            yield path, "files"
            for document in workspace.documents(str(path)):
                if document.start is not None:
                    yield path, STARTED if document.syntax == "shell" else OWN


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("folders", type=Path, nargs="+")
    arguments.add_argument("-v", "--verbose", action="store_true", help="name the files that start runs")
    given = arguments.parse_args()
    table: collections.Counter[str] = collections.Counter()
    for folder in given.folders:
        for path, kind in runs(folder.resolve()):
            table[kind] += 1
            if given.verbose and kind == STARTED:
                print(path.relative_to(folder.resolve()))
    print(", ".join(f"{count} {kind}" for kind, count in sorted(table.items())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
