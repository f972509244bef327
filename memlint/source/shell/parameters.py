"""The operators of `${V...}`: defaults, removal of prefixes and suffixes, replacement, substrings, case."""

from __future__ import annotations

from collections.abc import Callable

from memlint.source.shell import patterns
from memlint.source.shell.text import (
    Piece,
    Text,
    assumed,
    cut,
    known,
    known_or_unset,
    literal,
    shown,
    unknown,
    why_unknown,
)

Operand = Callable[[int, int], Text]  # (start, end) in the text after the name -> that part, expanded


def operated(value: Text, rest: str, operand: Operand) -> Text:
    """`value` after applying the operator at the start of `rest`. An unset variable is an unknown piece."""
    for names, apply in _OPERATORS:
        for name in names:
            if rest.startswith(name):
                return apply(value, name, rest, operand)
    return unknown("${...}", f"`{rest[:20]}` is not understood")


def _default(value: Text, name: str, rest: str, operand: Operand) -> Text:
    """`:-`, `:=`: the default if the variable is unset or empty; `-`, `=`: only if it is unset."""
    plain = known_or_unset(value)
    empty = plain == "" if name[0] == ":" else plain == "" and bool(assumed(value))
    if not empty:
        return value
    return operand(len(name), len(rest)) or tuple(Piece("", stands_for=one) for one in sorted(assumed(value))[:1])


def _alternative(value: Text, name: str, rest: str, operand: Operand) -> Text:
    plain = known_or_unset(value)
    if plain is None:
        return unknown("${...}", why_unknown(value))
    missing = plain == "" if name[0] == ":" else plain == "" and bool(assumed(value))
    return () if missing else operand(len(name), len(rest))


def _required(value: Text, name: str, rest: str, operand: Operand) -> Text:
    """`${V:?message}`: assumed to be set, because the script stops without it."""
    return tuple(piece._replace(is_unset=False) for piece in value)


def _cut(value: Text, name: str, rest: str, operand: Operand) -> Text:
    text, pattern = known(value), known(operand(len(name), len(rest)))
    if text is None or pattern is None:
        return _unknown_after(value)
    try:
        if name[0] == "#":
            kept = patterns.without_start(pattern, text, len(name) == 2)
            return cut(value, len(text) - len(kept))
        return cut(value, 0, len(patterns.without_end(pattern, text, len(name) == 2)))
    except patterns.CannotMatch:
        return unknown("${...}", "the pattern is too long")


def _replaced(value: Text, name: str, rest: str, operand: Operand) -> Text:
    middle = _slash(rest, len(name))
    text, pattern = known(value), known(operand(len(name), middle))
    by = known(operand(min(middle + 1, len(rest)), len(rest)))
    if text is None or pattern is None or by is None:
        return _unknown_after(value)
    try:
        found = patterns.replaced(pattern, by, text, name == "//")
    except patterns.CannotMatch:
        return unknown("${...}", "the pattern is too long")
    return value if found == text else literal(found)


def _slash(rest: str, start: int) -> int:
    """The end of the pattern in `/pattern/by`."""
    index = start
    while index < len(rest) and rest[index] != "/":
        index += 2 if rest[index] == "\\" else 1
    return min(index, len(rest))


def _part(value: Text, name: str, rest: str, operand: Operand) -> Text:
    """`:first`, `:first:length`."""
    first, _, length = rest[1:].partition(":")
    text = known(value)
    numbers = [_whole(one) for one in (first, length) if one.strip()]
    if text is None or None in numbers or not numbers:
        return _unknown_after(value)
    start = numbers[0] or 0
    start = max(0, len(text) + start) if start < 0 else start
    count = numbers[1] if len(numbers) > 1 else None
    end = len(text) if count is None else start + count if count >= 0 else len(text) + count
    return cut(value, start, max(start, end))


def _whole(text: str) -> int | None:
    try:
        return int(text.strip().strip("()"))
    except ValueError:
        return None


def _cased(value: Text, name: str, rest: str, operand: Operand) -> Text:
    text = known(value)
    if text is None or len(rest) > len(name):
        return _unknown_after(value)
    found = {
        "^^": text.upper(),
        ",,": text.lower(),
        "^": text[:1].upper() + text[1:],
        ",": text[:1].lower() + text[1:],
    }[name]
    return value if found == text else literal(found)


def _unknown_after(value: Text) -> Text:
    return unknown(shown(value)[:80] or "${...}", why_unknown(value) or "the operator's words are not known")


_OPERATORS = (
    ((":-", ":=", "-", "="), _default),
    ((":+", "+"), _alternative),
    ((":?", "?"), _required),
    (("##", "#", "%%", "%"), _cut),
    (("//", "/"), _replaced),
    ((":",), _part),
    (("^^", ",,", "^", ","), _cased),
)
