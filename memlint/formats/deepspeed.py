"""The DeepSpeed format: a JSON or YAML configuration of deepspeed 0.19.8, alone or behind a training config."""

from __future__ import annotations

from typing import Any

from memlint.formats.fields import Fields, Section
from memlint.formats.training_arguments import Arguments


def apply_deepspeed(fields: Fields, config: Section, arguments: Arguments | None, architecture: Any = None) -> None:
    """Fill ZeRO, offload, precision, batch and optimizer fields from a DeepSpeed configuration.

    `config` is the configuration's mapping (the referenced file as a "companion" section, or the inline mapping);
    `arguments` the training arguments that fill `auto` (None: a lone DeepSpeed file); `architecture` gives the
    hidden size behind `auto` bucket sizes (None: UNKNOWN). Call it after `training_arguments.apply` and after the
    parallelism fields are known; contradictions between the two files go to `fields.issues`.
    """
    fields.put("parallelism.engine", "deepspeed", config.origin())
