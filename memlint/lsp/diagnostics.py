"""Findings as an editor's diagnostics, each under the file that it points to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lsprotocol import types

from memlint.findings import Finding, Location
from memlint.lint.many.merge_reports import merge_reports
from memlint.lsp.buffers import uri_of
from memlint.lsp.positions import Positions
from memlint.lsp.session import CheckedFile
from memlint.report.model import FileReport
from memlint.report.terminal import clean
from memlint.suppressions.apply import UNUSED

SOURCE = "memlint"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}
PositionsOf = Callable[[str], Positions]  # path -> positions in the text of the file that was checked


def pointed_at(report: FileReport) -> set[str]:
    """The paths of the report's own file and of the files that its findings point to."""
    return {report.path, *(item.location.path for item in report.findings)}


def diagnostics(path: str, known: Iterable[CheckedFile], positions_of: PositionsOf) -> Iterator[types.Diagnostic]:
    """The findings of all checked files about the file at `path`, each once, merged as `memlint check` does."""
    concerned = [one for one in known if path in pointed_at(one.report)]
    merged = merge_reports(one.report for one in concerned)
    for finding in next((report.findings for report in merged if report.path == path), ()):
        yield diagnostic(finding, positions_of)
    for one in concerned:
        if one.path == path and one.mistake:
            first = positions_of(path).of(Location(path, 1, 1, 1, 1))
            yield types.Diagnostic(first, clean(one.mistake), types.DiagnosticSeverity.Error, source=SOURCE)


def diagnostic(finding: Finding, positions_of: PositionsOf) -> types.Diagnostic:
    """One finding."""
    return types.Diagnostic(
        range=positions_of(finding.location.path).of(finding.location),
        message=clean(finding.message),
        severity=_SEVERITIES[finding.severity],
        code=finding.rule,
        code_description=types.CodeDescription(finding.url) if finding.url else None,
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if finding.rule == UNUSED[0] else None,
        related_information=[
            types.DiagnosticRelatedInformation(
                types.Location(uri_of(place.path), positions_of(place.path).of(place)), clean(text)
            )
            for place, text in finding.related
        ]
        or None,
    )
