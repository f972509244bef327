"""Files that start a run which trains nothing."""

from __future__ import annotations

from memlint.formats.fields import Fields


def apply_without_training(fields: Fields, reason: str) -> None:
    """Fields of a run that only evaluates or answers. `reason`: which keys say so."""
    fields.infer("method.kind", "none", reason)
    fields.infer("method.stage", "predict", reason)
    fields.infer("method.modules_to_save", (), reason)
    fields.infer("method.reference_model", "none", reason)
    fields.infer("checkpointing.mode", "none", reason)
    fields.infer("checkpointing.offload", False, reason)
