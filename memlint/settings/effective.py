"""From the layers of settings to what holds for one file, with the origin of every value."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.repository.globs import compile_globs, covers
from memlint.rule_selectors import ITSELF, best_rank, rank
from memlint.run import Origin
from memlint.settings.meaning import size, strings, version
from memlint.settings.model import PROFILES, FileSettings, Layer, Settings, Waiver, origin
from memlint.source.document import Path

_REPLACED = ("profile", "preview", "fail_on", "gpu", "gpus", "gpus_per_node", "model")
_ADDED = ("ignore",)  # lists of a nearer file stand behind those of what it extends
_MERGED = ("severity", "models", "versions", "budgets")


class Shown(NamedTuple):
    """One row of `--show-settings`."""

    name: str
    value: Any
    origin: Origin


def effective(settings: Settings, file: str) -> FileSettings:
    """What holds for `file`: layer by layer, each with the overrides that match, the last word wins."""
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    absolute = os.path.abspath(file)
    for layer in settings.layers:
        relative = _relative(absolute, layer.folder)
        for pointer, part in _parts(layer, relative):
            _apply(layer, pointer, part, relative, values, origins)
    profile = values.get("profile", "default")
    for name, value in PROFILES[profile].items():
        if name not in values:
            values[name] = value
            if profile != "default":
                origins[name] = origins["profile"]._replace(detail=f"profile {profile}")
    return FileSettings(path=settings.path, **values, origins=origins)


def with_profile(found: FileSettings, profile: str) -> FileSettings:
    """The settings under another profile: what the old one had set follows, what people wrote stays."""
    new = {name: PROFILES[profile][name] for name in changed_by(profile, found.origins)}
    return found._replace(profile=profile, **new)


def changed_by(profile: str, origins: Mapping[str, Origin]) -> tuple[str, ...]:
    """What a profile sets and people have not written themselves."""
    written = {name for name, source in origins.items() if not source.detail.startswith("profile ")}
    return tuple(name for name in PROFILES[profile] if name not in written)


def show(found: FileSettings) -> tuple[Shown, ...]:
    """Every value that holds for a file and where it came from, for `--show-settings`."""
    rows: list[Shown] = []
    for name in FileSettings._fields:
        value = getattr(found, name)
        if name in ("path", "origins"):
            continue
        if isinstance(value, dict) and value:
            rows += (Shown(f"{name}.{key}", item, found.origins[f"{name}.{key}"]) for key, item in value.items())
        else:
            rows.append(Shown(name, value, found.origins.get(name, Origin("default", detail="memlint"))))
    return tuple(rows)


def is_in_force(settings: FileSettings, rule: str, name: str, profiles: tuple[str, ...], preview: bool) -> bool:
    """Whether a rule is to be run: chosen, in the profile, not off; preview rules only where they are asked for."""
    if settings.severity and severity_of(settings, rule, name) == "off":
        return False
    wanted = best_rank(settings.select, rule, name)
    if wanted <= best_rank(settings.ignore, rule, name):
        return False
    return wanted == ITSELF or (settings.profile in profiles and (settings.preview or not preview))


def severity_of(settings: FileSettings, rule: str, name: str) -> str:
    """The severity that settings give a rule, by the selector that names it most exactly; "" for none."""
    best = max(settings.severity, key=lambda selector: rank(selector, rule, name), default="")
    return settings.severity[best] if best and rank(best, rule, name) else ""


def _relative(path: str, folder: str) -> str:
    return os.path.relpath(path, folder).replace(os.sep, "/")


def _parts(layer: Layer, relative: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The sections of a file that speak about `relative`."""
    value = layer.document.value or {}
    yield (), value
    for index, part in enumerate(value.get("overrides", ())):
        if covers(compile_globs(strings(part["files"])), relative):
            yield ("overrides", index), part


def _apply(
    layer: Layer, pointer: Path, part: dict[str, Any], relative: str, values: dict[str, Any], origins: dict[str, Origin]
) -> None:
    def note(name: str, *below: str | int) -> None:
        origins[name] = origin(layer.document, (*pointer, *below))

    for key, value in part.items():
        if key in _REPLACED:
            values[key] = value
        elif key == "select":
            values[key] = tuple(strings(value))
        elif key in _ADDED:
            values[key] = (*values.get(key, ()), *strings(value))
        elif key in _MERGED:
            values[key] = {**values.get(key, {}), **_entries(layer, key, value)}
            for name in value:
                note(f"{key}.{name}", key, name)
            continue
        elif not _apply_special(layer, key, value, relative, values, origins):
            continue
        note("companions" if key == "with" else "excluded" if key == "exclude" else key, key)


def _apply_special(
    layer: Layer, key: str, value: Any, relative: str, values: dict[str, Any], origins: dict[str, Origin]
) -> bool:
    """Keys whose value is not what the file says; False where the key has no origin of its own."""
    if key == "host_memory":
        values[key] = size(value)
    elif key == "baseline":
        values[key] = _path(layer, value)
    elif key == "with":
        values["companions"] = tuple(_path(layer, name) for name in strings(value))
    elif key == "plugins":
        files = (_path(layer, name) if name.endswith(".py") else name for name in strings(value))
        values[key] = (*values.get(key, ()), *files)
    elif key == "rules_dirs":
        values[key] = (*values.get(key, ()), *(_path(layer, name) for name in strings(value)))
    elif key == "exclude":
        if not covers(compile_globs(strings(value)), relative):
            return False
        values["excluded"] = True
    elif key == "suppressions":
        _apply_suppressions(layer, value, relative, values, origins)
        return False
    else:
        return False
    return True


def _path(layer: Layer, name: str) -> str:
    return os.path.normpath(os.path.join(layer.folder, name))


def _entries(layer: Layer, key: str, value: dict[str, Any]) -> dict[str, Any]:
    if key == "versions":
        return {name: version(text) for name, text in value.items()}
    if key == "budgets":
        return {name: size(item) if name == "max_device_memory" else item for name, item in value.items()}
    if key == "models":
        return {name: _model(layer, item) for name, item in value.items()}
    return value


def _model(layer: Layer, value: Any) -> Any:
    """A path of the settings' folder where it is written as one; other text is a model's name."""
    return _path(layer, value) if isinstance(value, str) and value.startswith(("./", "../")) else value


def _apply_suppressions(
    layer: Layer, value: dict[str, Any], relative: str, values: dict[str, Any], origins: dict[str, Origin]
) -> None:
    if "require_reason" in value:
        values["require_reason"] = value["require_reason"]
        origins["require_reason"] = origin(layer.document, ("suppressions", "require_reason"))
    for index, item in enumerate(value.get("files", ())):
        if covers(compile_globs([item["path"]]), relative):
            origins["waivers"] = origin(layer.document, ("suppressions", "files", index))
            waiver = Waiver(
                tuple(strings(item["ignore"])),
                _pointer(item.get("pointer", "")),
                item.get("reason", ""),
                item.get("until", ""),
                origins["waivers"],
            )
            values["waivers"] = (*values.get("waivers", ()), waiver)


def _pointer(text: str) -> Path:
    """A JSON pointer (RFC 6901) as a path; digits stay text, as only the document tells an index from a key."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])
