"""Merges settings files into the settings that apply to one config, with the origin of every value."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.repository.files.globs import compile_globs, covers
from memlint.rule_selectors import ITSELF, best_rank, rank
from memlint.run import Origin
from memlint.settings.meaning import amount, size, strings, version
from memlint.settings.model import PROFILES, FileSettings, Settings, SettingsFile, origin
from memlint.source.document import Path
from memlint.suppressions.waiver import Waiver

_REPLACED = (
    *("profile", "preview", "fail_on", "shipped_examples"),
    *("gpu", "gpus", "gpus_per_node", "longest_sample", "model"),
)
_ADDED = ("ignore",)  # a nearer file's entries are appended to those of the files that it extends
_MERGED = ("severity", "models", "versions", "budgets", "memory")


_OF_NO_FILE = FileSettings(**PROFILES["default"])


class SettingRow(NamedTuple):
    """One row of `--show-settings`."""

    name: str
    value: Any
    origin: Origin


def effective(settings: Settings, path: str) -> FileSettings:
    """The settings that apply to the config at `path`.

    The files are merged in order, each with those of its `overrides` whose patterns match `path`. A later value
    replaces an earlier one; `ignore`, `plugins`, `rules_dirs` and suppressions are appended, mappings are merged.
    """
    if not settings.files:
        return _OF_NO_FILE
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    absolute = os.path.abspath(path)
    for file in settings.files:
        relative = _relative(absolute, file.folder)
        for pointer, part in _parts(file, relative):
            _apply(file, pointer, part, relative, values, origins)
    profile = values.get("profile", "default")
    for name, value in PROFILES[profile].items():
        if name not in values:
            values[name] = value
            if profile != "default":
                origins[name] = origins["profile"]._replace(detail=f"profile {profile}")
    return FileSettings(path=settings.path, **values, origins=origins)


def with_profile(found: FileSettings, profile: str) -> FileSettings:
    """The settings under another profile. Only values that came from the old profile change."""
    new = {name: PROFILES[profile][name] for name in changed_by(profile, found.origins)}
    return found._replace(profile=profile, **new)


def changed_by(profile: str, origins: Mapping[str, Origin]) -> tuple[str, ...]:
    """The names of the settings that a profile sets and that no settings file states."""
    written = {name for name, source in origins.items() if not source.detail.startswith("profile ")}
    return tuple(name for name in PROFILES[profile] if name not in written)


def show(found: FileSettings) -> tuple[SettingRow, ...]:
    """Every setting with its value and its origin, as `--show-settings` prints them."""
    rows: list[SettingRow] = []
    for name in FileSettings._fields:
        value = getattr(found, name)
        if name in ("path", "origins"):
            continue
        if isinstance(value, dict) and value:
            rows += (SettingRow(f"{name}.{key}", item, found.origins[f"{name}.{key}"]) for key, item in value.items())
        else:
            rows.append(SettingRow(name, value, found.origins.get(name, Origin("default", detail="memlint"))))
    return tuple(rows)


def is_in_force(settings: FileSettings, rule: str, name: str, profiles: tuple[str, ...], preview: bool) -> bool:
    """Whether a rule runs: it is selected, its severity is not "off", and it belongs to the profile.

    A preview rule runs only if `preview` is on or `select` names exactly this rule.
    """
    if settings.severity and severity_of(settings, rule, name) == "off":
        return False
    wanted = best_rank(settings.select, rule, name)
    if wanted <= best_rank(settings.ignore, rule, name):
        return False
    return wanted == ITSELF or (settings.profile in profiles and (settings.preview or not preview))


def severity_of(settings: FileSettings, rule: str, name: str) -> str:
    """The severity that settings give a rule: that of the most specific selector that covers it; "" for none."""
    best = max(settings.severity, key=lambda selector: rank(selector, rule, name), default="")
    return settings.severity[best] if best and rank(best, rule, name) else ""


def _relative(path: str, folder: str) -> str:
    return os.path.relpath(path, folder).replace(os.sep, "/")


def _parts(file: SettingsFile, relative: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The sections of a settings file that apply to the config at `relative`: its top level, matching overrides."""
    value = file.document.value or {}
    yield (), value
    for index, part in enumerate(value.get("overrides", ())):
        if covers(compile_globs(strings(part["files"])), relative):
            yield ("overrides", index), part


