"""Findings and their fixes as values. Reports are made only from these and from estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.card_bytes import CardBytes
from memlint.rule_groups import OF_READING

SEVERITIES = ("info", "warning", "error")
# Names of errors about memory: a run with one of these starts, and fails later, as where its first evaluation does.
_OF_STARTED_RUNS = (
    *("memory/", "evaluation/peak-over-the-card", "saving/peak-over-the-card"),
    "trainer/metric-that-nobody-computes",
)


class Location(NamedTuple):
    """A place in a file: 1-based lines and columns, `end_*` exclusive, character offsets into the decoded text."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    start: int = 0
    end: int = 0
    pointer: tuple[str | int, ...] = ()


class Edit(NamedTuple):
    """A change of one value: `action` is set (adds the key where it is absent), remove or rename.

    `value`: a plain value (not its text); for rename, the new key. `near`: an existing key after which a new key is
    inserted; "": at the end of its mapping.
    """

    path: str  # file
    pointer: tuple[str | int, ...]
    action: str
    value: Any = None
    syntax: str = ""  # the syntax of the file, if the edit would create it
    near: str = ""


class Patch(NamedTuple):
    """A replacement of text: characters `start` to `end` of the decoded file become `text`."""

    path: str
    start: int
    end: int
    text: str


class Fix(NamedTuple):
    """A change that resolves a finding. `before`, `after`: the run's memory on its card (None: not about memory).

    `safe`: the training result stays the same. `speed`: the expected factor of the step time (1.3 = 30 % slower).
    `quality`: none, low, medium, high risk for the result. `edits`: empty if the format cannot express the change.
    """

    title: str
    edits: tuple[Edit, ...] = ()
    changes: Mapping[str, Any] = {}  # dotted field of the run -> new value
    safe: bool = False
    speed: float = 1.0
    quality: str = "none"
    before: CardBytes | None = None
    after: CardBytes | None = None
    verdict_after: str = ""
    note: str = ""
    patches: tuple[Patch, ...] = ()  # `edits` as replacements of text; empty if they were not computed
    partial: bool = False  # lowers the peak but does not resolve the finding: shown, never written by itself
    cards: int = 0  # advice to take so many of the run's cards; 0: another change


class Finding(NamedTuple):
    rule: str  # "MEM001"
    name: str  # "memory/over-the-card"
    severity: str
    message: str
    location: Location
    related: tuple[tuple[Location, str], ...] = ()
    confidence: str = "high"
    why: str = ""
    fixes: tuple[Fix, ...] = ()
    key: str = ""  # message key for baselines and fingerprints: independent of line numbers and figures
    data: Mapping[str, Any] = {}  # the numbers behind the message
    url: str = ""
    where: str = ""  # the condition under which it holds, if nothing shows that to be so; the message ends with it
    causes: tuple[Finding, ...] = ()  # findings that reports show as related places of this one; each has its own fixes


def keeps_from_starting(finding: Finding) -> bool:
    """Whether the finding is an error that ends a run before its memory matters."""
    return finding.severity == "error" and not finding.name.startswith(_OF_STARTED_RUNS)


def written_fix(finding: Finding, unsafe: bool = False) -> Fix | None:
    """The fix that `memlint fix` writes for a finding: the first that it may. `unsafe`: with its option `--unsafe`."""
    return next((fix for fix in finding.fixes if fix.edits and not fix.partial and (fix.safe or unsafe)), None)


def noted(fix: Fix, more: str) -> Fix:
    """The fix with more to say in its note."""
    return fix._replace(note="; ".join(filter(None, (fix.note, more))))


def reading_errors(findings: Iterable[Finding]) -> Iterator[str]:
    """A line for each error that kept a file from being read: "a.yaml:2:6: a ':' that makes no sense here"."""
    for finding in findings:
        if finding.severity == "error" and finding.rule.startswith(OF_READING):
            place = finding.location
            yield f"{place.path}:{place.line}:{place.column}: {finding.message}"
