"""Writes changes of a run into an accelerate launch file (accelerate 1.15 utils/dataclasses.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.accelerate.keys import KEYS
from memlint.formats.accelerate.trl_files import LAUNCH_FILES
from memlint.formats.base import Parsed
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.run import Run
from memlint.source.document import Document, Path

_ENGINES = {"deepspeed_config": "DEEPSPEED", "fsdp_config": "FSDP"}


def launch_file_edits(parsed: Parsed, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the launch file that the run was read with; None where there is none, or it has no key for
    one of them."""
    commanded = _commanded_launch_file(parsed)
    if commanded is not None:
        return _in_named_file(commanded, changes)
    place = parsed.raw_places.get("accelerate") or _launcher(parsed)
    if place is None:
        return None
    document = next((one for one in parsed.documents if one.path == place[0]), None)
    if place[1]:
        return _another_of_trl(parsed.raw["accelerate"], place, changes)
    if document is None or (document.start is not None and document.start.launcher == "trl"):
        return None  # a file of TRL's package that a command names
    return accelerate_edits(document.value, place, changes)


def _another_of_trl(
    value: Mapping[str, Any], place: tuple[str, Path], changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """The name of another launch file of TRL's that says the changes; None where there is none."""
    edits = accelerate_edits(value, place, changes) or ()
    given = {edit.pointer[-1]: edit.value for edit in edits if edit.pointer[:-1] == (*place[1], "deepspeed_config")}
    if not edits or len(given) < len(edits):
        return None
    wanted = {**value["deepspeed_config"], **given}
    for name, other in LAUNCH_FILES.items():
        section = other.get("deepspeed_config", {})
        if section and all(section.get(key, default) == wanted.get(key, default) for key, default in _DECIDING.items()):
            return (Edit(place[0], place[1], "set", name),)
    return None


# Keys of `deepspeed_config` that TRL's launch files differ in, with what accelerate takes where they are left out
# (accelerate 1.15 utils/dataclasses.py, DeepSpeedPlugin), and that decide what a GPU holds.
_DECIDING = {"zero_stage": 2, "offload_optimizer_device": "none", "offload_param_device": "none"}


def _commanded_launch_file(parsed: Parsed) -> Document | None:
    """The options of a command's launcher as a launch file, where the command names one beside options of its own."""
    start = parsed.documents[0].start
    file = start.machine.launch_file if start is not None else None
    has_options = isinstance(file, Document) and file.start is not None and bool(file.start.values.files)
    return file if has_options else None


def _in_named_file(options: Document, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """The changes in the launch file that a command names; None where an option of the command says one of them."""
    edits = accelerate_edits(options.value, (options.path, ()), changes)
    files = options.start.values.files if options.start is not None else {}
    if edits is None or not all(edit.pointer and edit.pointer[0] in files for edit in edits):
        return None
    return tuple(edit._replace(path=files[str(edit.pointer[0])].path) for edit in edits)


def _launcher(parsed: Parsed) -> tuple[str, Path] | None:
    """The accelerate launch file that the run was read with, if any."""
    for document in parsed.documents[1:]:
        if isinstance(document.value, dict) and "distributed_type" in document.value:
            return document.path, ()
    return None


def accelerate_edits(value: Any, place: tuple[str, Path], changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the launch file `value` at `place`; None where one has no key."""
    if not isinstance(value, dict):
        return None
    new_values = changed_keys(
        KEYS, value, Run("accelerate", place[0]), changes
    )  # no row here asks about the rest of the run
    if new_values is None or not all(_is_in_force(value, name.partition(".")[0]) for name in new_values):
        return None
    return edits_of(value, place, new_values)


def _is_in_force(value: Mapping[str, Any], section: str) -> bool:
    """Whether accelerate reads the section: its engine is the one in use, and no separate file replaces it."""
    inner = value.get(section)
    replaced = isinstance(inner, dict) and "deepspeed_config_file" in inner
    return str(value.get("distributed_type")).upper() == _ENGINES[section] and not replaced


def started_fsdp(version: int, offloads: bool) -> dict[str, Any]:
    """The keys of TrainingArguments that share 4-bit weights with FSDP: words up to transformers 5.9, a section after.
    Version 1 loads such weights by way of the host where `cpu_ram_efficient_loading` says so (transformers 4.57
    modeling_utils.py:779); version 2 shares what each rank has packed (accelerate 1.15 utils/fsdp_utils.py:822)."""
    if version == 2:
        return {"fsdp": True, "fsdp_config": {"version": 2, **({"cpu_offload": True} if offloads else {})}}
    words = "full_shard auto_wrap offload" if offloads else "full_shard auto_wrap"
    return {"fsdp": words, "fsdp_config": {"cpu_ram_efficient_loading": True}}


# What `started_fsdp` says of a run, and what the planner proposes with it.
STARTED = ("parallelism.engine", "parallelism.fsdp.version", "parallelism.fsdp.cpu_offload")


def new_fsdp_edits(
    config: Mapping[str, Any], place: tuple[str, Path], changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """FSDP for a config without an engine; None where it has one, or `changes` say more."""
    if any(config.get(key) for key in ("deepspeed", "fsdp", "fsdp_config")) or set(changes) != {*STARTED}:
        return None
    path, pointer = place
    keys = started_fsdp(changes["parallelism.fsdp.version"], changes["parallelism.fsdp.cpu_offload"])
    return tuple(Edit(path, (*pointer, key), "set", value) for key, value in keys.items())


def own_fsdp_edits(
    config: Mapping[str, Any], place: tuple[str, Path], changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """FSDP's shards in host memory, as TrainingArguments say it: `fsdp: full_shard auto_wrap offload`, and since
    transformers 5 `fsdp_config.cpu_offload` for `fsdp: true`."""
    if dict(changes) != {"parallelism.fsdp.cpu_offload": True}:
        return None
    path, pointer = place
    words, options = config["fsdp"], config.get("fsdp_config")
    if isinstance(words, str) and "offload" not in words.split():
        return (Edit(path, (*pointer, "fsdp"), "set", f"{words} offload"),)
    if words is True and (options is None or isinstance(options, dict)):
        key = ("cpu_offload",) if options else ()
        return (Edit(path, (*pointer, "fsdp_config", *key), "set", True if key else {"cpu_offload": True}),)
    return None
