"""`memlint cache`: shows where results of checks are stored and how many bytes they take, or deletes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from memlint.atomic_files import PREFIX
from memlint.commands import options
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.lint.many.result_cache import SUFFIX, default_folder


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "Says where the results of checks are kept, and deletes them.")
    parser.add_argument("action", nargs="?", choices=("show", "clean"), default="show", help="(default: show)")
    parser.add_argument("--cache-dir", metavar="DIR", help="the folder (default: the platform's)")
    given = parser.parse_args(arguments)
    folder = given.cache_dir or default_folder()
    found = list(_kept(folder))
    if given.action == "clean":
        _delete(found)
    size = sum(size for _, size in found) / 2**20
    verb = "deleted" if given.action == "clean" else "kept"
    to_stdout(f"{folder}: results of {len(found)} checks {verb}, {size:.1f} MiB\n")
    return 0


def _kept(folder: str) -> Iterator[tuple[str, int]]:
    """The cache files and their sizes, including partly written ones that a crash left. Other files are not listed."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and (entry.name.endswith(SUFFIX) or entry.name.startswith(PREFIX)):
                yield entry.path, entry.stat(follow_symlinks=False).st_size


def _delete(found: list[tuple[str, int]]) -> None:
    for path, _ in found:
        try:
            os.unlink(path)
        except FileNotFoundError:  # another process has deleted it
            continue
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
