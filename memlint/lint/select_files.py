"""The files that an invocation reads: roots walked, excludes and settings asked."""

from __future__ import annotations

import os

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.lint.request import StatedFacts
from memlint.lint.settings_lookup import read_settings
from memlint.repository.discovery import FoundFile, discover
from memlint.repository.globs import compile_globs, covers


class FileChoice(NamedTuple):
    """`stdin`: the name that standard input goes by, "" where it is not read. `candidates`: named files are candidates
    like any other, as pre-commit gives them. `force_exclude`: excludes hold for named files, too."""

    roots: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    candidates: bool = False
    stdin: str = ""


def select_files(choice: FileChoice, facts: StatedFacts) -> list[FoundFile]:
    """The files to read, in order, then notes (`FoundFile.note`). Raises UsageError for a root that is none."""
    excluded = compile_globs(choice.exclude)
    found = [FoundFile(choice.stdin, named=True)] if choice.stdin else []
    for item in discover(tuple(map(shown, choice.roots)), choice.exclude):
        if item.error:
            raise UsageError(f"{item.path}: {item.error}")
        if item.note:
            found.append(item)
            continue
        if (not item.named or choice.force_exclude) and read_settings(item.path, facts).excluded:
            continue
        if item.named and choice.force_exclude and covers(excluded, _from_here(item.path)):
            continue
        found.append(item._replace(named=item.named and not choice.candidates))
    return found


def shown(path: str) -> str:
    """`path` as reports call it: relative where it lies below the working directory."""
    normal = os.path.normpath(path)
    relative = _from_here(normal)
    return relative if os.path.isabs(normal) and not relative.startswith("..") else normal


def _from_here(path: str) -> str:
    try:
        return os.path.relpath(path).replace(os.sep, "/")
    except ValueError:  # another drive
        return path
