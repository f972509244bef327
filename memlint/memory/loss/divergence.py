"""The loss of knowledge distillation: how far the student's words lie from the teacher's, over the whole vocabulary.

Read in trl 1.16 experimental/gkd/gkd_trainer.py (generalized_jsd_loss) and ms-swift 4.6.0 rlhf_trainers/gkd_loss.py
(jsd_loss). `mixture` compares both with a mixture of the two, `forward` and `reverse` are one Kullback-Leibler
divergence. ms-swift takes 512 rows at a time. `few` compares the teacher's likeliest words alone
(`gkd_logits_topk`), `few_served` those that a server tells. `likelihood` is OpenRLHF's (0.9.10 trainer/kd_trainer.py
and models/loss.py): the cross entropy of the labels, and that of the teacher's distribution. Every position counts as
labelled, which bounds what the loss picks. Compared with steps on fake tensors by benchmarks/referee/distillation.py.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint._record import NamedTuple
from memlint.memory.autograd.tape import Tape, Value
from memlint.memory.loss.shape import CHUNK, REST, SCORED

FEW, FEW_SERVED = "few", "few_served"


class Divergence(NamedTuple):
    """`kind`: mixture, forward, reverse, few, few_served. `width`: bytes of an element of both logits. `in_chunks`:
    some rows at a time."""

    kind: str
    width: int
    in_chunks: bool = False


# Tensors as large as the logits that autograd saves, which stay until their chunk's backward, and what that allocates.
_SAVED = {"mixture": 7, "forward": 2, "reverse": 3}
_IN_BACKWARD = {"mixture": 6, "forward": 2, "reverse": 3}


def with_likelihood(tape: Tape, width: int, student: Value) -> tuple[Value, Value]:
    """The scalar loss of OpenRLHF, and the teacher's logits, which the training loop holds. The positions that count
    are chosen by factors of each row; infinite logits by a mask of all words."""
    labels = _cross_entropy(tape, width, student)
    tape.spike(("logits", 2), ("logits", width))  # the teacher's logits, before and after their conversion
    teacher, probabilities, mask = (tape.new("logits", size) for size in (width, width, 1))
    mine = ops.unary_by_result(tape, student)
    product = ops.scale_by_constant(tape, mine, probabilities)
    finite = tape.new("logits", width)
    tape.node((finite,), (product,), (mask,))
    tape.drop(product)
    found = ops.add(tape, _row_sums(tape, finite), labels)
    tape.drop(mine, mask, probabilities, labels)
    return found, teacher


def _cross_entropy(tape: Tape, width: int, student: Value) -> Value:
    """That of the next tokens: a contiguous copy of all logits but the last row's, and its log-softmax."""
    shifted = tape.new("logits", width)
    tape.node((shifted,), (student,))
    log_probabilities = ops.unary_by_result(tape, shifted)
    found = tape.new("scalar", 4)
    tape.node((found,), (log_probabilities,), (log_probabilities,))
    tape.drop(log_probabilities, shifted)
    return found


def divergence(tape: Tape, shape: Divergence, student: Value) -> Value:
    """The scalar loss of the student's logits beside the teacher's. Both are held until it is made."""
    if shape.kind == FEW_SERVED:
        return _of_few_words(tape, student)
    teacher = tape.new("logits", shape.width)
    if shape.kind == FEW:
        found = _of_few_words(tape, student)
        tape.drop(teacher)
        return found
    rows = ops.slice_of(tape, student, student.extent if shape.in_chunks else SCORED)
    found = _by_chunks(tape, shape, rows) if shape.in_chunks else _at_once(tape, shape, rows)
    tape.drop(teacher)
    return found


def _of_few_words(tape: Tape, student: Value) -> Value:
    """`student[labelled].gather(words)`, a copy of the logits and a few words of each row of it: both are told where to
    put their gradients, and save nothing as large (gkd_loss.py, extract_active and gkd_loss)."""
    picked = tape.new(student.extent, student.width)
    tape.node((picked,), (student,))
    found = tape.new("scalar", 4)
    tape.node((found,), (picked,))
    tape.drop(picked)
    return found


