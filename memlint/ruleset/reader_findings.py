"""Adapts findings to who reads the file: the framework itself, a command, or a program of the repository.

Rules judge a run as the framework would run it. A program can treat the same keys differently: overwrite them, accept
more values, create the missing file, freeze the model. A finding that this may invalidate is dropped, or becomes a
warning that states its condition: "(where train.py hands its arguments on as they stand)".
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memlint.findings import Finding
from memlint.formats.base import Context, Format, Issue, Parsed
from memlint.formats.fields import value_at
from memlint.rule_groups import (
    OF_ARGUMENTS,
    OF_CHANGEABLE_VALUES,
    OF_MEMORY_OR_TEXT,
    OF_MISSING_FILES,
    OF_REFUSED_VALUES,
    OF_TWO_FILES,
    OF_UNKNOWN_WORDS,
    OF_WHAT_TRAINS,
)
from memlint.ruleset.format_findings import issue_findings
from memlint.ruleset.found import Found
from memlint.source.document import Document


def adapt_to_reader(
    found: Iterable[Found], format_: Format, parsed: Parsed, document: Document, context: Context
) -> tuple[list[Found], bool]:
    """(the findings that hold given who reads the document, whether a script reads it with code of its own)."""
    kept = [_for_command(item, format_, document) for item in found]
    kept = [item for item in kept if not _is_skipped(item.finding, format_, document, context)]
    kept = [item for item in kept if not _is_settled_by_program(item.finding, parsed, context)]
    note = _unjudged_note(format_, document, context) if kept else None
    if note is None:
        return kept, False
    notes = issue_findings(parsed._replace(issues=(note,)))
    return [*_valid_for_any_reader(format_, document, kept), *map(Found, notes)], True


def _for_command(item: Found, format_: Format, document: Document) -> Found:
    """The finding adapted to the command that gives the values, unchanged if none does.

    Keys are spelled as its flags. Fixes of a file that the command takes values from are dropped, because they were
    made for the command. An error about a program that is not in the repository becomes a warning.
    """
    start = document.start
    if start is None:
        return item
    if any(one.path == item.finding.location.path for one in start.values.documents()):
        item = item._replace(finding=item.finding._replace(fixes=()))
    finding = _with_flag_spelling(item.finding, document)
    if start.program.is_foreign and getattr(format_, "OF_ANY_SCRIPT", False):
        finding = _qualified_for_foreign_program(finding, document)
    return item._replace(finding=finding)


def _with_flag_spelling(finding: Finding, document: Document) -> Finding:
    """The finding with keys spelled as the command's flags: `--learning-rate` for `learning_rate`."""
    words = document.start.accepted.spelled if document.start is not None else None
    if words is None or finding.location.path != document.path:
        return finding
    return finding._replace(message=words(finding.message))


def _qualified_for_foreign_program(finding: Finding, document: Document) -> Finding:
    """A finding about a program that is not in the repository, with the condition under which it holds.

    What the program does with its arguments is unknown, so an error becomes a warning.
    """
    if document.start is None or finding.severity == "info":
        return finding
    program, message = posixpath.basename(document.start.program.entry), finding.message
    if finding.rule.startswith(OF_WHAT_TRAINS):
        severity = "warning" if document.path == finding.location.path else finding.severity
        return finding._replace(severity=severity, message=f"{message} (where {program} trains what its arguments say)")
    concerns = {finding.location.path, *(place.path for place, _ in finding.related)}
    is_of_arguments = finding.rule.startswith(OF_CHANGEABLE_VALUES) and document.path in concerns
    if finding.severity != "error" or not is_of_arguments:
        return finding
    return _as_warning(finding, f"where {program} hands its arguments on as they stand")


def _as_warning(finding: Finding, condition: str) -> Finding:
    """An error that holds only under `condition`, as a warning."""
    return finding._replace(severity="warning", message=f"{finding.message} ({condition})")


def _unjudged_note(format_: Format, document: Document, context: Context) -> Issue | None:
    """The format's note about a file whose keys a script interprets with code of its own; None for any other file."""
    asked = getattr(format_, "unjudged", None)
    note: Issue | None = asked(document, context) if asked else None
    return note


def _is_skipped(finding: Finding, format_: Format, document: Document, context: Context) -> bool:
    """Whether the format excludes the rule for this document, or the finding is about a value in another file (a
    command or a config): then it is reported there."""
    skips = getattr(format_, "skips_rule", None)
    if skips is not None and skips(finding.rule, document, context):
        return True
    others = document.start.values.in_other_file if document.start is not None else {}
    return bool(others) and _is_of_other_file(finding, others)


def _is_settled_by_program(finding: Finding, parsed: Parsed, context: Context) -> bool:
    """Whether a program or command of the repository makes the finding pointless: it sets the key, knows the word,
    declares the key in its own argument class, or creates the missing file.

    Of findings with severity info only the unknown word and the missing file are dropped: the others hold whatever is
    set.
    """
    place = finding.location
    key = next((step for step in reversed(place.pointer) if isinstance(step, str)), "")
    document = next((one for one in parsed.documents if one.path == place.path), None)
    if finding.rule.startswith(OF_MEMORY_OR_TEXT) or not key or document is None:
        return False
    value = value_at(document.value, place.pointer)
    if finding.rule.startswith(OF_UNKNOWN_WORDS) and (key, str(value)) in context.repository.own_words():
        return True  # values are not checked against annotations (transformers 5.23 hf_argparser.py:358)
    if finding.rule.startswith(OF_MISSING_FILES) and isinstance(value, str) and context.repository.is_made(value):
        return True
    if finding.severity == "info":
        return False
    if (
        finding.rule.startswith(OF_REFUSED_VALUES)
        and place.path == parsed.documents[0].path
        and context.repository.declares(document, key)
    ):
        return True
    if document.start is not None:
        return False
    return context.repository.is_filled_in(place.path, key, value)


def _is_of_other_file(finding: Finding, others: Mapping[str, bool]) -> bool:
    """Whether the finding is reported at the other file that gives the argument.

    `others`: argument -> whether all findings about it are reported there; if False, only those of OF_ARGUMENTS are.
    """
    key = str(finding.location.pointer[0]) if finding.location.pointer else ""
    return key in others and (others[key] or finding.rule.startswith(OF_ARGUMENTS))


def _valid_for_any_reader(format_: Any, document: Document, found: Iterable[Found]) -> Iterator[Found]:
    """The findings that hold whatever code reads the document, and those on other files that do not depend on its keys.
    All their fixes become unsafe."""
    for item in found:
        is_of_other = item.finding.location.path != document.path and not item.finding.rule.startswith(OF_TWO_FILES)
        if is_of_other or format_.rule_applies(item.finding.rule):
            fixes = tuple(fix._replace(safe=False) for fix in item.finding.fixes)
            yield item._replace(finding=_qualified_for_own_reader(item.finding._replace(fixes=fixes)))


def _qualified_for_own_reader(finding: Finding) -> Finding:
    """A finding about a file that a script reads with code of its own. An error about figures becomes a warning with
    its condition: the script may quantise or freeze the model."""
    if finding.severity != "error" or not finding.rule.startswith(OF_WHAT_TRAINS):
        return finding
    return _as_warning(finding, "where the script that reads this file trains what its keys say")
