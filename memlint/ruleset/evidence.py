"""What an error rests on, and what becomes of one where the evidence is missing: the only place that lowers an error.

An error says that the run does not start, or ends. For that it is not enough that a release of the framework refuses a
value. It must be clear that this framework's own code reads the value, not a changed copy of it or a program of the
repository, and that the program trains what its arguments say. `_MAY_BE_MISSING` lists what may be unclear. Then the
finding becomes a warning that ends with its condition: "(where train.py hands its arguments on as they stand)".

What a format itself does not know of an issue it says in `Issue.where`: that counts like a row here.

An error about memory rests on one thing more: that no other error ends the run before (`if_it_starts`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Finding, keeps_from_starting
from memlint.formats.base import Context
from memlint.rule_groups import OF_CHANGEABLE_VALUES, OF_CHECKS, OF_RELEASES, OF_WHAT_TRAINS
from memlint.source.document import Document, Start


class Case(NamedTuple):
    """The document of a finding, and who reads it. `format_`: the module that read it (`Format`). `has_own_reader`: a
    script reads it with code of its own."""

    format_: Any
    document: Document
    context: Context
    has_own_reader: bool


class _Evidence(NamedTuple):
    """Findings of `rules` hold only under the condition that `missing` returns; "" where all is clear. `of_warnings`:
    warnings name the condition as well."""

    rules: tuple[str, ...]
    missing: Callable[[Finding, Case], str]
    of_warnings: bool = False


def as_far_as_known(finding: Finding, case: Case) -> Finding:
    """The finding with the first condition that nothing shows to hold: then it is no error."""
    if finding.severity == "info":
        return finding
    condition = finding.where or _condition(finding, case)
    if not condition:
        return finding
    severity = "warning" if finding.severity == "error" else finding.severity
    message = f"{finding.message} (where {condition})"
    return finding._replace(severity=severity, message=message, where=condition)


def if_it_starts(finding: Finding, others: Iterable[Finding]) -> Finding:
    """The finding, of a run with `others`. A run that another error keeps from starting does not get as far as its
    memory; with the same values it would not fit, which is worth a warning: the mend may change them."""
    stops = sorted({one.rule for one in others if keeps_from_starting(one)})
    if not stops or finding.severity != "error" or keeps_from_starting(finding):
        return finding
    condition = f"once {' and '.join(stops[:2])} {'is' if len(stops) == 1 else 'are'} mended"
    message = f"{finding.message} (with these values, {condition})"
    return finding._replace(severity="warning", message=message, where=condition)


def _condition(finding: Finding, case: Case) -> str:
    rows = (
        row
        for row in _MAY_BE_MISSING
        if finding.rule.startswith(row.rules) and (row.of_warnings or finding.severity == "error")
    )
    return next(filter(None, (row.missing(finding, case) for row in rows)), "")


def _foreign_program(case: Case) -> str:
    """The program of a command that is not in the repository and may do anything with its arguments; "" elsewhere."""
    start: Start | None = case.document.start
    if start is None or not start.program.is_foreign or not getattr(case.format_, "OF_ANY_SCRIPT", False):
        return ""
    return posixpath.basename(start.program.entry)


def _trains_what_is_said(finding: Finding, case: Case) -> str:
    program = _foreign_program(case)
    return f"{program} trains what its arguments say" if program else ""


def _hands_arguments_on(finding: Finding, case: Case) -> str:
    program = _foreign_program(case)
    concerns = {finding.location.path, *(place.path for place, _ in finding.related)}
    is_said = program and case.document.path in concerns
    return f"{program} hands its arguments on as they stand" if is_said else ""


def _trains_what_keys_say(finding: Finding, case: Case) -> str:
    return "the script that reads this file trains what its keys say" if case.has_own_reader else ""


def _is_read_by_a_program(finding: Finding, case: Case) -> str:
    missing = getattr(case.format_, "missing_reader", None)
    is_in_file = finding.location.path == case.document.path
    return missing(finding.key, case.document, case.context) if missing is not None and is_in_file else ""


def _is_not_completed(finding: Finding, case: Case) -> str:
    asked = getattr(case.format_, "left_open", None)
    key = asked(case.document) if asked is not None else ""
    return f"the program that fills in `{key}` leaves these values as they are" if key else ""


def _is_the_pinned_release(finding: Finding, case: Case) -> str:
    condition = getattr(case.format_, "stale_pin", None)
    return condition(case.document, case.context) if condition is not None else ""


def _is_no_changed_copy(finding: Finding, case: Case) -> str:
    copied = getattr(case.format_, "copy_of", None)
    if copied is None or finding.location.path != case.document.path:  # the engine's file is not the framework's
        return ""
    name = copied(finding.rule, case.context)
    return f"the copy of {name} in this repository checks what its releases check" if name else ""


def _is_for_no_fork(finding: Finding, case: Case) -> str:
    forked = getattr(case.format_, "fork_of", None)
    name = forked(case.document, case.context) if forked is not None else ""
    return f"it is for {name} itself and not for a fork" if name else ""


_ALL = ("",)  # what the id of every rule begins with
_MAY_BE_MISSING = (
    _Evidence(OF_WHAT_TRAINS, _trains_what_is_said, of_warnings=True),
    _Evidence(OF_CHANGEABLE_VALUES, _hands_arguments_on),
    _Evidence(OF_WHAT_TRAINS, _trains_what_keys_say),
    _Evidence(OF_WHAT_TRAINS, _is_not_completed),
    _Evidence(OF_WHAT_TRAINS, _is_for_no_fork, of_warnings=True),
    _Evidence(OF_CHECKS, _is_for_no_fork),
    _Evidence(OF_CHECKS, _is_no_changed_copy),
    _Evidence(_ALL, _is_read_by_a_program),
    _Evidence(OF_RELEASES, _is_the_pinned_release),
)
