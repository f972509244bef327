"""The state of following one script: its budget, imported modules, known libraries, and uncertain branches."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from memlint._record import NamedTuple
from memlint.source.document import Document
from memlint.source.python.limits import Budget
from memlint.source.python.text import SourceText
from memlint.source.python.values import (
    Items,
    Known,
    Made,
    Scope,
    Undetermined,
    Value,
    ValueSource,
    either,
    source_of,
)


class ScriptFiles(NamedTuple):
    """Functions that read the repository's files, by path below its root. None: the file does not exist or cannot be
    read."""

    module: Callable[[str], SourceText | None]
    document: Callable[[str], Document | None]  # YAML, JSON


class Call(NamedTuple):
    """A call as a library sees it. `is_open`: there may be more named arguments, with unknown values."""

    name: str
    positional: tuple[Value, ...]
    named: Mapping[str, Value]
    source: ValueSource
    is_open: bool = False
    owner: Value | None = None  # of a method

    def argument(self, position: int, *names: str) -> Value | None:
        """The argument at `position`, or under one of `names`; None where it is not given."""
        if 0 <= position < len(self.positional):
            return self.positional[position]
        return next((self.named[name] for name in names if name in self.named), None)


class Capability(NamedTuple):
    """The compute capability of a card; `is_least`: this or a later one."""

    major: int
    minor: int
    is_least: bool = False


class CommandLine(NamedTuple):
    """The command line of a script. All fields are empty for a start without arguments.

    `config`: the configuration file that the command line names, by its path in the repository; "" without one.
    `options`: the words after each option, by its name with underscores. `positional`: the words before and between
    options. `overrides`: dotted name -> value of words such as `a.b=value`, which Hydra and OmegaConf read.
    `environment`: variables that are set for the script; they override its defaults. `page`: the file that shows the
    command, in its line `number`; "" if it is not of the repository. `card`: what the script is told when it asks for
    the card's compute capability; None: nobody knows. `is_open`: the command may give more options, which nobody knows.
    """

    config: str = ""
    options: Mapping[str, tuple[Value, ...]] = {}
    positional: tuple[Value, ...] = ()
    environment: Mapping[str, Value] = {}
    overrides: Mapping[str, Value] = {}
    page: str = ""
    number: int = 0
    card: Capability | None = None
    is_open: bool = False

    @property
    def is_given(self) -> bool:
        """Whether the command's words are known: then an option that is not among them was not given, unless the
        command is open."""
        return bool(self.options or self.positional)


BARE = CommandLine()  # a start without arguments

# Names of options that name a configuration file.
_CONFIG_OPTIONS = frozenset(
    {
        *("config", "config_path", "config_file", "config_yaml", "cfg", "cfg_path", "conf", "yaml", "yaml_path"),
        *("yaml_file", "config_filepath", "configs", "recipe", "training_config", "train_config", "config_json"),
    }
)


class Syntax(NamedTuple):
    """The functions that follow expressions and statements. Passed in to avoid an import cycle."""

    evaluate: Callable[[Reader, ast.expr, Frame], Value]
    execute: Callable[[Reader, Sequence[ast.stmt], Frame], str]


# Why it is in doubt whether the body of a loop runs.
UNKNOWN_ROUNDS = "only in a loop whose rounds memlint does not know"

Library = Callable[["Reader", Call], "Value | None"]  # None: nothing special about this call


# Where values were set: (id of the dictionary, key) -> (the dictionary, the key).
Changes = dict[tuple[int, Any], tuple[dict[Any, Value], Any]]


class Frame:
    """One function that is being followed. `returned`: the values that it returns, as far as they are known. `left`:
    what branches set that return, each with its value there: statements after them may set it too."""

    __slots__ = ("left", "module", "returned", "scope")

    def __init__(self, module: SourceText, scope: Scope) -> None:
        self.module = module
        self.scope = scope
        self.returned: list[Value] = []
        self.left: list[tuple[dict[Any, Value], Any, Value]] = []

    def leave(self, changes: Changes) -> None:
        """Notes that it is in doubt whether the function returns here, after these changes."""
        self.left += ((holder, key, holder[key]) for holder, key in changes.values())

    def end(self, reason: str) -> None:
        """What may have been set before a return is so, or what the last statements set."""
        for holder, key, value in self.left:
            holder[key] = either([value, holder.get(key) or value], reason)


class Reader:
    """Follows the script at the path `script`.

    `libraries`: handlers of library calls, by dotted name or, with a leading dot, by its last part. `constants`: values
    of libraries by name. `observe`: called with every object that something outside of the repository makes, in the
    order of the script. `command`: the script's command line.
    """

    def __init__(
        self,
        script: str,
        files: ScriptFiles,
        libraries: Mapping[str, Library],
        constants: Mapping[str, Value],
        observe: Callable[[Made], None],
        syntax: Syntax,
        command: CommandLine = BARE,
        budget: Budget | None = None,
    ) -> None:
        self.command = command
        self.config = command.config
        self.taken = 0  # how many positional words the parser's arguments have consumed
        self.script = script
        self.module_at = files.module
        self.document = files.document
        self.constants = constants
        self.libraries = libraries
        self.observe = observe
        self.evaluate = syntax.evaluate
        self.execute = syntax.execute
        self.budget = budget or Budget()
        self.followed: set[int] = set()  # functions that were followed, by the `id` of their nodes
        self.parameters: list[Mapping[str, Value]] = []  # of the functions that call each other, the innermost last
        self.modules: dict[str, Scope] = {}  # path -> its names
        self.imported: set[str] = set()  # libraries: packages that are not the repository's
        self.import_folders: list[str] = []  # that the script adds to `sys.path`
        self._doubts: list[str] = []
        self._fresh: list[dict[int, object]] = []  # for each enclosing `doubt`: the objects that were made in it
        self._changes: list[Changes] = []  # for each enclosing `doubt`: what was set in it

    def find(self, path: str) -> Document | None:
        """The configuration file at `path`, relative to the script's folder or a folder above it; None without one."""
        folder = posixpath.dirname(self.script)
        path = path.removeprefix("./")
        while True:
            for base in (folder, ""):
                found = self.document(posixpath.normpath(posixpath.join(base, path)))
                if found is not None:
                    return found
            if not folder:
                return None
            folder = posixpath.dirname(folder)

    def words(self, *names: str) -> tuple[Value, ...] | None:
        """The words that the command line gives an option, by any of its names; None if it is not given."""
        options = self.command.options
        plain = (name.lstrip("-").replace("-", "_") for name in names)
        return next((options[name] for name in plain if name in options), None)

    def option(self, name: str) -> Value | None:
        """The value that the command line gives an option. For an option that names a config, that is the command's."""
        words = self.words(name)
        if words is not None:
            return plain_word(words)
        if not self.config or name.lower().lstrip("-").replace("-", "_") not in _CONFIG_OPTIONS:
            return None
        return Known(self.config)

    def unsaid(self, name: str, default: Value) -> Value:
        """The value of an option that the command line does not give: its default, unless the caller may give it."""
        if not self.command.is_open:
            return default
        return Undetermined(f"the command's caller may give `{name}`", source_of(default))

    def library(self, name: str) -> Library | None:
        """The handler of a library call, by its dotted name; None if it is not known."""
        return self.libraries.get(name) or self.libraries.get("." + name.rpartition(".")[2])

    @contextmanager
    def doubt(self, reason: str) -> Iterator[Changes]:
        """A block in which it is unknown whether statements run, with what they set. Changes of older objects then give
        `Either` of the old and the new value."""
        changes: Changes = {}
        self._doubts.append(reason)
        self._fresh.append({})
        self._changes.append(changes)
        try:
            yield changes
        finally:
            self._doubts.pop()
            self._fresh.pop()
            self._changes.pop()
            if self._changes:
                self._changes[-1].update(changes)

    @property
    def is_in_rounds(self) -> bool:
        """Whether loops of an unknown number of rounds are all that is in doubt."""
        return all(doubt == UNKNOWN_ROUNDS for doubt in self._doubts)

    @property
    def in_doubt(self) -> bool:
        """Whether the statement that is being followed may not run."""
        return bool(self._doubts)

    def made(self, thing: Any) -> Any:
        """Notes that `thing` was made here, so that changes of it in the same branch are certain."""
        if self._fresh:
            self._fresh[-1][id(thing)] = thing
        return thing

    def set(self, holder: dict[Any, Value], owner: object, key: Any, value: Value) -> None:
        """Sets a value of an object; if it is in doubt, to `Either` of the old and the new one."""
        if self._doubts and id(owner) not in self._fresh[-1]:
            before = holder.get(key) or Undetermined(self._doubts[-1])
            value = either([before, value], self._doubts[-1])
            self._changes[-1][id(holder), key] = holder, key
        holder[key] = value


def plain_word(words: tuple[Value, ...]) -> Value:
    """The value of an option's words, as a file could state it: True for a switch, a number, a text, or a list."""
    if not words:
        return Known(True)
    found = [_scalar(one) for one in words]
    return found[0] if len(found) == 1 else Items(found)


def _scalar(word: Value) -> Value:
    if not isinstance(word, Known) or not isinstance(word.value, str):
        return word
    text = word.value.strip()
    if text[:1] == "[" and text[-1:] == "]":
        found = [one.strip().strip("\"'") for one in text[1:-1].split(",")]
        return Items([_scalar(word._replace(value=one)) for one in found if one and "[" not in one])
    if text in ("True", "true", "False", "false"):
        return word._replace(value=text in ("True", "true"))
    for kind in (int, float):
        try:
            return word._replace(value=kind(text))
        except ValueError:
            continue
    return word


def constant(module: SourceText, node: ast.AST, value: Any, how: str = "literal") -> Known:
    """A scalar that is written at `node`."""
    return Known(value, ValueSource(module.path, module.span(node), how))
