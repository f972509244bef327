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
