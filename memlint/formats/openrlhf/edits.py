"""Changes of a run as edits of a command's flags, under the names of the release that the command is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.keys import FieldChange, Key
from memlint.formats.openrlhf.keys import KEYS
from memlint.run import Run
from memlint.source.document import Path

# What follows from other flags: the accumulation from the batch, adapters' dtype from the model's, what DeepSpeed saves
# from the stage, the reference's forward from the policy's, the log-probabilities' bound from the update's.
_FOLLOW = (
    *("batch.gradient_accumulation_steps", "method.adapter_dtype", "rollout.reference_micro_batch_size"),
    *("rollout.log_prob_length", "rollout.reference_length", "optimizer.name", "optimizer.engine"),
    *("offload.optimizer_pinned", "parallelism.engine", "parallelism.zero.gather_16bit_weights_on_model_save"),
)
_PARTS = ("sequence.max_new_tokens", "sequence.max_prompt_length")  # of a length that is written as a whole


def openrlhf_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    path, pointer = place
    found: dict[str, Any] = {}
    for field, value in changes.items():
        if field in _FOLLOW or (field in _PARTS and "sequence.length" in changes):
            continue
        written = KEYS.write(FieldChange(field, value, changes, config, run))
        if written is None:
            return None
        found.update(written)
    return (
        tuple(_edit(path, (*pointer, _flag(KEYS[name], config, run)), name, value) for name, value in found.items())
        or None
    )


def _flag(row: Key, given: Mapping[str, Any], run: Run) -> str:
    """The flag that says the row: the one that is given, else the one of this program and release."""
    found = next((name for name in row.names if name in given), None)
    if found is not None:
        return found
    if not any("." in str(name) for name in given):
        return row.older[0] if row.older else row.name
    return row.newer[0] if row.newer and run.method.stage in ("ppo", "grpo") else row.name


def _edit(path: str, pointer: Path, name: str, value: Any) -> Edit:
    """A switch is there or not: it takes no value."""
    if KEYS[name].kind == "flag" and value is False:
        return Edit(path, pointer, "remove")
    return Edit(path, pointer, "set", value)
