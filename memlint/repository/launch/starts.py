"""The commands that a repository shows for its own Python programs: in pages, shell scripts and docstrings.

`python train.py --config configs/sft.yaml --batch_size 8` in a README tells the options with which `train.py` is
started, and that it reads `configs/sft.yaml`. Commands are followed as a shell would, never executed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.repository.launch.pages import STARTS, TrackedNames, is_script
from memlint.repository.launch.parse import Command, Read, commands, folders_of
from memlint.repository.scripts.command_line import command_line
from memlint.repository.scripts.commands import LAUNCHER_WORDS, LaunchCommand, command, options
from memlint.repository.scripts.world import world
from memlint.source.lines import Lines
from memlint.source.python.reader import CommandLine
from memlint.source.python.values import Known, Value, ValueSource
from memlint.source.shell.invocation import Invocation
from memlint.source.shell.text import Word

FILES = (".yaml", ".yml", ".json", ".toml")
COMMAND = re.compile(STARTS)
_PYTHON = re.compile(r"python[\d.]*")


class ProgramStart(NamedTuple):
    """A command that starts a Python program of the repository.

    `program`: its path below the root. `files`: the configuration files of the repository that its words name, by the
    word. `written_at`: the command, as "README.md:12". `is_clear`: all of its words are known.
    """

    program: str
    line: CommandLine
    files: Mapping[str, str]
    written_at: str
    is_clear: bool = True


def starts_in_text(name: str, text: str, tracked: TrackedNames, read: Read) -> Iterator[ProgramStart]:
    """Each start of a tracked program that the file `name` shows. `read`: reads a tracked file's text, by its name.

    Commands of pages with unknown options (`--model <name>`) are skipped: they stand for any.
    """
    return starts_among(commands(name, text, tracked, read, COMMAND), name, text, tracked)


def starts_among(found: Iterable[Command], name: str, text: str, tracked: TrackedNames) -> Iterator[ProgramStart]:
    """The same of the programs that the file's commands start."""
    lines = Lines(text.replace("\r\n", "\n"))
    for one in (started.invocation for started in found):
        launched = _launched(one.words, is_script(name))
        if launched is None or launched.program is None:
            continue
        folders = folders_of(name, one.folder, tracked.root)
        program = _program(launched, folders, tracked)
        is_clear = not any(map(_is_hidden, launched.arguments))
        if program is None or not (is_clear or is_script(name)):
            continue
        line = _line(launched, one, name, lines, tracked.root)
        named = {word.text.partition("=")[2] or word.text: word for word in launched.arguments}
        resolved = ((word, tracked.resolve(word, folders)) for word in named if word.endswith(FILES))
        files = {word: places[0] for word, places in resolved if places}
        yield ProgramStart(program, line, files, f"{name}:{line.number}", is_clear)


def _is_hidden(word: Word) -> bool:
    """Whether a word is unknown. `"$@"` is not: it is empty when a script is started without arguments."""
    return any(piece.unknown and not piece.is_unset for piece in word.pieces)


def _launched(words: tuple[Word, ...], is_whole: bool) -> LaunchCommand | None:
    """The launch in a command. In a page, words of prose may come before it; then only its options are used."""
    for index, word in enumerate(words):
        if posixpath.basename(word.text) in LAUNCHER_WORDS or _PYTHON.fullmatch(word.text):
            found = command(words[index:])
            is_prose = index > 0 and not is_whole and found is not None and bool(options(found.arguments)[1])
            return None if is_prose else found
    return None


def _program(launched: LaunchCommand, folders: tuple[str, ...], tracked: TrackedNames) -> str | None:
    name = launched.program.known if launched.program is not None else None
    if not name:
        return None
    path = name.replace(".", "/")
    places = (name,) if not launched.is_module else (f"{path}.py", f"{path}/__main__.py", f"src/{path}.py")
    found = (one for place in places for one in tracked.programs(place, folders) if one.endswith(".py"))
    return next(found, None)


def _line(launched: LaunchCommand, one: Invocation, name: str, lines: Lines, root: str) -> CommandLine:
    """The command's options, each value with the place of its word in the page."""
    own = posixpath.join(root, name)
    line = command_line(launched, one.variables, world(launched, one.variables, one.wrappers, None))
    named, others = options(launched.arguments)

    def placed(value: Value, word: Word) -> Value:
        at = word.source
        if not isinstance(value, Known) or at is None or at.path != own:
            return value
        return value._replace(source=ValueSource(name, lines.span(at.start, at.end), "command"))

    given = {one.name: tuple(map(placed, line.options[one.name], one.values)) for one in named}
    positional = tuple(map(placed, line.positional, others))
    number = lines.span(one.at.start, one.at.start).line
    return line._replace(options=given, positional=positional, page=name, number=number)
