"""Metadata of every rule, for reports that list all rules (SARIF, HTML)."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.issues import ISSUES
from memlint.lint.analyse_file import UNREADABLE
from memlint.lint.rule_catalog import RuleCatalog
from memlint.report.model import RuleFacts
from memlint.rule_groups import INTERNAL_ERROR
from memlint.ruleset.source_findings import RULES
from memlint.suppressions.apply import EXPIRED, NO_REASON, UNUSED
from memlint.suppressions.directives import MALFORMED

_SUPPRESSIONS = {
    UNUSED: ("A suppression that hides nothing", "info"),
    EXPIRED: ("A suppression whose date has passed", "warning"),
    NO_REASON: ("A suppression without a reason", "warning"),
    MALFORMED: ("A memlint comment that means nothing", "warning"),
}


def rule_facts(catalog: RuleCatalog, folders: tuple[str, ...] = ()) -> tuple[RuleFacts, ...]:
    """All rules that a finding can have, ordered by id. `folders`: folders with rules of the user (`rules_dirs`)."""
    by_id = {rule.id: rule for rule in (*built_in_rules(), *_from_rule_files(catalog, folders))}
    return tuple(by_id[rule] for rule in sorted(by_id))


def _from_rule_files(catalog: RuleCatalog, folders: tuple[str, ...]) -> Iterator[RuleFacts]:
    for rule in catalog.rules(folders):
        texts = rule.texts()
        yield RuleFacts(rule.id, rule.name, texts.title, rule.severity, texts.why, "", rule.family, texts.sources)


def built_in_rules() -> Iterator[RuleFacts]:
    """The rules that no rule file defines: of formats, of parsers, about suppressions, and memlint's own errors."""
    yield RuleFacts(INTERNAL_ERROR, "internal/error", "memlint failed on this file", "error", "", "", "internal")
    yield RuleFacts(UNREADABLE, "source/unreadable", "The file cannot be read", "error", "", "", "source")
    for issue in ISSUES.values():
        yield RuleFacts(issue.rule, issue.name, issue.title, issue.severity, issue.why, "", issue.name.split("/")[0])
    for rule, name, why in RULES:
        title = name.partition("/")[2].replace("-", " ").capitalize()
        yield RuleFacts(rule, name, title, "error", why, "", "source")
    for (rule, name), (title, severity) in _SUPPRESSIONS.items():
        yield RuleFacts(rule, name, title, severity, "", "", "suppressions")
