"""How many config files of a corpus each format claims: `python benchmarks/corpus/recognition.py FOLDER`.

FOLDER holds one folder per kind (llamafactory, axolotl, ...). A file counts by what it is,
not by the folder it lies in: a DeepSpeed JSON beside LLaMA-Factory examples is a DeepSpeed file. Files that are no
YAML or JSON mapping (templates with bare words, lists of data) are counted apart.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.formats import recognise
from memlint.source import load

SUFFIXES = (".yaml", ".yml", ".json")
COLUMNS = ("llamafactory", "deepspeed", "accelerate", "trainer", "axolotl", "none", "unreadable")


def verdict(path: Path) -> str:
    """The format that claims the file, "none", or "unreadable" where there is no mapping."""
    documents = load(path.read_bytes(), str(path))
    if not any(isinstance(document.value, dict) for document in documents):
        return "unreadable"
    found = next((claim for claim in map(recognise, documents) if claim), None)
    return found[0].NAME if found else "none"


def counts(folder: Path) -> tuple[collections.Counter[str], dict[str, list[Path]]]:
    table: collections.Counter[str] = collections.Counter()
    files: dict[str, list[Path]] = collections.defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in SUFFIXES:
            name = verdict(path)
            table[name] += 1
            files[name].append(path)
    return table, files


def report(corpus: Path, verbose: bool) -> None:
    print(f"{'kind':14}" + "".join(f"{name:>14}" for name in COLUMNS) + f"{'claimed':>10}")
    for folder in sorted(path for path in corpus.iterdir() if path.is_dir()):
        table, files = counts(folder)
        total = sum(table.values()) - table["unreadable"]
        claimed = total - table["none"]
        row = "".join(f"{table[name]:>14}" for name in COLUMNS)
        print(f"{folder.name:14}{row}{100 * claimed / max(1, total):>9.1f}%")
        if verbose:
            for name, paths in files.items():
                if name != folder.name:
                    print(*(f"    {name}: {path.relative_to(corpus)}" for path in paths[:12]), sep="\n")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("corpus", type=Path, help="a folder with a folder a kind")
    arguments.add_argument("-v", "--verbose", action="store_true", help="name the files that another format claims")
    options = arguments.parse_args()
    report(options.corpus, options.verbose)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
