"""The segment after the last decoder layer: final norm, output projection (head) and loss."""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.autograd.ops as ops
import memlint.memory.divergence as divergence
import memlint.memory.families.lookup as families
import memlint.memory.layers.norm as norm
from memlint._record import NamedTuple
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import LayerMode, Profile
from memlint.memory.autograd.tape import ParameterGradient, Tape, Value
from memlint.memory.layers.embedding import brought_to_magnitude, magnitude
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.layers.projection import project
from memlint.memory.parameter_roles import Roles
from memlint.run import Run


class LossShape(NamedTuple):
    """How the loss is computed from the hidden states. `kind` as `run.Loss.kind`.

    `keeps_logits`: the model's output stays alive through backward. `outputs_to_fp32`: accelerate converts it.
    `upcasts_logits`: the model converts its logits to fp32 and drops those in half precision (transformers up to 4.45,
    models/llama/modeling_llama.py:1214). `copies_shifted`: the loss makes a contiguous copy of the fp32 logits of all
    tokens but the last (up to 4.48, loss/loss_utils.py, ForCausalLMLoss; from 4.49 on the labels are shifted instead).
    `in_logits_dtype`: that copy is in the model's dtype (models/opt/modeling_opt.py:1031, v4.45.2).
    """

    kind: str = "plain"
    keeps_logits: bool = False
    outputs_to_fp32: bool = False
    softcap: bool = False
    scales_logits: bool = False
    label_smoothing: bool = False
    copies_shifted: bool = False
    in_logits_dtype: bool = False
    drops_norm: bool = False  # as `families.traits.Family.drops_last_norm`
    adds_bias: bool = False  # these two as in `families.traits.LossTraits`
    scales_input: bool = False
    shifts: bool = True  # as `families.traits.LossTraits.shifts`
    norm: str = "rms"
    upcasts_logits: bool = False
    stage: str = ""  # "" cross entropy, logps (preference stages: log-probabilities), value (a value head)
    streams: int = 1  # residual streams that are merged before the final norm (Gemma 3n)
    runs_reference: bool = False  # a reference forward runs while the policy's graph is alive
    entropy: str = "none"  # beside log-probabilities, as `run.Loss.entropy`
    gradient_apart: bool = False  # as `run.Loss.gradient_apart`
    needs_gradient: bool = True  # else a forward under `no_grad`, which saves nothing
    likelihood_of_chosen: bool = False
    selection: str = ""  # as `run.Loss.selection`
    scores_in_fp32: bool = True  # as `run.Loss.scores_in_fp32`, or the model returns fp32
    scores_completions: bool = False  # as `run.Loss.scores_completions`
    labels_beside_teacher: bool = False  # as `run.Loss.labels_beside_teacher`
    reference_converted: bool = True  # as `run.Loss.reference_converted`
    divergence: str = ""  # as `run.Loss.divergence`
    in_row_chunks: bool = False


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
        normed = ops.replace(tape, normed, _transformed(context, roles, normed))
    if loss.kind == "fused_head":
        return _fused_head(context, loss, normed)
    if loss.kind in FUSED_LOSSES:
        return _fused_loss(context, loss, normed)
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
    logits = _capped_and_scaled(tape, loss, logits, context.kernels.autocast_width)
    if loss.upcasts_logits:
        logits = ops.replace(tape, logits, ops.cast(tape, logits, FP32_BYTES))
    if loss.label_smoothing:
        logits, found = _smoothed(tape, loss, logits)
        tape.drop(normed)
        return _finish(tape, loss._replace(outputs_to_fp32=False), logits, found)
    if loss.divergence == LIKELIEST:
        found = _of_likeliest_words(tape, logits)
        tape.drop(normed)
        return _finish(tape, loss, logits, found)
    if loss.divergence:
        labels = _cross_entropy(context, loss, logits) if loss.labels_beside_teacher else None
        tape.drop(normed)
        return _from_a_teacher(tape, loss, logits, labels)
    if loss.stage == "logps":
        compute = _fused_log_probabilities if loss.kind == "fused_ce" else _log_probabilities
        found, held = compute(tape, loss, logits)
        tape.drop(normed)
        return _finish(tape, loss, held, found)
    found = _cross_entropy(context, loss, logits)
    tape.drop(normed)
    return _finish(tape, loss, logits, found)


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


