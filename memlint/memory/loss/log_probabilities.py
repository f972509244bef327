"""Log-probabilities of tokens, and their entropy: the losses of preference and reinforcement learning.

Each function takes the logits and records what its code keeps for backward. `log_probabilities` and
`fused_log_probabilities` give the loss, and what the training loop still holds of the logits.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Tape, Value
from memlint.memory.loss.end import fused_kernel, gradient_over_logits
from memlint.memory.loss.shape import (
    COMPILED_CHUNKS,
    HALF,
    LOGITS_ROW,
    LOGITS_ROWS_BEYOND,
    SCORED,
    SCORED_ROW,
    LossShape,
)

_HALF_BYTES = 2


def log_probabilities(tape: Tape, loss: LossShape, logits: Value) -> tuple[Value, Value]:
    """`logits.to(float32)[:, :-1].log_softmax(-1)`, its result saved; all converted logits stay until the loss is made
    (LLaMA-Factory 0.9.5 train/dpo/trainer.py:185, train/trainer_utils.py:620). KTO's logits of a sample's own answers
    wait while mismatched ones are scored (train/kto/trainer.py, concatenated_forward). TRL computes in the dtype that
    the model returns. Returns what the loop holds as well."""
    width = FP32_BYTES if loss.scores_in_fp32 else logits.width
    scored = ops.cast(tape, logits, width)
    tape.drop(logits)
    if loss.selection == COMPILED_CHUNKS:
        return _in_compiled_chunks(tape, loss, scored), scored
    if loss.selection == "rows":
        return _rows_of_completions(tape, loss, scored), Value.external("scalar", FP32_BYTES)
    if loss.selection in ("shifted", "shifted_copy"):
        return _of_pairs(tape, loss, scored), Value.external("scalar", FP32_BYTES)
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
        tape.spike(*((("logits", width),) * (3 if loss.scores_mismatched else 2)))
    tape.drop(log_probabilities, sliced)
    if loss.keeps_logits:
        return found, scored
    tape.drop(scored)
    return found, Value.external("scalar", FP32_BYTES)


def fused_log_probabilities(tape: Tape, loss: LossShape, logits: Value) -> tuple[Value, Value]:
    """FlashAttention's cross entropy, which reads the logits in their dtype and writes its gradient over them. With an
    entropy beside it the gradient is a tensor of its own (verl 0.9.1 workers/engine/fsdp/transformer_impl.py:1427),
    unless the entropy is only watched: computed afterwards, without a gradient (SkyRL 0.3.0
    skyrl/backends/skyrl_train/workers/model_wrapper.py)."""
    if loss.divides_in_place:
        logits = ops.scale_in_place(tape, logits)
    if loss.joins_logits or loss.scores_completions:
        return _of_padded(tape, loss, logits), Value.external("scalar", FP32_BYTES)
    if loss.entropy in ("none", "watched"):
        found = fused_kernel(tape, loss, logits)
        if loss.entropy == "watched":
            _watched_entropy(tape)
    else:
        entropy = _entropy(tape, loss, logits)
        found = tape.new("scalar", FP32_BYTES)
        tape.node((found,), (logits, entropy), (logits,))
        tape.drop(entropy)
    if loss.runs_reference and loss.upcasts_logits:  # its logits, and their fp32 copy
        tape.spike(("logits", 2), ("logits", FP32_BYTES))
    if loss.gradient_apart or loss.keeps_logits:
        return found, logits
    tape.drop(logits)
    return found, Value.external("scalar", FP32_BYTES)


def _in_compiled_chunks(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """Log-probabilities and entropy of one chunk of tokens after another, each in a kernel of torch.compile that reads
    its chunk again in the backward. Forward and backward have one fp32 tensor of a chunk in between: its log-softmax,
    and zeros that the labels' gradients are scattered into. A chunk's gradient is padded to all tokens and added to
    those of the chunks behind it, so that two chunks show what any number holds (AReaL 1.0.4
    areal/utils/functional/vocab_parallel.py, _chunked_apply; torch 2.13's code for `_gather_logprobs_entropy`)."""
    whole = ("logits_chunk", FP32_BYTES)
    scored = []
    for _ in range(1 if loss.one_chunk else 2):
        part = ops.slice_of(tape, logits, "logits_chunk")
        tape.spike(whole)
        scored.append(tape.new("scalar", FP32_BYTES))
        tape.node((scored[-1],), (part,), (part,), (whole,))
        tape.drop(part)
    found = ops.concat(tape, tuple(scored), "scalar")
    tape.drop(*scored)
    return found


def _of_padded(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """The same over padded sequences.

    `joins_logits`: the entropy is of all tokens; then the tokens of each sequence are copied into one tensor, while the
    padded logits wait for the backward of that (verl 0.9.1 workers/engine/fsdp/transformer_impl.py:1476-1522, as
    PyTorch's nested tensors save them). Else only the answers' logits are read: a slice, which `reshape` copies unless
    there is one sequence (verl 0.7.1 workers/actor/dp_actor.py:299, utils/torch_functional.py, logprobs_from_logits).
    """
    read = ops.hold(logits) if loss.joins_logits else ops.slice_of(tape, logits, SCORED)
    entropy = _entropy(tape, loss, read) if loss.entropy != "none" and loss.joins_logits else None
    copied = ops.hold(read) if loss.one_sequence and not loss.joins_logits else _copied(tape, loss, read)
    found = gradient_over_logits(tape, copied)
    tape.drop(copied)
    if loss.entropy != "none" and entropy is None:
        entropy = _entropy(tape, loss, read)
    tape.drop(read, logits)
    if entropy is None:
        return found
    together = ops.add(tape, found, entropy)
    tape.drop(found, entropy)
    return together


def _copied(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """A copy of the logits that a fused kernel is to read."""
    if not loss.joins_logits:
        return ops.copy(tape, logits)
    found = tape.new(logits.extent, logits.width)
    tape.node((found,), (logits,), (logits,))
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


def _of_pairs(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """`selective_log_softmax(logits[..., :-1, :])` of the two answers of each pair, see `_selected`; from trl 0.29 to
    1.5 of a contiguous copy (trainer/dpo_trainer.py, _compute_loss). Until the function returns it holds the outputs of
    model and reference, each with its copy. For its metrics it picks the logits of the preferred answers, then of the
    others, and takes an entropy of 128 tokens at a time, of the flattened logits: those that are no copy are copied for
    it (trainer/utils.py, entropy_from_logits)."""
    found, whole, row = tape.new("scalar", FP32_BYTES), (logits.extent, logits.width), (LOGITS_ROW, logits.width)
    copies = loss.selection == "shifted_copy"
    shifted = ops.slice_of(tape, logits, logits.extent)
    if copies:
        view, shifted = shifted, ops.copy(tape, shifted)
        tape.drop(view)
    temporaries: tuple[tuple[str, int], ...] = ()
    if logits.width == FP32_BYTES:
        tape.spike(row)
        saved, temporaries = ops.hold(shifted), (whole, whole)
    elif loss.needs_gradient:
        saved, temporaries = tape.new(*whole), ((LOGITS_ROWS_BEYOND, logits.width),)
    else:
        tape.spike(row, row)
        saved = ops.hold(shifted)
    tape.node((found,), (shifted,), (saved,), temporaries)
    held: tuple[tuple[str, int], ...] = ()
    if loss.runs_reference:
        if logits.width == FP32_BYTES:
            tape.spike(("logits", _HALF_BYTES), whole)
        held = (whole,) * (1 + copies)
        tape.spike(*held, *((row,) if logits.width == FP32_BYTES else (row, row)))
    chunks = (("logits_chunk", logits.width),) * 3
    tape.spike(*held, *chunks, *(() if copies else (whole,)))
    tape.spike(*held, (HALF, logits.width))
    tape.drop(shifted, saved, logits)
    return found


def _selected(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """The logits of the labels less a logsumexp of each row, where a temperature has divided them all.

    TRL's own kernel reads the logits and writes their gradient apart (trl 1.14 kernels/logprob_entropy.py). Before, the
    gradients of the rows are stacked while that of the labels' logits, zeros elsewhere, waits (trl 0.29
    trainer/utils.py, selective_log_softmax); the slice that trl 1.0 to 1.9 and ms-swift 4.6.0
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


def _entropy(tape: Tape, loss: LossShape, logits: Value) -> Value:
    """`logsumexp(logits) - sum(softmax(logits) * logits)` (verl 0.9.1 utils/torch_functional.py, entropy_from_logits).

    torch.compile makes one kernel of it, forward and backward. Else see `_entropy_of_operators`. A checkpoint computes
    all of it again in the backward, where the first gradient of the logits is there unless the answers' slice is read,
    whose kernel comes later. `unsaved` is a forward without gradients, `chunked` one that takes some rows at a time.
    """
    if loss.entropy == "whole":
        return _entropy_of_operators(tape, logits)
    found = tape.new("scalar", FP32_BYTES)
    fp32 = (logits.extent, FP32_BYTES)
    if loss.entropy == "recomputed":
        tape.spike(fp32, fp32)
        added = () if loss.scores_completions else ((logits.extent, logits.width),)
        tape.node((found,), (logits,), (logits,), (fp32,) * 6, after_temporaries=added)
    else:
        tape.spike(*((extent or logits.extent, FP32_BYTES) for extent in _UNSAVED[loss.entropy]))
        tape.node((found,), (logits,), (logits,))
    return found


def _watched_entropy(tape: Tape) -> None:
    """Of one chunk after another: its copy in fp32, its log-softmax, then their exponentials and the product of both.
    The first two of a chunk are made while the last two of the one before are still there."""
    tape.spike(*[("logits_chunk", FP32_BYTES)] * 3)
    tape.spike(*[("logits_chunk", FP32_BYTES), ("logits_next_chunk", FP32_BYTES)] * 2)


def _entropy_of_operators(tape: Tape, logits: Value) -> Value:
    """Autocast computes softmax and logsumexp of fp32 logits: the result of the one and the copy that the other read
    are saved, and the product with the logits is an fp32 tensor. The logarithm's backward has `exp(logits - result)`
    and its two factors while the gradient of the softmax waits (benchmarks/referee/rollout_phases.py)."""
    fp32 = (logits.extent, FP32_BYTES)
    in_fp32 = ops.cast(tape, logits, FP32_BYTES)
    probabilities = ops.unary_by_result(tape, in_fp32)
    in_fp32 = ops.replace(tape, in_fp32, ops.cast(tape, logits, FP32_BYTES))
    logarithm, product = tape.new("scalar", FP32_BYTES), tape.new("scalar", FP32_BYTES)
    tape.node((logarithm,), (in_fp32,), (in_fp32,), (fp32, fp32))
    tape.drop(in_fp32)
    tape.spike(fp32)
    tape.node((product,), (probabilities, logits), (probabilities, logits), (fp32,))
    found = ops.add(tape, logarithm, product)
    tape.drop(logarithm, product, probabilities)
    return found


# Extents of the fp32 tensors that an entropy allocates for a moment where no gradient is needed; "": all of its logits.
_UNSAVED: dict[str, tuple[str, ...]] = {
    "compiled": (),
    "unsaved": ("", ""),
    "chunked": ("logits_chunk",) * 3,
}
