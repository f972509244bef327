"""Finds and reads the user's measurements, which are stored beside the settings file."""

from __future__ import annotations

import os
from functools import lru_cache

import memlint.file_access as file_access
from memlint.errors import UsageError
from memlint.lint.projects import project_root, real_folder
from memlint.memory.card.measurements import FILE, Measurement, load
from memlint.repository.files.upward import upward
from memlint.settings.files import nearest


def measurements_folder(path: str, settings_file: str | None = None) -> str:
    """The folder of the measurements that apply to the file at `path` (absolute)."""
    if settings_file:
        return os.path.dirname(os.path.abspath(settings_file))
    return _measurements_folder(real_folder(path), os.getcwd())


@lru_cache(maxsize=65_536)
def _measurements_folder(folder: str, cwd: str) -> str:
    root = project_root(folder, cwd)
    found = upward(folder, lambda above: _folder_with_measurements(above, root), _found_by_root.setdefault(root, {}))
    if found:
        return found
    settings = nearest(folder)
    return os.path.dirname(settings) if settings else root


_found_by_root: dict[str, dict[str, str]] = {}


def forget_measurements() -> None:
    """Clears the caches, so that a long-lived process reads the files again at the next call."""
    _measurements_folder.cache_clear()
    read_measurements.cache_clear()
    _found_by_root.clear()


def _folder_with_measurements(folder: str, root: str) -> str | None:
    """The folder if it has measurements; None to search its parent; "" to stop at the root."""
    if file_access.exists(os.path.join(folder, FILE)):
        return folder
    return "" if folder == root else None


@lru_cache(maxsize=1_024)
def read_measurements(folder: str) -> tuple[Measurement, ...]:
    """The measurements in `folder`. Raises UsageError for a file that is damaged or cannot be read."""
    try:
        return load(folder)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{os.path.join(folder, FILE)}: {error.strerror}") from None
