"""Facts about a config that its text does not state (GPU, versions, companions), for `formats.base.Context`.

Where several sources state a fact, the first of these counts: the command line, `# memlint:` comments, settings,
versions that the repository pins.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from memlint.errors import UsageError
from memlint.formats.base import Context, MissingFile, Stated, no_launches
from memlint.hardware.model import Gpu
from memlint.hardware.named import named_gpu
from memlint.lint.request import COMMAND_LINE, StatedFacts
from memlint.repository.versions.pins import Pin
from memlint.repository.workspace import Workspace
from memlint.run import Origin
from memlint.settings import FileSettings
from memlint.settings.meaning import size, version
from memlint.source.document import Document
from memlint.suppressions.apply import read_directives
from memlint.suppressions.directives import PACKAGES, Directives


class ContextFacts:
    """Makes the context of each document. `settings_for`: returns the settings that apply to a path."""

    def __init__(self, stated: StatedFacts, settings_for: Callable[[str], FileSettings]) -> None:
        self._stated = stated
        self._settings_for = settings_for

    def context_for(self, document: Document, workspace: Workspace) -> Context:
        facts = dict(context_facts(document, workspace, self._stated, self._settings_for(document.path)))
        find_model = facts.pop("find_model", workspace.find_model)
        return workspace.context(**facts)._replace(find_model=find_model)


def context_facts(
    document: Document, workspace: Workspace, stated: StatedFacts, settings: FileSettings
) -> Mapping[str, Any]:
    """The fields of `Context` for one document. `find_model` is among them if settings map names to models."""
    directives = read_directives(document)
    facts = {
        **_from_settings(settings, workspace),
        **_from_directives(directives, document.path),
        **_from_command_line(stated),
    }
    if budget := _budget(facts.get("gpu"), settings):
        facts["memory_budget_bytes"] = budget
    facts |= _budgets_from_shares(facts.get("gpu"), facts.get("host_bytes", 0), settings.budgets)
    facts |= _versions(document, workspace, stated, settings, directives)
    if models := {**settings.models, **stated.models}:
        facts["find_model"] = partial(workspace.find_model, models=models)
    commented = tuple(name for value, _ in directives.companions for name in value.split(",") if name)
    names = stated.companions or commented or settings.companions
    facts["companions"] = _companions(document, workspace, names, bool(stated.companions))
    if "companions" in settings.origins:  # the setting `with` (even `with: []`) replaces the search for launches
        facts["repository"] = workspace.but(launch_commands=no_launches, launch_files=no_launches)
    elif stated.isolated:
        own = workspace.own_launch_commands
        facts["repository"] = workspace.but(launch_commands=own, launch_files=no_launches)
    return facts


def _from_settings(settings: FileSettings, workspace: Workspace) -> dict[str, Any]:
    facts: dict[str, Any] = {"host_bytes": settings.host_memory, "overhead": _overhead(settings)}
    gpu, count = _known_gpu(settings.gpu)
    if gpu is not None:
        facts |= {"gpu": gpu, "gpu_origin": settings.origins.get("gpu", Origin("setting"))}
    facts |= _counts(settings.gpus or count, settings.gpus_per_node or count, settings.origins.get("gpus"))
    if settings.model:
        facts["model_name"] = settings.model
    return facts | _longest_sample(settings.longest_sample, settings.origins.get("longest_sample"))


def _overhead(settings: FileSettings) -> dict[str, Stated]:
    """The entries of the setting `memory` (such as `safety: 5%`, what must stay free), each with its origin."""
    origins = {name: settings.origins.get(f"memory.{name}", Origin("setting")) for name in settings.memory}
    return {name: Stated(amount, origins[name]) for name, amount in settings.memory.items()}


def _budget(gpu: Gpu | None, settings: FileSettings) -> int:
    """Bytes of the card that the settings allow a run to use; 0 if they set no limit or no card is known."""
    if gpu is None:
        return 0
    usable, budgets = gpu.usable_bytes, settings.budgets
    limits = [int(usable * budgets["max_device_share"])] if "max_device_share" in budgets else []
    limits += [int(budgets["max_device_memory"])] if "max_device_memory" in budgets else []
    limits += [max(1, usable - settings.memory["safety"].of(usable))] if "safety" in settings.memory else []
    return min((usable, *limits)) if limits else 0


def _budgets_from_shares(gpu: Gpu | None, host_bytes: int, budgets: Mapping[str, float]) -> dict[str, int]:
    """The limits that settings give as shares, in bytes: host memory for the run, card memory for optimizer states."""
    shares = {}
    if host_bytes and "max_host_share" in budgets:
        shares["host_bytes"] = int(host_bytes * budgets["max_host_share"])
    if gpu is not None and "max_optimizer_share" in budgets:
        shares["optimizer_budget_bytes"] = int(gpu.usable_bytes * budgets["max_optimizer_share"])
    return shares


def _from_directives(directives: Directives, path: str) -> dict[str, Any]:
    gpu, count = _known_gpu(_directive_value(directives, "gpu"))
    facts: dict[str, Any] = (
        {"gpu": gpu, "gpu_origin": _directive_origin(directives, "gpu", path)} if gpu is not None else {}
    )
    count_name = "gpus" if _directive_value(directives, "gpus") else "gpu"
    count_of_cards = int(_directive_value(directives, "gpus") or 0) or count
    facts |= _counts(
        count_of_cards,
        int(_directive_value(directives, "gpus_per_node") or 0) or count,
        _directive_origin(directives, count_name, path),
    )
    if _directive_value(directives, "model"):
        facts["model_name"] = _directive_value(directives, "model")
    if host := size(_directive_value(directives, "host_memory") or 0):
        facts["host_bytes"] = host
    longest = int(_directive_value(directives, "longest_sample") or 0)
    return facts | _longest_sample(longest, _directive_origin(directives, "longest_sample", path))


def _pins(document: Document, workspace: Workspace) -> Mapping[str, Pin]:
    beside = workspace.pins(document.path)
    program = document.start.program.file if document.start is not None else ""
    return {**workspace.pins(posixpath.join(workspace.root, program)), **beside} if program else beside


def _versions(
    document: Document, workspace: Workspace, stated: StatedFacts, settings: FileSettings, directives: Directives
) -> dict[str, Any]:
    """Framework versions and the origin of each. Later sources override: pins (beside the program that a script starts,
    then beside the file), what the file installs, settings, comments, command line. `at_commits`: frameworks that are
    pinned at a commit, where nothing says which release that is."""
    versions: dict[str, tuple[int, ...]] = {}
    origins: dict[str, Origin] = {}
    pinned = {} if stated.isolated else _pins(document, workspace)
    if "pip" in document.text:
        from memlint.repository.versions.own_installs import own_installs

        pinned = {**pinned, **own_installs(document.path, document.text)}
    for name, pin in pinned.items():
        if pin.version:
            versions[name], origins[name] = pin.version, pin.origin
    for name, number in settings.versions.items():
        versions[name], origins[name] = number, settings.origins.get(f"versions.{name}", Origin("setting"))
    for name in PACKAGES:
        written = _directive_value(directives, name)
        if written:
            versions[name], origins[name] = (
                version(written),
                _directive_origin(directives, name, document.path) or Origin("directive"),
            )
    for name, number in stated.versions.items():
        versions[name], origins[name] = number, COMMAND_LINE
    return {"versions": versions, "version_origins": origins, "at_commits": frozenset(pinned) - versions.keys()}


def _directive_value(directives: Directives, name: str) -> str:
    return directives.facts[name][0] if name in directives.facts else ""


def _directive_origin(directives: Directives, name: str, path: str) -> Origin | None:
    if name not in directives.facts:
        return None
    span = directives.facts[name][1]
    return Origin("directive", path, span.line, span.column)


def _from_command_line(stated: StatedFacts) -> dict[str, Any]:
    facts: dict[str, Any] = {"gpu": stated.gpu, "gpu_origin": COMMAND_LINE} if stated.gpu is not None else {}
    facts |= _counts(stated.gpus, stated.gpus_per_node, COMMAND_LINE)
    if stated.images is not None:
        facts["images"] = stated.images
    facts |= _longest_sample(stated.longest_sample, COMMAND_LINE)
    return facts | ({"model_name": stated.model} if stated.model else {})


def _known_gpu(name: str) -> tuple[Gpu | None, int | None]:
    """(GPU, count) of a name in settings or a comment, such as "8xA100-80GB".

    An unknown name gives (None, None) here: `lint.suppress` and `settings` report it.
    """
    try:
        return named_gpu(name)
    except UsageError:
        return None, None


def _counts(gpus: int | None, per_node: int | None, origin: Origin | None) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if gpus:
        facts |= {"gpus": gpus, "gpus_origin": origin or Origin("setting")}
    if per_node:
        facts["gpus_per_node"] = per_node
    return facts


def _longest_sample(tokens: int | None, origin: Origin | None) -> dict[str, Any]:
    return {"longest_sample": tokens, "longest_sample_origin": origin or Origin("setting")} if tokens else {}


def _companions(
    document: Document, workspace: Workspace, names: tuple[str, ...], must_exist: bool
) -> tuple[Document, ...]:
    if not names:
        return ()
    found = []
    read = workspace.context().read
    for name in names:
        companion = read(name, document.path)
        if isinstance(companion, MissingFile):
            if must_exist and companion.code != "cyclic":  # cyclic: the companion itself is being checked
                raise UsageError(f"--with {name}: {companion.message}")
            continue
        if must_exist and not _is_engine_file(companion):
            raise UsageError(f"--with {name}: neither a launch file of accelerate nor a file of DeepSpeed")
        found.append(companion)
    return tuple(found)


def _is_engine_file(companion: Document) -> bool:
    """Whether a file of `--with` is one of accelerate or DeepSpeed, or cannot be parsed. Any other has no effect."""
    from memlint.formats.engine_files import deepspeed_file, launch_file, recognises  # late: few commands use --with

    return bool(companion.problems) or recognises(launch_file, companion) or recognises(deepspeed_file, companion)
