"""The segment after the last decoder layer: final norm, output projection (head) and loss.

`head_profile` records it on a tape, as PyTorch runs it: what the forward allocates, what is kept for backward, and what
the backward allocates. `loss_shape` says which loss a run has; losses that never build the whole logits are in
`fused_losses`, those of preference and reinforcement learning in `log_probabilities`.
"""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import LayerMode, Profile
from memlint.memory.autograd.tape import Tape, Value
from memlint.memory.layers.embedding import brought_to_magnitude, magnitude
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.layers.projection import project
from memlint.memory.loss.end import finish, fused_kernel, gradient_over_logits
from memlint.memory.loss.fused import fused_head, fused_loss
from memlint.memory.loss.shape import FUSED_LOSSES, LIKELIEST, LossShape
from memlint.memory.state.parameter_roles import Roles


@lru_cache(maxsize=256)
def head_profile(roles: Roles, kernels: KernelConfig, mode: LayerMode, loss: LossShape) -> Profile:
    """The profile from the last layer's output to the loss. The segment's own output is the scalar loss."""
    tape = kernels.tape(loss.needs_gradient)
    # Frameworks leave the last linear layer out of fp8 (accelerate 1.15 utils/ao.py:28).
    kernels = kernels._replace(float8="")
    context = LayerContext(tape, kernels, dict(roles.linears), Value.external("rope", 2), Value.external("rope", 2))
    normed = _head_input(context, roles, loss, mode)
    if loss.stage in ("value", "score"):
        return _value_head(context, loss, normed)
    if "transform" in context.linears:
        normed = ops.replace(tape, normed, _transformed(context, roles, loss, normed))
    if loss.kind == "fused_head":
        return fused_head(context, loss, normed)
    if loss.kind in FUSED_LOSSES:
        return fused_loss(context, loss, normed)
    if loss.parts:
        from memlint.memory.loss.in_parts import loss_in_parts  # few training loops do so

        return loss_in_parts(context, loss, normed)
    return _loss_of_logits(context, loss, normed)


def _head_input(context: LayerContext, roles: Roles, loss: LossShape, mode: LayerMode) -> Value:
    """The last layer's output, with its streams merged, normed, and what some families do to it then."""
    tape = context.tape
    x = tape.new("streams" if loss.streams > 1 else "hidden", mode.width, mode.input_needs_gradient)
    if loss.streams > 1:
        x = ops.replace(tape, x, _merged_streams(context, roles, loss, x))
    normed = ops.replace(tape, x, _final_norm(context, roles, loss, x))
    if loss.drops_norm:
        normed = ops.replace(tape, normed, ops.dropout(tape, normed))
    if loss.scales_input:
        normed = ops.replace(tape, normed, ops.scale(tape, normed))
    return normed


