"""Losses that compute the output projection and the loss together, so that the whole logits never exist."""

from __future__ import annotations

from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.tape import ParameterGradient, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.loss.end import finish
from memlint.memory.loss.shape import LossShape

LOGITS_BLOCK = "logits_block"  # the extent of what Liger's loss of GRPO has of them at once
LABELLED = "hidden_labelled"  # the extent of the hidden states of tokens that have labels
TILE_COLUMNS = 32768  # of a fused head's tile of logits: trl 1.16 trainer/utils.py:1506, _CHUNKED_LOGPROB_CHUNK_SIZE


def fused_loss(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """Loss and output projection together, one chunk of tokens at a time: the whole logits never exist.

    Liger computes the gradients of hidden states and head in the forward, writes that of the logits over them, and adds
    the head's in place (liger_kernel 0.8.5 ops/fused_linear_cross_entropy.py); 0.6.2 to 0.8.0 made a tensor of it
    first, in the forward alone. Chunked losses recompute each chunk in backward.
    """
    if loss.kind == "chunked":
        return _held_chunks(context, loss, normed) if loss.holds_chunks else _chunked(context, loss, normed)
    if loss.kind == "liger" and loss.selection:
        return _blocks(context, loss, normed)
    tape, autocast_width = context.tape, context.kernels.autocast_width
    head = context.linears["head"].weight
    cast = _cast_head(context)
    temporaries: tuple[tuple[str, int], ...] = (("logits_chunk", autocast_width or normed.width),) + cast
    temporaries += (("logits_chunk", FP32_BYTES),) if loss.kind != "liger" else ()
    forward_gradients = [tape.new("hidden", normed.width)]
    gradients: tuple[ParameterGradient, ...] = ()
    if head.trainable:
        if cast or loss.kind != "liger":
            temporaries += ((head.extent, autocast_width or head.width),)
        gradients = (ParameterGradient(head.extent, head.width, head.width),)
        forward_gradients.append(tape.new(head.extent, head.width))
    tape.spike(*temporaries)
    found = tape.new("scalar", FP32_BYTES)
    tape.node((found,), (normed,), weights=gradients)
    tape.drop(normed)
    return finish(tape, loss, Value.external("scalar", FP32_BYTES), found, tuple(forward_gradients))


def _cast_head(context: LayerContext) -> tuple[tuple[str, int], ...]:
    """The head's copy in the dtype of the product, where autocast makes one."""
    head, width = context.linears["head"].weight, context.kernels.autocast_width
    return ((head.extent, width),) if width and width != head.width else ()


def _chunked(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """Chunks that are checkpointed: the forward has a chunk's fp32 logits and their log-softmax, the backward the
    gradients of both as well. Beside them are the sums of the gradients of the chunks before, which one chunk lacks:
    autograd adds up those of the head in the dtype of the product, because autocast makes one copy of the head for all
    chunks, and converts the sum after the last (torch 2.13 autograd/input_buffer.cpp, accumulate)."""
    tape, head = context.tape, context.linears["head"].weight
    cast, half = _cast_head(context), context.kernels.autocast_width or normed.width
    logits = ("logits_chunk", FP32_BYTES)
    tape.spike(logits, logits, *cast)
    scored, found = tape.new("scalar", FP32_BYTES), tape.new("scalar", FP32_BYTES)
    head_before = ((head.extent, half),) if head.trainable and not loss.one_chunk else ()
    hidden_before = () if loss.one_chunk else (("hidden", normed.width),)
    gradients = (ParameterGradient(head.extent, half, head.width),) if head.trainable else ()
    tape.node((scored,), (normed,), (normed,), (("logits_chunk", half), *cast, *head_before), weights=gradients)
    tape.node((found,), (scored,), (), (logits, logits, logits, *cast, *head_before, *hidden_before))
    tape.drop(normed, scored)
    return finish(tape, loss, Value.external("scalar", FP32_BYTES), found)


def _held_chunks(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
    """verl's chunks (verl 0.9.1 utils/experimental/torch_functional.py, FusedLinearForPPO), in the order of the code.

    Forward: fp32 logits, their probabilities and the product of both. Backward: beside the two come the labels, two
    steps of their difference, and what the entropy's gradient needs; at last the products, while logits, probabilities
    and labels wait. The head's gradient is computed whether it trains or not, and Python keeps that of the chunk before
    until the next one returns.
    """
    tape, head = context.tape, context.linears["head"].weight
    cast, half = _cast_head(context), context.kernels.autocast_width or normed.width
    logits, own_head = (("logits_chunk", FP32_BYTES),), ((head.extent, half),)
    scores_entropy = loss.entropy not in ("none", "watched")
    tape.spike(*logits * 3, *cast)
    scored, found = tape.new("scalar", FP32_BYTES), tape.new("scalar", FP32_BYTES)
    waiting = logits * (4 if scores_entropy else 3)
    tape.node((scored,), (normed,), (normed,), (*waiting, ("logits_chunk", half), *own_head * 2, *cast))
    gradients = (ParameterGradient(head.extent, head.width, head.width),) if head.trainable else ()
    differences = logits * (7 if scores_entropy else 5)
    tape.node((found,), (scored,), (), (*differences, *own_head, *cast), weights=gradients)
    tape.drop(normed, scored)
    return finish(tape, loss, Value.external("scalar", FP32_BYTES), found)


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
    return finish(tape, loss, Value.external("scalar", FP32_BYTES), found, tuple(held))


def fused_head(context: LayerContext, loss: LossShape, normed: Value) -> Profile:
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
    return finish(tape, loss, Value.external("scalar", FP32_BYTES), found)
