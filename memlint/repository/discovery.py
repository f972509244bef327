"""Roots to config files: what git ignores is left out unless git tracks it, what is named always passes, the order is
always the same."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import memlint.repository.tracked as tracked_by
from memlint._record import NamedTuple
from memlint.repository.globs import OTHERS, Glob, compile_globs, decides

SUFFIXES = (".yaml", ".yml", ".json")
# Names that tools give to data, often megabytes of it: what a tokenizer and a checkpoint are saved as (transformers
# 5.23 utils/__init__.py, tokenization_utils_base.py, trainer_callback.py), and the lock of npm.
_DATA = frozenset(
    {
        *("tokenizer.json", "vocab.json", "added_tokens.json", "model.safetensors.index.json"),
        *("pytorch_model.bin.index.json", "trainer_state.json", "package-lock.json"),
    }
)
MAX_IGNORE_BYTES = 1024 * 1024


class FoundFile(NamedTuple):
    """A file to read; with `error`, a root that is none; with `note`, something to say of the folder `path`."""

    path: str
    named: bool = False
    error: str = ""
    note: str = ""


class _Ignores(NamedTuple):
    """The patterns of one ignore file, counted from the folder `base` (absolute, with a final separator)."""

    base: str
    globs: tuple[Glob, ...]


class _Place(NamedTuple):
    """A folder to walk: the patterns in force, those to exclude last; the repository around it; whether git ignores the
    folder, so that only what it tracks counts."""

    folder: str
    ignores: tuple[_Ignores, ...]
    tracked: tracked_by.Tracked | None = None
    is_ignored: bool = False


def discover(
    roots: Sequence[str], exclude: Sequence[str] = (), base: str = ".", gitignore: bool = True
) -> Iterator[FoundFile]:
    """The config files below `roots`, each once, by name within a folder; a file named as root always passes.

    `exclude` are patterns counted from the folder `base`. Hidden folders, virtual environments, node_modules
    and symbolic links are passed over.
    """
    excluded = _Ignores(_folder(base), compile_globs(exclude))
    seen: set[str] | None = set() if len(roots) > 1 else None
    for root in roots:
        found = _walk(root, excluded, gitignore) if os.path.isdir(root) else iter((_named(root),))
        for file in found:
            if seen is not None:
                if (key := os.path.abspath(file.path)) in seen:
                    continue
                seen.add(key)
            yield file


def _named(path: str) -> FoundFile:
    if os.path.isfile(path):
        return FoundFile(path, named=True)
    if os.path.islink(path):
        return FoundFile(path, True, "a symbolic link that leads nowhere")
    return FoundFile(path, True, "not a regular file" if os.path.exists(path) else "no such file or folder")


def _walk(root: str, excluded: _Ignores, gitignore: bool) -> Iterator[FoundFile]:
    """Depth first with a stack of our own, so that no depth of folders matters."""
    above, repository = _above(os.path.abspath(root)) if gitignore else ((), None)
    pending = [_Place(root, (*above, excluded), repository)]
    repositories = {repository.base: repository} if repository else {}
    while pending:
        place = pending.pop()
        folder = place.folder
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            if folder == root or not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                yield FoundFile(folder, folder == root, f"cannot be listed: {error.strerror}")
            continue  # one that went away since the folder around it was listed holds no files
        if gitignore:
            place = _entered(place, entries)
            if place.tracked:
                repositories[place.tracked.base] = place.tracked
        below: list[_Place] = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not _is_skipped(entry):
                    below += _below(place, entry)
            elif _may_be_config(entry) and entry.is_file(follow_symlinks=False) and _counts(place, entry):
                yield FoundFile(_joined(folder, entry.name))
        pending += reversed(below)
    yield from (FoundFile(each.base, note=each.problem) for each in repositories.values() if each.problem)


def _may_be_config(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(SUFFIXES) and entry.name not in _DATA


def _entered(place: _Place, entries: Sequence[os.DirEntry[str]]) -> _Place:
    """The place with what its folder holds: an ignore file, a repository of its own."""
    for entry in entries:
        if entry.name > ".gitignore":
            break
        if entry.name == ".gitignore":
            ignores = (*place.ignores[:-1], *_read_ignores(place.folder, ".gitignore"), place.ignores[-1])
            place = place._replace(ignores=ignores)
        elif entry.name == ".git":
            place = place._replace(tracked=tracked_by.Tracked(os.path.abspath(place.folder)))
    return place


def _below(place: _Place, entry: os.DirEntry[str]) -> Iterator[_Place]:
    ignored = place.is_ignored or _is_ignored(place.ignores, entry.path, True)
    if not ignored or _is_tracked(place, entry, True):
        yield _Place(_joined(place.folder, entry.name), place.ignores, place.tracked, ignored)


def _counts(place: _Place, entry: os.DirEntry[str]) -> bool:
    """Whether a file is to be read: git does not ignore it, or tracks it all the same."""
    ignored = place.is_ignored or _is_ignored(place.ignores, entry.path, False)
    return not ignored or _is_tracked(place, entry, False)


def _is_tracked(place: _Place, entry: os.DirEntry[str], is_folder: bool) -> bool:
    """Whether git tracks what it ignores, which no pattern of the settings excludes."""
    if place.tracked is None or _is_ignored(place.ignores[-1:], entry.path, is_folder):
        return False
    return place.tracked.contains(os.path.abspath(entry.path), is_folder)


def _joined(folder: str, name: str) -> str:
    return name if folder == "." else os.path.join(folder, name)


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in OTHERS:
        return True
    return os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))


def _is_ignored(ignores: Sequence[_Ignores], path: str, is_folder: bool) -> bool:
    """The innermost file that says something decides; `exclude` stands last and cannot be taken back."""
    absolute = ""
    for base, globs in reversed(ignores):
        if not globs:
            continue
        absolute = absolute or os.path.abspath(path)
        if absolute.startswith(base):
            decision = decides(globs, absolute[len(base) :].replace(os.sep, "/"), is_folder)
            if decision is not None:
                return decision
    return False


def _above(root: str) -> tuple[tuple[_Ignores, ...], tracked_by.Tracked | None]:
    """What the ignore files between the repository's root and `root` say, outermost first; and the repository."""
    chain: list[_Ignores] = []
    folder = root
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return (*_read_ignores(folder, ".git/info/exclude"), *chain), tracked_by.Tracked(folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            return (), None  # not in a repository: nothing above the root has a say
        chain[:0] = _read_ignores(parent, ".gitignore")
        folder = parent


def _read_ignores(folder: str, name: str) -> tuple[_Ignores, ...]:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return ()
    try:
        with open(path, "rb") as stream:
            text = stream.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    return (_Ignores(_folder(folder), compile_globs(text.split("\n"))),)


def _folder(path: str) -> str:
    absolute = os.path.abspath(path)
    return absolute if absolute.endswith(os.sep) else absolute + os.sep
