"""Writes changes of a run into an accelerate launch file (accelerate 1.15 utils/dataclasses.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.accelerate.keys import KEYS
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.run import Run
from memlint.source.document import Path

_ENGINES = {"deepspeed_config": "DEEPSPEED", "fsdp_config": "FSDP"}


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
