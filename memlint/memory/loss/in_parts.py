"""A cross entropy whose logits are made and scored in parts of the tokens (torchtune 0.3 to 0.6.1
modules/loss/ce_chunked_output_loss.py; its main branch, modules/loss/cross_entropy_loss.py).

Without recomputation, every part leaves its log-softmax in fp32 until the backward.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.loss.end import finish
from memlint.memory.loss.fused import LABELLED
from memlint.memory.loss.shape import LossShape

_HIDDEN, _LOGITS = "hidden_chunk", "logits_chunk"  # extents of a part


def loss_in_parts(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """Python holds `normed`, the model's output, until the loss is there, and with `logits_first` all logits."""
    tape, head = context.tape, context.linears["head"].weight
    rows = ops.hold(normed) if loss.logits_first else _labelled(tape, normed)
    hidden = _parts_of(tape, loss, rows)
    made: list[Value] = []
    total: Value | None = None
    if loss.logits_first:
        made = [_logits(tape, head, one, one is hidden[-1]) for one in hidden]
    for index, one in enumerate(hidden):
        logits = made[index] if made else _logits(tape, head, one, one is hidden[-1])
        scored = _scored(tape, loss, logits)
        if not made:
            tape.drop(logits)
        total = scored if total is None else ops.replace(tape, total, _sum(tape, total, scored))
    assert total is not None
    tape.drop(normed, rows, *hidden, *made)
    return finish(tape, loss, Value.external("scalar", FP32_BYTES), total)


def _labelled(tape: Tape, normed: Value) -> Value:
    """`hidden.index_select(0, labelled)`: a copy, whose gradient is added to zeros."""
    found = tape.new(LABELLED, normed.width)
    tape.node((found,), (normed,))
    return found


def _parts_of(tape: Tape, loss: LossShape, rows: Value) -> list[Value]:
    """`chunk`, whose gradients are joined at the end, or `tensor_split`, each of whose gradients is padded to all."""
    if loss.logits_first:
        return list(ops.split(tape, rows, (_HIDDEN,) * loss.parts))
    return [ops.slice_of(tape, rows, _HIDDEN) for _ in range(loss.parts)]


def _logits(tape: Tape, head: Parameter, hidden: Value, is_last: bool) -> Value:
    """The backward begins with the last part, whose gradient of the head the others are added to."""
    found = tape.new(_LOGITS, hidden.width)
    saved = (hidden,) if head.trainable else ()
    kept = (ParameterGradient(head.extent, head.width, head.width),) if head.trainable and is_last else ()
    added = ((head.extent, head.width),) if head.trainable and not is_last else ()
    tape.node((found,), (hidden,), saved, added, weights=kept)
    return found


def _scored(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """`cross_entropy(logits.float())`; compiled, one kernel that reads the logits again in the backward."""
    found = tape.new("scalar", FP32_BYTES)
    if loss.compiled:
        tape.node((found,), (logits,), (logits,))
        return found
    in_fp32 = ops.cast(tape, logits, FP32_BYTES)
    log_probabilities = ops.unary_by_result(tape, in_fp32)
    tape.drop(in_fp32)
    tape.node((found,), (log_probabilities,), (log_probabilities,))
    tape.drop(log_probabilities)
    return found


def _sum(tape: Tape, a: Value, b: Value) -> Value:
    found = ops.add(tape, a, b)
    tape.drop(b)
    return found
