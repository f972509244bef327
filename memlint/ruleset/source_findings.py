"""Turns problems in the text of a file (syntax, encoding), which `memlint.source` found, into findings."""

from __future__ import annotations

from memlint.findings import Finding, Location
from memlint.ruleset.places import location
from memlint.source.document import Document, Problem, Span
from memlint.source.placeholders import template_placeholders

# code -> (id, slug, why). Codes that are not here are syntax errors.
_NAMED: dict[str, tuple[str, str, str]] = {
    "duplicate-key": ("SRC002", "duplicate-key", "Readers keep one of the two, which one differs between them."),
    "too-large": ("SRC003", "too-large", "memlint reads configs, not data."),
    "too-deep": ("SRC003", "too-deep", "No config nests this deep."),
    "too-many-nodes": ("SRC003", "too-many-values", "memlint reads configs, not data."),
    "too-many-documents": ("SRC003", "too-many-documents", "memlint reads configs, not data."),
    "alias-expansion": ("SRC003", "alias-expansion", "A few lines of aliases can stand for billions of values."),
    "encoding": ("SRC004", "encoding", "Frameworks open configs as UTF-8."),
    "utf-16": ("SRC004", "encoding", "Frameworks open configs as UTF-8."),
    "custom-tag": ("SRC005", "yaml-tag", "yaml.safe_load refuses tags that it does not know."),
    "template": (
        "SRC006",
        "template",
        "A script fills it in before a framework reads it: nothing else in it can be judged.",
    ),
    "lost-flags": (
        "SRC007",
        "lost-flags",
        "The shell takes the line for a command of its own, which there is not: the program runs without these flags.",
    ),
    "merge-order": ("SRC008", "merge-order", "Write the key in the mapping itself: then all releases agree."),
    "bad-tag": ("SRC005", "yaml-tag", "yaml.safe_load refuses a tag that does not fit its value."),
}
_SYNTAX = ("SRC001", "syntax", "The framework cannot read the file.")


def _rules() -> tuple[tuple[str, str, str], ...]:
    whys: dict[tuple[str, str], str] = {}
    for rule, slug, why in (_SYNTAX, *_NAMED.values()):
        whys.setdefault((rule, f"source/{slug}"), why)
    return tuple((rule, name, why) for (rule, name), why in whys.items())


RULES = _rules()  # (id, name, why) of every rule of this file; if two codes share a name, with the first one's reason


def template_finding(document: Document, follows_references: bool = False) -> Finding | None:
    """The finding about a template, which replaces all others; None for a file that is not one.

    Also None for a command's arguments, whose variables the shell fills in. `follows_references`: the file's reader
    resolves `${a.b}` as a reference to another key and takes `???` for a value of the command line, so that neither
    is a placeholder.
    """
    if document.start is not None:
        return None
    for problem in document.problems:
        if problem.code == "template":
            return _finding(document, problem)
    found = template_placeholders(document)
    if follows_references:
        found = tuple(one for one in found if not one.text.startswith("${") and one.text != "???")
    if not found or (follows_references and all(one.is_name for one in found)):
        return None
    first = next((one for one in found if not one.is_name), found[0])
    others = f" and {len(found) - 1} more value{'s' * (len(found) > 2)}" if len(found) > 1 else ""
    message = f"a template: `{first.text}`{others} are filled in by something else, so nothing in it is judged"
    if not others:
        message = message.replace(" are filled", " is filled")
    rule, slug, why = _NAMED["template"]
    place = location(document, first.path)
    return Finding(rule, f"source/{slug}", "info", message, place, why=why, key=f"{rule}:template")


def problem_findings(document: Document, takes_comments: bool = False) -> list[Finding]:
    """The problems of a document's text as findings. Duplicate keys are left out if the text cannot be parsed.

    `takes_comments`: the reader of this JSON takes comments, and commas before a bracket that closes.
    """
    is_unread = any(problem.fatal for problem in document.problems)
    left_out = (*(("duplicate-key",) if is_unread else ()), *(_TAKEN_BY_HJSON if takes_comments else ()))
    return [_finding(document, problem) for problem in document.problems if problem.code not in left_out]


_TAKEN_BY_HJSON = ("json-comment", "json-trailing-comma")


def _finding(document: Document, problem: Problem) -> Finding:
    rule, slug, why = _NAMED.get(problem.code, _SYNTAX)
    label = "first here" if problem.code == "duplicate-key" else "what it is a part of begins here"
    related = ((_location(document, problem.related), label),) if problem.related else ()
    return Finding(
        rule=rule,
        name=f"source/{slug}",
        severity=_severity(problem),
        message=problem.message,
        location=_location(document, problem.span),
        related=related,
        why=why,
        key=f"{rule}:{problem.code}",
    )


def _severity(problem: Problem) -> str:
    """The severity of a problem; a template is not an error."""
    return "info" if problem.code == "template" else "error" if problem.fatal else problem.severity


def _location(document: Document, span: Span | None) -> Location:
    if span is None:
        return location(document, ())
    return Location(document.path, span.line, span.column, span.end_line, span.end_column, span.start, span.end)
