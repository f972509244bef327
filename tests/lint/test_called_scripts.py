"""What a script that calls another one says at the call, and the other script says itself, is said once."""

from __future__ import annotations

from memlint.findings import Finding, Location
from memlint.lint.many.merge_reports import merge_reports
from memlint.report.model import FileReport


def finding(path: str, line: int, message: str = "`label_smoothing: 0.1` has no effect") -> Finding:
    return Finding("TRL019", "trl/smoothing", "warning", message, Location(path, line, 1, line, 9), key="TRL019:")


def lines_of(*reports: FileReport) -> list[tuple[str, int]]:
    merged = merge_reports(reports)
    return [(item.location.path, item.location.line) for report in merged for item in report.findings]


INNER = FileReport("scripts/inner.sh", "trainer", (finding("scripts/inner.sh", 12),))


def test_the_called_script_says_it() -> None:
    outer = FileReport("all.sh", "trainer", (finding("all.sh", 3),), calls=((3, "inner.sh"),))
    assert lines_of(outer, INNER) == [("scripts/inner.sh", 12)]
    assert lines_of(INNER, outer) == [("scripts/inner.sh", 12)]


def test_what_the_called_script_does_not_say_stays() -> None:
    alone = FileReport("all.sh", "trainer", (finding("all.sh", 3, "another"),), calls=((3, "inner.sh"),))
    assert lines_of(alone, INNER) == [("all.sh", 3), ("scripts/inner.sh", 12)]
    elsewhere = FileReport("all.sh", "trainer", (finding("all.sh", 4),), calls=((3, "inner.sh"),))
    assert lines_of(elsewhere, INNER) == [("all.sh", 4), ("scripts/inner.sh", 12)]
