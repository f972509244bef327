"""Evaluates conditions, `[ ... ]`, `[[ ... ]]`, `test` and `(( ... ))`, to true, false or unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memlint.source.shell import patterns
from memlint.source.shell.expansion import Expander
from memlint.source.shell.state import State, Truth, path_in
from memlint.source.shell.text import Text, assumed, known, known_or_unset, shown
from memlint.source.shell.tree import Source

if TYPE_CHECKING:
    from tree_sitter import Node

UNKNOWN = Truth(None)
MOST_DEPTH = 20
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_FILE_TESTS = ("-f", "-d", "-e", "-s", "-r", "-x", "-w", "-L", "-h", "-a")
_BINARY = frozenset(("=", "==", "!=", "=~", "<", ">", *_COMPARISONS))
Exists = Callable[[str, str], "bool | None"]  # (path, "file", "folder" or "any")


class Conditions:
    """Evaluates conditions. `exists`: whether the repository has a path; None for a path outside of it."""

    def __init__(self, expander: Expander, exists: Exists) -> None:
        self._expander = expander
        self._exists = exists

    def test(self, node: Node, source: Source, state: State) -> Truth:
        """The truth of a `test_command` with any kind of brackets."""
        raw = source.of(node)
        inner = [child for child in node.children if child.is_named]
        if raw.startswith("(("):
            return self.number(node, source, state)
        if not inner:
            return Truth(False)
        return self._judged(inner[0], source, state, raw.startswith("[["), 0)

    def number(self, node: Node, source: Source, state: State) -> Truth:
        """The truth of `(( expression ))`: false if it is 0."""
        text = self._expander.arithmetic(node, source, state)
        return _number_truth(text)

    def words(self, words: Sequence[Text], state: State) -> Truth:
        """The truth of `test a = b`, for expanded words."""
        if words and shown(words[0]) == "!":
            return negated(self.words(words[1:], state))
        if len(words) == 2:
            return self._unary(shown(words[0]), words[1], state)
        if len(words) == 3 and shown(words[1]) in _BINARY:
            return self._binary(shown(words[1]), words[0], words[2], False)
        return _filled(words[0]) if len(words) == 1 else UNKNOWN

    def _judged(self, node: Node, source: Source, state: State, is_double: bool, depth: int) -> Truth:
        if depth > MOST_DEPTH:
            return UNKNOWN
        children = [child for child in node.children if child.type not in ("(", ")")]
        if node.type == "parenthesized_expression" and children:
            return self._judged(children[0], source, state, is_double, depth + 1)
        if node.type == "unary_expression" and len(children) == 2:
            operator = source.of(children[0])
            if operator == "!":
                return negated(self._judged(children[1], source, state, is_double, depth + 1))
            return self._unary(operator, self._expander.text(children[1], source, state), state)
        if node.type == "binary_expression" and len(children) >= 3:
            operator = source.of(children[1])
            left, right = children[0], children[2]
            if len(children) > 3:  # `*"--help"*` is three nodes
                pattern = [part for node in children[2:] for part in self._expander.text(node, source, state)]
                return self._binary(operator, self._expander.text(left, source, state), tuple(pattern), is_double)
            if operator in ("&&", "-a", "||", "-o"):
                one, two = (self._judged(side, source, state, is_double, depth + 1) for side in (left, right))
                return both(one, two) if operator in ("&&", "-a") else negated(both(negated(one), negated(two)))
            return self._sides(operator, left, right, source, state, is_double)
        if node.type in ("unary_expression", "binary_expression", "ERROR", "ternary_expression"):
            return UNKNOWN
        return _filled(self._expander.text(node, source, state))

    def _sides(self, operator: str, left: Node, right: Node, source: Source, state: State, is_double: bool) -> Truth:
        one = self._expander.text(left, source, state)
        two = self._expander.text(right, source, state)
        is_pattern = is_double and right.type not in ("string", "raw_string")
        return self._binary(operator, one, two, is_pattern)

    def _unary(self, operator: str, text: Text, state: State) -> Truth:
        if operator in ("-z", "-n"):
            filled = _filled(text)
            return filled if operator == "-n" else negated(filled)
        if operator == "-v":
            name = known(text)
            if name is None or self._expander.is_set(name, state):
                return UNKNOWN if name is None else Truth(True)
            return Truth(False, frozenset((f"${{{name}}}",)))
        if operator in _FILE_TESTS:
            return self._file(operator, text, state)
        return UNKNOWN

    def _file(self, operator: str, text: Text, state: State) -> Truth:
        plain = known_or_unset(text)
        if plain == "":
            return Truth(False, assumed(text))
        path = path_in(state.folder, text)
        if path is None:
            return UNKNOWN if plain is None else Truth(False, frozenset((shown(text),)))
        if path in state.files:
            return Truth(operator != "-d")
        kind = {"-d": "folder", "-f": "file", "-s": "file"}.get(operator, "any")
        found = self._exists(path, kind)
        return UNKNOWN if found is None else Truth(True) if found else Truth(False, frozenset((path,)))

    def _binary(self, operator: str, left: Text, right: Text, is_pattern: bool) -> Truth:
        one, two = known_or_unset(left), known_or_unset(right)
        names = assumed(left) | assumed(right)
        equals = _equals(left, right) if operator in ("=", "==") and not is_pattern else None
        if one is None or two is None:
            return Truth(None, equals=equals)
        if operator in _COMPARISONS:
            numbers = _whole(one), _whole(two)
            if None in numbers:
                return UNKNOWN
            return Truth(_COMPARISONS[operator](numbers[0] or 0, numbers[1] or 0), names)
        found = _compared(operator, one, two, is_pattern)
        return UNKNOWN if found is None else Truth(found, names, equals=equals)


def _equals(left: Text, right: Text) -> tuple[str, str] | None:
    """(variable, value) that would make `left` equal `right`, if `left` is just a variable of unknown value."""
    value = known(right)
    name = left[0].text[2:-1] if len(left) == 1 and left[0].unknown else ""
    return (name, value) if value is not None and name.isidentifier() else None


def _compared(operator: str, one: str, two: str, is_pattern: bool) -> bool | None:
    try:
        if operator in ("=", "==", "!="):
            same = patterns.matches(two, one) if is_pattern else one == two
            return same == (operator != "!=")
        if operator == "=~":
            return _searched(two, one)
    except patterns.CannotMatch:
        return None
    return {"<": one < two, ">": one > two}.get(operator)


_PLAIN_EXPRESSION = re.compile(r"\^?(?:[A-Za-z0-9_./\s-]|\[[A-Za-z0-9_.-]+\][+*]?|\|)*\$?")


def _searched(pattern: str, text: str) -> bool | None:
    """`=~`; None for regular expressions that could take long."""
    repeats = pattern.count("+") + pattern.count("*")
    if len(pattern) > 100 or len(text) > 256 or repeats > 2 or not _PLAIN_EXPRESSION.fullmatch(pattern):
        return None
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return None


def _whole(text: str) -> int | None:
    try:
        return int(text.strip() or "0")
    except ValueError:
        return None


def _filled(text: Text) -> Truth:
    """Whether a text is not empty. One known character is enough."""
    if any(piece.text and not piece.unknown for piece in text):
        return Truth(True)
    if any(piece.unknown and not piece.is_unset for piece in text):
        return UNKNOWN
    return Truth(False, assumed(text))


def _number_truth(text: Text) -> Truth:
    value = known(text)
    if value is None:
        return UNKNOWN
    return Truth(value != "0")


def negated(truth: Truth) -> Truth:
    return Truth(None if truth.value is None else not truth.value, truth.assumed)


def both(one: Truth, two: Truth) -> Truth:
    """The truth of `one && two`: false if one of them is, else unknown if one of them is."""
    false = [side for side in (one, two) if side.value is False]
    if false:
        return min(false, key=lambda side: len(side.assumed))
    if one.value is None or two.value is None:
        return UNKNOWN
    return Truth(True, one.assumed | two.assumed)
