"""Whether a document is TorchTitan's: a model by its flavor, beside a training with steps."""

from __future__ import annotations

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "torchtitan"
SCHEMA = "torchtitan.json"
_OF_TRAINING = frozenset(("local_batch_size", "batch_size", "seq_len", "steps", "dataset"))


def recognise(document: Document) -> Recognition:
    value = document.value
    if document.syntax != "toml" or not isinstance(value, dict):
        return Recognition("no")
    model, training = value.get("model"), value.get("training")
    has_flavor = isinstance(model, dict) and "flavor" in model
    if has_flavor and isinstance(training, dict) and not _OF_TRAINING.isdisjoint(training):
        return Recognition("certain", reason="`model.flavor` beside `training` is TorchTitan's")
    return Recognition("no")
