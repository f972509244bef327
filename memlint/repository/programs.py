"""Finds the training runs that a repository's programs start: by commands in scripts, workflow files and notebooks, by
Python code, and by configs whose keys only a script of the repository knows.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from memlint.repository.files.rooted_files import RootedFiles
from memlint.repository.once import Once
from memlint.repository.starters import may_start_commands
from memlint.source import load
from memlint.source.document import Document, Problem
from memlint.source.encoding import MAX_BYTES, decode
from memlint.source.suffixes import SHELL

if TYPE_CHECKING:
    from memlint.formats.trainer.python.python_run import PythonRun
    from memlint.repository.declared_keys import DeclaredKeys
    from memlint.repository.launch.index import LaunchIndex
    from memlint.repository.python.configs import ConfigIndex
    from memlint.repository.python.documents import PythonRepository
    from memlint.repository.scripts.definitions import TrainingProgram
    from memlint.source.python.reader import CommandLine
    from memlint.source.python.text import ParsedModules, SourceText

PYTHON = (".py", ".ipynb")
SCRIPTS = (*SHELL, ".mk", ".just")
MAKEFILES = ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile")
# Keys of SkyPilot and dstack tasks, Kubernetes manifests, Docker Compose files, GitHub workflows, Determined's
# experiments, jobs of Azure ML, MosaicML and Vertex AI, at their root.
_COMMAND_KEYS = (
    ("run", "resources"),
    ("run", "setup"),
    ("jobs", "on"),
    ("jobs", True),
    ("kind", "spec"),
    ("services",),
    ("type", "commands"),
    ("entrypoint", "searcher"),
    ("command", "compute"),
    ("workerPoolSpecs",),
)


def is_script(path: str) -> bool:
    return path.endswith(SCRIPTS) or posixpath.basename(path) in MAKEFILES


def holds_commands(document: Document) -> bool:
    """Whether a YAML file is a task, a job or a workflow, whose commands may train."""
    value = document.value
    return isinstance(value, dict) and any(all(key in value for key in keys) for keys in _COMMAND_KEYS)


def parsed_modules() -> Once[ParsedModules]:
    """The trees of Python modules, by their text."""

    def make() -> ParsedModules:
        from memlint.source.python.text import ParsedModules  # where Python is read

        return ParsedModules()

    return Once(make)


class Programs:
    """`named(reference, folder)`: reads a file that a script in `folder` names. `launches`: the index of the
    repository's launch commands. `python`: its Python files, by absolute path. `modules`: their parsed trees.
    `installed`: the commands that its own package installs, with the module that each starts."""

    def __init__(
        self,
        files: RootedFiles,
        named: Callable[[str, str], Document | None],
        launches: Once[LaunchIndex],
        python: Callable[[], Collection[str]],
        modules: Once[ParsedModules],
        installed: Callable[[], Mapping[str, str]],
    ) -> None:
        self._files = files
        self._named = named
        self._launches = launches
        self._python = python
        self._modules = modules
        self._configs = Once(self._config_index)
        self._installed = Once(installed)
        self._read: dict[str, TrainingProgram] = {}  # cache: path -> program that a script starts

    def forget(self) -> None:
        """Drops what was read of Python files, one of which has changed."""
        self._configs.forget()
        self._read.clear()

    def in_script(self, path: str, absolute: str, text: str) -> tuple[Document, ...]:
        """The training commands of a script, of a YAML file with steps (a workflow), or of a notebook."""
        from memlint.repository.scripts.files import Repository  # where a script is read
        from memlint.repository.scripts.read import documents  # where a script is read

        files, modules = self._files, self._modules.get()

        def parse(name: str, module: str) -> SourceText | Problem:
            return modules.parse(files.inner(name), module)

        find = partial(files.find, posixpath.dirname(absolute))
        installed = self._installed.get()
        followers = self._follow, self._as_python
        repository = Repository(files.root, files.text, find, self._named, self._read, *followers, parse, installed)
        return documents(absolute, text, repository, path)

    def in_python(self, path: str, absolute: str, data: bytes) -> tuple[Document, ...]:
        """The runs of a Python file or notebook."""
        from memlint.repository.python.documents import documents  # where Python is read

        if path.endswith(".ipynb") and len(data) > MAX_BYTES:
            from memlint.source.python.notebook import too_large  # few notebooks are

            found = too_large(data, path)
            return () if found is None else (found,)
        inner = self._files.inner(absolute)
        text = decode(data).text
        is_notebook = path.endswith(".ipynb")
        runs = documents(inner, load(data, inner, syntax="json")[0] if is_notebook else text, self._repository())
        has_commands = is_notebook and b'"!' in data.replace(b"%%", b'"!')
        if has_commands or may_start_commands(inner, text):
            runs += self.in_script(path, absolute, text)
        return runs

    def may_train(self, absolute: str, data: bytes) -> bool:
        """Whether a Python file names a trainer, or has a loop that trains."""
        from memlint.repository.python.documents import may_train  # where Python is read

        inner = self._files.inner(absolute)
        return may_train(inner, decode(data).text, self._repository().read)

    def of_config(self, name: str, text: str) -> tuple[Document, ...]:
        """The runs that a script makes of a configuration file with a schema of its own. `name`: below the root."""
        from memlint.repository.python.config_texts import may_configure_a_run  # where no format knows a file

        if not may_configure_a_run(name, text) or not (self._python() or self._launches.get().tracks_python):
            return ()
        return self._configs.get().documents(name, text)

    def of_declared(self, file: Document, name: str, keys: DeclaredKeys) -> Document:
        """The run of a configuration file whose keys the settings explain; `name`: below the root."""
        from memlint.repository.python.declared import declared_document  # where settings explain a file's keys

        return declared_document(file, name, keys, self._repository())

    def _config_index(self) -> ConfigIndex:
        from memlint.repository.python.configs import ConfigIndex  # as above

        return ConfigIndex(self._repository(), lambda: map(self._files.inner, self._python()))

    def _repository(self) -> PythonRepository:
        from memlint.repository.python.documents import PythonRepository  # where Python is read

        files = self._files
        return PythonRepository(
            lambda name: files.text(files.at(name)),
            files.config,
            lambda name: files.display_path(files.at(name)),
            self._modules.get().parse,
            lambda program: self._launches.get().starts(program),
            lambda config: self._launches.get().starts_with(config),
        )

    def _follow(self, path: str, command: CommandLine, written: Mapping[str, str]) -> tuple[PythonRun, ...]:
        """The runs of the program at `path` (absolute) with this command line. `written`: files written before it."""
        from memlint.repository.python.documents import followed  # where Python is read

        return followed(self._files.inner(path), self._repository_with(written), command)

    def _as_python(self, path: str, command: CommandLine, written: Mapping[str, str], number: int) -> Document | None:
        """A run of the program as a document of its code."""
        from memlint.repository.python.documents import followed_document  # where Python is read

        return followed_document(self._files.inner(path), self._repository_with(written), command, number)

    def _repository_with(self, written: Mapping[str, str]) -> PythonRepository:
        """The repository with files that a script has written."""

        def document(name: str) -> Document | None:
            text = written.get(self._files.at(name))
            return self._files.config(name) if text is None else load(text.encode("utf-8", "replace"), name)[0]

        return self._repository()._replace(document=document)
