"""`--show-settings FILE`: every setting that holds for a file, and where it came from."""

from __future__ import annotations

from memlint.commands import CommandError
from memlint.commands.options import Options
from memlint.commands.output import to_stdout
from memlint.settings import SettingsError, load_settings, show


def show_settings(path: str, given: Options) -> int:
    try:
        rows = show(path, load_settings(path, given.settings))
    except SettingsError as error:
        raise CommandError(f"settings: {error}") from None
    width = max((len(row.name) for row in rows), default=0)
    to_stdout("".join(f"{row.name:{width}}  {row.value}  ({row.origin})\n" for row in rows))
    return 0
