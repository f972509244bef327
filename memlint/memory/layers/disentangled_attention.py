"""DeBERTa's attention, op by op: products of queries and keys with a table of distances are added to the scores
(transformers 5.23 models/deberta_v2/modeling_deberta_v2.py, DisentangledSelfAttention)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.ops import FP32_BYTES, INT64_BYTES
from memlint.memory.autograd.tape import KERNEL_MEMORY, Storage, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.projection import project


def disentangled(context: LayerContext, shape: TokenMixer, x: Value) -> Value:
    """The output of attention for `x`."""
    tape = context.tape
    query, key, value = (_by_head(context, part, x) for part in ("query", "key", "value"))
    scaled = ops.scale(tape, key)
    scores = ops.matmul(tape, query, scaled, "scores")
    tape.drop(scaled)
    bias = _bias(context, shape, query, key)
    summed = ops.add(tape, scores, bias)
    tape.drop(scores)
    masked = _masked(tape, summed)
    tape.drop(summed)
    weights = _weights(context, shape, masked)
    product = ops.autocast_matmul(tape, weights, value, "mixed", context.kernels.autocast_width)
    mixed = ops.copy(tape, product)
    tape.drop(product, weights, masked, bias, query, key, value)
    found = project(context, "output", mixed, "hidden")
    tape.drop(mixed)
    return found


def _by_head(context: LayerContext, part: str, x: Value) -> Value:
    """A projection, copied head by head."""
    projected = project(context, part, x, part)
    found = ops.copy(context.tape, projected)
    context.tape.drop(projected)
    return found


def _bias(context: LayerContext, shape: TokenMixer, query: Value, key: Value) -> Value:
    """The sum of the position terms: of each query with the places of keys, of each key with those of queries."""
    tape = context.tape
    total: Value | None = None
    gathered = []
    for content in (query, key)[: shape.position_terms]:
        gathered.append(_gathered(context, shape, content))
        term = ops.scale(tape, gathered[-1])
        total = _added_in_place(tape, total, term) if total else ops.add(tape, term, term)  # `0 + term`
        tape.drop(term)
    tape.drop(*gathered)  # variables of the code
    return total or Value.external("scores", query.width)


def _added_in_place(tape: Tape, total: Value, term: Value) -> Value:
    """`total += term`. Takes over the reference to `total`."""
    found = Value(total.storage, total.extent, total.width, total.requires_grad)
    tape.node((found,), (total, term), aliases=True)
    return found


def _gathered(context: LayerContext, shape: TokenMixer, content: Value) -> Value:
    """`gather(content @ positions.T, distances)`. Its backward reads its input's size, for which autograd saves that
    input (torch 2.13 tools/autograd/derivatives.yaml)."""
    tape = context.tape
    positions = _projected_positions(context, shape, content.width)
    every = ops.matmul(tape, content, positions, "position_scores")
    tape.drop(positions)
    distances = tape.new("distances", INT64_BYTES)
    found = tape.new("scores", every.width)
    tape.node((found,), (every,), (every, distances))
    tape.drop(every, distances)
    return found


def _projected_positions(context: LayerContext, shape: TokenMixer, width: int) -> Value:
    """The table after dropout, a projection that queries or keys share, and a copy for each sequence. The projection's
    gradient is added to that of queries or keys."""
    tape = context.tape
    table = Value(Storage(0), "relative", context.cos.width, tape.grad)
    after = ops.dropout(tape, table) if shape.dropout else tape.view(table)
    operand = ops.cast(tape, after, width)
    tape.drop(after)
    projected = tape.new("relative", width)
    tape.node((projected,), (operand,), (operand,))
    tape.drop(operand)
    found = tape.new("relative_heads", width)
    tape.node((found,), (projected,))
    tape.drop(projected)
    return found


def _masked(tape: Tape, scores: Value) -> Value:
    """`masked_fill(~mask, lowest)`, which saves the mask."""
    mask = tape.new("pairs", 1)
    found = tape.new("scores", scores.width)
    tape.node((found,), (scores,), (mask,))
    tape.drop(mask)
    return found


def _weights(context: LayerContext, shape: TokenMixer, scores: Value) -> Value:
    """`dropout(softmax(scores))`: fp32 under autocast."""
    tape = context.tape
    operand = ops.cast(tape, scores, FP32_BYTES if context.kernels.autocast_width else scores.width)
    found = tape.new("scores", operand.width)
    temporaries = ((KERNEL_MEMORY + "scores", operand.width),) if context.kernels.kernel_memory else ()
    tape.node((found,), (operand,), (found,), temporaries)
    tape.drop(operand)
    if not shape.dropout:
        return found
    after = ops.dropout(tape, found)
    tape.drop(found)
    return after
