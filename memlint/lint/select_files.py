"""Chooses the files to read: walks the roots, applies excludes of the command line and of settings."""

from __future__ import annotations

import os

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.lint.request import StatedFacts
from memlint.lint.settings_lookup import read_settings
from memlint.repository.discovery import FoundFile, discover
from memlint.repository.globs import compile_globs, covers


class FileChoice(NamedTuple):
    """The options that choose files.

    `stdin`: the file name of standard input, "" if it is not read. `candidates`: treat named files like files that
    were found, as pre-commit passes them. `force_exclude`: apply excludes to named files, too.
    """

    roots: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    candidates: bool = False
    stdin: str = ""


def select_files(choice: FileChoice, facts: StatedFacts) -> list[FoundFile]:
    """The files to read, in order, and notes (`FoundFile.note`). Raises UsageError for a root that does not exist."""
    excluded = compile_globs(choice.exclude)
    found = [FoundFile(choice.stdin, named=True)] if choice.stdin else []
    for item in discover(tuple(map(display_path, choice.roots)), choice.exclude):
        if item.error:
            raise UsageError(f"{item.path}: {item.error}{_similar_path(item.path)}")
        if item.note:
            found.append(item)
            continue
        if (not item.named or choice.force_exclude) and read_settings(item.path, facts).excluded:
            continue
        if item.named and choice.force_exclude and covers(excluded, _relative_to_cwd(item.path)):
            continue
        found.append(item._replace(named=item.named and not choice.candidates))
    return found


def _similar_path(path: str) -> str:
    """ "; did you mean configs/train.yaml?": the file with the most similar name in the folder of a missing `path`."""
    folder, name = os.path.split(path)
    try:
        beside = () if os.path.exists(path) else os.listdir(folder or ".")
        near = nearest(name, [other for other in beside if other != name])  # a broken link is listed under its own name
    except OSError:
        return ""
    return f"; did you mean {os.path.join(folder, near)}?" if near else ""


def display_path(path: str) -> str:
    """`path` as reports show it: relative if it lies below the working directory."""
    normal = os.path.normpath(path)
    relative = _relative_to_cwd(normal)
    return relative if os.path.isabs(normal) and not relative.startswith("..") else normal


def _relative_to_cwd(path: str) -> str:
    try:
        return os.path.relpath(path).replace(os.sep, "/")
    except ValueError:  # another drive
        return path
