"""`--show-settings FILE`: every setting that holds for a file, and where it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from memlint.checks.workspace import on_disk
from memlint.commands import CommandError
from memlint.commands.options import Options
from memlint.commands.output import to_stdout
from memlint.commands.session import project_root
from memlint.report.terminal import one_line
from memlint.run import Origin
from memlint.settings import SettingsError, Waiver, load_settings, show
from memlint.settings.effective import Shown


def show_settings(path: str, given: Options) -> int:
    try:
        rows = show(path, load_settings(path, given.settings))
    except SettingsError as error:
        raise CommandError(f"settings: {error}") from None
    rows = (*rows, *_pinned(path, {row.name for row in rows}))
    told = [(row.name, value_text(row.value), origin_text(row.origin)) for row in rows]
    widths = [max((len(row[column]) for row in told), default=0) for column in (0, 1)]
    to_stdout("".join(f"{name:{widths[0]}}  {value:{widths[1]}}  {origin}\n" for name, value, origin in told))
    return 0


def _pinned(path: str, stated: set[str]) -> tuple[Shown, ...]:
    """Framework versions that the repository pins and settings leave open."""
    cwd = os.getcwd()
    files = on_disk(project_root(os.path.dirname(os.path.realpath(path)), os.path.realpath(cwd)), cwd)
    found = sorted(files.pins(path).items())
    return tuple(
        Shown(f"versions.{name}", pin.version, pin.origin) for name, pin in found if f"versions.{name}" not in stated
    )


def value_text(value: Any) -> str:
    """A value as settings would write it; "-" for nothing."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        if value and all(isinstance(item, int) for item in value):
            return ".".join(map(str, value))
        return ", ".join(map(_item, value)) or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_item(item)}" for key, item in value.items()) or "-"
    return one_line(str(value)) if value else "-"


def _item(item: Any) -> str:
    if isinstance(item, Waiver):
        return f"{' '.join(item.rules)} at /{'/'.join(map(str, item.pointer))}"
    return one_line(str(item))


def origin_text(origin: Origin) -> str:
    """ "memlint.yaml:3:5", "profile ci (memlint.yaml:1:10)", or "default"."""
    if origin.kind == "default" or not origin.path:
        return origin.kind
    place = f"{_relative(origin.path)}:{origin.line}:{origin.column}"
    return f"{origin.detail} ({place})" if origin.detail else place


def _relative(path: str) -> str:
    relative = os.path.relpath(path).replace(os.sep, "/")
    return path if relative.startswith("..") else relative
