"""Reviewdog diagnostic format (rdjson): reviewdog posts it on any forge."""

from __future__ import annotations

import json

from memlint.findings import Finding, Location
from memlint.report.model import Report, findings
from memlint.report.terminal import clean

SEVERITIES = {"error": "ERROR", "warning": "WARNING", "info": "INFO"}


def render(report: Report) -> str:
    body = {
        "source": {"name": "memlint"},
        "diagnostics": [_diagnostic(item) for item in findings(report)],
    }
    return json.dumps(body, indent=2) + "\n"


def _diagnostic(finding: Finding) -> dict[str, object]:
    code = {"value": finding.rule, **({"url": finding.url} if finding.url else {})}
    return {
        "message": clean(finding.message),
        "location": _location(finding.location),
        "severity": SEVERITIES[finding.severity],
        "code": code,
        "relatedLocations": [{"message": clean(text), "location": _location(place)} for place, text in finding.related],
    }


def _location(place: Location) -> dict[str, object]:
    return {
        "path": clean(place.path),
        "range": {
            "start": {"line": place.line, "column": place.column},
            "end": {"line": place.end_line, "column": place.end_column},
        },
    }
