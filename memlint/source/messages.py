"""PyYAML's syntax errors, with advice on what to write instead."""

from __future__ import annotations

import re

from yaml import MarkedYAMLError, YAMLError

from memlint.source.document import Problem, Span
from memlint.source.encoding import unprintable
from memlint.source.lines import Lines
from memlint.source.tree import TEMPLATE, TOO_DEEP

# A part of the message of libyaml or PyYAML's own parser -> what to write instead.
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
    parser_message = error.problem or error.context or "syntax error"
    if "maximum nesting depth" in parser_message:  # PyYAML since 6.0.4 counts brackets ahead of the builder
        return Problem("too-deep", TOO_DEEP, _character_span(lines, text, start), fatal=True)
    if "could not find expected ':'" in parser_message and error.context_mark is not None:
        return _missing_colon(parser_message, text, lines, min(error.context_mark.index, len(text)))
    return Problem(
        "syntax",
        _advice(parser_message, text, start),
        _character_span(lines, text, start),
        _context(error, text, lines),
        True,
    )


def _missing_colon(parser_message: str, text: str, lines: Lines, start: int) -> Problem:
    """The parser stops on the line after the one that has no ':'."""
    end = text.find("\n", start)
    line = (text[start:] if end < 0 else text[start:end]).rstrip()
    colon_without_space = re.match(r"[\w.-]+:\S", line)
    advice = "a ':' needs a space behind it" if colon_without_space else _advice(parser_message, text, start)
    return Problem("syntax", advice, lines.span(start, start + max(1, len(line))), fatal=True)


def _advice(parser_message: str, text: str, start: int) -> str:
    if parser_message.startswith("found character") and start < len(text):
        if text[start] == "\t":
            return "a tab; YAML is indented with spaces"
        return f"a value cannot start with {text[start]!r}; quote it"
    if "tab character" in parser_message:
        return "a tab; YAML is indented with spaces"
    for part, advice in _ADVICE:
        if part in parser_message:
            return f"{advice} ({parser_message})"
    return parser_message


def _context(error: MarkedYAMLError, text: str, lines: Lines) -> Span | None:
    mark = error.context_mark
    return None if mark is None else _character_span(lines, text, min(mark.index, len(text)))


def _character_span(lines: Lines, text: str, start: int) -> Span:
    return lines.span(start, min(start + 1, len(text)))
