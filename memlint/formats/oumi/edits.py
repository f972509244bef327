"""Changes of a run as edits under Oumi's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.deepspeed.edits import FOLLOW_DEEPSPEED
from memlint.formats.oumi.keys import KEYS
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.run import Run

# What follows from other keys: the way of quantising, the reference without an adapter, the version of FSDP.
_FOLLOW = ("model.quantization.method", "model.quantization.kind", "method.reference_model", "method.adapter_dtype") + (
    "parallelism.fsdp.version",
)
_ROWS_OF_GRPO = ("sequence.max_prompt_length", "sequence.max_new_tokens")


def oumi_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    wanted = {field: value for field, value in changes.items() if not _follows(run, field, changes)}
    new_values = changed_keys(KEYS, config, run, wanted)
    return None if not new_values else edits_of(config, place, new_values)


def _follows(run: Run, field: str, changes: Mapping[str, Any]) -> bool:
    if field in _FOLLOW:
        return True
    if field in FOLLOW_DEEPSPEED and "parallelism.engine" in changes:
        return True
    of_grpo = run.method.stage == "grpo" and any(name in changes for name in _ROWS_OF_GRPO)
    return field == "sequence.length" and of_grpo