def _apply(
    file: SettingsFile,
    pointer: Path,
    part: dict[str, Any],
    relative: str,
    values: dict[str, Any],
    origins: dict[str, Origin],
) -> None:
    def note(name: str, *below: str | int) -> None:
        origins[name] = origin(file.document, (*pointer, *below))

    for key, value in part.items():
        if key in _REPLACED:
            values[key] = value
        elif key == "select":
            values[key] = tuple(strings(value))
        elif key in _ADDED:
            values[key] = (*values.get(key, ()), *strings(value))
        elif key in _MERGED:
            values[key] = {**values.get(key, {}), **_entries(file, key, value)}
            for name in value:
                note(f"{key}.{name}", key, name)
            continue
        elif not _apply_special(file, key, value, relative, values, origins):
            continue
        note("companions" if key == "with" else "excluded" if key == "exclude" else key, key)


def _apply_special(
    file: SettingsFile, key: str, value: Any, relative: str, values: dict[str, Any], origins: dict[str, Origin]
) -> bool:
    """Sets a key whose text must be converted (sizes, paths). Returns False if the key gets no origin."""
    if key == "host_memory":
        values[key] = size(value)
    elif key == "baseline":
        values[key] = _path(file, value)
    elif key == "with":
        values["companions"] = tuple(_path(file, name) for name in strings(value))
    elif key == "plugins":
        files = (_path(file, name) if name.endswith(".py") else name for name in strings(value))
        values[key] = (*values.get(key, ()), *files)
    elif key == "rules_dirs":
        values[key] = (*values.get(key, ()), *(_path(file, name) for name in strings(value)))
    elif key == "exclude":
        if not covers(compile_globs(strings(value)), relative):
            return False
        values["excluded"] = True
    elif key == "keys":
        _apply_keys(file, value, relative, values, origins)
        return False
    elif key == "suppressions":
        _apply_suppressions(file, value, relative, values, origins)
        return False
    else:
        return False
    return True


def _path(file: SettingsFile, name: str) -> str:
    return os.path.normpath(os.path.join(file.folder, name))


def _entries(file: SettingsFile, key: str, value: dict[str, Any]) -> dict[str, Any]:
    if key == "versions":
        return {name: version(text) for name, text in value.items()}
    if key == "budgets":
        return {name: size(item) if name == "max_device_memory" else item for name, item in value.items()}
    if key == "memory":
        return {name: amount(item) for name, item in value.items()}
    if key == "models":
        return {name: _model(file, item) for name, item in value.items()}
    return value


def _model(file: SettingsFile, value: Any) -> Any:
    """A value that starts with ./ or ../ is a path from the settings file's folder; other text is a model's name."""
    return _path(file, value) if isinstance(value, str) and value.startswith(("./", "../")) else value


def _apply_suppressions(
    file: SettingsFile, value: dict[str, Any], relative: str, values: dict[str, Any], origins: dict[str, Origin]
) -> None:
    if "require_reason" in value:
        values["require_reason"] = value["require_reason"]
        origins["require_reason"] = origin(file.document, ("suppressions", "require_reason"))
    for index, item in enumerate(value.get("files", ())):
        if covers(compile_globs([item["path"]]), relative):
            origins["waivers"] = origin(file.document, ("suppressions", "files", index))
            waiver = Waiver(
                tuple(strings(item["ignore"])),
                _pointer(item.get("pointer", "")),
                item.get("reason", ""),
                item.get("until", ""),
                origins["waivers"],
            )
            values["waivers"] = (*values.get("waivers", ()), waiver)


def _apply_keys(
    file: SettingsFile, entries: list[dict[str, Any]], relative: str, values: dict[str, Any], origins: dict[str, Origin]
) -> None:
    """Sets `keys` from the last entry that covers the file."""
    from memlint.repository.declared_keys import DeclaredKeys, declared_argument  # where a file declares some

    for index, entry in enumerate(entries):
        if covers(compile_globs(strings(entry["files"])), relative):
            origins["keys"] = origin(file.document, ("keys", index))
            at = ("keys", index, "arguments")
            said = entry["arguments"].items()
            arguments = {name: declared_argument(one, origin(file.document, (*at, name))) for name, one in said}
            values["keys"] = DeclaredKeys(entry["class"], arguments, entry.get("unmodelled", ""), origins["keys"])


def _pointer(text: str) -> Path:
    """A JSON pointer (RFC 6901) as a path. Digits stay text: only the document tells whether they are an index."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])
