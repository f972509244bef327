"""What a shell knows at one point of a script: variables, functions, arguments, the folder."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from memlint._record import NamedTuple
from memlint.source.shell.text import Text, Word, joined, known, unknown

if TYPE_CHECKING:
    from tree_sitter import Node

    from memlint.source.shell.tree import Source


class Variable(NamedTuple):
    """A variable: one word, or those of an array."""

    words: tuple[Word, ...]
    is_array: bool = False

    @property
    def value(self) -> Text:
        return self.words[0].pieces if self.words else ()


class ShellFunction(NamedTuple):
    body: Node
    source: Source


class Truth(NamedTuple):
    """Whether a command succeeds; None where nobody can know.

    `assumed`: what it holds under: variables that the script never sets are empty, arguments are not given, files
    outside of the repository do not exist. `is_command`: that of a program, which mostly succeeds. `equals`: a variable
    and the value that would make it true.
    """

    value: bool | None
    assumed: frozenset[str] = frozenset()
    is_command: bool = False
    equals: tuple[str, str] | None = None


class State:
    """Changed while a script is followed; `copy()` before a branch.

    `arguments`: `$0`, `$1`, ...; `takes_more`: whether whoever starts the script may give more of them.
    `folder`: the working folder, absolute. `files`: what the script wrote, by absolute path. `script`: the file whose
    lines are followed, absolute. `is_dead`: the script ended here. `left`: `return`, `break` or `continue` until the
    construct around it ends. `local`: variables that the function around made its own, with what they were before.
    `output`: what was printed, None where nobody reads it. `input`: what the next command reads. `conditions`: lines
    where both ways were taken.
    """

    __slots__ = (
        *("arguments", "conditions", "exported", "files", "folder", "functions", "input", "is_dead", "left", "local"),
        *("output", "script", "status", "takes_more", "variables"),
    )

    def __init__(self, arguments: tuple[Word, ...], folder: str, takes_more: bool = True) -> None:
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, ShellFunction] = {}
        self.exported: frozenset[str] = frozenset()
        self.arguments = arguments
        self.takes_more = takes_more
        self.folder = folder
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
        other.script = self.script
        return other

    def set(self, name: str, value: Text) -> None:
        self.variables[name] = Variable((Word(value),))

    def print(self, text: Text) -> None:
        if self.output is not None:
            self.output = joined((self.output, text))

    def environment(self) -> Mapping[str, Text]:
        """The exported variables."""
        return {name: self.variables[name].value for name in self.exported if name in self.variables}

    def says(self) -> tuple[object, ...]:
        """What two states must share to count as one: places and reasons do not matter."""
        variables = frozenset(
            (name, one.is_array, tuple(word.text for word in one.words)) for name, one in self.variables.items()
        )
        arguments = tuple(word.text for word in self.arguments)
        printed = None if self.output is None else tuple(piece.text for piece in self.output)
        written = frozenset((name, tuple(piece.text for piece in text)) for name, text in self.files.items())
        return variables, self.folder, arguments, self.is_dead, self.left, written, self.exported, printed


def merged(states: Iterable[State], line: int) -> State:
    """One state of several: what they disagree on is unknown."""
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
    """What is common at the start of two arrays, then an unknown word."""
    words: list[Word] = []
    is_array = bool(one and one.is_array) or bool(two and two.is_array)
    if is_array and one and two:
        for left, right in zip(one.words, two.words):
            if left.text != right.text:
                break
            words.append(left)
    return Variable((*words, Word(unknown(f"${{{name}}}", reason))), is_array)


def path_in(folder: str, text: Text) -> str | None:
    """An absolute path of a word; None where it is not known."""
    name = known(text)
    if not name or "\0" in name or len(name) > 4096 or name.startswith("~"):
        return None
    return posixpath.normpath(posixpath.join(folder, name))
