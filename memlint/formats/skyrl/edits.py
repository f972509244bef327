"""Changes of a run as edits of a SkyRL file, or of a command's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.section_edits import edits_of, new_values
from memlint.formats.skyrl.config import is_older, older_name
from memlint.formats.skyrl.keys import KEYS
from memlint.formats.verl.edits import overrides
from memlint.run import Run

# What follows from other keys: the accumulation from the mini-batch, the length from prompt and answer.
_FOLLOW = ("batch.gradient_accumulation_steps", "sequence.length", "method.adapter_dtype") + (
    "rollout.sleep_level",
    "rollout.sync_bucket_bytes",
    "method.value_model.micro_batch_size",
)


def skyrl_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    found = new_values(KEYS, parsed, run, changes, _FOLLOW)
    if found is None:
        return None
    document = parsed.documents[0]
    if is_older(document):
        found = found._replace(values={older_name(name): value for name, value in found.values.items()})
    return edits_of(*found) if document.start is None else overrides(found.place, found.values)
