"""The settings that apply to each file, with the rule options of the command line on top."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

from memlint.errors import UsageError
from memlint.lint.request import LintRequest, StatedFacts
from memlint.settings import FileSettings, SettingsError, effective, load_settings, with_profile

ReadSettings = Callable[[str], FileSettings]


def read_settings(path: str, facts: StatedFacts, is_file: bool = True) -> FileSettings:
    """The settings on disk that apply to a file, or to a folder if not `is_file`.

    Raises UsageError, with the place of each mistake in a settings file.
    """
    if facts.isolated:
        return FileSettings(path)
    try:
        return effective(load_settings(path, facts.settings_file, is_file), path)
    except SettingsError as error:
        raise UsageError(f"settings: {error}") from None


class SettingsLookup:
    """Settings by path. `read` replaces the files on disk, for example by those of another commit.

    `from_files(path)`: the settings of files. `of(path)`: the same, overridden by the options of the command line. Both
    cache their last 64 results, because they are called about five times per file.
    """

    def __init__(self, request: LintRequest, read: ReadSettings | None = None) -> None:
        self.is_on_disk = read is None
        self._request = request
        self._cwd = os.path.realpath(request.cwd or os.getcwd())
        self._read = read
        self.from_files = lru_cache(maxsize=64)(self._from_files)
        self.of = lru_cache(maxsize=64)(self._of)

    def _from_files(self, path: str) -> FileSettings:
        """The settings of files alone."""
        if self._read is not None:
            return self._read(path)
        return read_settings(os.path.join(self._cwd, path), self._request.facts)

    def _of(self, path: str) -> FileSettings:
        """The settings of files with the options of the command line."""
        request = self._request
        found = self.from_files(path)
        if request.select:
            found = found._replace(select=request.select)
        if request.profile:
            found = with_profile(found, request.profile)
        return found._replace(ignore=(*found.ignore, *request.ignore), preview=request.preview or found.preview)
