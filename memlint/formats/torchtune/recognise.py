"""Whether a document is torchtune's: by the classes and functions that its sections name as `_component_`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "torchtune"
SCHEMA = "torchtune.json"
COMPONENT = "_component_"
# Sections of a recipe (0.1.1 to 0.6.1 recipes/*.py), without those of one recipe alone.
SECTIONS = ("model", "tokenizer", "dataset", "checkpointer", "optimizer", "lr_scheduler", "loss", "metric_logger")
_SECTIONS_OF_TRAINING = ("optimizer", "loss", "dataset")
_ENOUGH = 2


def recognise(document: Document) -> Recognition:
    """Two sections with a `_component_`, or one that names a module of torchtune."""
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    if document.start is not None and document.start.format == NAME:
        return Recognition("certain", reason="a command of torchtune")
    found = tuple(_components(value))
    if not found:
        return Recognition("no")
    role = "training" if trains(value) else "inference"
    if any(name.startswith("torchtune.") for name in found):
        return Recognition("certain", role, "components of torchtune")
    return Recognition("likely" if len(found) >= _ENOUGH else "unsure", role, "sections with a `_component_`")


def trains(value: Mapping[str, Any]) -> bool:
    """Whether the file has what a recipe needs to train: files of evaluation, generation and quantisation do not."""
    return sum(name in value for name in _SECTIONS_OF_TRAINING) >= _ENOUGH


def _components(value: Mapping[str, Any]) -> Iterator[str]:
    for name in (*SECTIONS, "ref_checkpointer", "teacher_model", "quantizer", "profiler"):
        section = value.get(name)
        parts = section if isinstance(section, list) else [section]
        for part in parts[:1]:
            component = part.get(COMPONENT) if isinstance(part, dict) else None
            if isinstance(component, str):
                yield component
