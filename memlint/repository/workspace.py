"""Reads the files of a project: only below one root, each once, with limits on size. Also finds the models they name.

Formats do no I/O of their own: a workspace provides `Context.read`, `Context.find_model` and the other functions.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import memlint.file_access as file_access
import memlint.repository.files.tracked as tracked_by
from memlint._record import NamedTuple
from memlint.architectures.model import Resolution
from memlint.architectures.resolve import resolve
from memlint.formats.base import ConfigReader, Context, Launch, MissingFile, RepositoryFacts
from memlint.formats.fields import interpolated
from memlint.formats.references import Files, reader
from memlint.repository.files.rooted_files import ReadBytes, RootedFiles
from memlint.repository.once import Once
from memlint.repository.programs import PYTHON, SCRIPTS, Programs, holds_commands, is_script, parsed_modules
from memlint.repository.versions.pins import ANY, ENTRIES, REQUIREMENTS, Pin, may_pin, pinned, pins
from memlint.source import load, load_changed
from memlint.source.document import Document
from memlint.source.encoding import MAX_BYTES, decode

Key = TypeVar("Key")
Value = TypeVar("Value")

MAX_CACHED = 4  # entries per cache: the checked file, and companions that many files share
MAX_MODELS = 64  # models that are found, each from one folder
_YAML = (".yaml", ".yml")

if TYPE_CHECKING:
    from memlint.repository.declared_keys import DeclaredKeys
    from memlint.repository.launch.index import LaunchIndex
    from memlint.repository.reader.config_reader import ConfigReaders
    from memlint.repository.reader.program_modules import Sources
    from memlint.repository.reader.python_arguments import Python
    from memlint.repository.reader.script import Script
    from memlint.repository.written_models import WrittenModels


def read_bytes(path: str) -> bytes:
    """The file's bytes, at most one more than memlint reads (so that the loader can refuse it). Raises OSError."""
    return file_access.read_checked(path, MAX_BYTES + 1)


_STARTS_SHELL = rb"#!\S*[/ ](?:env +)?(?:ba|da|k|z)?sh\b"  # a job of any name


class ModelSources(NamedTuple):
    """Where the architectures of models come from; the fields are those of architectures.resolve.

    `within` (a real path): no model's folder outside of it is read; "" for any folder.
    """

    models: Mapping[str, Any] = {}
    hub: bool = False
    exact: bool = False
    within: str = ""

    def find(self, name: str, folders: tuple[str, ...]) -> Resolution:
        return resolve(name, folders, self.models, self.hub, self.exact, self.within)