def _loss_of_logits(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """The logits of all tokens and the loss of them. Python holds `normed`, the base model's output, until the forward
    returns."""
    tape = context.tape
    logits = project(context, "head", normed, "logits")
    logits = _capped_and_scaled(tape, loss, logits)
    if loss.upcasts_logits:
        logits = ops.replace(tape, logits, ops.cast(tape, logits, FP32_BYTES))
    if loss.label_smoothing:
        logits, found = _smoothed(tape, loss, logits)
        tape.drop(normed)
        return finish(tape, loss._replace(outputs_to_fp32=False), logits, found)
    if loss.divergence == LIKELIEST:
        found = _of_likeliest_words(tape, logits)
        tape.drop(normed)
        return finish(tape, loss, logits, found)
    if loss.divergence:
        labels = _cross_entropy(context, loss, logits) if loss.labels_beside_teacher else None
        tape.drop(normed)
        return _from_a_teacher(tape, loss, logits, labels)
    if loss.stage == "logps":
        from memlint.memory.loss.log_probabilities import fused_log_probabilities, log_probabilities

        compute = fused_log_probabilities if loss.kind == "fused_ce" else log_probabilities
        found, held = compute(tape, loss, logits)
        tape.drop(normed)
        return finish(tape, loss, held, found)
    found = _cross_entropy(context, loss, logits)
    tape.drop(normed)
    return finish(tape, loss, logits, found)


def _merged_streams(context: LayerContext, roles: Roles, loss: LossShape, x: Value) -> Value:
    """The mean over the streams, each but the first projected and brought to the first one's magnitude (transformers
    5.23 models/gemma3n/modeling_gemma3n.py:1711, Gemma3nTextModel.forward)."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    streams = [ops.slice_of(tape, x, "hidden") for _ in range(loss.streams)]
    target = magnitude(tape, streams[0], autocast_width)
    merged = [streams[0]]
    for index, stream in enumerate(streams[1:]):
        projected = project(context, str(index), stream, "hidden")
        width = roles.norm.width if roles.norm is not None else projected.width  # of the embedding
        merged.append(brought_to_magnitude(tape, projected, target, width, autocast_width))
        tape.drop(projected, stream)
    stacked = ops.concat(tape, tuple(merged), "streams")
    tape.drop(target, *merged)
    found = tape.new("hidden", stacked.width)
    tape.node((found,), (stacked,))
    tape.drop(stacked)
    return found


def _transformed(context: LayerContext, roles: Roles, loss: LossShape, x: Value) -> Value:
    """`norm(gelu(dense(x)))` before the words' scores (models/bert/modeling_bert.py, BertPredictionHeadTransform; the
    same in its relatives)."""
    from memlint.memory.layers.activation_functions import activate  # few heads have a layer of their own

    tape = context.tape
    dense = project(context, "transform", x, "embedded")
    active = activate(context, loss.activation, dense)
    tape.drop(dense)
    found = norm.layer(tape, active, roles.norm, "rows", context.kernels.autocast_width)
    tape.drop(active)
    return found


def _final_norm(context: LayerContext, roles: Roles, loss: LossShape, x: Value) -> Value:
    if loss.norm == "none":
        return ops.hold(x)
    if loss.norm == "centred":
        return norm.centred(context.tape, x, roles.norm, "rows")
    if loss.norm == "layer_no_affine":
        return norm.layer_no_affine(context.tape, x, "rows", context.kernels.autocast_width)
    if loss.norm.startswith("layer"):
        in_dtype = loss.norm == "layer_in_autocast_dtype"
        return norm.layer(context.tape, x, roles.norm, "rows", context.kernels.autocast_width, in_dtype)
    if context.kernels.liger:
        return norm.liger_rms(context.tape, x, roles.norm, "rows", context.kernels.norms_in_place)
    return norm.rms(context.tape, x, roles.norm, "rows", loss.norm == "rms_gemma")


def _capped_and_scaled(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """Soft-capping and scaling of logits (Gemma 2, Cohere, Granite), or a buffer that is added to them (BART)."""
    if loss.bias_width:
        bias = Value.external(logits.extent, loss.bias_width)
        logits = ops.replace(tape, logits, ops.add(tape, logits, bias))
    if loss.softcap:
        for operation in (ops.scale, ops.unary_by_result, ops.scale):  # cap * tanh(logits / cap)
            logits = ops.replace(tape, logits, operation(tape, logits))
    if loss.scales_logits:
        logits = ops.replace(tape, logits, ops.scale(tape, logits))
    return logits


def _cross_entropy(context: LayerContext, loss: LossShape, logits: Value) -> Value:
    """`cross_entropy(logits.float())`: log-softmax saves its result, the rest is transient."""
    if loss.kind == "fused_ce" and not loss.copies_shifted:
        return fused_kernel(context.tape, loss, logits)
    if loss.in_logits_dtype:
        return _cross_entropy_in_logits_dtype(context, loss, logits)
    tape = context.tape
    in_fp32 = ops.cast(tape, logits, FP32_BYTES)
    shifted = _shifted(tape, in_fp32) if loss.copies_shifted else ops.cast(tape, in_fp32, FP32_BYTES)
    if loss.kind == "fused_ce":
        found = gradient_over_logits(tape, shifted)
        tape.drop(in_fp32, shifted)
        return found
    log_probabilities = ops.unary_by_result(tape, shifted)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (log_probabilities,), (log_probabilities,))
    tape.drop(log_probabilities, in_fp32, shifted)
    return found


def _cross_entropy_in_logits_dtype(context: LayerContext, loss: LossShape, logits: Value) -> Value:
    """`cross_entropy(logits[..., :-1, :].contiguous())`, or that of all logits, which autocast runs in fp32 (torch
    autocast_mode.h)."""
    tape = context.tape
    shifted = _shifted(tape, logits) if loss.shifts else ops.hold(logits)
    loss_input = ops.cast(tape, shifted, FP32_BYTES if context.kernels.autocast_width else shifted.width)
    log_probabilities = ops.unary_by_result(tape, loss_input)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (log_probabilities,), (log_probabilities,))
    tape.drop(log_probabilities, loss_input, shifted)
    return found


def _of_likeliest_words(tape: Tape, logits: Value) -> Value:
    """`log_softmax(logits).gather(the teacher's words)`, which autocast runs in fp32 while the logits wait (verl 0.9.1
    trainer/distillation/fsdp/losses.py, compute_forward_kl_topk)."""
    in_fp32 = ops.cast(tape, logits, FP32_BYTES)
    log_probabilities = ops.unary_by_result(tape, in_fp32)
    tape.drop(in_fp32)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (log_probabilities,), (log_probabilities,))
    tape.drop(log_probabilities)
    return found


def _from_a_teacher(tape: Tape, loss: LossShape, logits: Value, labels: Value | None = None) -> Profile:
    """The loss beside the teacher's logits, outside of the model's forward: accelerate has converted both then.
    `labels`: their cross entropy, which the model has computed."""
    import memlint.memory.loss.divergence as divergence

    tape.end_autocast()
    outputs = ops.cast(tape, logits, FP32_BYTES if loss.outputs_to_fp32 else logits.width)
    tape.drop(logits)
    if loss.divergence == "likelihood":
        found, teacher = divergence.with_likelihood(tape, outputs.width, outputs)
        return finish(tape, loss._replace(outputs_to_fp32=False), outputs, found, held=(teacher,))
    shape = divergence.Divergence(loss.divergence, outputs.width, loss.in_row_chunks)
    found = divergence.divergence(tape, shape, outputs)
    if labels is not None:
        alone, found = found, ops.add(tape, found, labels)
        tape.drop(alone, labels)
    return finish(tape, loss._replace(outputs_to_fp32=False), outputs, found)


def _smoothed(tape: Tape, loss: LossShape, logits: Value) -> tuple[Value, Value]:
    """LabelSmoother on the model's output (transformers 5.23 trainer_pt_utils.py): a contiguous copy of all tokens but
    the last, its log-softmax and that negated, both saved. In half precision the sum's gradient is a tensor of its own;
    on fake tensors the gather's is scattered out of place."""
    width = FP32_BYTES if loss.outputs_to_fp32 else logits.width
    converted = ops.cast(tape, logits, width)
    tape.drop(logits)
    shifted = _shifted(tape, converted)
    log_probabilities = ops.unary_by_result(tape, shifted)
    negated = ops.scale(tape, log_probabilities)
    found = tape.new("scalar", FP32_BYTES)
    backward_temporaries = (("logits", width),) * ((width < FP32_BYTES) + (not tape.in_place))
    tape.node((found,), (negated,), (negated,), backward_temporaries)
    tape.drop(shifted, log_probabilities, negated)
    return converted, found


def _shifted(tape: Tape, in_fp32: Value) -> Value:
    """`logits[..., :-1, :].contiguous()`: its gradient is copied into zeros of the full length."""
    found = tape.new(in_fp32.extent, in_fp32.width)
    tape.node((found,), (in_fp32,))
    return found


def _value_head(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """One number per token. A value head is added to a language-model head, whose fp32 logits are computed and thrown
    away (trl 0.19 models/modeling_value_head.py:165-190, which LLaMA-Factory uses). A score head replaces the head
    (trl 1.16 reward_trainer.py: AutoModelForSequenceClassification)."""
    tape = context.tape
    if loss.stage == "value":
        tape.spike(("logits", normed.width), ("logits", FP32_BYTES))
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (normed,), (normed,))
    tape.drop(normed)
    return finish(tape, loss, Value.external("scalar", FP32_BYTES), found)
