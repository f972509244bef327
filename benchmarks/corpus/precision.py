"""How often each rule is right.

    python benchmarks/corpus/precision.py FOLDER [--sample [ID]] [--count]
    python benchmarks/corpus/precision.py FOLDER --write

Hits are gathered over a corpus (FOLDER, as for corpus_findings.py) in five situations, over its training configs beside
the launch files of the same repository, and over generated configs (make_configs.py). `--sample` prints 30 hits of each
rule (all, where there are fewer), spread over files; they are judged by hand against the config and the sources that
the rule names. data/precision.tsv holds the judgements, `--count` brings its numbers of hits up to date, and
`--write` makes docs/rules-precision.md of it and of the first readings (severities.py).
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import yaml

from benchmarks.corpus import severities
from benchmarks.corpus.corpus_findings import DATA, KINDS, SUFFIXES, Hit, Situation, engine, hits, read_tsv
from benchmarks.speed import make_configs
from memlint.formats import recognise
from memlint.formats.issues import ISSUES
from memlint.repository.workspace import on_disk
from memlint.ruleset.engine import Engine
from memlint.ruleset.python import MODULES
from memlint.ruleset.shipped import shipped
from memlint.source import load

ROOT = Path(__file__).resolve().parents[2]
TABLE = DATA / "precision.tsv"
PAGE = ROOT / "docs" / "rules-precision.md"
SAMPLE = 30
GENERATED = 400
SITUATIONS = (
    Situation("1 A100", 1, "A100-80GB"),
    Situation("8 A100", 8, "A100-80GB"),
    Situation("1 4090", 1, "RTX4090"),
    Situation("4 4090", 4, "RTX4090"),
    Situation("no card", 0),
)


class Judged(NamedTuple):
    """A line of the table: counts of hits, of sampled ones, and of right and wrong ones among these."""

    rule: str
    hits: int
    sampled: int
    right: int
    wrong: int
    note: str


def claimed(path: Path) -> str:
    """The format of a file, "" for none."""
    found = next((claim for claim in map(recognise, load(path.read_bytes(), str(path))) if claim), None)
    return found[0].NAME if found else ""


def launched(folder: Path) -> Iterator[Hit]:
    """Training configs beside each launch file of the same repository, on one kind of card."""
    rules = engine()
    files: dict[str, list[tuple[Path, str]]] = collections.defaultdict(list)
    for kind in KINDS:
        for path in sorted((folder / kind).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                files[path.relative_to(folder).parts[1]].append((path, claimed(path)))
    for listed in files.values():
        launchers = [path for path, format_ in listed if format_ == "accelerate"]
        for path, format_ in listed:
            if format_ in ("llamafactory", "trainer"):
                yield from _beside(rules, folder, path, launchers)


def _beside(rules: Engine, folder: Path, path: Path, launchers: list[Path]) -> Iterator[Hit]:
    repository = folder.joinpath(*path.relative_to(folder).parts[:2])
    workspace = on_disk(str(folder), str(repository))
    facts = Situation("launched", 1).facts("A100-80GB")
    document = workspace.documents(str(path.relative_to(repository)))[0]
    for launcher in launchers:
        known = {key: value for key, value in facts.items() if key in ("gpu", "gpu_origin")}
        context = workspace.context(**known, companions=load(launcher.read_bytes(), str(launcher))[:1])
        for finding in rules.analyse(document, context).findings:
            yield Hit(f"with {launcher.name}", str(path.relative_to(folder)), finding)


def generated() -> Iterator[Hit]:
    """Configs of make_configs.py, on the card and the GPUs that each names in its first line."""
    rules = engine()
    with tempfile.TemporaryDirectory() as folder:
        make_configs.write(Path(folder), GENERATED)
        workspace = on_disk(folder, folder)
        for path in sorted(Path(folder).rglob("*.yaml")):
            name = str(path.relative_to(folder))
            (document,) = workspace.documents(name)
            found = re.match(r"# memlint: gpu=(\S+) gpus=(\d+)", document.text)
            situation = Situation("generated", int(found[2]), found[1]) if found else SITUATIONS[-1]
            for finding in rules.analyse(document, workspace.context(**situation.facts(""))).findings:
                yield Hit("generated", name, finding)


def everything(folder: Path) -> dict[str, list[Hit]]:
    """Hits by rule, each once."""
    found: dict[str, dict[tuple[str, str, str], Hit]] = collections.defaultdict(dict)
    for source in (hits(folder, KINDS, "", SITUATIONS), launched(folder), generated()):
        for hit in source:
            found[hit.finding.rule][hit.path, hit.situation, hit.finding.message] = hit
    return {rule: list(listed.values()) for rule, listed in sorted(found.items())}


def sample(listed: list[Hit]) -> list[Hit]:
    """SAMPLE hits in an order that follows from their names alone, one a file before a second of any."""
    rank = {id(hit): _digest(hit) for hit in listed}
    seen: collections.Counter[str] = collections.Counter()
    ordered = []
    for hit in sorted(listed, key=lambda hit: rank[id(hit)]):
        ordered.append((seen[hit.path], rank[id(hit)], hit))
        seen[hit.path] += 1
    return [hit for *_, hit in sorted(ordered, key=lambda item: item[:2])[:SAMPLE]]


def _digest(hit: Hit) -> bytes:
    return hashlib.sha256(f"{hit.path} {hit.situation} {hit.finding.location.line}".encode()).digest()


def show(found: dict[str, list[Hit]], only: str) -> None:
    """The sample of each rule, to judge."""
    for rule, listed in found.items():
        if rule.startswith(only):
            print(f"## {rule}: {len(listed)} hits in {len({hit.path for hit in listed})} files")
            for hit in sample(listed):
                finding = hit.finding
                print(f"{finding.severity} [{hit.situation}] {hit.path}:{finding.location.line}: {finding.message}")


def judged() -> dict[str, Judged]:
    """data/precision.tsv by rule."""
    rows = (Judged(rule, *map(int, numbers), note) for rule, *numbers, note in read_tsv(TABLE))
    return {row.rule: row for row in rows}


def count(found: dict[str, list[Hit]]) -> None:
    """Bring the numbers of hits up to date and say whose sample is not wholly judged."""
    known = judged() if TABLE.exists() else {}
    rows = []
    for rule in sorted({*known, *found}):
        listed = found.get(rule, [])
        row = known.get(rule, Judged(rule, 0, 0, 0, 0, ""))._replace(hits=len(listed), sampled=len(sample(listed)))
        rows.append(row)
        if row.sampled != row.right + row.wrong:
            print(f"{rule}: {row.sampled} sampled, {row.right + row.wrong} judged")
    head = "\t".join(Judged._fields)
    lines = ("\t".join(map(str, row)) for row in rows)
    TABLE.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def examples() -> dict[str, int]:
    """How many examples each shipped rule has in its file."""
    counts = {module.FIELDS["id"]: len(module.FIELDS["examples"]) for module in MODULES}
    for path in (ROOT / "rules").rglob("*.yaml"):
        rule = yaml.safe_load(path.read_text(encoding="utf-8"))
        counts[rule["id"]] = len(rule["examples"])
    return counts


def page() -> str:
    """docs/rules-precision.md."""
    rows = [row for row in judged().values() if row.hits]
    own = examples()
    names = {rule.id: rule.name for rule in shipped()} | {issue.rule: issue.name for issue in ISSUES.values()}
    silent = sorted(set(own) - {row.rule for row in rows})
    right, wrong = sum(row.right for row in rows), sum(row.wrong for row in rows)
    lines = [
        "# How often each rule is right",
        "",
        *_first_readings(names),
        "## Over the corpus",
        "",
        "Each rule's hits over public configs, over the training configs among them beside their repository's launch",
        f"files, and over {GENERATED} generated ones; up to {SAMPLE} of a rule were judged by hand against the config",
        "and the sources that the rule names. Right means: what the message says happens.",
        "Figures of memory were recounted from weights, gradients and states; accuracy.md measures them.",
        "`python benchmarks/corpus/precision.py FOLDER --count` counts; the judgements stand in",
        "benchmarks/data/precision.tsv.",
        "",
        f"{len(rows)} rules fired; of {right + wrong} judged hits {right} are right and {wrong} wrong.",
        "",
        "| rule | name | hits | judged | right | wrong | note |",
        "|---|---|---|---|---|---|---|",
        *(_line(row, names.get(row.rule, "")) for row in rows),
        "",
        *_refusals(),
        "## Rules that never fired there",
        "",
        f"{len(silent)} rules: nothing in these files is what they look for. Their own examples are their tests.",
        "",
        "| rule | name | examples |",
        "|---|---|---|",
        *(f"| {rule} | {names.get(rule, '')} | {own[rule]} |" for rule in silent),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Judged, name: str) -> str:
    cells = (row.rule, name, row.hits, row.right + row.wrong, row.right, row.wrong, row.note)
    return f"| {' | '.join(map(str, cells))} |"


LAST = 8  # rounds that are counted by themselves, as what was wrong in those before was mended


def _first_readings(names: dict[str, str]) -> list[str]:
    """What was judged in repositories that nobody had read before (severities.py)."""
    rounds = severities.rounds()
    newest = sorted(rounds)[-LAST:]
    repositories = sum(int(count) for number, _, count in read_tsv(severities.KINDS) if int(number) in newest)
    late = [finding for number in newest for finding in rounds[number]]
    every = [finding for findings in rounds.values() for finding in findings]
    return [
        "## In repositories that nobody had read",
        "",
        f"Of each of {len(rounds)} rounds all errors were judged beside the framework's source, and of warnings and",
        "infos that are alike in one repository three, before anything was mended. They are counted as they were then:",
        f"what was wrong was mended after each round. The last {len(newest)} rounds ({repositories} repositories)",
        "stand by themselves. `python benchmarks/corpus/severities.py` prints each round; the judgements stand in",
        "benchmarks/data/first_readings.tsv.",
        "",
        f"| severity | right, of all | right, in the last {len(newest)} rounds |",
        "|---|---|---|",
        *(f"| {name} | {_share(every, name)} | {_share(late, name)} |" for name in severities.BARS),
        "",
        f"| rule | name | judged | right | wrong | wrong in the last {len(newest)} rounds |",
        "|---|---|---|---|---|---|",
        *_by_rule(every, late, names),
        "",
    ]


def _share(findings: list[severities.Finding], severity: str) -> str:
    own = [finding.judgement == "right" for finding in findings if finding.severity == severity]
    return f"{sum(own)} of {len(own)} ({100 * sum(own) / max(1, len(own)):.1f} %)"


def _by_rule(every: list[severities.Finding], late: list[severities.Finding], names: dict[str, str]) -> Iterator[str]:
    total = collections.Counter(finding.rule for finding in every)
    wrong = collections.Counter(finding.rule for finding in every if finding.judgement != "right")
    wrong_late = collections.Counter(finding.rule for finding in late if finding.judgement != "right")
    for rule, judged_ in sorted(total.items()):
        counts = (judged_, judged_ - wrong[rule], wrong[rule], wrong_late[rule])
        yield f"| {rule} | {names.get(rule, '')} | {' | '.join(map(str, counts))} |"


def _refusals() -> list[str]:
    """What benchmarks/corpus/engine_refusals.py counted."""
    found = json.loads((DATA / "engine_refusals.json").read_text(encoding="utf-8"))
    lines = (f"| {name} | " + " | ".join(map(str, counts.values())) + " |" for name, counts in found.items())
    return [
        "## Against DeepSpeed and accelerate themselves",
        "",
        "Random launch and DeepSpeed files, given to memlint and to the framework by",
        "`benchmarks/corpus/engine_refusals.py`.",
        "",
        "| | files | refused there | missed here | false alarms |",
        "|---|---|---|---|---|",
        *lines,
        "",
        *_parsers(),
    ]


def _parsers() -> list[str]:
    """What benchmarks/refusals/compare.py counted."""
    found = json.loads((DATA / "parser_refusals.json").read_text(encoding="utf-8"))
    columns = ("tried", "refused", "missed", "false alarms")
    rows = ((name, *(str(counts[one]) for one in columns)) for name, counts in sorted(found.items()))
    lines = (f"| {' | '.join(row)} |" for row in rows)
    return [
        "## Against the parsers of other trainers",
        "",
        "Sound configurations with one to three random changes, given to memlint, which is told the release, and to",
        "the framework's own parser and checks as far as they go before a model is loaded",
        "(`benchmarks/refusals/compare.py`).",
        "",
        "| | files | refused there | missed here | false alarms |",
        "|---|---|---|---|---|",
        *lines,
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sample", nargs="?", const="", help="print the sample of rules whose id starts so")
    parser.add_argument("--count", action="store_true", help="bring the numbers of hits up to date")
    parser.add_argument("--write", action="store_true", help="write docs/rules-precision.md")
    words = parser.parse_args()
    if words.folder:
        found = everything(words.folder.resolve())
        if words.sample is not None:
            show(found, words.sample)
        if words.count:
            count(found)
    if words.write:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
