"""What the rules say about a corpus: `python benchmarks/corpus/corpus_findings.py FOLDER [KIND ...] [-v] [--only ID]`.

FOLDER holds one folder per kind. Every file that a format claims is analysed three times: on one assumed A100-80GB, on
eight, and on no card at all, with the rules of the default profile. Printed are hits per rule and severity in each
situation (a finding counts once per file), and with `-v` each finding; `--only ID` keeps to rules whose id starts so.

`--write` keeps the counts as the golden list (data/corpus_findings.tsv: no text of the files, only their paths),
`--compare` says what differs from it and which errors data/justified.tsv does not justify; either is exit 1.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memlint.findings import Finding
from memlint.hardware import find
from memlint.repository.workspace import on_disk
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from memlint.run import UNKNOWN, Origin

KINDS = ("llamafactory", "deepspeed", "trainer", "accelerate", "axolotl")
SUFFIXES = (".yaml", ".yml", ".json")
CARD = "A100-80GB"
DATA = Path(__file__).resolve().parents[1] / "data"
GOLDEN = DATA / "corpus_findings.tsv"
JUSTIFIED = DATA / "justified.tsv"
_ASSUMED = Origin("setting", detail="assumed by the benchmark")


class Situation(NamedTuple):
    """What is assumed beside the file: `gpus` 0 is no card."""

    name: str
    gpus: int
    card: str = ""

    def facts(self, card: str) -> dict[str, object]:
        known = self.gpus > 0
        return {
            "gpu": find(self.card or card) if known else None,
            "gpu_origin": _ASSUMED,
            "gpus": self.gpus if known else UNKNOWN,
            "gpus_origin": _ASSUMED,
            "gpus_per_node": self.gpus if known else UNKNOWN,
        }


SITUATIONS = (Situation("1 GPU", 1), Situation("8 GPUs", 8), Situation("no card", 0))


class Hit(NamedTuple):
    situation: str
    path: str
    finding: Finding


class Row(NamedTuple):
    """Findings of one rule in one file: how many in each situation."""

    file: str
    rule: str
    severity: str
    counts: tuple[int, ...]

    def line(self) -> str:
        return "\t".join((self.file, self.rule, self.severity, *map(str, self.counts)))


def engine() -> Engine:
    """The rules of the default profile."""
    return Engine(tuple(rule for rule in shipped() if "default" in rule.profiles and not rule.preview))


def hits(
    folder: Path, kinds: tuple[str, ...], card: str, situations: tuple[Situation, ...] = SITUATIONS
) -> Iterator[Hit]:
    """Every finding. A repository is the root of its files: references stay inside."""
    rules = engine()
    for kind in kinds:
        for repository in sorted(path for path in (folder / kind).iterdir() if path.is_dir()):
            yield from _of_repository(rules, folder, repository, card, situations)


def _of_repository(
    rules: Engine, folder: Path, repository: Path, card: str, situations: tuple[Situation, ...]
) -> Iterator[Hit]:
    workspace = on_disk(os.path.realpath(folder), os.path.realpath(repository))
    for path in sorted(path for path in repository.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        name = str(path.relative_to(repository))
        for document in workspace.documents(name):
            for situation in situations:
                analysis = rules.analyse(document, workspace.context(**situation.facts(card)))
                for finding in analysis.findings:
                    yield Hit(situation.name, str(path.relative_to(folder)), finding)


def table(found: list[Hit]) -> str:
    """One line per rule and severity: files with it in each situation."""
    files: dict[tuple[str, str], dict[str, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for hit in found:
        files[hit.finding.rule, hit.finding.severity][hit.situation].add(hit.path)
    lines = [f"{'rule':8}{'severity':10}" + "".join(f"{situation.name:>10}" for situation in SITUATIONS)]
    for (rule, severity), counts in sorted(files.items()):
        row = "".join(f"{len(counts[situation.name]):>10}" for situation in SITUATIONS)
        lines.append(f"{rule:8}{severity:10}{row}")
    return "\n".join(lines)


def rows(found: Iterable[Hit]) -> list[Row]:
    """The golden list's rows, in order."""
    counts = collections.Counter((hit.path, hit.finding.rule, hit.finding.severity, hit.situation) for hit in found)
    keys = sorted({key[:3] for key in counts})
    return [Row(*key, tuple(counts[(*key, situation.name)] for situation in SITUATIONS)) for key in keys]


def read_tsv(path: Path) -> list[list[str]]:
    """The lines of a table below its head."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def write(found: list[Row]) -> None:
    head = "\t".join(("file", "rule", "severity", *(situation.name for situation in SITUATIONS)))
    GOLDEN.write_text("\n".join([head, *(row.line() for row in found)]) + "\n", encoding="utf-8")
    print(f"{GOLDEN.name}: {len(found)} rows")


def compare(found: list[Row]) -> int:
    """What differs from the golden list, and errors without a reason."""
    golden = {"\t".join(row) for row in read_tsv(GOLDEN)}
    now = {row.line() for row in found}
    for line in sorted(golden - now):
        print(f"- {line}")
    for line in sorted(now - golden):
        print(f"+ {line}")
    bare = unjustified(found)
    errors = sum(row.severity == "error" for row in found)
    print(f"{len(now)} rows, {len(golden ^ now)} differ from the golden list")
    print(f"{errors} error-level rows, {len(bare)} unjustified", *(f"  {row.line()}" for row in bare), sep="\n")
    return int(golden != now or bool(bare))


def unjustified(found: list[Row]) -> list[Row]:
    """Error-level rows for which data/justified.tsv gives no reason."""
    reasons = {(file, rule) for file, rule, *_ in read_tsv(JUSTIFIED)}
    return [row for row in found if row.severity == "error" and (row.file, row.rule) not in reasons]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("-v", action="store_true", help="print each finding")
    parser.add_argument("--only", default="", help="rules whose id starts so")
    parser.add_argument("--gpu", default=CARD, help="the card that is assumed")
    parser.add_argument("--write", action="store_true", help="keep the counts as the golden list")
    parser.add_argument("--compare", action="store_true", help="say what differs from the golden list")
    words = parser.parse_args()
    found = [
        hit for hit in hits(words.folder, tuple(words.kinds), words.gpu) if hit.finding.rule.startswith(words.only)
    ]
    if words.write:
        write(rows(found))
    if words.compare:
        return compare(rows(found))
    print(table(found))
    if words.v:
        for hit in sorted(found, key=lambda hit: (hit.finding.rule, hit.path)):
            place = f"{hit.path}:{hit.finding.location.line}"
            print(f"{hit.finding.rule} {hit.finding.severity} [{hit.situation}] {place}: {hit.finding.message}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
