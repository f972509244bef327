"""What the rules say about a corpus: `python benchmarks/corpus_findings.py FOLDER [KIND ...] [-v] [--only ID]`.

FOLDER holds one folder per kind. Every file that a format claims is analysed three times: on one assumed A100-80GB, on
eight, and on no card at all, with the rules of the default profile. Printed are hits per rule and severity in each
situation (a finding counts once per file), and with `-v` each finding; `--only ID` keeps to rules whose id starts so.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from memlint.checks.engine import Engine
from memlint.checks.shipped import shipped
from memlint.checks.workspace import on_disk
from memlint.findings import Finding
from memlint.hardware import find
from memlint.run import UNKNOWN, Origin

KINDS = ("llamafactory", "deepspeed", "trainer", "accelerate")
SUFFIXES = (".yaml", ".yml", ".json")
CARD = "A100-80GB"
_ASSUMED = Origin("setting", detail="assumed by the benchmark")


class Situation(NamedTuple):
    """What is assumed beside the file: `gpus` 0 is no card."""

    name: str
    gpus: int

    def facts(self, card: str) -> dict[str, object]:
        known = self.gpus > 0
        return {
            "gpu": find(card) if known else None,
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


def hits(folder: Path, kinds: tuple[str, ...], card: str) -> Iterator[Hit]:
    """Every finding. A repository is the root of its files: references stay inside."""
    engine = Engine(tuple(rule for rule in shipped() if "default" in rule.profiles and not rule.preview))
    for kind in kinds:
        for repository in sorted(path for path in (folder / kind).iterdir() if path.is_dir()):
            yield from _of_repository(engine, folder, repository, card)


def _of_repository(engine: Engine, folder: Path, repository: Path, card: str) -> Iterator[Hit]:
    workspace = on_disk(os.path.realpath(folder), os.path.realpath(repository))
    for path in sorted(path for path in repository.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        name = str(path.relative_to(repository))
        for document in workspace.documents(name):
            for situation in SITUATIONS:
                analysis = engine.analyse(document, workspace.context(**situation.facts(card)))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("-v", action="store_true", help="print each finding")
    parser.add_argument("--only", default="", help="rules whose id starts so")
    parser.add_argument("--gpu", default=CARD, help="the card that is assumed")
    words = parser.parse_args()
    found = [
        hit for hit in hits(words.folder, tuple(words.kinds), words.gpu) if hit.finding.rule.startswith(words.only)
    ]
    print(table(found))
    if words.v:
        for hit in sorted(found, key=lambda hit: (hit.finding.rule, hit.path)):
            place = f"{hit.path}:{hit.finding.location.line}"
            print(f"{hit.finding.rule} {hit.finding.severity} [{hit.situation}] {place}: {hit.finding.message}")


if __name__ == "__main__":
    main()
