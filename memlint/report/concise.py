"""One line per finding, `path:line:col: severity RULE message`, for editors, logs and grep."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.findings import Finding
from memlint.report.model import Report, each_finding
from memlint.report.terminal import one_line, starts_safely
from memlint.report.text import describe_fix


def render(report: Report) -> str:
    return "".join(pieces(report))


def pieces(report: Report) -> Iterator[str]:
    return (line(finding) + "\n" for finding in each_finding(report))


def line(finding: Finding) -> str:
    place = finding.location
    fix = f" [fix: {describe_fix(finding.fixes[0])}]" if finding.fixes else ""
    head = f"{starts_safely(one_line(place.path))}:{place.line}:{place.column}: {finding.severity} {finding.rule}"
    return f"{head} {one_line(finding.message)}{fix}"