HALF = "logits_half"  # the extent of one of the two answers of each pair
SCORED = "logits_scored"  # the extent of the logits whose log-softmax is taken
SCORED_ROW = "logits_scored_row"  # the extent of one sequence's of them
_HALF_BYTES = 2
LOGITS_ROW = "logits_row"  # the extent of one sequence's logits
# The extent by which two sequences' logits are more than all: the gradients of one row's log-softmax, before any is
# stacked with others'.
LOGITS_ROWS_BEYOND = "logits_rows_beyond"
LOGITS_BLOCK = "logits_block"  # the extent of what Liger's loss of GRPO has of them at once
LIKELIEST = "likeliest"  # as in `run.Loss.divergence`
LABELLED = "hidden_labelled"  # the extent of the hidden states of tokens that have labels
FUSED_LOSSES = ("liger", "cut", "unsloth", "chunked", "fused_head")
TILE_COLUMNS = 32768  # of a fused head's tile of logits: trl 1.16 trainer/utils.py:1506, _CHUNKED_LOGPROB_CHUNK_SIZE
_LOGITS_STAY_HALF_SINCE = (4, 46)  # before, the model itself converted its logits to fp32


def loss_kind(run: Run) -> str:
    """The loss that runs. The Trainer's label smoothing takes the labels away from the model, so that the model's fused
    loss does not run and the logits are built (transformers 5.23 trainer.py, compute_loss)."""
    kind = str(run.loss.kind)
    return "plain" if run.loss.label_smoothing and run.method.stage in ("pt", "sft") and kind in FUSED_LOSSES else kind


def keeps_logits_dtype(run: Run) -> bool:
    """Whether the loss, the model's own or the trainer's, makes no fp32 copy of the logits: cross entropy reads them in
    their dtype, and only autocast converts them to fp32."""
    releases = families.of(run.model.architecture).loss.in_own_dtype
    own = releases.include(run.stack.transformers) or run.loss.in_logits_dtype
    return own and run.loss.kind == "plain"


def copies_shifted_logits(run: Run) -> bool:
    """Whether this release's loss converts the logits to fp32 and then makes a contiguous copy of the shifted ones."""
    releases = families.of(run.model.architecture).loss.copies_logits
    return (
        releases.include(run.stack.transformers) and run.loss.upcast_logits is not False and not keeps_logits_dtype(run)
    )


def upcasts_logits(run: Run) -> bool:
    """Whether the model itself converts its logits to fp32."""
    return copies_shifted_logits(run) and run.stack.transformers < _LOGITS_STAY_HALF_SINCE


def _transformed(context: LayerContext, roles: Roles, x: Value) -> Value:
    """`norm(gelu(dense(x)))` before the words' scores (models/bert/modeling_bert.py, BertPredictionHeadTransform; the
    same in its relatives)."""
    tape = context.tape
    dense = project(context, "transform", x, "embedded")
    active = ops.unary(tape, dense)
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


def _capped_and_scaled(tape: Tape, loss: LossShape, logits: Value, autocast_width: int) -> Value:
    """Soft-capping and scaling of logits (Gemma 2, Cohere, Granite), or an fp32 buffer that is added to them (BART)."""
    if loss.adds_bias:
        bias = Value.external(logits.extent, FP32_BYTES if autocast_width else logits.width)
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
        return _fused_kernel(context.tape, loss, logits)
    if loss.in_logits_dtype:
        return _cross_entropy_in_logits_dtype(context, loss, logits)
    tape = context.tape
    in_fp32 = ops.cast(tape, logits, FP32_BYTES)
    shifted = _shifted(tape, in_fp32) if loss.copies_shifted else ops.cast(tape, in_fp32, FP32_BYTES)
    if loss.kind == "fused_ce":
        found = _gradient_over_logits(tape, shifted)
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


def _log_probabilities(tape: Tape, loss: LossShape, logits: Value) -> tuple[Value, Value]:
    """`logits.to(float32)[:, :-1].log_softmax(-1)`, its result saved; all converted logits stay until the loss is made
    (LLaMA-Factory 0.9.5 train/dpo/trainer.py:185, train/trainer_utils.py:620). TRL computes in the dtype that the model
    returns. Returns what the loop holds as well."""
    width = FP32_BYTES if loss.scores_in_fp32 else logits.width
    scored = ops.cast(tape, logits, width)
    tape.drop(logits)
    if loss.selection == "rows":
        return _rows_of_completions(tape, loss, scored), Value.external("scalar", FP32_BYTES)
    if loss.selection:
        return _selected(tape, loss, scored), Value.external("scalar", FP32_BYTES)
    if loss.scores_completions:
        return _of_completions(tape, loss, scored), Value.external("scalar", FP32_BYTES)
    likelihood = (_likelihood_of_chosen(tape, scored),) if loss.likelihood_of_chosen else ()
    sliced = ops.slice_of(tape, scored, scored.extent)
    log_probabilities = ops.unary_by_result(tape, sliced)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (log_probabilities, *likelihood), (log_probabilities,))
    if loss.runs_reference:  # its logits and their log-softmax
        tape.spike(("logits", width), ("logits", width))
    tape.drop(log_probabilities, sliced)
    if loss.keeps_logits:
        return found, scored
    tape.drop(scored)
    return found, Value.external("scalar", FP32_BYTES)


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


