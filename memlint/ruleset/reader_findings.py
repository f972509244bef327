"""Adapts findings to who reads the file: the framework itself, a command, or a program of the repository.

Rules judge a run as the framework would run it. A program can treat the same keys differently: overwrite them, accept
more values, create the missing file, freeze the model. A finding that this invalidates is dropped. Of the others
`evidence.py` says under which condition they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memlint.findings import Finding
from memlint.formats.base import Context, Format, Issue, Parsed
from memlint.formats.fields import value_at
from memlint.rule_groups import (
    OF_ARGUMENTS,
    OF_MEMORY_OR_TEXT,
    OF_MISSING_FILES,
    OF_REFUSED_VALUES,
    OF_TWO_FILES,
    OF_UNKNOWN_WORDS,
    OF_WHAT_TRAINS,
)
from memlint.ruleset.evidence import Case, as_far_as_known, if_it_starts
from memlint.ruleset.format_findings import issue_findings
from memlint.ruleset.found import Found
from memlint.source.document import Document


def adapt_to_reader(
    found: Iterable[Found], format_: Format, parsed: Parsed, document: Document, context: Context
) -> tuple[list[Found], bool]:
    """(the findings that hold given who reads the document, whether a script reads it with code of its own)."""
    kept = [_for_command(item, document) for item in found]
    kept = [item for item in kept if not _is_skipped(item.finding, format_, document, context)]
    kept = [item for item in kept if not _is_settled_by_program(item.finding, parsed, context)]
    note = _unjudged_note(format_, document, context) if kept else None
    if note is not None:
        notes = issue_findings(parsed._replace(issues=(note,)))
        kept = [item for item in kept if not _rests_on_a_default(item, parsed)]
        kept = [*_valid_for_any_reader(format_, document, kept), *map(Found, notes)]
    case = Case(format_, document, context, has_own_reader=note is not None)
    known = [item._replace(finding=as_far_as_known(item.finding, case)) for item in kept]
    return [
        item._replace(finding=if_it_starts(item.finding, _of_run(item.run, known))) for item in known
    ], note is not None


def _of_run(run: int, found: Iterable[Found]) -> Iterator[Finding]:
    """The findings of the run with this index, and those of the whole document."""
    return (one.finding for one in found if one.run in (run, -1))


def _for_command(item: Found, document: Document) -> Found:
    """The finding adapted to the command that gives the values, unchanged if none does.

    Keys are spelled as its flags. Fixes of a file that the command takes values from are dropped, because they were
    made for the command.
    """
    start = document.start
    if start is None:
        return item
    if any(one.path == item.finding.location.path for one in start.values.documents()):
        item = item._replace(finding=item.finding._replace(fixes=()))
    return item._replace(finding=_with_flag_spelling(item.finding, document))


def _with_flag_spelling(finding: Finding, document: Document) -> Finding:
    """The finding with keys spelled as the command's flags: `--learning-rate` for `learning_rate`."""
    words = document.start.accepted.spelled if document.start is not None else None
    if words is None or finding.location.path != document.path:
        return finding
    return finding._replace(message=words(finding.message))


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
    named = ".".join(str(step) for step in place.pointer[-2:])
    if finding.rule.startswith(OF_UNKNOWN_WORDS) and context.repository.knows_word(named, str(value)):
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
    if _is_overridden(place.pointer, context):
        return True
    return context.repository.is_filled_in(place.path, key, value)


def _is_overridden(pointer: Sequence[int | str], context: Context) -> bool:
    """Whether a command overrides the value in a section of the file, as Hydra and OmegaConf let it."""
    steps = [step for step in pointer if isinstance(step, str)]
    is_in_section = 1 < len(steps) == len(pointer)
    return is_in_section and context.repository.is_overridden(".".join(steps))


def _is_of_other_file(finding: Finding, others: Mapping[str, bool]) -> bool:
    """Whether the finding is reported at the other file that gives the argument.

    `others`: argument -> whether all findings about it are reported there; if False, only those of OF_ARGUMENTS are.
    """
    key = str(finding.location.pointer[0]) if finding.location.pointer else ""
    return key in others and (others[key] or finding.rule.startswith(OF_ARGUMENTS))


def _rests_on_a_default(item: Found, parsed: Parsed) -> bool:
    """Whether the finding counts a batch that the file does not give: a script that reads it by itself may have a name
    of its own for that, or a number."""
    if item.run < 0 or not item.finding.rule.startswith(OF_WHAT_TRAINS):
        return False
    origin = parsed.runs[item.run].origins.get("batch.micro_batch_size")
    return origin is not None and origin.kind == "default"


def _valid_for_any_reader(format_: Any, document: Document, found: Iterable[Found]) -> Iterator[Found]:
    """The findings that hold whatever code reads the document, and those on other files that do not depend on its keys.
    All their fixes become unsafe."""
    for item in found:
        is_of_other = item.finding.location.path != document.path and not item.finding.rule.startswith(OF_TWO_FILES)
        if is_of_other or format_.rule_applies(item.finding.rule):
            fixes = tuple(fix._replace(safe=False) for fix in item.finding.fixes)
            yield item._replace(finding=item.finding._replace(fixes=fixes))
