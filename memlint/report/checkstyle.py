"""Checkstyle XML, which most CI plug-ins read."""

from __future__ import annotations

from memlint.findings import Finding
from memlint.report.model import FileReport, Report
from memlint.report.xml import element

HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n'


def render(report: Report) -> str:
    files = "\n".join(_file(file) for file in report.files)
    return HEADER + element("checkstyle", {"version": "4.3"}, f"\n{files}\n") + "\n"


def _file(file: FileReport) -> str:
    return element("file", {"name": file.path}, "".join(map(_error, file.findings)))


def _error(finding: Finding) -> str:
    return element(
        "error",
        {
            "line": finding.location.line,
            "column": finding.location.column,
            "severity": finding.severity,
            "message": finding.message,
            "source": f"memlint.{finding.rule}",
        },
    )
