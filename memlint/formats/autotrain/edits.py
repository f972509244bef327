"""Changes of a run as edits under AutoTrain's names: parameters of a config, or flags of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.autotrain.keys import KEYS
from memlint.formats.autotrain.recognise import is_config
from memlint.formats.base import Parsed
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.run import Run
from memlint.source.document import Path

# What follows from other parameters: the way of quantising, the reference without an adapter, recomputation of what is
# quantised, the batch of an evaluation.
_FOLLOW = (
    *("checkpointing.reentrant", "evaluation.batch_size", "model.quantization.method", "model.quantization.kind"),
    *("method.reference_model", "method.adapter_dtype", "method.gives_reference"),
)


def autotrain_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    wanted = {field: value for field, value in changes.items() if field not in _FOLLOW}
    new_values = changed_keys(KEYS, config, run, wanted)
    if not new_values:
        return None
    if is_config(config):
        return edits_of(config, place, new_values)
    path, pointer = place
    return tuple(_flag(path, pointer, config, name, value) for name, value in new_values.items())


def _flag(path: str, pointer: Path, given: Mapping[str, Any], name: str, value: Any) -> Edit:
    """A switch is there or not: it takes no value."""
    row = KEYS[name]
    spelling = next((one for one in row.names if one in given), row.older[0] if row.older else row.name)
    if row.kind == "flag" and value is False:
        return Edit(path, (*pointer, spelling), "remove")
    return Edit(path, (*pointer, spelling), "set", value)
