"""GitHub Actions workflow commands, worst first, and a job summary for what the ten-annotation limit hides.

Escaping as in actions/toolkit packages/core/src/command.ts (escapeData, escapeProperty).
"""

from __future__ import annotations

from memlint.findings import SEVERITIES, Finding
from memlint.report.model import Report, findings
from memlint.report.terminal import clean
from memlint.report.text import describe_fix

COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
# A step shows ten annotations of each kind; the rest are dropped without a word (actions/toolkit#734).
SHOWN_PER_KIND = 10


def render(report: Report) -> str:
    """One command a finding, and a notice that counts what GitHub will not show."""
    ordered = sorted(findings(report), key=lambda item: -SEVERITIES.index(item.severity))
    lines = [command(item) for item in ordered]
    hidden = held_back(ordered)
    if hidden:
        lines.append(f"::notice title=memlint::{hidden} more findings than GitHub annotates: see the job summary")
    return "".join(line + "\n" for line in lines)


def held_back(items: list[Finding]) -> int:
    """How many annotations GitHub drops."""
    per_kind = [sum(item.severity == severity for item in items) for severity in SEVERITIES]
    return sum(max(0, number - SHOWN_PER_KIND) for number in per_kind)


def command(finding: Finding) -> str:
    place = finding.location
    properties: dict[str, object] = {"file": place.path, "line": place.line, "endLine": place.end_line}
    if place.end_line == place.line:  # columns of an annotation over several lines are refused
        properties |= {"col": place.column, "endColumn": place.end_column}
    properties["title"] = f"{finding.rule} {finding.name}"
    told = ",".join(f"{key}={escape_property(str(value))}" for key, value in properties.items())
    message = "\n".join([finding.message, *(f"fix: {describe_fix(fix)}" for fix in finding.fixes[:3])])
    return f"::{COMMANDS[finding.severity]} {told}::{escape_data(clean(message))}"


def escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    return escape_data(clean(text)).replace(":", "%3A").replace(",", "%2C")