class Workspace(RepositoryFacts):
    """Reads and caches the files of one project, and answers what `RepositoryFacts` asks of them.

    `root`: no reference is followed out of this folder. `python` lists the Python files below the root, `tracked` the
    names of the repository's files there.
    """

    def __init__(
        self,
        root: str,
        cwd: str,
        files: Files,
        load_bytes: ReadBytes,
        models: ModelSources,
        python: Callable[[], Iterable[str]] = tuple,
        tracked: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.root = root
        self.cwd = cwd
        self._files = RootedFiles(root, cwd, files._replace(read=self._referenced), load_bytes)
        self._parse: Callable[[bytes, str], tuple[Document, ...]] = load
        self._models = models
        self._python = Once(lambda: tuple(python()))  # shared with every overlay
        self._tracked = tracked
        self._modules = parsed_modules()  # shared with every overlay: they go by the text
        self._survey = Once(self._surveyed)  # shared with every overlay
        self._launches = Once(self._launch_index)
        self._sources = Once(self._program_sources)
        self._programs = self._new_programs()
        self._readers = Once(self._config_readers)
        self._written = Once(self._written_models)
        self._launched: dict[str, tuple[Launch, ...]] = {}
        self._declared: dict[str, set[str]] = {}  # program -> keys that it declares
        self._documents: dict[str, tuple[Document, ...]] = {}
        self._resolutions: dict[tuple[str, str], Resolution] = {}
        self._pins: dict[str, dict[str, Pin]] = {}
        self._pinned: dict[str, dict[str, Pin]] = {}

    def documents(self, path: str) -> tuple[Document, ...]:
        """The documents of a file on the command line or found by discovery; their path is `path`. Raises OSError."""
        found = self._documents.pop(path, None)
        if found is None:
            found = self._load(path)
        return _kept(self._documents, path, found)

    def hides_its_run(self, path: str) -> bool:
        """Whether a Python file may train, and its code shows no run."""
        if not path.endswith(PYTHON) or self.documents(path):
            return False
        absolute = self._files.absolute(path)
        return self._programs.may_train(absolute, self._files.load_bytes(absolute))

    def _load(self, path: str) -> tuple[Document, ...]:
        absolute = self._files.absolute(path)
        data = self._files.load_bytes(absolute)
        if path.endswith(PYTHON):
            return self._programs.in_python(path, absolute, data)
        if is_script(path) or (data.startswith(b"#!") and re.match(_STARTS_SHELL, data)):
            return self._programs.in_script(path, absolute, decode(data).text)
        found = self._parse(data, path)
        if not path.endswith(_YAML) or not holds_commands(found[0]):
            return found
        return self._programs.in_script(path, absolute, decode(data).text) or found

    def config_runs(self, path: str) -> tuple[Document, ...]:
        """The runs that a script of the repository makes of a configuration file with a schema of its own."""
        absolute, found = self._files.absolute(path), self.documents(path)
        if not found or not self._files.is_inside(absolute):
            return ()
        return self._programs.of_config(self._files.inner(absolute), found[0].text)

    def declared_run(self, path: str, keys: DeclaredKeys) -> Document:
        """The run of a configuration file whose keys the settings explain; the file itself where it does not parse.

        Raises OSError.
        """
        file = self.documents(path)[0]
        if any(problem.fatal for problem in file.problems):
            return file
        return self._programs.of_declared(file, self._files.inner(self._files.absolute(path)), keys)

    def _new_programs(self) -> Programs:
        return Programs(
            self._files, self._named, self._launches, self._python.get, self._modules, self._installed_commands
        )

    def _named(self, reference: str, folder: str) -> Document | None:
        found = self.context().read(reference, posixpath.join(folder, "-"))
        return None if isinstance(found, MissingFile) else found

    def overlaid(self, contents: Mapping[str, bytes]) -> Workspace:
        """The same files, with `contents` (by the path of the documents) in place of their bytes: what a fix would
        write. A file that changes on disk meanwhile is seen as it was."""
        changed = {self._files.absolute(path): data for path, data in contents.items()}
        original = self._files.load_bytes

        def load_bytes(path: str) -> bytes:
            return changed[path] if path in changed else original(path)

        other = Workspace(
            self.root, self.cwd, self._files.files, load_bytes, self._models, self._python.get, self._tracked
        )
        other._parse = load_changed
        self._share(other, changed)
        return other

    def _share(self, other: Workspace, changed: Collection[str]) -> None:
        """Gives `other` what was found here and the `changed` files (absolute paths) do not say: models and the
        repository's Python always, its launch commands and pins where no such file changes."""
        other._resolutions, other._survey, other._modules = self._resolutions, self._survey, self._modules
        other._sources, other._written = self._sources, self._written
        names = set(map(_last, changed))
        if self._launches.is_made and not _any_may_hold_commands(names):
            other._launches, other._readers = self._launches, self._readers
        elif self._launches.is_made:
            other._launches = Once(lambda: other._launch_index(self._launches.get()))
        other._programs = other._new_programs()  # of these launch commands and modules
        if not any(map(may_pin, names)):
            other._pins, other._pinned = self._pins, self._pinned

        def is_changed(path: str) -> bool:
            return _last(path) in names and self._files.absolute(path) in changed  # a quick test first

        changes_code = any(name.endswith(PYTHON) for name in names)
        other._documents = {
            path: found
            for path, found in self._documents.items()
            if not any(map(is_changed, _made_from(path, found))) and not (changes_code and _follow_code(found))
        }

    def forget(self, path: str) -> None:
        """Drops what the file at `path` may have said, because it has changed (for the language server). Who reads and
        launches configs is asked again in any case."""
        self._forget_documents(path)
        self._readers.forget()
        self._written.forget()
        self._launched.clear()
        self._declared.clear()
        self._sources.forget()
        if path.endswith(PYTHON):
            self._python.forget()
            self._survey.forget()
            self._programs.forget()
        name = posixpath.basename(path)
        if _any_may_hold_commands([name]):
            self._launches.forget()
        if may_pin(name):
            self._pins.clear()
            self._pinned.clear()

    def _forget_documents(self, path: str) -> None:
        absolute = self._files.absolute(path)
        for name in [name for name in self._documents if self._files.absolute(name) == absolute]:
            del self._documents[name]

    def context(self, **facts: Any) -> Context:
        """The context of a document: this workspace and other facts (`gpu=`, `gpus=`, ... as in `Context`)."""
        context = Context(reader(self.cwd, self.root, self._files.files), self.find_model, repository=self)
        return context._replace(**facts)

    def field_annotations(self, key: str, below: str = "") -> str:
        """The annotations with which dataclasses of the repository declare `key`, in files whose path has the folders
        `below`. There may be several, as a collection of projects may have several copies of a framework."""
        return "\n".join(self._survey.get().fields(below).get(key, ()))

    def find_model(self, name: str, from_path: str, models: Mapping[str, Any] | None = None) -> Resolution:
        """The architecture behind a name in the file at `from_path`; local folders are looked up beside it. A folder
        that is not there may be one that another run writes.

        `models` maps names to folders or configs for this file alone, as its settings do.
        """
        folder = posixpath.dirname(self._files.absolute(from_path))
        if models:
            return self._models._replace(models=models).find(name, (self.cwd, folder))
        found = self._resolutions.get((name, folder))
        if found is None:
            found = self._models.find(name, (self.cwd, folder))
            _kept(self._resolutions, (name, folder), found, MAX_MODELS)
        return found if found.architecture is not None else self._written.get().find(name) or found

    def _written_models(self) -> WrittenModels:
        from memlint.repository.written_models import Runs, WrittenModels  # where nobody knows a model's folder

        files = self._files
        return WrittenModels(
            Runs(
                self._tracked,
                lambda name: files.unshared_bytes(files.at(name)),
                self._tracked_documents,
                self.context,
                lambda words: self._launches.get().scripts_with(words),
                files.at,
            )
        )

    def _tracked_documents(self, name: str) -> tuple[Document, ...]:
        """The documents of a file by its name relative to the root; none where it cannot be read."""
        path = self._files.at(name)
        file_access.share(path)
        try:
            return self.documents(self._files.display_path(path))
        except OSError:
            return ()

    def argument_parsers(self) -> frozenset[str]:
        return self._survey.get().parsers

    def filled_arguments(self) -> frozenset[str]:
        return self._survey.get().filled

    def taken_arguments(self) -> frozenset[str]:
        return self._survey.get().taken

    def chat_templates(self) -> frozenset[str]:
        return self._survey.get().templates

    def own_refusals(self) -> frozenset[str]:
        return self._survey.get().refusals

    def own_functions(self, below: str) -> frozenset[str]:
        return self._survey.get().functions(below)

    def says(self, below: str, words: str) -> bool:
        return self._survey.get().says(below, words)

    def has_checks_of(self, framework: str) -> bool:
        return self._survey.get().has_checks_of(framework)

    def knows_word(self, key: str, word: str) -> bool:
        return self._survey.get().knows(key, word)

    def calls_deepspeed(self) -> bool:
        return self._survey.get().calls_deepspeed

    def leaves_deepspeed(self) -> bool:
        return self._survey.get().leaves_deepspeed

    def wraps_models(self) -> bool:
        return self._survey.get().wraps_models

    def fills_context(self) -> bool:
        return self._survey.get().fills_context

    def is_filled_in(self, path: str, key: str, value: Any) -> bool:
        import memlint.repository.reader.filled_in as filled_in  # where something is said of a config

        name = self._files.name(path)
        pages = self._launches.get().pages_naming(name)
        if interpolated(value) and (
            filled_in.by_substitution(pages) or filled_in.by_replacement(value, self._survey.get().scripts)
        ):
            return True
        if filled_in.by_command(name, key, value, pages):
            return True
        return filled_in.by_program(key, value, self._readers.get().loading(name))

    def is_overridden(self, dotted: str) -> bool:
        from memlint.repository.reader.filled_in import by_override  # as above

        return by_override(dotted, self._launches.get().pages_with(f"{dotted}="))

    def declares(self, document: Document, key: str) -> bool:
        from memlint.repository.reader.python_arguments import declared  # as above

        if document.start is not None:
            program = document.start.program.entry
        else:
            keys = [one for one in document.value if isinstance(one, str)] if isinstance(document.value, dict) else ()
            found = self.config_reader(document.path, keys)
            program = found.path if found.parsers else ""
        if program not in self._declared:
            scripts = self._scripts_of(program)
            self._declared[program] = {name for script in scripts for name, _ in declared(script.text)}
        return key in self._declared[program]

    def converts(self, program: str, key: str) -> bool:
        from memlint.repository.reader.python_arguments import converts  # as above

        if any(converts(script.text, key) for script in self._scripts_of(program)):
            return True
        name = self._files.name(program)  # a helper may read the file for a script that imports it
        others = self._survey.get().converting(key)
        return any(name == module.path for one in others for module in self._scripts_of(one))

    def _scripts_of(self, program: str) -> Iterable[Script]:
        """The program's script and the modules that it imports."""
        from memlint.repository.reader.program_modules import modules  # as above

        return modules([self._files.name(program)], self._sources.get()) if program.endswith(PYTHON) else ()

    def is_made(self, reference: str) -> bool:
        import memlint.repository.reader.filled_in as filled_in  # as above

        name = posixpath.basename(reference)
        pages = self._launches.get().pages_naming(name)
        return bool(name) and filled_in.is_made(name, pages, self._survey.get().scripts)

    def config_reader(self, path: str, keys: Collection[str]) -> ConfigReader:
        text, launches = self.documents(path)[0].text, self._launches_of(path)
        found = self._readers.get().reader_of(self._files.name(path), frozenset(keys), launches, text)
        return found._replace(path=self._files.display_name(found.path)) if found.path else found

    def _config_readers(self) -> ConfigReaders:
        from memlint.repository.reader.config_reader import ConfigReaders  # where keys are the repository's own

        return ConfigReaders(self._survey.get(), self._sources.get(), self._launches.get())

    def _program_sources(self) -> Sources:
        """The repository's Python, by names relative to its root, each file read once."""
        from memlint.repository.reader.program_modules import Sources  # as above

        files, commands = self._files, self._installed_commands()
        return Sources(self._launches.get().named, lambda name: files.tracked_bytes(files.at(name)), commands)

    def _installed_commands(self) -> Mapping[str, str]:
        """The commands that the repository's own package installs, with the module that each starts."""
        from memlint.repository.reader.program_modules import PACKAGE_FILES, installed_commands  # as above

        texts = (self._files.small_text(self._files.at(name)) for name in PACKAGE_FILES)
        return installed_commands(text for text in texts if text)

    def launch_commands(self, path: str) -> tuple[Launch, ...]:
        return self._displayed(self._launches_of(path))

    def _launches_of(self, path: str) -> tuple[Launch, ...]:
        """The commands that launch the config at `path`, with names relative to the root."""
        if path not in self._launched:
            found = self._launches.get().launches(self._files.name(path), self.documents(path)[0].text)
            return _kept(self._launched, path, found)
        return self._launched[path]

    def own_launch_commands(self, path: str) -> tuple[Launch, ...]:
        """The launch commands in the comments of the config at `path`; no other file is searched."""
        from memlint.repository.launch.index import in_own_words  # as above
        from memlint.repository.launch.pages import TrackedNames

        tracked = TrackedNames(self.root, frozenset())
        return self._displayed(in_own_words(self._files.name(path), self.documents(path)[0].text, tracked))

    def _displayed(self, launches: Iterable[Launch]) -> tuple[Launch, ...]:
        display = self._files.display_name
        return tuple(
            one._replace(
                path=display(one.path),
                config_file=display(one.config_file) if one.config_file else "",
                deepspeed=display(one.deepspeed) if one.deepspeed else "",
                program=display(one.program) if one.program else "",
            )
            for one in launches
        )

    def launch_files(self, path: str) -> tuple[str, ...]:
        return tuple(map(self._files.display_name, self._launches.get().files(self._files.name(path))))

    def _launch_index(self, before: LaunchIndex | None = None) -> LaunchIndex:
        from memlint.repository.launch.index import LaunchIndex  # where a run leaves its engine or GPUs open

        files = self._files
        return LaunchIndex(self.root, self._tracked(), files.tracked_bytes, self._referenced, files.has_word, before)

    def _surveyed(self) -> Python:
        from memlint.repository.reader.python_arguments import Python  # where a file has keys of the repository's own

        return Python(self._python.get(), self._files.load_bytes, self._files.inner)

    def pins(self, path: str) -> Mapping[str, Pin]:
        """Framework versions that the repository pins for the file at `path`, nearest first."""
        folder = posixpath.dirname(self._files.absolute(path))
        if folder not in self._pins:
            self._pins[folder] = pins(folder, self.root, self._pinned_in)
        return self._pins[folder]

    def _pinned_in(self, folder: str) -> Mapping[str, Pin]:
        if folder not in self._pinned:
            among = self._files.files.among
            entries = among(folder, ENTRIES)
            inner = among(posixpath.join(folder, REQUIREMENTS), ANY) if REQUIREMENTS in entries else frozenset[str]()
            found = pinned(folder, self._files.small_text, entries, inner)
            self._pinned[folder] = {
                name: pin._replace(origin=pin.origin._replace(path=self._files.display_path(pin.origin.path)))
                for name, pin in found.items()
            }
        return self._pinned[folder]

    def _referenced(self, real: str) -> Document:
        name = self._files.display_path(real)
        file_access.share(real)
        found = () if name.endswith(SCRIPTS) else self.documents(name)
        return (found or load(self._files.load_bytes(real), name))[0]  # a Python file without a run has no documents

    def display_path(self, path: str) -> str:
        """`path` as messages show it: relative to the working directory where it is below that."""
        return self._files.display_path(path)


def on_disk(
    root: str,
    cwd: str,
    models: Mapping[str, Any] | None = None,
    hub: bool = False,
    exact: bool = False,
    models_within: str = "",
) -> Workspace:
    """A workspace over the real file system; `root` and `cwd` are absolute."""
    real = file_access.RealPaths()
    files = Files(
        file_access.is_file,
        file_access.exists,
        lambda path: real.of(path).replace(os.sep, "/"),
        _unset,
        file_access.among,
    )
    return _over(files, read_bytes, root, cwd, ModelSources(models or {}, hub, exact, models_within))


def in_editor(root: str, cwd: str, unsaved: Mapping[str, bytes], hub: bool = False, exact: bool = False) -> Workspace:
    """A workspace over the file system, with the contents of an editor's buffers. `unsaved`: those, by real path; the
    mapping may change at any time."""

    def is_file(path: str) -> bool:
        return path in unsaved or file_access.is_file(path)

    def exists(path: str) -> bool:
        return path in unsaved or file_access.exists(path)

    def read(path: str) -> bytes:
        return unsaved[path][: MAX_BYTES + 1] if path in unsaved else read_bytes(path)

    def among(folder: str, wanted: frozenset[str]) -> frozenset[str]:
        return wanted | file_access.among(folder, wanted)

    sources = ModelSources(hub=hub, exact=exact)
    return _over(Files(is_file, exists, _realpath, _unset, among), read, root, cwd, sources)


def _over(files: Files, read: ReadBytes, root: str, cwd: str, models: ModelSources) -> Workspace:
    """A workspace whose Python and whose tracked files are listed on disk."""
    root, cwd = _realpath(root), _realpath(cwd)
    return Workspace(root, cwd, files, read, models, partial(_python_files, root), partial(_tracked_files, root, cwd))


def _made_from(path: str, documents: Iterable[Document]) -> Iterator[str]:
    """The files whose values the documents of the file at `path` hold: it, the configs that a command names, and the
    launch file of accelerate."""
    yield path
    for document in documents:
        if document.start is None:
            continue
        yield from (config.path for config in document.start.values.documents())
        if document.start.machine.launch_file is not None:
            yield from _made_from(document.start.machine.launch_file.path, (document.start.machine.launch_file,))


def _follow_code(documents: Iterable[Document]) -> bool:
    """Whether commands among the documents have values that the code of their program gives."""
    return any(one.start is not None and one.start.values.in_program is not None for one in documents)


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _any_may_hold_commands(names: Iterable[str]) -> bool:
    from memlint.repository.launch.pages import may_hold_commands

    return any(map(may_hold_commands, names))


def _python_files(root: str) -> Iterable[str]:
    from memlint.repository.reader.python_arguments import python_files

    found = list(python_files(root))
    file_access.note_names("python", root, found)
    return found


def _kept(cache: dict[Key, Value], key: Key, value: Value, most: int = MAX_CACHED) -> Value:
    """Adds `value` to the cache and returns it. If the cache has `most` entries, the oldest one is dropped."""
    if len(cache) >= most:
        del cache[next(iter(cache))]
    cache[key] = value
    return value


def _tracked_files(root: str, cwd: str) -> Iterable[str]:
    """The files that git tracks; without git, or before anything was added, those below the working directory (a root
    above it may be a home folder)."""
    tracked = tracked_by.Tracked(root)
    file_access.note("repository", root, str(tracked.is_repository))
    if tracked.is_repository or root != cwd:
        names = tracked.files()
        file_access.note_names("tracked", root, names)
        if names or root != cwd or tracked.problem:
            return names
    from memlint.repository.files.walk import files_below  # where a folder has no git

    found = list(files_below(root))
    file_access.note_names("below", root, found)
    return [path[len(root.rstrip("/")) + 1 :] for path in found]


def in_memory(
    contents: Mapping[str, str], models: Mapping[str, Any] | None = None, models_within: str = ""
) -> Workspace:
    """A workspace over files in memory, by name, for examples and tests. They are in the folder `/`."""
    names = {f"/{name.lstrip('/')}": text for name, text in contents.items()}

    def read(path: str) -> bytes:
        if path not in names:
            raise FileNotFoundError(path)
        return names[path].encode("utf-8", "surrogatepass")

    folders = {name[:index] for name in names for index, letter in enumerate(name) if letter == "/"}

    def among(folder: str, wanted: frozenset[str]) -> frozenset[str]:
        start = folder.rstrip("/") + "/"
        held = (name[len(start) :].partition("/")[0] for name in names if name.startswith(start))
        return file_access.matching(held, wanted)

    files = Files(names.__contains__, {*names, *folders}.__contains__, posixpath.normpath, _unset, among)
    python = [name for name in names if name.endswith(".py")]
    tracked = [name[1:] for name in names]
    sources = ModelSources(models or {}, within=models_within)
    return Workspace("/", "/", files, read, sources, python.copy, tracked.copy)


def _realpath(path: str) -> str:
    return file_access.realpath(path).replace(os.sep, "/")


def _unset(path: str) -> Document:
    raise NotImplementedError  # a Workspace sets this field to its own cached reader
