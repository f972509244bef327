"""The user's own settings file. Only it and the command line may load plug-ins without further consent."""

from __future__ import annotations

import os

import memlint.file_access as file_access
from memlint.settings.files import named_plugins


def user_plugins() -> tuple[str, ...]:
    """The plug-ins of $XDG_CONFIG_HOME/memlint/memlint.yaml (~/.config by default). Raises SettingsError."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    path = os.path.join(home, "memlint", "memlint.yaml")
    if not file_access.is_file(path):
        return ()
    return named_plugins(path, path)
