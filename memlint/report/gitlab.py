"""GitLab code quality (the Code Climate subset that GitLab documents)."""

from __future__ import annotations

import json

from memlint.findings import Finding
from memlint.report.fingerprint import fingerprints
from memlint.report.model import Report, findings
from memlint.report.terminal import clean

SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def render(report: Report) -> str:
    return json.dumps([_issue(item, mark) for item, mark in fingerprints(findings(report))], indent=2) + "\n"


def _issue(finding: Finding, mark: str) -> dict[str, object]:
    return {
        "type": "issue",
        "check_name": finding.rule,
        "description": clean(finding.message),
        "categories": ["Performance"],
        "fingerprint": mark,
        "severity": SEVERITIES[finding.severity],
        "location": {
            "path": clean(finding.location.path),
            "lines": {"begin": finding.location.line, "end": finding.location.end_line},
        },
    }
