"""Turns the issues that a format found in a file into findings."""

from __future__ import annotations

import json

from memlint.findings import Edit, Finding, Fix, Location
from memlint.formats.base import Issue, Parsed
from memlint.formats.issues import ISSUES
from memlint.ruleset.places import location
from memlint.source.document import Document

MOST_FIXED = 20  # every fix is tested on the whole file; a file with more mistakes is no config, or a hostile one
_VALUES = ("bad-value", "removed-value", "wrong-type")
_NAMES = ("unknown-key", "renamed-key")


def issue_findings(parsed: Parsed) -> list[Finding]:
    """The issues of a parsed file as findings, each at its place in the file it is about."""
    documents = {document.path: document for document in parsed.documents}
    found = [_finding(issue, documents) for issue in parsed.issues]
    if sum(bool(one.fixes) for one in found) <= MOST_FIXED:
        return found
    return [one._replace(fixes=()) for one in found]


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
        fixes=_fixes(issue, documents),
        key=f"{known.rule}:{'.'.join(str(part) for part in issue.pointer)}",
        where=issue.where,
    )


def _location(documents: dict[str, Document], path: str, pointer: tuple[str | int, ...], on_key: bool) -> Location:
    document = documents.get(path)
    if document is None:
        return Location(path, 1, 1, 1, 1, pointer=pointer)
    return location(document, pointer, on_key)


def _fixes(issue: Issue, documents: dict[str, Document]) -> tuple[Fix, ...]:
    """The fixes of an issue: a certain edit is safe, a guess at the intended word (`_corrections`) is not."""
    if issue.edit is None:
        return _corrections(issue, documents)
    what = {"remove": "remove the key", "rename": f"rename it to `{issue.edit.value}`"}
    written = issue.suggestion or json.dumps(issue.edit.value)
    title = what.get(issue.edit.action, f"write `{written}`")
    return (Fix(title=title, edits=(issue.edit,), safe=True),)


def _corrections(issue: Issue, documents: dict[str, Document]) -> tuple[Fix, ...]:
    """The fix that writes the key or value that was probably meant; none if that key exists already."""
    document = documents.get(issue.path)
    if not issue.suggestion or not issue.pointer or document is None:
        return ()
    if issue.code == "renamed-key" and issue.severity == "info":
        return ()  # the release is not known, and an older one needs the old name
    if issue.code in _VALUES:
        edit = Edit(issue.path, issue.pointer, "set", issue.suggestion)
        return (Fix(title=f"write `{issue.suggestion}`", edits=(edit,)),)
    if issue.code in _NAMES and (*issue.pointer[:-1], issue.suggestion) not in document.places:
        edit = Edit(issue.path, issue.pointer, "rename", issue.suggestion)
        return (Fix(title=f"rename it to `{issue.suggestion}`", edits=(edit,)),)
    return ()
