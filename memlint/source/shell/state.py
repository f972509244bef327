"""The state of a shell at one point of a script: variables, functions, arguments, working folder."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from memlint._record import NamedTuple
from memlint.source.shell.text import Text, Word, joined, known, literal, unknown

if TYPE_CHECKING:
    from tree_sitter import Node

    from memlint.source.shell.tree import Source


class Variable(NamedTuple):
    """A variable: one word, or the words of an array."""

    words: tuple[Word, ...]
    is_array: bool = False

    @property
    def value(self) -> Text:
        return self.words[0].pieces if self.words else ()


class ShellFunction(NamedTuple):
    body: Node
    source: Source


class Truth(NamedTuple):
    """Whether a command succeeds; None if unknown.

    `assumed`: the assumptions that it depends on: that variables which the script never sets are empty, that arguments
    are not given, that files outside of the repository do not exist. `is_command`: it is the status of a program, which
    usually succeeds. `equals`: a variable and the value that would make it true.
    """

    value: bool | None
    assumed: frozenset[str] = frozenset()
    is_command: bool = False
    equals: tuple[str, str] | None = None


class State:
    """The mutable state while a script is followed; to be copied before a branch.

    `arguments`: `$0`, `$1`, ... `takes_more`: whether there may be further, unknown arguments. `folder`: the working
    folder (absolute). `elsewhere`: that folder as the script names it, on its author's machine. `files`: absolute path
    -> text that the script wrote. `script`: the current file (absolute). `is_dead`: the script has ended. `left`:
    `return`, `break` or `continue`, until the enclosing construct ends. `local`: local variables of the current
    function -> their values outside. `output`: the printed text, None if it is not captured. `input`: the input of the
    next command. `conditions`: lines of conditions with both branches followed.
    """

    __slots__ = (
        *("arguments", "conditions", "elsewhere", "exported", "files", "folder", "functions", "input", "is_dead"),
        *("left", "local", "output", "script", "status", "takes_more", "variables"),
    )

    def __init__(self, arguments: tuple[Word, ...], folder: str, takes_more: bool = True) -> None:
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, ShellFunction] = {}
        self.exported: frozenset[str] = frozenset()
        self.arguments = arguments
        self.takes_more = takes_more
        self.folder = folder
        self.elsewhere = ""
        self.files: dict[str, Text] = {}
        self.is_dead = False
        self.left = ""
        self.local: dict[str, Variable | None] | None = None
        self.output: Text | None = None
        self.input: Text | None = None
        self.status = Truth(True)
        self.conditions: tuple[int, ...] = ()
        self.script = arguments[0].text

    def copy(self) -> State:
        other = State(self.arguments, self.folder, self.takes_more)
        other.variables, other.functions = dict(self.variables), dict(self.functions)
        other.exported, other.files = self.exported, dict(self.files)
        other.is_dead, other.left, other.conditions = self.is_dead, self.left, self.conditions
        other.local = None if self.local is None else dict(self.local)
        other.output, other.input, other.status = self.output, self.input, self.status
        other.script, other.elsewhere = self.script, self.elsewhere
        return other

    def set(self, name: str, value: Text) -> None:
        self.variables[name] = Variable((Word(value),))

    def print(self, text: Text) -> None:
        if self.output is not None:
            self.output = joined((self.output, text))

    def environment(self) -> Mapping[str, Text]:
        """The exported variables."""
        return {name: self.variables[name].value for name in self.exported if name in self.variables}

    def comparable(self, names: Collection[str]) -> tuple[object, ...]:
        """The part of the state that must be equal for two states to count as equal, without places and reasons.
        `names`: of variables that may differ."""
        variables = frozenset(
            (name, one.is_array, tuple(word.text for word in one.words))
            for name, one in self.variables.items()
            if name in names
        )
        arguments = tuple(word.text for word in self.arguments)
        printed = None if self.output is None else tuple(piece.text for piece in self.output)
        written = frozenset((name, tuple(piece.text for piece in text)) for name, text in self.files.items())
        return (
            variables,
            self.folder,
            self.elsewhere,
            arguments,
            self.is_dead,
            self.left,
            written,
            self.exported,
            printed,
        )


def distinct(states: Sequence[State]) -> list[State]:
    """The states without those that say the same as one before them."""
    if len(states) < 2:
        return list(states)
    first, *others = (one.variables for one in states)
    every = {name for variables in (first, *others) for name in variables}
    names = {name for name in every if any(one.get(name) is not first.get(name) for one in others)}
    return list({one.comparable(names): one for one in reversed(states)}.values())[::-1]


def merged(states: Iterable[State], line: int) -> State:
    """Merges several states into one. Values that differ become unknown."""
    first, *others = states
    result = first.copy()
    reason = f"it depends on the condition in line {line}"
    for other in others:
        for name in {*result.variables, *other.variables}:
            one, two = result.variables.get(name), other.variables.get(name)
            if one is None or two is None or _differ(one, two):
                result.variables[name] = _either(name, one, two, reason)
        if result.output != other.output and result.output is not None:
            result.output = unknown("${...}", reason)
        result.files.update(other.files)
        result.functions.update(other.functions)
        result.exported |= other.exported
    return result


def _differ(one: Variable, two: Variable) -> bool:
    return one.is_array != two.is_array or [word.text for word in one.words] != [word.text for word in two.words]


def _either(name: str, one: Variable | None, two: Variable | None, reason: str) -> Variable:
    """The merged variable. For two arrays: their first words as far as these say the same, of `key=` at least the key;
    then an unknown word, unless both end there."""
    words: list[Word] = []
    is_array = bool(one and one.is_array) or bool(two and two.is_array)
    if is_array and one and two:
        for left, right in zip(one.words, two.words):
            word = _either_word(left, right, reason)
            if word is None:
                break
            words.append(word)
        if len(words) == len(one.words) == len(two.words):
            return Variable(tuple(words), is_array)
    return Variable((*words, Word(unknown(f"${{{name}}}", reason))), is_array)


def _either_word(left: Word, right: Word, reason: str) -> Word | None:
    """What two words have in common: the word, or `key=` with an unknown value. None for others."""
    if left.text == right.text:
        return left
    key, sign, _ = left.text.partition("=")
    if not sign or "$" in key or not right.text.startswith(key + sign):
        return None
    return Word(joined((literal(key + sign), unknown("${...}", reason))))


def path_in(folder: str, text: Text) -> str | None:
    """The absolute path of a word; None if it is unknown."""
    name = known(text)
    if not name or "\0" in name or len(name) > 4096 or name.startswith("~"):
        return None
    return posixpath.normpath(posixpath.join(folder, name))