def _at_once(tape: Tape, shape: Divergence, rows: Value) -> Value:
    own, other = ops.scale(tape, rows), tape.new(SCORED, shape.width)  # divided by the temperature
    tape.drop(rows)
    parts = _compared(tape, shape, own)
    found = tape.new("scalar", 4)
    tape.spike((SCORED, shape.width))  # the positions that have labels
    tape.node((found,), parts[:1])
    tape.drop(*parts, own, other)
    return found


def _by_chunks(tape: Tape, shape: Divergence, rows: Value) -> Value:
    """The positions that have labels are a copy of both, and their quotients another. The last chunk is recorded as it
    is; of those before it what they saved."""
    picked, others = ops.copy(tape, rows), tape.new("logits", shape.width)
    tape.drop(rows)
    own, other = ops.scale(tape, picked), tape.new("logits", shape.width)
    saved = [tape.new(REST, shape.width) for _ in range(_SAVED[shape.kind])]
    before = tape.new("scalar", 4)
    gradient = ("logits", shape.width)  # the gradient of a slice is padded to the whole when the chunk's own are freed
    temporaries = ((CHUNK, shape.width),) * _IN_BACKWARD[shape.kind]
    tape.node((before,), (own,), saved, temporaries, after_temporaries=(gradient,))
    tape.drop(*saved)
    parts = _compared(tape, shape, ops.slice_of(tape, own, CHUNK))
    found = tape.new("scalar", 4)
    tape.node((found,), (*parts[:1], before))
    tape.drop(*parts, own, other, picked, others)
    return found


def _compared(tape: Tape, shape: Divergence, own: Value) -> tuple[Value, ...]:
    """From log-softmax to the divergence of each word. The first is the result, the others are held beside it."""
    mine, theirs = ops.unary_by_result(tape, own), tape.new(own.extent, shape.width)
    if shape.kind == "forward":
        return _against(tape, mine), mine, theirs
    if shape.kind == "reverse":
        return _scored(tape, mine, _difference(tape, mine, theirs)), mine, theirs
    return *_mixture(tape, mine, shape.in_chunks), mine, theirs


def _mixture(tape: Tape, mine: Value, summed: bool) -> tuple[Value, ...]:
    """Both against log((1 - beta) student + beta teacher); the mixture is a logsumexp over the two, stacked."""
    size = (mine.extent, mine.width)
    weighted = ops.copy(tape, mine), tape.new(*size)
    stacked = tape.new(*size), tape.new(*size)
    tape.node((stacked[0],), (weighted[0],), aliases=True)
    tape.drop(*weighted)
    mixed = tape.new(*size)
    # (stacked - result).exp() in the backward, and the gradient of the teacher's half, which nobody asks for
    tape.node((mixed,), (stacked[0],), (*stacked, mixed), (size,) * 5)
    tape.drop(*stacked)
    if summed:
        teacher = _row_sums(tape, _against(tape, mixed))
        student = _row_sums(tape, _scored(tape, mine, _difference(tape, mine, mixed)))
        return ops.add(tape, teacher, student), teacher, student, mixed
    teacher = _against(tape, mixed)
    student = _scored(tape, mine, _difference(tape, mine, mixed))
    weights = ops.scale(tape, teacher), ops.scale(tape, student)
    total = ops.add(tape, *weights)
    tape.drop(*weights)
    return total, teacher, student, mixed


def _row_sums(tape: Tape, words: Value) -> Value:
    """`sum(-1)`, whose gradient is expanded without a copy."""
    found = tape.new("scalar", 4)
    tape.node((found,), (words,), aliases=True)
    tape.drop(words)
    return found


def _against(tape: Tape, mine: Value) -> Value:
    """`exp(theirs) * (theirs - mine)`: the factor without a gradient is saved."""
    probabilities = tape.new(mine.extent, mine.width)
    difference = tape.new(mine.extent, mine.width)
    tape.node((difference,), (mine,))
    found = ops.scale_by_constant(tape, difference, probabilities)
    tape.drop(probabilities, difference)
    return found


def _difference(tape: Tape, mine: Value, other: Value) -> Value:
    found = tape.new(mine.extent, mine.width)
    tape.node((found,), (other,))
    tape.node((found,), (mine,), aliases=True)
    return found


def _scored(tape: Tape, mine: Value, difference: Value) -> Value:
    """`exp(mine) * difference`: both factors are saved."""
    probabilities = ops.unary_by_result(tape, mine)
    found = ops.multiply(tape, probabilities, difference)
    tape.drop(probabilities, difference)
    return found
