"""The stretch behind the last decoder layer: final norm, output projection, loss."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from memlint.memory import ops
from memlint.memory.blocks import norm
from memlint.memory.blocks.projection import project
from memlint.memory.blocks.regime import Context, Regime
from memlint.memory.ops import SINGLE
from memlint.memory.profile import Mode, Profile
from memlint.memory.roles import Roles
from memlint.memory.tape import Tape, Value


class LossShape(NamedTuple):
    """How the loss reads the hidden states. `kind` as run.Loss.kind.

    `keeps_logits`: the model's output stays alive through backward. `outputs_to_fp32`: accelerate converts it.
    """

    kind: str = "plain"
    keeps_logits: bool = False
    outputs_to_fp32: bool = False
    softcap: bool = False
    scaled: bool = False
    smoothing: bool = False
    shifted_copy: bool = False
    norm: str = "rms"


@lru_cache(maxsize=256)
def head_profile(roles: Roles, regime: Regime, mode: Mode, loss: LossShape) -> Profile:
    """Profile from the last layer's output to the loss; its own output is the scalar loss."""
    tape = Tape(True, in_place=regime.in_kernels)
    context = Context(tape, regime, dict(roles.linears), Value.outside("rope", 2), Value.outside("rope", 2))
    x = tape.new("hidden", mode.width, mode.input_needs_gradient)
    normed = _final_norm(context, roles, loss, x)
    tape.drop(x)
    if loss.kind in FUSED:
        return _fused(context, loss, normed)
    logits = _reshaped(tape, loss, project(context, "head", normed, "logits"))
    found = _cross_entropy(tape, loss, logits)
    tape.drop(normed)  # the base model's output lives until the forward returns
    return _finish(tape, loss, logits, found)


FUSED = ("liger", "cut", "unsloth", "chunked")


def _final_norm(context: Context, roles: Roles, loss: LossShape, x: Value) -> Value:
    if loss.norm == "centred":
        return norm.centred(context.tape, x, roles.norm, "rows")
    if loss.norm == "layer_no_affine":
        return norm.layer_no_affine(context.tape, x, "rows", context.regime.half)
    if loss.norm.startswith("layer"):
        return norm.layer(context.tape, x, roles.norm, "rows", context.regime.half)
    return norm.rms(context.tape, x, roles.norm, "rows", loss.norm == "rms_gemma")


def _reshaped(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """Soft-capping and scaling of logits (Gemma 2, Cohere, Granite)."""
    if loss.softcap:
        divided = ops.scale(tape, logits)
        tape.drop(logits)
        bounded = ops.unary_by_result(tape, divided)
        tape.drop(divided)
        logits = ops.scale(tape, bounded)
        tape.drop(bounded)
    if loss.scaled:
        scaled = ops.scale(tape, logits)
        tape.drop(logits)
        logits = scaled
    return logits


def _cross_entropy(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """`cross_entropy(logits.float())`: log-softmax saves its result, the rest is transient."""
    single = ops.cast(tape, logits, SINGLE)
    if loss.shifted_copy:
        shifted = ops.copy(tape, single)
        tape.drop(single)
        single = shifted
    log_probabilities = ops.unary_by_result(tape, single)
    found = tape.new("scalar", SINGLE)
    tape.node((found,), (log_probabilities,), (log_probabilities,))
    tape.drop(log_probabilities, single)
    return found


def _finish(tape: Tape, loss: LossShape, logits: Value, found: Value) -> Profile:
    """Autocast ends, accelerate converts the outputs, the Trainer lets go of them, backward runs."""
    tape_cached = tape.now(minus=found)
    tape.end_autocast()
    if loss.outputs_to_fp32:
        converted = ops.cast(tape, logits, SINGLE)
        tape.drop(logits)
        logits = converted
    forward = tape.take_moments()
    if not loss.keeps_logits:
        tape.drop(logits)
    held = tape.now(minus=found)
    tape.take_moments()
    tape.backward(found)
    if loss.keeps_logits:
        tape.drop(logits)
    tape.drop(found)
    return Profile(forward, tape_cached, held, tape.take_moments(), tape.now())


def _fused(context: Context, loss: LossShape, normed: Value) -> Profile:
    """Loss and output projection together, a chunk of tokens at a time: the logits never exist whole."""
    tape = context.tape
    head = context.linears["head"].weight
    chunk = (("logits_chunk", SINGLE),) * 2 + (("logits_chunk", normed.width),)
    gradients: tuple[tuple[str, int], ...] = (("hidden", normed.width),)
    if head.trains:
        gradients += ((head.extent, head.width),)
    tape.spike(*chunk, *gradients)
    found = tape.new("scalar", SINGLE)
    tape.node((found,), (normed,), (normed,), chunk)
    tape.drop(normed)
    return _finish(tape, loss, Value.outside("scalar", SINGLE), found)
