"""Finds and reads settings files: the nearest one in the parent folders, and the files that it extends."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Union

import memlint.file_access as file_access
from memlint.formats.schema.validate import schema_issues
from memlint.repository.files.upward import upward
from memlint.settings.meaning import mistakes_of, strings
from memlint.settings.model import NAMES, Mistake, Settings, SettingsError, SettingsFile, mistake
from memlint.source import load
from memlint.source.document import Document, Path
from memlint.source.encoding import MAX_BYTES

Stamp = Union[tuple[int, int, int], None]  # time of writing, size, inode
MAX_EXTENDS = 16  # files that one settings file may build on


def load_settings(path: str, settings_file: str | None = None, is_file: bool = False) -> Settings:
    """The settings for the file or folder at `path`: the nearest settings file above it and the files it extends.

    The search ends at the root of the repository. With `settings_file` that file is read and nothing is searched.
    `is_file`: the caller knows that `path` is a file, which saves asking the disk.

    :raises SettingsError: with the places of all mistakes.
    """
    if settings_file is not None:
        return _read(os.path.abspath(settings_file))
    found = nearest(os.path.dirname(os.path.abspath(path)) if is_file else _folder(path))
    return _read(found) if found else Settings()


def named_plugins(path: str, settings_file: str | None = None) -> tuple[str, ...]:
    """The plug-ins that the settings for `path` name; plug-in files by their absolute path.

    Read before the values are checked: a plug-in may define the GPU that the same settings name.

    :raises SettingsError: for a file that cannot be read as settings at all.
    """
    found = os.path.abspath(settings_file) if settings_file else nearest(_folder(path))
    files = _with_extended(found, _root(os.path.dirname(found)), (), check_values=False) if found else []
    return tuple(
        os.path.normpath(os.path.join(file.folder, name)) if name.endswith(".py") else name
        for file in files
        for name in strings((file.document.value or {}).get("plugins", ()))
    )


def _folder(path: str) -> str:
    folder = os.path.abspath(path)
    return folder if file_access.is_folder(folder) else os.path.dirname(folder)


def forget() -> None:
    """Clears the caches of this module, for long-lived processes (the language server) after files changed."""
    _nearest.clear()
    _read.cache_clear()


def forget_changed() -> None:
    """Clears what may be outdated: nearest settings files are searched again, and only changed files read again."""
    _nearest.clear()
    if any(_stamp(path) != stamp for path, stamp in _stamps.items()):
        _read.cache_clear()
        _stamps.clear()


_nearest: dict[str, str] = {}
_stamps: dict[str, Stamp] = {}  # path -> its stamp when `_read` read it


def nearest(folder: str) -> str:
    """The settings file that applies to a folder; "" for none."""
    return upward(folder, _settings_in, _nearest)


def _settings_in(folder: str) -> str | None:
    """The settings file in a folder; None to search the parent; "" to stop at a repository's root."""
    for name in NAMES:
        path = os.path.join(folder, name)
        if file_access.is_file(path) and (name != "pyproject.toml" or _mentions_memlint(path, _stamp(path))):
            return path
    return "" if file_access.exists(os.path.join(folder, ".git")) else None


def _table(data: bytes, path: str) -> Document | None:
    """memlint's table in a TOML file."""
    from memlint.settings import toml  # late: tomllib is only needed for a TOML file that mentions memlint

    return toml.section(data, path)


@lru_cache(maxsize=1_024)
def _mentions_memlint(path: str, stamp: Stamp) -> bool:
    """Whether a pyproject.toml has memlint's table. True for broken TOML, so that the error is reported.

    `stamp`: the file's, so that a changed file is read again.
    """
    data = _bytes(path)
    return b"memlint" in data and _table(data, path) is not None


@lru_cache(maxsize=1_024)
def _read(path: str) -> Settings:
    return Settings(tuple(_with_extended(path, _root(os.path.dirname(path)), ())))


def _with_extended(path: str, root: str, below: tuple[str, ...], check_values: bool = True) -> list[SettingsFile]:
    """The files that the one at `path` extends, and then itself. `below`: the files whose `extends` led here."""
    file = SettingsFile(_document(path), os.path.dirname(path), root)
    mistakes = _mistakes(file, check_values)
    if mistakes:
        raise SettingsError(tuple(mistakes))
    extended = (file.document.value or {}).get("extends", ())
    files: list[SettingsFile] = []
    for index, name in enumerate([extended] if isinstance(extended, str) else extended):
        pointer: Path = ("extends",) if isinstance(extended, str) else ("extends", index)
        target = file_access.realpath(os.path.join(file.folder, name))
        wrong = _not_extendable(target, root, (*below, file_access.realpath(path)))
        if wrong:
            raise SettingsError((mistake(file.document, pointer, f"{name}: {wrong}"),))
        files += _with_extended(target, root, (*below, file_access.realpath(path)), check_values)
        if len(files) > MAX_EXTENDS:
            raise SettingsError((mistake(file.document, pointer, f"extends more than {MAX_EXTENDS} files"),))
    return [*files, file]


def _not_extendable(target: str, root: str, below: tuple[str, ...]) -> str:
    if target in below:
        return "extends itself"
    if len(below) > MAX_EXTENDS:
        return f"extends more than {MAX_EXTENDS} files"
    if os.path.commonpath([target, root]) != root:
        return f"lies outside of {root}"
    return "" if file_access.is_file(target) else "no such file"


def _root(folder: str) -> str:
    """The repository's root above a folder, or the folder itself where there is no repository."""
    current = folder
    while not file_access.exists(os.path.join(current, ".git")):
        parent = os.path.dirname(current)
        if parent == current:
            return file_access.realpath(folder)
        current = parent
    return file_access.realpath(current)


def _document(path: str) -> Document:
    """The settings file as a document; its path is relative to the working directory, as messages show it."""
    name = _relative_to_here(path)
    try:
        data = _bytes(path)
    except OSError as error:
        empty = load(b"", name)[0]
        raise SettingsError((mistake(empty, (), f"cannot be read: {error.strerror}"),)) from None
    if path.endswith(".toml"):
        return _table(data, name) or load(b"", name, "yaml")[0]
    return load(data, name, dialect="yaml12")[0]


def _stamp(path: str) -> Stamp:
    """A value that differs after the file was written or replaced; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _bytes(path: str) -> bytes:
    _stamps[path] = _stamp(path)
    return file_access.read(path, MAX_BYTES + 1)


def _relative_to_here(path: str) -> str:
    prefix = os.getcwd().rstrip(os.sep) + os.sep
    return path.removeprefix(prefix).replace(os.sep, "/")


def _mistakes(file: SettingsFile, check_values: bool) -> list[Mistake]:
    """The mistakes in a file: of syntax; if none, of the schema; if none and `check_values`, in its values."""
    document = file.document
    found = [_of_problem(document, index) for index in range(len(document.problems))]
    if document.documents > 1:
        found.append(mistake(document, (), "several documents; settings are one"))
    if found:
        return found
    issues = schema_issues(document.value if document.value is not None else {}, document.path, "settings.json")
    found = [mistake(document, issue.pointer, issue.message, issue.on_key) for issue in issues]
    return found or (mistakes_of(file) if check_values else [])


def _of_problem(document: Document, index: int) -> Mistake:
    problem = document.problems[index]
    located = mistake(document, (), problem.message)
    start, end, line, column, end_line, end_column = problem.span
    return Mistake(
        located.location._replace(
            line=line, column=column, end_line=end_line, end_column=end_column, start=start, end=end
        ),
        problem.message,
    )
