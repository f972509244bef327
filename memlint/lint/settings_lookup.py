"""The settings that hold for each file, with what the command line says of rules on top."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

from memlint.errors import UsageError
from memlint.lint.request import LintRequest, StatedFacts
from memlint.settings import FileSettings, SettingsError, effective, load_settings, with_profile

ReadSettings = Callable[[str], FileSettings]


def read_settings(path: str, facts: StatedFacts) -> FileSettings:
    """The settings on disk that hold for a file. Raises UsageError with each mistake's place."""
    if facts.isolated:
        return FileSettings(path)
    try:
        return effective(load_settings(path, facts.settings_file), path)
    except SettingsError as error:
        raise UsageError(f"settings: {error}") from None


class SettingsLookup:
    """Settings by path. `read` stands for the files on disk: another commit's, for example.

    The last 64 answers of both methods are kept: they are asked for some five times a file.
    """

    def __init__(self, request: LintRequest, read: ReadSettings | None = None) -> None:
        self.is_on_disk = read is None
        self._request = request
        self._cwd = os.path.realpath(request.cwd or os.getcwd())
        self._read = read
        self.written = lru_cache(maxsize=64)(self._written)
        self.of = lru_cache(maxsize=64)(self._of)

    def _written(self, path: str) -> FileSettings:
        """What settings files say, and nothing else."""
        if self._read is not None:
            return self._read(path)
        return read_settings(os.path.join(self._cwd, path), self._request.facts)

    def _of(self, path: str) -> FileSettings:
        """What settings files and the command line say together."""
        request = self._request
        found = self.written(path)
        if request.select:
            found = found._replace(select=request.select)
        if request.profile:
            found = with_profile(found, request.profile)
        return found._replace(ignore=(*found.ignore, *request.ignore), preview=request.preview or found.preview)
