"""PyYAML's syntax errors in words that say what to do."""

from __future__ import annotations

import re

from yaml import MarkedYAMLError, YAMLError

from memlint.source.document import Problem, Span
from memlint.source.encoding import unprintable
from memlint.source.lines import Lines
from memlint.source.tree import TEMPLATE

# What libyaml and PyYAML's own parser say (part of it) -> what to write instead.
_ADVICE = (
    ("mapping values are not allowed", "a ':' that makes no sense here; check the indentation, or quote the value"),
    ("could not find expected ':'", "a key without ':'; check the line, or indent it as part of the value above"),
    ("found unexpected end of stream", "a quote that is opened here is never closed"),
    ("did not find expected key", "this does not line up with the keys above; check the indentation and quotes"),
    ("did not find expected '-' indicator", "this does not line up with the list items above; check the indentation"),
    ("found undefined tag handle", "an undefined tag; remove it, or quote the value"),
    ("found incompatible YAML document", "an unknown YAML version; remove the %YAML line"),
    ("did not find expected node content", "a value is missing here, or a '[' or '{' is never closed"),
    ("did not find expected ',' or ']'", "a '[' that is never closed, or a missing comma"),
    ("did not find expected ',' or '}'", "a '{' that is never closed, or a missing comma"),
    ("block sequence entries are not allowed", "a list item cannot start here; put it on a line of its own"),
    ("found unknown escape character", "an unknown escape in double quotes; use single quotes, or write \\\\"),
    ("did not find expected <document start>", "text after the end of the document; check the indentation"),
)


def syntax_problem(error: YAMLError, text: str, lines: Lines) -> Problem:
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        # The reader's: it meets a character that no file may have before any parser does.
        return unprintable(text) or Problem("syntax", f"not YAML: {error}", lines.span(0, 0), fatal=True)
    start = min(error.problem_mark.index, len(text))
    if text.endswith("{%", 0, start + 1):
        return Problem("template", TEMPLATE, lines.span(start - 1, start + 1), fatal=True)
    said = error.problem or error.context or "syntax error"
    if "could not find expected ':'" in said and error.context_mark is not None:
        return _no_colon(said, text, lines, min(error.context_mark.index, len(text)))
    return Problem("syntax", _advice(said, text, start), _one(lines, text, start), _context(error, text, lines), True)


def _no_colon(said: str, text: str, lines: Lines, start: int) -> Problem:
    """The parser stops on the line after the one that has no ':'."""
    end = text.find("\n", start)
    line = (text[start:] if end < 0 else text[start:end]).rstrip()
    glued = re.match(r"[\w.-]+:\S", line)
    advice = "a ':' needs a space behind it" if glued else _advice(said, text, start)
    return Problem("syntax", advice, lines.span(start, start + max(1, len(line))), fatal=True)


def _advice(said: str, text: str, start: int) -> str:
    if said.startswith("found character") and start < len(text):
        if text[start] == "\t":
            return "a tab; YAML is indented with spaces"
        return f"a value cannot start with {text[start]!r}; quote it"
    if "tab character" in said:
        return "a tab; YAML is indented with spaces"
    for part, advice in _ADVICE:
        if part in said:
            return f"{advice} ({said})"
    return said


def _context(error: MarkedYAMLError, text: str, lines: Lines) -> Span | None:
    mark = error.context_mark
    return None if mark is None else _one(lines, text, min(mark.index, len(text)))


def _one(lines: Lines, text: str, start: int) -> Span:
    return lines.span(start, min(start + 1, len(text)))
