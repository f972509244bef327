"""Writes docs/coverage.md: what frameworks check, and which rule says so before they do. `--check`: only say if stale.

The tables are benchmarks/data/coverage_*.tsv, a row for a condition in a framework's source: source, place, condition,
decision, and the rules that cover it or the reason why none does.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from generated import settle

from memlint.formats.issues import ISSUES
from memlint.ruleset.python import MODULES
from memlint.ruleset.source_findings import RULES as SOURCE_RULES

ROOT = Path(__file__).parent.parent
TABLES = ROOT / "benchmarks" / "data"
COUNTS = TABLES / "refusals.json"
PAGE = ROOT / "docs" / "coverage.md"
COLUMNS = ("source", "place", "condition", "decision", "rule_or_reason")
DECISIONS = {
    "covered": "a rule or a check of the format fires",
    "undecidable": "no config shows it: the disk, the data, the launcher, what is installed, a script's own objects",
    "harmless": "the run goes on and trains the same, or the slip is seen in the first second",
    "obsolete": "current releases have it no longer",
    "other-format": "another tool's own key; what the formats of memlint have of the same matter is named",
}
_SAYS_SO = {"new": "covered"}  # found by the review that made these tables, shipped since
_RULE = re.compile(r"\b[A-Z]{3}\d{3}\b")


class Row(NamedTuple):
    """One condition. `rules` are the ids that its reason names."""

    source: str
    place: str
    condition: str
    decision: str
    reason: str

    @property
    def rules(self) -> list[str]:
        return _RULE.findall(self.reason)


def rows() -> list[Row]:
    """All tables, in the order of their names and lines. Raises `ValueError` at a row that does not fit."""
    return [row for path in sorted(TABLES.glob("coverage_*.tsv")) for row in _table(path)]


def _table(path: Path) -> Iterator[Row]:
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    if tuple(head.split("\t")) != COLUMNS:
        raise ValueError(f"{path.name}: the columns are {', '.join(COLUMNS)}")
    for number, line in enumerate(lines, 2):
        cells = line.split("\t")
        row = Row(*cells) if len(cells) == len(COLUMNS) and all(cells) else None
        if row is None or _SAYS_SO.get(row.decision, row.decision) not in DECISIONS:
            raise ValueError(f"{path.name}:{number}: {line[:80]!r} is no row")
        yield row._replace(decision=_SAYS_SO.get(row.decision, row.decision))


def known_rules() -> set[str]:
    """Ids of rule files, of rules in Python, and of what formats and readers report."""
    files = {path.stem for path in (ROOT / "rules").rglob("*.yaml")}
    own = {issue.rule for issue in ISSUES.values()} | {rule for rule, *_ in SOURCE_RULES}
    return files | own | {str(module.FIELDS["id"]) for module in MODULES}


def page(found: list[Row]) -> str:
    counts = Counter(row.decision for row in found)
    named = {rule for row in found if row.decision == "covered" for rule in row.rules}
    lines = [
        "# What frameworks check, and what memlint says before they do",
        "",
        f"{len(found)} conditions in the sources of frameworks that stop a run or silently change it, read one by one.",
        f"{len(named)} rules cover {counts['covered']} of them.",
        "",
        "| decision | conditions | meaning |",
        "|---|---|---|",
        *(f"| {word} | {counts[word]} | {meaning} |" for word, meaning in DECISIONS.items()),
        "",
        *refusals(),
    ]
    for source in dict.fromkeys(row.source for row in found):
        lines += [f"## {source}", "", "| place | condition | decision | |", "|---|---|---|---|"]
        lines += [_line(row) for row in found if row.source == source] + [""]
    return "\n".join(lines)


def refusals() -> Iterator[str]:
    """What benchmarks/corpus/refusals.py counted."""
    yield from ("## Against the frameworks' own argument classes", "")
    yield "Random combinations of up to three options, given to memlint and to the argument classes of LLaMA-Factory"
    yield "(ff6d4d1, transformers 5.23.0) and TRL 1.16.0 by `benchmarks/corpus/refusals.py`. Missed: refused there, no"
    yield "error here. False alarm: taken there, but an error here that should show when arguments are parsed."
    yield from ("", "| arguments | combinations | refused | missed | false alarms |", "|---|---|---|---|---|")
    for name, count in json.loads(COUNTS.read_text(encoding="utf-8")).items():
        yield f"| {name} | {count['tried']} | {count['refused']} | {count['missed']} | {count['false_alarms']} |"
    yield ""


def _line(row: Row) -> str:
    reason = _RULE.sub(lambda match: _linked(match[0]), row.reason)
    cells = (row.place, row.condition, row.decision, reason)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _linked(rule: str) -> str:
    has_page = (ROOT / "docs" / "rules" / f"{rule}.md").is_file()
    return f"[{rule}](rules/{rule}.md)" if has_page else rule


def main(arguments: list[str]) -> int:
    found = rows()
    unknown = sorted({rule for row in found for rule in row.rules} - known_rules())
    if unknown:
        print(f"no such rule: {', '.join(unknown)}")
        return 1
    return settle({PAGE: page(found)}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