def _of_completions(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """`logits[:, prompt - 1:-1].log_softmax(-1)`; the forward returns before the reference's begins (trl 1.16
    experimental/online_dpo/online_dpo_trainer.py:1104, _forward)."""
    sliced = ops.slice_of(tape, logits, SCORED)
    log_probabilities = ops.unary_by_result(tape, sliced)
    tape.drop(sliced, logits)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (log_probabilities,), (log_probabilities,))
    _reference_of_completions(tape, loss, logits.width, SCORED)
    tape.drop(log_probabilities)
    return found


def _reference_of_completions(tape: Tape, loss: LossShape, width: int, at_once: str) -> None:
    """What a reference allocates at its end: its logits, which accelerate may convert, then log-probabilities of
    `at_once`."""
    if not loss.runs_reference:
        return
    if loss.reference_converted and width == FP32_BYTES:
        tape.spike(("logits", _HALF_BYTES), ("logits", FP32_BYTES))
        tape.spike(("logits", FP32_BYTES), (at_once, FP32_BYTES))
    else:
        tape.spike(("logits", _HALF_BYTES), (at_once, _HALF_BYTES))


def _rows_of_completions(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """`selective_log_softmax(logits[:, prompt - 1:-1])`: a logsumexp of each row, or in half precision its log-softmax,
    and the gradients of the rows are stacked beside that of the labels' logits (trl 0.19 trainer/xpo_trainer.py and
    nash_md_trainer.py, _compute_logprobs). All logits wait for the backward where a logsumexp reads them."""
    found, part = tape.new("scalar", FP32_BYTES), (SCORED, logits.width)
    sliced = ops.slice_of(tape, logits, SCORED)
    tape.spike((SCORED_ROW, logits.width))
    if logits.width == FP32_BYTES:
        tape.node((found,), (sliced,), (logits,), (part, part))
    elif loss.needs_gradient:
        scored = tape.new(*part)
        tape.node((found,), (sliced,), (scored,), (part,))
        tape.drop(scored)
    tape.drop(sliced, logits)
    _reference_of_completions(tape, loss, logits.width, SCORED_ROW)
    return found


def _selected(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """The logits of the labels less a logsumexp of each row, where a temperature has divided them all.

    TRL's own kernel reads the logits and writes their gradient apart (trl 1.14 kernels/logprob_entropy.py). Before, the
    gradients of the rows are stacked while that of the labels' logits, zeros elsewhere, waits (trl 0.29
    trainer/utils.py, selective_log_softmax); the slice that trl 1.0 to 1.13 and ms-swift 4.6.0
    (rlhf_trainers/grpo_trainer.py:1581) write in place has the same number of tensors in its backward. In half
    precision there is a log-softmax of each row instead, and all of them are saved (trl 0.16 trainer/utils.py,
    selective_log_softmax).
    """
    found, whole = tape.new("scalar", FP32_BYTES), (logits.extent, logits.width)
    if loss.selection == "kernel":
        tape.node((found,), (logits,), (logits,))
        tape.drop(logits)
        return found
    in_place = loss.selection == "divided_in_place"
    divided = ops.view(tape, logits, (whole, whole)) if in_place else ops.scale(tape, logits)
    tape.drop(logits)
    row = (LOGITS_ROW, logits.width)
    temporaries: tuple[tuple[str, int], ...]
    if logits.width == FP32_BYTES:
        tape.spike(row)
        saved, temporaries = ops.hold(divided), (whole,) if in_place else (whole, whole)
    elif loss.needs_gradient:
        saved, temporaries = tape.new(logits.extent, logits.width), ((LOGITS_ROWS_BEYOND, logits.width),)
    else:
        tape.spike(row, row)
        saved, temporaries = ops.hold(divided), ()
    if loss.entropy == "chunked":  # rows of a slice are copied (trl 1.0 trainer/utils.py, entropy_from_logits)
        chunks = (("logits_chunk", logits.width),) * len(_UNSAVED[loss.entropy])
        tape.spike(*chunks, *((whole,) if in_place else ()))
    tape.node((found,), (divided,), (saved,), temporaries)
    tape.drop(divided, saved)
    return found


def _likelihood_of_chosen(tape: Tape, in_fp32: Value) -> Value:
    """`cross_entropy(logits[:chosen, :-1].contiguous())` over the first half of the rows (trl 1.16
    experimental/cpo/cpo_trainer.py:826 and experimental/orpo/orpo_trainer.py:800)."""
    shifted = ops.slice_of(tape, in_fp32, HALF)
    copied = ops.copy(tape, shifted)
    tape.drop(shifted)
    log_probabilities = ops.unary_by_result(tape, copied)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (log_probabilities,), (log_probabilities,))
    tape.drop(copied, log_probabilities)
    return found


def _from_a_teacher(tape: Tape, loss: LossShape, logits: Value, labels: Value | None = None) -> Profile:
    """The loss beside the teacher's logits, outside of the model's forward: accelerate has converted both then.
    `labels`: their cross entropy, which the model has computed."""
    tape.end_autocast()
    outputs = ops.cast(tape, logits, FP32_BYTES if loss.outputs_to_fp32 else logits.width)
    tape.drop(logits)
    if loss.divergence == "likelihood":
        found, teacher = divergence.with_likelihood(tape, outputs.width, outputs)
        return _finish(tape, loss._replace(outputs_to_fp32=False), outputs, found, held=(teacher,))
    shape = divergence.Divergence(loss.divergence, outputs.width, loss.in_row_chunks)
    found = divergence.divergence(tape, shape, outputs)
    if labels is not None:
        alone, found = found, ops.add(tape, found, labels)
        tape.drop(alone, labels)
    return _finish(tape, loss._replace(outputs_to_fp32=False), outputs, found)


def _fused_log_probabilities(tape: Tape, loss: LossShape, logits: Value) -> tuple[Value, Value]:
    """FlashAttention's cross entropy, which reads the logits in their dtype and writes its gradient over them. With an
    entropy beside it the gradient is a tensor of its own (verl 0.9.1 workers/engine/fsdp/transformer_impl.py:1427)."""
    if loss.entropy == "none":
        found = _fused_kernel(tape, loss, logits)
    else:
        entropy = _entropy(tape, loss, logits)
        found = tape.new("scalar", FP32_BYTES)
        tape.node((found,), (logits, entropy), (logits,))
        tape.drop(entropy)
    if loss.runs_reference and loss.upcasts_logits:  # its logits, and their fp32 copy
        tape.spike(("logits", 2), ("logits", FP32_BYTES))
    if loss.gradient_apart:
        return found, logits
    tape.drop(logits)
    return found, Value.external("scalar", FP32_BYTES)


def _fused_kernel(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """The cross entropy's gradient over the logits, or apart from them (flash_attn `inplace_backward`)."""
    if not loss.gradient_apart:
        return _gradient_over_logits(tape, logits)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (logits,), (logits,))
    return found


def _entropy(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """`logsumexp(logits) - sum(softmax(logits) * logits)` (verl 0.9.1 utils/torch_functional.py, entropy_from_logits).

    torch.compile makes one kernel of it, forward and backward. Else autocast computes the softmax of fp32 logits, whose
    result is saved, and the product with the logits is an fp32 tensor. The backward has the gradients of both factors,
    of the softmax and of the logarithm at once (benchmarks/referee/rollout_phases.py). A checkpoint computes all of it
    again there. `unsaved` is a forward without gradients, `chunked` one that takes some rows at a time.
    """
    found = tape.new("scalar", FP32_BYTES)
    fp32 = ("logits", FP32_BYTES)
    if loss.entropy in ("compiled", "unsaved", "chunked"):
        tape.spike(*_UNSAVED[loss.entropy])
        tape.node((found,), (logits,), (logits,))
    elif loss.entropy == "recomputed":
        tape.spike(fp32, fp32)
        tape.node((found,), (logits,), (logits,), (fp32,) * 5)
    else:
        in_fp32 = ops.cast(tape, logits, FP32_BYTES)
        probabilities = ops.unary_by_result(tape, in_fp32)
        tape.spike(fp32)
        tape.node((found,), (probabilities, logits), (probabilities, logits), (fp32,) * 3)
        tape.drop(in_fp32, probabilities)
    return found


# What an entropy allocates for a moment where no gradient is needed.
_UNSAVED = {
    "compiled": (),
    "unsaved": (("logits", FP32_BYTES),) * 2,
    "chunked": (("logits_chunk", FP32_BYTES),) * 3,
}


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


def _gradient_over_logits(tape: Tape, logits: Value) -> Value:
    """A fused kernel that writes the gradient over the logits it read (Unsloth's and Liger's cross entropy)."""
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (logits,), (logits,), aliases=True)
    return found


def _finish(
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


def _fused_loss(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """Loss and output projection together, one chunk of tokens at a time: the whole logits never exist.

    Liger computes the gradients of hidden states and head in the forward (liger_kernel 0.8.5
    ops/fused_linear_cross_entropy.py); chunked losses recompute each chunk in backward.
    """
    if loss.kind == "liger" and loss.selection:
        return _blocks(context, loss, normed)
    tape, autocast_width = context.tape, context.kernels.autocast_width
    head = context.linears["head"].weight
    copies = (("logits_chunk", FP32_BYTES),) * (3 if loss.kind == "chunked" else 1)
    if loss.kind != "chunked":
        copies += (("logits_chunk", autocast_width or normed.width),)
    chunk_temporaries = copies + (
        ((head.extent, autocast_width),) if autocast_width and autocast_width != head.width else ()
    )
    forward_gradients: list[Value] = []
    gradients: tuple[ParameterGradient, ...] = ()
    if head.trainable:
        chunk_temporaries += ((head.extent, autocast_width or head.width),)
        gradients = (ParameterGradient(head.extent, head.width, head.width),)
    if loss.kind != "chunked":
        forward_gradients.append(tape.new("hidden", normed.width))
        if head.trainable:
            forward_gradients.append(tape.new(head.extent, head.width))
    tape.spike(*chunk_temporaries)
    found = tape.new("scalar", FP32_BYTES)
    recomputed = chunk_temporaries if loss.kind == "chunked" else ()
    tape.node((found,), (normed,), (normed,) if loss.kind == "chunked" else (), recomputed, weights=gradients)
    tape.drop(normed)
    return _finish(tape, loss, Value.external("scalar", FP32_BYTES), found, tuple(forward_gradients))


def block_elements(tokens: int, words: int) -> int:
    """Logits that Liger's loss of GRPO has at once of a sequence (liger_kernel 0.8.5
    chunked_loss/fused_linear_ppo.py:9)."""
    return min(tokens, 2048) * min(words, 4096)


def _blocks(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """Liger's loss of GRPO: log-probabilities and gradients of one sequence after the other, in the forward
    (liger_kernel 0.8.5 chunked_loss/fused_linear_ppo.py). Logits, probabilities and the logits' gradient of a block are
    fp32. So is the gradient of a trained head, which is converted and added to that of the sequences before."""
    tape, head = context.tape, context.linears["head"].weight
    blocks: tuple[tuple[str, int], ...] = ((LOGITS_BLOCK, FP32_BYTES),) * 3
    held = [tape.new(LABELLED, normed.width)]
    gradients: tuple[ParameterGradient, ...] = ()
    if head.trainable:
        held.append(tape.new(head.extent, head.width))
        gradients = (ParameterGradient(head.extent, head.width, head.width),)
        tape.spike((head.extent, FP32_BYTES), (head.extent, head.width))
        blocks += ((head.extent, FP32_BYTES),)
    tape.spike(*blocks)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (normed,), weights=gradients)
    tape.drop(normed)
    return _finish(tape, loss, Value.external("scalar", FP32_BYTES), found, tuple(held))


def _fused_head(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """TRL's head, which scores tokens without their logits (trl 1.15 and 1.16 kernels/chunked_logprob.py and
    trainer/utils.py, add_fused_lm_head).

    One tile of logits, `TILE_COLUMNS` words wide, in the dtype of the product; again in the backward. The hidden states
    of the tokens that have labels are a copy. Their gradient and that of a trained head are summed in fp32, then
    converted.
    """
    tape, head = context.tape, context.linears["head"].weight
    compute = context.kernels.autocast_width or normed.width
    rows = tape.new(LABELLED, normed.width)
    tape.node((rows,), (normed,), temporaries=(("hidden", normed.width),))  # of the slice without the last token
    tile: tuple[tuple[str, int], ...] = (("logits_tile", compute),)
    tile += (("head_tile", compute),) if head.width != compute else ()
    tile += (("rows_tile", compute),) if normed.width != compute else ()
    tape.spike(*tile)
    sums: tuple[tuple[str, int], ...] = ((LABELLED, FP32_BYTES),) if normed.width != FP32_BYTES else ()
    sums += ((head.extent, FP32_BYTES),) if head.trainable and head.width != FP32_BYTES else ()
    gradients = (ParameterGradient(head.extent, head.width, head.width),) if head.trainable else ()
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (rows,), (rows,), tile + sums, weights=gradients)
    tape.drop(normed, rows)
    return _finish(tape, loss, Value.external("scalar", FP32_BYTES), found)


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
    return _finish(tape, loss, Value.external("scalar", FP32_BYTES), found)
