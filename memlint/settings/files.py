"""Finds and reads settings files: the nearest one upward, and what it extends."""

from __future__ import annotations

import os
from functools import lru_cache

from memlint.formats.schema.validate import schema_issues
from memlint.repository.upward import upward
from memlint.settings.meaning import mistakes_of, strings
from memlint.settings.model import NAMES, Layer, Mistake, Settings, SettingsError, mistake
from memlint.source import load
from memlint.source.document import Document, Path
from memlint.source.encoding import MAX_BYTES

MAX_EXTENDS = 16  # files that one settings file may build on


def load_settings(path: str, settings_file: str | None = None) -> Settings:
    """The settings for the file or folder at `path`: the nearest settings file upward, with what it extends.

    Looks no higher than the root of the repository. With `settings_file` that file counts, and no other.

    :raises SettingsError: with the places of all mistakes.
    """
    if settings_file is not None:
        return _read(os.path.abspath(settings_file))
    found = nearest(_folder(path))
    return _read(found) if found else Settings()


def named_plugins(path: str, settings_file: str | None = None) -> tuple[str, ...]:
    """The plug-ins that the settings for `path` name; files by their path.

    Asked before the rest is judged: a card that settings name may be one that a plug-in brings.

    :raises SettingsError: for a file that cannot be read as settings at all.
    """
    found = os.path.abspath(settings_file) if settings_file else nearest(_folder(path))
    layers = _layers(found, _root(os.path.dirname(found)), (), meant=False) if found else []
    return tuple(
        os.path.normpath(os.path.join(layer.folder, name)) if name.endswith(".py") else name
        for layer in layers
        for name in strings((layer.document.value or {}).get("plugins", ()))
    )


def _folder(path: str) -> str:
    folder = os.path.abspath(path)
    return folder if os.path.isdir(folder) else os.path.dirname(folder)


def forget() -> None:
    """Forgets what was read, for processes that outlive a change of the files."""
    _nearest.clear()
    _read.cache_clear()


_nearest: dict[str, str] = {}


def nearest(folder: str) -> str:
    """The settings file that counts for a folder; "" for none."""
    return upward(folder, _settings_in, _nearest)


def _settings_in(folder: str) -> str | None:
    """The settings file in a folder; "" where none is and nobody looks further up."""
    for name in NAMES:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and (name != "pyproject.toml" or _mentions_memlint(path)):
            return path
    return "" if os.path.exists(os.path.join(folder, ".git")) else None


def _table(data: bytes, path: str) -> Document | None:
    """memlint's table in a TOML file."""
    from memlint.settings import toml  # tomllib and its expressions: only where a TOML file has to do with memlint

    return toml.section(data, path)


def _mentions_memlint(path: str) -> bool:
    """Whether a pyproject.toml has our table; one that cannot be read has a mistake to tell."""
    data = _bytes(path)
    return b"memlint" in data and _table(data, path) is not None


@lru_cache(maxsize=1_024)
def _read(path: str) -> Settings:
    return Settings(tuple(_layers(path, _root(os.path.dirname(path)), ())))


def _layers(path: str, root: str, below: tuple[str, ...], meant: bool = True) -> list[Layer]:
    """The file's layer behind those that it extends. `below`: the files that led here; `meant`: values are judged."""
    layer = Layer(_document(path), os.path.dirname(path), root)
    mistakes = _mistakes(layer, meant)
    if mistakes:
        raise SettingsError(tuple(mistakes))
    extended = (layer.document.value or {}).get("extends", ())
    layers: list[Layer] = []
    for index, name in enumerate([extended] if isinstance(extended, str) else extended):
        pointer: Path = ("extends",) if isinstance(extended, str) else ("extends", index)
        target = os.path.realpath(os.path.join(layer.folder, name))
        wrong = _not_extendable(target, root, (*below, os.path.realpath(path)))
        if wrong:
            raise SettingsError((mistake(layer.document, pointer, f"{name}: {wrong}"),))
        layers += _layers(target, root, (*below, os.path.realpath(path)), meant)
        if len(layers) > MAX_EXTENDS:
            raise SettingsError((mistake(layer.document, pointer, f"extends more than {MAX_EXTENDS} files"),))
    return [*layers, layer]


def _not_extendable(target: str, root: str, below: tuple[str, ...]) -> str:
    if target in below:
        return "extends itself"
    if len(below) > MAX_EXTENDS:
        return f"extends more than {MAX_EXTENDS} files"
    if os.path.commonpath([target, root]) != root:
        return f"lies outside of {root}"
    return "" if os.path.isfile(target) else "no such file"


def _root(folder: str) -> str:
    """The repository's root above a folder, or the folder itself where there is no repository."""
    current = folder
    while not os.path.exists(os.path.join(current, ".git")):
        parent = os.path.dirname(current)
        if parent == current:
            return os.path.realpath(folder)
        current = parent
    return os.path.realpath(current)


def _document(path: str) -> Document:
    """The settings in a file, in the spelling of paths that messages use."""
    shown = _shown(path)
    try:
        data = _bytes(path)
    except OSError as error:
        empty = load(b"", shown)[0]
        raise SettingsError((mistake(empty, (), f"cannot be read: {error.strerror}"),)) from None
    if path.endswith(".toml"):
        return _table(data, shown) or load(b"", shown, "yaml")[0]
    return load(data, shown, dialect="yaml12")[0]


def _bytes(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _shown(path: str) -> str:
    prefix = os.getcwd().rstrip(os.sep) + os.sep
    return path.removeprefix(prefix).replace(os.sep, "/")


def _mistakes(layer: Layer, meant: bool) -> list[Mistake]:
    """What is wrong with a file, by its text, its shape, then (where `meant`) its meaning."""
    document = layer.document
    found = [_of_problem(document, index) for index in range(len(document.problems))]
    if document.documents > 1:
        found.append(mistake(document, (), "several documents; settings are one"))
    if found:
        return found
    issues = schema_issues(document.value if document.value is not None else {}, document.path, "settings.json")
    found = [mistake(document, issue.pointer, issue.message, issue.on_key) for issue in issues]
    return found or (mistakes_of(layer) if meant else [])


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
