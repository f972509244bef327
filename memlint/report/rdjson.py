"""Reviewdog diagnostic format (rdjson): reviewdog posts it on any forge."""

from __future__ import annotations

import json
from collections.abc import Mapping

from memlint.findings import Finding, Location, Patch
from memlint.report.model import Report
from memlint.report.terminal import clean
from memlint.report.text import source_line

SEVERITIES = {"error": "ERROR", "warning": "WARNING", "info": "INFO"}


def render(report: Report) -> str:
    body = {
        "source": {"name": "memlint"},
        "diagnostics": [_diagnostic(item, file.texts) for file in report.files for item in file.findings],
    }
    return json.dumps(body, indent=2) + "\n"


def _diagnostic(finding: Finding, texts: Mapping[str, str]) -> dict[str, object]:
    code = {"value": finding.rule, **({"url": finding.url} if finding.url else {})}
    diagnostic: dict[str, object] = {
        "message": clean(finding.message),
        "location": _location(finding.location, texts),
        "severity": SEVERITIES[finding.severity],
        "code": code,
        "relatedLocations": [
            {"message": clean(text), "location": _location(place, texts)} for place, text in finding.related
        ],
    }
    suggestions = [_suggestion(patch, texts) for patch in _patches(finding) if patch.path in texts]
    return {**diagnostic, "suggestions": suggestions} if suggestions else diagnostic


def _patches(finding: Finding) -> tuple[Patch, ...]:
    """The first fix that this file alone can take; reviewdog offers it as a suggested change."""
    path = finding.location.path
    for fix in finding.fixes:
        if len(fix.patches) == 1 and fix.patches[0].path == path:
            return fix.patches
    return ()


def _suggestion(patch: Patch, texts: Mapping[str, str]) -> dict[str, object]:
    text = texts[patch.path]
    ends = {"start": _position(text, patch.start), "end": _position(text, patch.end)}
    return {"range": ends, "text": patch.text}


def _position(text: str, offset: int) -> dict[str, int]:
    start = text.rfind("\n", 0, offset) + 1
    return {"line": text.count("\n", 0, offset) + 1, "column": _bytes(text[start:offset]) + 1}


def _location(place: Location, texts: Mapping[str, str]) -> dict[str, object]:
    text = texts.get(place.path)
    return {
        "path": clean(place.path),
        "range": {
            "start": {"line": place.line, "column": _column(text, place.line, place.column)},
            "end": {"line": place.end_line, "column": _column(text, place.end_line, place.end_column)},
        },
    }


def _column(text: str | None, line: int, column: int) -> int:
    """Reviewdog counts bytes of UTF-8 (proto/rdf/reviewdog.proto, Position.column)."""
    content = source_line(text, line)
    return column if content is None else _bytes(content[: column - 1]) + 1


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
