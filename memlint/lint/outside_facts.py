"""What is known of a file besides its text, strongest first: the command line, its own directives, settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.commands import options
from memlint.errors import UsageError
from memlint.formats.base import Missing, nothing_launched
from memlint.hardware.model import Gpu
from memlint.repository.workspace import Workspace
from memlint.run import Origin
from memlint.settings import FileSettings, SettingsError, effective, load_settings
from memlint.settings.meaning import size, version
from memlint.source.document import Document
from memlint.suppressions.apply import read_directives
from memlint.suppressions.directives import PACKAGES, Directives

COMMAND_LINE = Origin("command_line")


class Sources(NamedTuple):
    """Where facts are looked for. `settings_file` None: the nearest one; `isolated`: none at all."""

    gpu: Gpu | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    model: str = ""
    companions: tuple[str, ...] = ()
    hub: bool = False
    settings_file: str | None = None
    isolated: bool = False
    exact: bool = False
    versions: Mapping[str, tuple[int, ...]] = {}


def sources(given: options.Options) -> Sources:
    """The command line's share. Raises UsageError."""
    gpu, count = options.gpu(given.gpu)
    return Sources(
        gpu,
        given.gpus or count,
        given.gpus_per_node or count,
        given.model or "",
        tuple(given.companions),
        given.hub,
        given.settings,
        given.isolated,
        given.exact,
        options.versions(getattr(given, "versions", [])),
    )


def settings_of(path: str, given: Sources) -> FileSettings:
    """The settings that hold for a file. Raises UsageError with each mistake's place."""
    if given.isolated:
        return FileSettings(path)
    try:
        return effective(load_settings(path, given.settings_file), path)
    except SettingsError as error:
        raise UsageError(f"settings: {error}") from None


def context_facts(
    document: Document, workspace: Workspace, given: Sources, settings: FileSettings | None = None
) -> Mapping[str, Any]:
    """Fields of `Context` for one document; `settings` are those on disk unless they are given."""
    settings = settings or settings_of(os.path.join(workspace.cwd, document.path), given)
    own = read_directives(document)
    facts = {
        **_from_settings(settings, workspace),
        **_from_directives(own, document.path),
        **_from_command_line(given),
    }
    facts |= _versions(document, workspace, given, settings, own)
    said = tuple(name for value, _ in own.companions for name in value.split(",") if name)
    names = given.companions or said or settings.companions
    facts["companions"] = _companions(document, workspace, names, bool(given.companions))
    if given.isolated or "companions" in settings.origins:  # `with: []`: nothing but the config takes part
        facts |= {"launches": nothing_launched, "launchers": nothing_launched}
    return facts


def _from_settings(settings: FileSettings, workspace: Workspace) -> dict[str, Any]:
    facts: dict[str, Any] = {"host_bytes": settings.host_memory}
    gpu, count = _card(settings.gpu)
    if gpu is not None:
        facts |= {"gpu": gpu, "gpu_origin": settings.origins.get("gpu", Origin("setting"))}
        share = settings.budgets.get("max_device_share")
        if share:
            facts["memory_budget_bytes"] = int(gpu.usable_bytes * share)
    facts |= _counts(settings.gpus or count, settings.gpus_per_node or count, settings.origins.get("gpus"))
    if settings.model:
        facts["model_name"] = settings.model
    if settings.models:
        facts["find_model"] = lambda name, path: workspace.find_model(name, path, settings.models)
    return facts


def _from_directives(own: Directives, path: str) -> dict[str, Any]:
    gpu, count = _card(_said(own, "gpu"))
    facts: dict[str, Any] = {"gpu": gpu, "gpu_origin": _origin(own, "gpu", path)} if gpu is not None else {}
    counted = "gpus" if _said(own, "gpus") else "gpu"
    told = int(_said(own, "gpus") or 0) or count
    facts |= _counts(told, int(_said(own, "gpus_per_node") or 0) or count, _origin(own, counted, path))
    if _said(own, "model"):
        facts["model_name"] = _said(own, "model")
    if host := size(_said(own, "host_memory") or 0):
        facts["host_bytes"] = host
    return facts


def _versions(
    document: Document, workspace: Workspace, given: Sources, settings: FileSettings, own: Directives
) -> dict[str, Any]:
    """Framework versions and where each was said; what the repository pins is the weakest."""
    versions: dict[str, tuple[int, ...]] = {}
    origins: dict[str, Origin] = {}
    pinned = {} if given.isolated else workspace.pins(document.path)
    for name, pin in pinned.items():
        versions[name], origins[name] = pin.version, pin.origin
    for name, number in settings.versions.items():
        versions[name], origins[name] = number, settings.origins.get(f"versions.{name}", Origin("setting"))
    for name in PACKAGES:
        said = _said(own, name)
        if said:
            versions[name], origins[name] = version(said), _origin(own, name, document.path) or Origin("directive")
    for name, number in given.versions.items():
        versions[name], origins[name] = number, COMMAND_LINE
    return {"versions": versions, "version_origins": origins}


def _said(own: Directives, name: str) -> str:
    return own.facts[name][0] if name in own.facts else ""


def _origin(own: Directives, name: str, path: str) -> Origin | None:
    if name not in own.facts:
        return None
    span = own.facts[name][1]
    return Origin("directive", path, span.line, span.column)


def _from_command_line(given: Sources) -> dict[str, Any]:
    facts: dict[str, Any] = {"gpu": given.gpu, "gpu_origin": COMMAND_LINE} if given.gpu is not None else {}
    facts |= _counts(given.gpus, given.gpus_per_node, COMMAND_LINE)
    return facts | ({"model_name": given.model} if given.model else {})


def _card(name: str) -> tuple[Gpu | None, int | None]:
    """A card that settings or a directive name. Unknown names are told there, and count as unsaid here."""
    try:
        return options.gpu(name)
    except UsageError:
        return None, None


def _counts(gpus: int | None, per_node: int | None, origin: Origin | None) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if gpus:
        facts |= {"gpus": gpus, "gpus_origin": origin or Origin("setting")}
    if per_node:
        facts["gpus_per_node"] = per_node
    return facts


def _companions(
    document: Document, workspace: Workspace, names: tuple[str, ...], must_exist: bool
) -> tuple[Document, ...]:
    found = []
    read = workspace.context().read
    for name in names:
        companion = read(name, document.path)
        if isinstance(companion, Missing):
            if must_exist:
                raise UsageError(f"--with {name}: {companion.message}")
            continue
        found.append(companion)
    return tuple(found)
