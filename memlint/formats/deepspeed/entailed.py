"""What DeepSpeed makes of the dtypes of a run that a plan puts under it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from memlint.formats.deepspeed.config import DeepSpeedConfig
from memlint.formats.deepspeed.edits import new_section
from memlint.formats.deepspeed.keys import KEYS
from memlint.formats.deepspeed.precision import apply_precision, requested_half
from memlint.formats.entailed import entailed
from memlint.formats.fields import Fields, Section
from memlint.formats.training_arguments import Arguments
from memlint.run import Entailed

_HALF = ("bfloat16", "float16")


def entailed_by_deepspeed(fields: Fields, arguments: Arguments, architecture: Any) -> Iterator[Entailed | None]:
    """For a run without an engine, under a section of `auto`. Half precision that the arguments ask for is that of new
    adapters too. Where weights alone are half, and nothing asks for it, the section has neither bf16 nor fp16."""
    half = requested_half(arguments)
    if half:
        yield Entailed(
            (("method.kind", "lora"), ("parallelism.engine", "deepspeed")), (("method.adapter_dtype", half),)
        )
    elif fields.get("precision.compute") in _HALF:
        for stage in (2, 3):
            given = {"parallelism.engine": "deepspeed", "parallelism.zero.stage": stage}
            yield entailed(fields, given, partial(_read_without_half, _under(stage, arguments, architecture)))


def _read_without_half(view: DeepSpeedConfig, fields: Fields) -> None:
    """Adapters stay as they are, whatever else a plan says of DeepSpeed's dtypes."""
    apply_precision(fields, view)
    for name in ("model.weights_dtype", "precision.trainable_dtype", "precision.compute", "method.adapter_dtype"):
        fields.values.setdefault(name, "float32")


def _under(stage: int, arguments: Arguments, architecture: Any) -> DeepSpeedConfig:
    value = new_section({"parallelism.zero.stage": stage}) or {}
    return DeepSpeedConfig(Section(arguments.section.document, value, ()), KEYS, arguments, architecture)
