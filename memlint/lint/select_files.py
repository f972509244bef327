"""Chooses the files to read: walks the roots, applies excludes of the command line and of settings."""

from __future__ import annotations

import os

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.lint.request import StatedFacts
from memlint.lint.settings_lookup import read_settings
from memlint.repository.files.discovery import FoundFile, discover
from memlint.repository.files.globs import Glob, compile_globs, covers


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
    found = [FoundFile(choice.stdin, named=True)] if choice.stdin else []
    examples: dict[str, list[str]] = {}
    excluded = compile_globs(choice.exclude)
    for item in discover(tuple(map(display_path, choice.roots)), choice.exclude):
        if item.error:
            raise UsageError(f"{item.path}: {item.error}{_similar_path(item.path)}")
        if item.note:
            found.append(item)
        elif framework := _left_out_as_example_of(item, choice, facts):
            examples.setdefault(framework, []).append(item.path)
        elif not _is_excluded(item, choice.force_exclude, excluded, facts):
            found.append(item._replace(named=item.named and not choice.candidates))
    return [*found, *(_examples_note(framework, paths) for framework, paths in examples.items())]


def _is_excluded(item: FoundFile, even_named: bool, excluded: tuple[Glob, ...], facts: StatedFacts) -> bool:
    """Whether the settings exclude a file or, of a named one, the globs of the command line."""
    if item.named and not even_named:
        return False
    by_option = item.named and covers(excluded, _relative_to_cwd(item.path))
    return by_option or read_settings(item.path, facts).excluded


def _left_out_as_example_of(item: FoundFile, choice: FileChoice, facts: StatedFacts) -> str:
    """The framework whose example a file is, unchanged, where settings leave such files out and nobody names it."""
    if item.named and not (choice.candidates or choice.force_exclude):
        return ""
    if read_settings(item.path, facts).shipped_examples != "skip":
        return ""
    from memlint.repository.shipped_examples import framework_of  # where settings say so

    return framework_of(item.path)


def _examples_note(framework: str, paths: list[str]) -> FoundFile:
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    files = "1 file is an example" if len(paths) == 1 else f"{len(paths)} files are examples"
    note = f"{files} of {framework} as it ships them, not checked (`shipped_examples: skip`): name one to check it"
    return FoundFile(folder, note=f"{display_path(folder)}: {note}")


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
