"""The text that an editor shows for "explain": the finding as the command line prints it, and its rule's page."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.lint.rule_facts import rule_facts
from memlint.lsp.session import EditorSession
from memlint.report.terminal import PLAIN
from memlint.report.text import finding_lines
from memlint.ruleset import page


def explanation(session: EditorSession, rule: str, path: str, line: int) -> str:
    """The page of a rule; above it, the rule's finding at `line` of the file, if there is one. Raises UsageError."""
    return "\n".join([*_finding(session, rule, path, line), *_page(session, rule, path)]) + "\n"


def _finding(session: EditorSession, rule: str, path: str, line: int) -> Iterator[str]:
    report = session.with_fixes(path) if path else None
    for finding in report.findings if report is not None else ():
        if finding.rule == rule and finding.location.line == line and report is not None:
            yield from (*finding_lines(finding, report.texts, PLAIN), "")


def _page(session: EditorSession, rule: str, path: str) -> Iterator[str]:
    catalog = session.linter().rules
    folders = session.linter().settings.of(path or "config.yaml").rules_dirs
    found = next((one for one in rule_facts(catalog, folders) if one.id == rule), None)
    if found is not None:
        written = next((one for one in catalog.rules(folders) if one.id == rule), None)
        yield from page.text(page.facts(found, written))
