"""The table of `--show-settings FILE`: every setting that applies to a file, and where it came from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from memlint.lint.projects import project_root
from memlint.lint.request import COMMAND_LINE, LintRequest
from memlint.lint.settings_lookup import read_settings
from memlint.report.terminal import one_line
from memlint.repository.workspace import on_disk
from memlint.run import Amount, Origin
from memlint.settings import FileSettings, SettingRow, changed_by, show, with_profile
from memlint.source import load
from memlint.source.encoding import MAX_BYTES
from memlint.suppressions.apply import read_directives
from memlint.suppressions.directives import PACKAGES
from memlint.suppressions.waiver import Waiver


def settings_table(path: str, request: LintRequest, option_values: Mapping[str, Any]) -> str:
    """The settings of a file as a table. Its comments override settings files, the command line overrides both.

    `option_values`: the values of options that have the name of a setting. Raises UsageError.
    """
    rows = {row.name: row for row in show(_settings(path, request))}
    rows |= {row.name: row for row in _from_comments(path)}
    rows |= {row.name: row for row in _from_command_line(request, option_values)}
    if any(name.startswith("versions.") for name in rows):
        rows.pop("versions", None)
    listed = (*rows.values(), *(() if request.facts.isolated else _from_pins(path, set(rows))))
    cells = [(row.name, _row_text(row), origin_text(row.origin)) for row in listed]
    widths = [max((len(row[column]) for row in cells), default=0) for column in (0, 1)]
    return "".join(f"{name:{widths[0]}}  {value:{widths[1]}}  {origin}\n" for name, value, origin in cells)


def _settings(path: str, request: LintRequest) -> FileSettings:
    """The settings of a file with the profile and ignored rules of the command line. Raises UsageError."""
    found = read_settings(path, request.facts, is_file=False)
    origins = dict(found.origins)
    profile, ignore = request.profile, request.ignore
    if profile:
        found = with_profile(found, profile)
        origins["profile"] = COMMAND_LINE
        origins |= {name: COMMAND_LINE._replace(detail=f"profile {profile}") for name in changed_by(profile, origins)}
    if ignore:
        found, origins["ignore"] = found._replace(ignore=(*found.ignore, *ignore)), COMMAND_LINE
    return found._replace(origins=origins)


def _from_command_line(request: LintRequest, option_values: Mapping[str, Any]) -> Iterator[SettingRow]:
    """The values that the command line sets."""
    facts = request.facts
    counts = {"gpus": facts.gpus, "gpus_per_node": facts.gpus_per_node}
    values: dict[str, Any] = {"gpu": facts.gpu.name if facts.gpu else "", **counts, "model": facts.model}
    values |= {"longest_sample": facts.longest_sample, "companions": facts.companions}
    values |= {"select": request.select, **option_values}
    values |= {f"versions.{name}": number for name, number in facts.versions.items()}
    return (SettingRow(name, value, COMMAND_LINE) for name, value in values.items() if value)


def _from_comments(path: str) -> Iterator[SettingRow]:
    """The values that the file's own `# memlint:` comments set."""
    try:
        with open(path, "rb") as stream:
            document = load(stream.read(MAX_BYTES + 1), os.path.relpath(path).replace(os.sep, "/"))[0]
    except OSError:  # the file need not exist: the table then shows what would apply to it
        return
    for name, (value, span) in read_directives(document).facts.items():
        row = {"with": "companions"}.get(name, f"versions.{name}" if name in PACKAGES else name)
        yield SettingRow(row, value, Origin("directive", document.path, span.line, span.column))


def _from_pins(path: str, stated: set[str]) -> tuple[SettingRow, ...]:
    """Framework versions that the repository pins and settings do not state."""
    cwd = os.getcwd()
    files = on_disk(project_root(os.path.dirname(os.path.realpath(path)), os.path.realpath(cwd)), cwd)
    found = sorted(files.pins(path).items())
    return tuple(
        SettingRow(f"versions.{name}", pin.version, pin.origin)
        for name, pin in found
        if f"versions.{name}" not in stated
    )


def _row_text(row: SettingRow) -> str:
    if row.name == "host_memory" and isinstance(row.value, int) and row.value:
        return f"{row.value / 2**30:g}GiB"
    return value_text(row.value)


def value_text(value: Any) -> str:
    """A value as settings would write it; "-" for nothing."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Amount):
        return str(value)
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
    if origin.kind == "default":
        return origin.kind
    if not origin.path:
        word = origin.kind.replace("_", " ")
        return f"{origin.detail} ({word})" if origin.detail else word
    place = f"{_relative(origin.path)}:{origin.line}:{origin.column}"
    return f"{origin.detail} ({place})" if origin.detail else place


def _relative(path: str) -> str:
    relative = os.path.relpath(path).replace(os.sep, "/")
    return path if relative.startswith("..") else relative
