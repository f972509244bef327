"""What keeps a run from being estimated, in words: why a field is unknown, and how to state it."""

from __future__ import annotations

import re

from memlint.memory.values import Estimate, UnknownField
from memlint.report.terminal import one_line

_MODEL_FIELDS = ("model.name", "model.architecture")
_SAYS_HOW = re.compile(r"--model(?![\w-])")  # not a program's own `--model_path`


def words(unknown: UnknownField) -> str:
    """ "`max_length` is not set: ms-swift cuts samples at the model's own bound"."""
    text = one_line(unknown.reason)
    if unknown.field in _MODEL_FIELDS and not _SAYS_HOW.search(text):
        text += " (--model NAME sizes it with a model that you name)"
    if unknown.field == "sequence.length":
        text += " (--longest-sample N says how long the data are)"
    return text


def first(estimate: Estimate) -> str:
    """The first thing that is missing for an estimate: "sequence.length is unknown: `max_length` is not set". Of code
    that is not modelled nothing is unknown: "memlint does not model this: placement by Ray"."""
    if not estimate.unknown:
        return "unknown"
    missing = estimate.unknown[0]
    if missing.field.startswith("stack."):
        return words(missing)
    return f"{missing.field} is unknown: {words(missing)}"
