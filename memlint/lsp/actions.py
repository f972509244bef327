"""Code actions for a finding: its fixes with their figures, a suppression with a reason, an explanation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lsprotocol import types

from memlint.findings import Finding, Fix
from memlint.lsp.buffers import uri_of
from memlint.lsp.diagnostics import PositionsOf, diagnostic
from memlint.lsp.positions import Positions
from memlint.report.text import describe_fix
from memlint.suppressions.apply import NEVER
from memlint.suppressions.directives import MALFORMED

EXPLAIN = "memlint.explain"
REASON = "TODO: say why"
LONGEST_LINE = 1 << 30
_ABOUT_COMMENTS = (MALFORMED[0], "SUP001", "SUP002", "SUP003")


def actions(
    path: str, findings: Iterable[Finding], positions_of: PositionsOf, versions: Mapping[str, int | None]
) -> Iterator[types.CodeAction]:
    """The actions for findings in the file at `path`. `versions`: of the documents that are open, by path."""
    findings = list(findings)
    shown = {id(finding): [diagnostic(finding, positions_of)] for finding in findings}
    for finding in findings:
        preferred = next((fix for fix in finding.fixes if fix.safe and fix.patches), None)
        for fix in finding.fixes:
            if fix.patches:
                yield types.CodeAction(
                    describe_fix(fix),
                    types.CodeActionKind.QuickFix,
                    shown[id(finding)],
                    is_preferred=fix is preferred,
                    edit=_edit(fix, positions_of, versions),
                )
    for finding in findings:
        edit = suppression(finding, positions_of(path))
        if edit is not None:
            yield types.CodeAction(
                f"Suppress {finding.rule} here, with a reason",
                types.CodeActionKind.QuickFix,
                shown[id(finding)],
                edit=_workspace_edit({path: [edit]}, versions),
            )
    for finding in findings:
        command = types.Command(
            f"Explain {finding.rule}", EXPLAIN, arguments=[finding.rule, path, finding.location.line]
        )
        yield types.CodeAction(command.title, types.CodeActionKind.QuickFix, shown[id(finding)], command=command)


def _edit(fix: Fix, positions_of: PositionsOf, versions: Mapping[str, int | None]) -> types.WorkspaceEdit:
    edits: dict[str, list[types.TextEdit]] = {}
    for patch in fix.patches:
        place = positions_of(patch.path).between(patch.start, patch.end)
        edits.setdefault(patch.path, []).append(types.TextEdit(place, patch.text))
    return _workspace_edit(edits, versions)


def _workspace_edit(
    edits: Mapping[str, list[types.TextEdit]], versions: Mapping[str, int | None]
) -> types.WorkspaceEdit:
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(uri_of(path), versions.get(path)), list(own)
            )
            for path, own in edits.items()
        ]
    )


def suppression(finding: Finding, positions: Positions) -> types.TextEdit | None:
    """The edit that adds a suppression comment; None if the file cannot have comments or the finding is about comments.

    In YAML and Python the comment goes to the end of the line, in a shell script above it. Inside of a command that is
    continued with backslashes, a comment would end it: there it goes above the command and covers the whole file.
    """
    path, number = finding.location.path, finding.location.line - 1
    if finding.rule in NEVER or finding.rule in _ABOUT_COMMENTS or path.endswith((".json", ".ipynb")):
        return None
    line, verb = positions.line(number), "ignore"
    if path.endswith((".yaml", ".yml", ".py")) and "#" not in line and not line.rstrip().endswith(("|", ">", "\\")):
        end = positions.at(positions.offset(types.Position(number, LONGEST_LINE)))
        return types.TextEdit(types.Range(end, end), f"  # memlint: {verb}[{finding.rule}] {REASON}")
    while number > 0 and positions.line(number - 1).rstrip().endswith("\\"):
        number, verb = number - 1, "ignore-file"
    indent = re.match(r"[ \t]*", positions.line(number))
    start = types.Position(number, 0)
    newline = "\r\n" if "\r\n" in positions.text else "\n"
    comment = f"{indent[0] if indent else ''}# memlint: {verb}[{finding.rule}] {REASON}{newline}"
    return types.TextEdit(types.Range(start, start), comment)
