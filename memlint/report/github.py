"""GitHub Actions workflow commands, worst first, and a job summary for what the ten-annotation limit hides.

Escaping as in actions/toolkit packages/core/src/command.ts (escapeData, escapeProperty).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.findings import SEVERITIES, Finding
from memlint.report.model import Report, each_finding
from memlint.report.terminal import clean
from memlint.report.text import describe_fix

COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
# A step shows ten annotations of each kind; the rest are dropped without a word (actions/toolkit#734).
SHOWN_PER_KIND = 10


def render(report: Report) -> str:
    """One command per finding, and a notice that counts those which GitHub will not show."""
    return "".join(pieces(report))


def pieces(report: Report) -> Iterator[str]:
    hidden = 0
    for severity in reversed(SEVERITIES):
        number = 0
        for item in each_finding(report):
            if item.severity == severity:
                number += 1
                yield command(item) + "\n"
        hidden += max(0, number - SHOWN_PER_KIND)
    if hidden:
        yield f"::notice title=memlint::{hidden} more findings than GitHub annotates: see the job summary\n"


def command(finding: Finding) -> str:
    place = finding.location
    properties: dict[str, object] = {"file": place.path, "line": place.line, "endLine": place.end_line}
    if place.end_line == place.line:  # columns of an annotation over several lines are refused
        properties |= {"col": place.column, "endColumn": place.end_column}
    properties["title"] = f"{finding.rule} {finding.name}"
    parameters = ",".join(f"{key}={escape_property(str(value))}" for key, value in properties.items())
    message = "\n".join([finding.message, *(f"fix: {describe_fix(fix)}" for fix in finding.fixes[:3])])
    return f"::{COMMANDS[finding.severity]} {parameters}::{escape_data(clean(message))}"


def escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    return escape_data(clean(text)).replace(":", "%3A").replace(",", "%2C")
