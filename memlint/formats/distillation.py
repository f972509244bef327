"""Knowledge distillation in a run's fields: a frozen teacher, and a loss over both whole vocabularies."""

from __future__ import annotations

from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Context
from memlint.formats.fields import Fields
from memlint.run import UNKNOWN, Model, Origin


class Distillation(NamedTuple):
    """`teacher`: the model's name, "" where the student itself teaches. `beta`: between the student's and the teacher's
    own distribution. `in_chunks`: the loss takes some rows at a time. `new_tokens`: of a completion that the student
    writes itself, 0 where it writes none. `words`: compared of each distribution, 0 for all. `is_served`: the teacher
    answers from a server."""

    teacher: str
    origin: Origin
    beta: float
    in_chunks: bool = False
    new_tokens: int = 0
    words: int = 0
    is_served: bool = False
    dtype: str = ""  # of the teacher, as in `other_model`


def apply_distillation(fields: Fields, found: Distillation, context: Context, path: str) -> None:
    """Set the stage, the teacher, the loss, and the length of rows that are partly written."""
    fields.infer("method.stage", "gkd", "a student learns from a teacher's distribution")
    kind, why = _divergence(found)
    fields.infer("loss.divergence", kind, why)
    fields.infer("loss.in_row_chunks", found.in_chunks, "how the loss is computed")
    fields.infer("loss.upcast_logits", False, "the loss reads the logits as they are")
    if found.is_served:
        fields.put("method.reference_model", "none", found.origin)
    elif found.teacher:
        fields.put("method.reference_model", "named", found.origin)
        fields.put(
            "method.extra_models", (other_model(fields, found.teacher, context, path, found.dtype),), found.origin
        )
    else:
        fields.put("method.reference_model", "shared", found.origin)
    length = fields.get("sequence.length")
    if found.new_tokens and isinstance(length, int):
        fields.infer("sequence.max_prompt_length", length, "the bound on samples holds for prompts")
        fields.infer("sequence.max_new_tokens", found.new_tokens, "what the student writes behind a prompt")
        fields.infer("sequence.length", length + found.new_tokens, "a prompt and a completion")


def _divergence(found: Distillation) -> tuple[str, str]:
    """The divergence that compares both distributions, and the reason for it."""
    if found.is_served:
        return "few_served", "a server answers with the teacher's likeliest words"
    if found.words:
        return "few", f"the teacher's {found.words} likeliest words"
    return {0.0: "forward", 1.0: "reverse"}.get(float(found.beta), "mixture"), f"beta {found.beta:g}"


def other_model(fields: Fields, name: str, context: Context, path: str, dtype: str = "") -> Model:
    """A model that is loaded as well, in `dtype`, "auto" for the checkpoint's own; "" for that of the one that
    trains."""
    architecture: Any = context.find_model(name, path).architecture
    if dtype == "auto":
        return Model(name=name, architecture=architecture or UNKNOWN, weights_dtype=architecture and architecture.dtype)
    if dtype:
        return Model(name=name, architecture=architecture or UNKNOWN, weights_dtype=dtype)
    return Model(
        name=name,
        architecture=UNKNOWN if architecture is None else architecture,
        weights_dtype=fields.get("model.weights_dtype"),
    )
