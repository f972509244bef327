"""What every loss ends with: a fused kernel's gradient, and the end of the forward and of the backward."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.tape import Tape, Value
from memlint.memory.loss.shape import LossShape


def fused_kernel(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """The cross entropy's gradient over the logits, or apart from them (flash_attn `inplace_backward`)."""
    if not loss.gradient_apart:
        return gradient_over_logits(tape, logits)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (logits,), (logits,))
    return found


def gradient_over_logits(tape: Tape, logits: Value) -> Value:
    """A fused kernel that writes the gradient over the logits it read (Unsloth's and Liger's cross entropy)."""
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (logits,), (logits,), aliases=True)
    return found


def finish(
    tape: Tape,
    loss: LossShape,
    logits: Value,
    result: Value,
    forward_gradients: tuple[Value, ...] = (),
    held: tuple[Value, ...] = (),
) -> Profile:
    """The end of the forward and the backward: autocast ends, accelerate converts the outputs, the Trainer drops them.

    `forward_gradients`: gradients that a fused loss already computed in its forward; backward passes them on. `held`:
    what the training loop holds until the backward has ended.
    """
    live_in_forward = tape.live_now(minus=result)
    tape.end_autocast()
    if loss.outputs_to_fp32 and not loss.stage:
        converted = ops.cast(tape, logits, FP32_BYTES)
        tape.drop(logits)
        logits = converted
    forward = tape.take_peaks()
    if not loss.keeps_logits:
        tape.drop(logits)
    live_until_backward = tape.live_now(minus=result)
    tape.drop(*forward_gradients)
    tape.take_peaks()
    tape.backward(result)
    if loss.keeps_logits:
        tape.drop(logits)
    tape.drop(result, *held)
    return Profile(forward, live_in_forward, live_until_backward, tape.take_peaks(), tape.live_now())
