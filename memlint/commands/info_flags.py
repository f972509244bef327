"""`--list-files` and `--show-settings`: asked of any verb, and answered instead of its own work."""

from __future__ import annotations

from memlint.commands.options import Options
from memlint.commands.output import to_stdout
from memlint.lint.linter import files
from memlint.lint.plugin_choice import plugged


def answered(given: Options) -> bool:
    """Whether one of the two was asked for; if so, it was printed. Loads plug-ins. Raises UsageError."""
    plugged(given)
    if getattr(given, "show_settings", None):
        from memlint.commands.show_settings import show_settings

        show_settings(given.show_settings, given)
        return True
    if getattr(given, "list_files", False):
        to_stdout("".join(f"{item.path}\n" for item in files(given)))
        return True
    return False
