"""What a format has to say about a file, as findings."""

from __future__ import annotations

from memlint.checks.places import location
from memlint.findings import Finding, Fix, Location
from memlint.formats.base import Issue, Parsed
from memlint.formats.issues import ISSUES
from memlint.source.document import Document


def issue_findings(parsed: Parsed) -> list[Finding]:
    """The issues of a parsed file as findings, each at its place in the file it is about."""
    documents = {document.path: document for document in parsed.documents}
    return [_finding(issue, documents) for issue in parsed.issues]


def _finding(issue: Issue, documents: dict[str, Document]) -> Finding:
    known = ISSUES[issue.code]
    return Finding(
        rule=known.rule,
        name=known.name,
        severity=issue.severity,
        message=issue.message,
        location=_location(documents, issue.path, issue.pointer, issue.on_key),
        related=tuple((_location(documents, path, pointer, False), label) for path, pointer, label in issue.related),
        why=known.why,
        fixes=_fixes(issue),
        key=f"{known.rule}:{'.'.join(str(part) for part in issue.pointer)}",
    )


def _location(documents: dict[str, Document], path: str, pointer: tuple[str | int, ...], on_key: bool) -> Location:
    document = documents.get(path)
    if document is None:
        return Location(path, 1, 1, 1, 1, pointer=pointer)
    return location(document, pointer, on_key)


def _fixes(issue: Issue) -> tuple[Fix, ...]:
    if issue.edit is None:
        return ()
    what = {"remove": "remove the key", "rename": f"rename it to `{issue.edit.value}`"}
    title = what.get(issue.edit.action, f"write `{issue.suggestion or issue.edit.value}`")
    return (Fix(title=title, edits=(issue.edit,), safe=True),)
