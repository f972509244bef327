"""What of the findings holds, given who reads the file: the framework, a command, or a program of the repository.

Rules judge a run as the framework would run it. A program may do otherwise with the same keys: set them, know more
words, make the file that is missing, freeze the model. What it may change is said with its condition, or not at all.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memlint.findings import Finding
from memlint.formats.base import Context, Format, Issue, Parsed
from memlint.formats.fields import value_at
from memlint.formats.own_reader import OF_TWO_FILES
from memlint.ruleset.format_findings import issue_findings
from memlint.ruleset.found import Found
from memlint.source.document import Document

MISSING_FILE = "REF001"

# What rules speak of, by their identifiers or the beginnings of these.
# Arguments and names by themselves; the others speak of what a run does, as figures do.
_OF_ARGUMENTS = ("CFG", "DSP", "EVA", "MOD", "PEF", "SAV", "TRL", "TRN")
# What a program may change before anything checks it.
_MAY_BE_CHANGED = (*_OF_ARGUMENTS, "DAT", "OPT", "PRE")
# Figures, which hold where a program trains nothing but what its arguments say.
_OF_WHAT_TRAINS = ("MEM", "OFF", "OPT001", "PAR00", "PAR012")
_OF_FIGURES = ("MEM", "SRC")  # a file as it stands
_OF_WORDS = ("CFG003", "CFG011", "TRN019", "AXO089")  # a word that the framework does not know
_OF_VALUES = ("CFG002", "CFG003", "CFG011", "TRN019")  # a value that the framework's own argument classes do not take


def as_its_reader_has_it(
    found: Iterable[Found], format_: Format, parsed: Parsed, document: Document, context: Context
) -> tuple[list[Found], bool]:
    """The findings that hold given who reads the document, and whether that is a script that reads it by itself."""
    told = [_of_a_command(item, format_, document) for item in found]
    told = [item for item in told if not _is_skipped(item.finding, format_, document, context)]
    told = [item for item in told if not _is_programs_own(item.finding, parsed, context)]
    note = _unjudged(format_, document, context) if told else None
    if note is None:
        return told, False
    notes = issue_findings(parsed._replace(issues=(note,)))
    return [*_of_any_reader(format_, document, told), *map(Found, notes)], True


def _of_a_command(item: Found, format_: Format, document: Document) -> Found:
    """The finding in the words of the command that gives the values, where one does. What would change the command has
    no place in a file that it takes values from."""
    start = document.start
    if start is None:
        return item
    if any(one.path == item.finding.location.path for one in start.values.files.values()):
        item = item._replace(finding=item.finding._replace(fixes=()))
    finding = _in_words(item.finding, document)
    if start.program.is_foreign and getattr(format_, "OF_ANY_SCRIPT", False):
        finding = _if_handed_on(finding, document)
    return item._replace(finding=finding)


def with_files_of_command(parsed: Parsed, document: Document) -> Parsed:
    """Beside a command's document the files that it takes values from."""
    files = {one.path: one for one in (document.start.values.files.values() if document.start is not None else ())}
    known = {part.path for part in parsed.documents}
    others = tuple(one for path, one in files.items() if path not in known)
    return parsed._replace(documents=(*parsed.documents, *others)) if others else parsed


def _in_words(finding: Finding, document: Document) -> Finding:
    """The finding with keys as the command writes its flags."""
    words = document.start.accepted.spelled if document.start is not None else None
    if words is None or finding.location.path != document.path:
        return finding
    return finding._replace(message=words(finding.message))


def _if_handed_on(finding: Finding, document: Document) -> Finding:
    """What is said of a program that the repository does not have, with its condition: nobody sees what it does with
    its arguments, so that an error is a warning."""
    if document.start is None or finding.severity == "info":
        return finding
    program, message = posixpath.basename(document.start.program.entry), finding.message
    if finding.rule.startswith(_OF_WHAT_TRAINS):
        severity = "warning" if document.path == finding.location.path else finding.severity
        return finding._replace(severity=severity, message=f"{message} (where {program} trains what its arguments say)")
    concerns = {finding.location.path, *(place.path for place, _ in finding.related)}
    is_of_arguments = finding.rule.startswith(_MAY_BE_CHANGED) and document.path in concerns
    if finding.severity != "error" or not is_of_arguments:
        return finding
    return _as_warning(finding, f"where {program} hands its arguments on as they stand")


def _as_warning(finding: Finding, condition: str) -> Finding:
    """An error that holds under a condition."""
    return finding._replace(severity="warning", message=f"{finding.message} ({condition})")


def _unjudged(format_: Format, document: Document, context: Context) -> Issue | None:
    """The format's note on a file whose keys mean what a script makes of them."""
    asked = getattr(format_, "unjudged", None)
    note: Issue | None = asked(document, context) if asked else None
    return note


def _is_skipped(finding: Finding, format_: Format, document: Document, context: Context) -> bool:
    """Whether the format says nothing of this document with that rule, or the finding is about a value that a command
    of another file gives: it is said where the command stands."""
    skips = getattr(format_, "skips_rule", None)
    if skips is not None and skips(finding.rule, document, context):
        return True
    commanded = document.start.values.by_command if document.start is not None else {}
    return bool(commanded) and _is_of_a_command(finding, commanded)


def _is_programs_own(finding: Finding, parsed: Parsed, context: Context) -> bool:
    """Whether a program or a command of the repository sets what the finding is about, knows the word that stands
    there, declares the key in its own argument class, or makes the file that is missing. What is information holds
    whatever is set."""
    place = finding.location
    key = next((step for step in reversed(place.pointer) if isinstance(step, str)), "")
    document = next((one for one in parsed.documents if one.path == place.path), None)
    if finding.rule.startswith(_OF_FIGURES) or not key or document is None:
        return False
    value = value_at(document.value, place.pointer)
    if finding.rule in _OF_WORDS and (key, str(value)) in context.own_words():
        return True  # nothing checks an annotation (transformers 5.23 hf_argparser.py:358)
    if finding.severity == "info":
        return False
    if finding.rule in _OF_VALUES and place.path == parsed.documents[0].path and context.declares(document, key):
        return True
    if document.start is not None:
        return False
    if finding.rule == MISSING_FILE and isinstance(value, str) and context.is_made(value):
        return True
    return context.is_filled_in(place.path, key, value)


def _is_of_a_command(finding: Finding, commanded: Mapping[str, bool]) -> bool:
    """Whether the finding is about an argument that a command gives. What a run does is said of the program where the
    command stands on a page."""
    key = str(finding.location.pointer[0]) if finding.location.pointer else ""
    return key in commanded and (commanded[key] or finding.rule.startswith(_OF_ARGUMENTS))


def _of_any_reader(format_: Any, document: Document, found: Iterable[Found]) -> Iterator[Found]:
    """The findings that hold whoever reads the document, and those on other files that need none of its keys. None of
    their fixes is safe."""
    for item in found:
        is_of_other = item.finding.location.path != document.path and item.finding.rule not in OF_TWO_FILES
        if is_of_other or format_.rule_applies(item.finding.rule):
            fixes = tuple(fix._replace(safe=False) for fix in item.finding.fixes)
            yield item._replace(finding=_if_script_trains_it(item.finding._replace(fixes=fixes)))


def _if_script_trains_it(finding: Finding) -> Finding:
    """An error about the run of a file that a script reads by itself, with its condition: the script may quantise the
    model, or freeze it."""
    if finding.severity != "error" or not finding.rule.startswith(_OF_WHAT_TRAINS):
        return finding
    return _as_warning(finding, "where the script that reads this file trains what its keys say")
