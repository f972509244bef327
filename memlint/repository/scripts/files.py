"""The files that a script's commands name: of the repository, or written by the script before the command."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.repository.scripts.commands import LaunchCommand
from memlint.repository.scripts.definitions import TrainingProgram
from memlint.repository.scripts.followed import AsPython, Follow
from memlint.source import load
from memlint.source.document import Document, Problem
from memlint.source.python.text import SourceText, parse
from memlint.source.shell.text import Text, known, shown


class Repository(NamedTuple):
    """Functions that read the repository around a script. Paths are absolute.

    `root`: its folder. `read`: a file's text, None if it does not exist. `find(path, kind)`: as in
    `source.shell.invocation.Surroundings`. `load(reference, folder)`: a named file as a document, None without one.
    `programs`: a cache of programs by path, which is added to. `follow`: the runs of a program's code (followed.py).
    `as_python`: one of them as a document of the code. `parse`: parses a module's text; cached. `installed`: command
    that a package of the repository installs -> the module that it starts.
    """

    root: str
    read: Callable[[str], str | None]
    find: Callable[[str, str], str | None]
    load: Callable[[str, str], Document | None]
    programs: dict[str, TrainingProgram]
    follow: Follow = lambda path, command, written: ()
    as_python: AsPython = lambda path, command, written, number: None
    parse: Callable[[str, str], SourceText | Problem] = parse
    installed: Mapping[str, str] = {}

    def below_root(self, path: str) -> str:
        """A path relative to the repository: removes the root of this machine from an expanded `$ROOT/src/train.py`."""
        return path.removeprefix(f"{self.root}/") if self.root != "/" else path

    def name(self, text: str) -> str:
        """A text without this machine's folder, if it is the path of something that the repository lacks: where
        `$ROOT/models/mine` would lie matters to nobody."""
        return self.below_root(text) if text[:1] == "/" and self.find(text, "path") != text else text

    def is_file(self, path: str) -> bool:
        """Whether the repository has a file at exactly this path."""
        return self.find(path, "file") == path


class NamedFiles(NamedTuple):
    """The files that one command can name.

    `script`: the path of the script that the command is in. `folder`: the folder in which the command runs.
    `written`: path -> text of the files that the script wrote before it. Paths are absolute.
    """

    repository: Repository
    script: str
    folder: str
    written: Mapping[str, Text]

    def path(self, reference: str) -> str:
        """The absolute path of a reference, whether or not a file is there."""
        return posixpath.normpath(posixpath.join(self.folder, reference))

    def is_written(self, reference: str) -> bool:
        """Whether the script itself writes the file."""
        return self.path(reference) in self.written

    def located(self, reference: str) -> Document | str | None:
        """A file that the script wrote, read; else the path of one of the repository, by a reference relative to the
        working folder or to the script's folder."""
        path = self.path(reference)
        if reference.startswith("${"):  # `$ROOT/conf/zero3.yaml`, and nobody sets the variable
            return self._by_suffix(reference)
        if path in self.written:
            text = self.written[path]
            read = _with_quoted_unknowns(text) if reference.endswith(".json") else shown(text)
            return load(read.encode("utf-8", "replace"), reference)[0]
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(self.script), reference))
        return self.repository.find(path, "file") or self.repository.find(beside, "file")

    def document(self, reference: str) -> Document | None:
        """The file, read."""
        found = self.located(reference)
        return self.repository.load(found, self.folder) if isinstance(found, str) else found

    def text(self, reference: str) -> str | None:
        """The file's text. A file that the script wrote has one where no part of it is unknown."""
        path = self.path(reference)
        if path in self.written:
            return known(self.written[path])
        found = self.repository.find(path, "file")
        return self.repository.read(found) if found is not None else None

    def program(self, launched: LaunchCommand) -> str | None:
        """The file of the program that a command starts, absolute; None if the repository does not have it."""
        word = launched.program
        name = known(word.pieces) if word is not None else None
        if name is None or not name or name.startswith("~"):
            return self._by_suffix(word.text) if word is not None and word.text.endswith(".py") else None
        places: tuple[str, ...] = (name,)
        if launched.is_module:
            inner = name.replace(".", "/")
            places = (f"{inner}.py", f"{inner}/__main__.py", f"src/{inner}.py")
        bases = [self.folder, posixpath.dirname(self.script), self.repository.root]
        if "$" in self.folder:  # below one that a program prints: `cd $(pip show llmtuner | ...)/llmtuner`
            bases = [self.folder]
        if launched.is_module:  # of a project in a folder of the repository, which a script below puts on PYTHONPATH
            bases += ancestors(posixpath.dirname(self.script), self.repository.root)
        for place in places:
            for base in bases:
                found = self.repository.find(posixpath.normpath(posixpath.join(base, place)), "file")
                if found is not None and found.endswith(".py"):
                    return found
        return None

    def _by_suffix(self, text: str) -> str | None:
        tail = text.rpartition("}")[2].lstrip("/")
        return self.repository.find(posixpath.join("/", tail), "file") if tail else None


def _with_quoted_unknowns(text: Text) -> str:
    """JSON that a script writes, with what is not known of it as texts: `"train_batch_size": ${SIZE}` is no JSON."""
    found = ""
    for piece in text:
        is_bare = bool(piece.unknown) and found.count('"') % 2 == 0
        found += f'"{piece.text}"' if is_bare else piece.text
    return found


def ancestors(folder: str, root: str) -> Iterator[str]:
    """The folders above `folder`, the nearest first, as far as those below `root`."""
    while folder.startswith(f"{root.rstrip('/')}/") and folder != root:
        folder = posixpath.dirname(folder)
        yield folder
