"""Changes of a run as edits under AutoTrain's names: parameters of a config, or flags of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.autotrain.keys import KEYS
from memlint.formats.autotrain.recognise import is_config
from memlint.formats.base import Parsed
from memlint.formats.section_edits import edits_of, new_values
from memlint.run import Run
from memlint.source.document import Path

# What follows from other parameters: the way of quantising, the reference without an adapter, recomputation of what is
# quantised, the batch of an evaluation.
_FOLLOW = (
    *("checkpointing.reentrant", "evaluation.batch_size", "model.quantization.method", "model.quantization.kind"),
    *("method.reference_model", "method.adapter_dtype", "method.gives_reference"),
)


def autotrain_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    found = new_values(KEYS, parsed, run, changes, _FOLLOW)
    if found is None:
        return None
    if is_config(found.config):
        return edits_of(*found)
    path, pointer = found.place
    return tuple(_flag(path, pointer, found.config, name, value) for name, value in found.values.items())


def _flag(path: str, pointer: Path, given: Mapping[str, Any], name: str, value: Any) -> Edit:
    """A switch is there or not: it takes no value."""
    row = KEYS[name]
    spelling = next((one for one in row.names if one in given), row.older[0] if row.older else row.name)
    if row.kind == "flag" and value is False:
        return Edit(path, (*pointer, spelling), "remove")
    return Edit(path, (*pointer, spelling), "set", value)
