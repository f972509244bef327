"""Mamba 2: a state-space layer that works on chunks (Bamba, Granite 4 hybrid, Nemotron-H).

transformers writes the scan in PyTorch, in fp32, all chunks at once (transformers 5.23
models/granitemoehybrid/modeling_granitemoehybrid.py, mamba2_chunk_scan; the same text in each of these families). With
mamba_ssm installed one kernel runs from the convolution to the output projection and keeps its input and the scan's
output (mamba_ssm 2.2.6 ops/triton/ssd_combined.py, MambaSplitConv1dScanCombinedFn).
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.mlp import multiplied
from memlint.memory.layers.norm import reciprocal_root
from memlint.memory.layers.projection import project
from memlint.memory.layers.short_conv import activated

# Extents (memory/layers/elements.py): what the layer works on, what the convolution reads, B or C of a group and of
# every head, products of positions of a chunk, states of all chunks, one number a head.
INNER, CONVOLVED, GROUPED, STATE_ROWS = "ssm_inner", "ssm_conv", "ssm_grouped", "ssm_state_rows"
PAIRS, STATES, ROWS = "ssm_pairs", "ssm_states", "ssm_rows"


def mamba2(
    context: LayerContext, shape: TokenMixer, x: Value, convolution: Parameter | None, inner: Parameter | None
) -> Value:
    """The whole mixer on the normed input `x`. `inner`: the weight of the gated norm."""
    tape = context.tape
    joined = _joined(context, x)
    if context.kernels.scan == "kernel":
        normed = _kernel(tape, joined)
    else:
        normed = _written_out(context, shape, joined, convolution, inner)
    found = project(context, "scan_output" if "scan_output" in context.linears else "output", normed, "hidden")
    tape.drop(normed, joined)
    return found


def _joined(context: LayerContext, x: Value) -> Value:
    """What the scan reads; Falcon-H1 multiplies both the input and this by numbers of its configuration."""
    tape = context.tape
    if not context.family.multiplies_projections:
        return project(context, "in_projection", x, "ssm_joined")
    given = ops.scale(tape, x)
    joined = project(context, "in_projection", given, "ssm_joined")
    tape.drop(given)
    return multiplied(context, joined)


def _written_out(
    context: LayerContext, shape: TokenMixer, joined: Value, convolution: Parameter | None, inner: Parameter | None
) -> Value:
    tape = context.tape
    gate, given, steps = ops.split(tape, joined, (INNER, CONVOLVED, ROWS))
    narrow = activated(context, given, convolution)
    value, before, after = ops.split(tape, narrow, (INNER, GROUPED, GROUPED))
    scanned = _scan(context, value, before, after, steps, inner is not None and inner.trainable)
    normed = _gated_norm(tape, scanned, gate, inner) if shape.gated_norm else _gated(tape, scanned, gate)
    tape.drop(scanned)
    back = ops.cast(tape, normed, joined.width)
    tape.drop(normed, gate, given, steps, narrow, value, before, after)
    return back


def _scan(context: LayerContext, value: Value, before: Value, after: Value, steps: Value, trains: bool) -> Value:
    """mamba2_chunk_scan, op by op; the names of its Python variables hold them until it returns."""
    tape = context.tape
    step = _softplus(tape, steps)
    whole = ops.cast(tape, value, FP32_BYTES)
    keys, queries = _per_head(tape, before), _per_head(tape, after)
    skipped = ops.copy(tape, whole)
    residual = tape.new(INNER, FP32_BYTES)
    tape.node((residual,), (skipped,), (skipped,) if trains else ())  # times D
    tape.drop(skipped)
    grown = ops.multiply_by_row(tape, whole, step)
    tape.drop(whole)
    values = ops.copy(tape, grown)
    tape.drop(grown)
    padded = [ops.copy(tape, one) for one in (keys, queries)]
    tape.drop(keys, queries)
    keys, queries = padded
    decay = ops.scale(tape, step)
    mask = _segment_sum(tape, decay)
    product = _einsum(context, queries, keys, PAIRS, ("a", "b"))
    mixed = ops.multiply(tape, product, mask)
    inside = _einsum(context, mixed, values, INNER, ("b",))
    rest = ops.unary_by_result(tape, decay)
    faded = ops.multiply_by_row(tape, keys, rest)
    states = _einsum(context, faded, values, STATES, ("a", "b"))
    joined = ops.concat(tape, (states,), STATES)
    tape.drop(states)
    carried = _einsum(context, decay, joined, STATES, ("b",))
    again = _einsum(context, queries, carried, INNER, ("a", "b"))
    opened = ops.unary_by_result(tape, decay)
    outside = ops.multiply_by_row(tape, again, opened)
    total = ops.add(tape, inside, outside)
    output = ops.copy(tape, total)
    tape.drop(total)
    found = ops.add(tape, output, residual)
    tape.drop(output, residual, inside, outside, again, opened, carried, joined, rest, faded, mixed, product, mask)
    tape.drop(decay, keys, queries, values, step)
    return found


def _softplus(tape: Tape, steps: Value) -> Value:
    shifted = ops.scale(tape, steps)
    soft = ops.unary(tape, shifted)
    tape.drop(shifted)
    found = ops.unary(tape, soft)
    tape.drop(soft)
    return found


def _per_head(tape: Tape, x: Value) -> Value:
    """`x.float().repeat_interleave(...)`."""
    single = ops.cast(tape, x, FP32_BYTES)
    found = ops.copy(tape, single, STATE_ROWS)
    tape.drop(single)
    return found


def _segment_sum(tape: Tape, decay: Value) -> Value:
    """`exp(segment_sum(A))`: the masked copy, its sums and the masked sums stand together."""
    spread = tape.new(PAIRS, FP32_BYTES)
    tape.node((spread,), (decay,), (), ((PAIRS, FP32_BYTES),))
    summed = ops.scale(tape, spread)
    masked = ops.scale(tape, summed)
    tape.drop(spread, summed)
    found = ops.unary_by_result(tape, masked)
    tape.drop(masked)
    return found


def _einsum(context: LayerContext, a: Value, b: Value, extent: str, copied: tuple[str, ...]) -> Value:
    """A product over transposed axes: operands that are not laid out for it are copied (`copied`), and autocast rounds
    what the product reads."""
    tape = context.tape
    laid = [ops.copy(tape, x) if name in copied else tape.view(x) for name, x in (("a", a), ("b", b))]
    found = ops.autocast_matmul(tape, laid[0], laid[1], extent, context.kernels.autocast_width)
    tape.drop(*laid)
    return found


def _gated(tape: Tape, x: Value, gate: Value) -> Value:
    """`x * silu(gate)` (transformers 5.23 models/falcon_h1/modeling_falcon_h1.py, FalconH1Mixer)."""
    acted = ops.unary(tape, gate)
    found = ops.multiply(tape, x, acted)
    tape.drop(acted)
    return found


def _gated_norm(tape: Tape, x: Value, gate: Value, weight: Parameter | None) -> Value:
    """`weight * norm(x * silu(gate.float()))` on the scan's fp32 output."""
    acted = ops.unary_in_fp32(tape, gate)
    gated = ops.multiply(tape, x, acted)
    tape.drop(acted)
    root = reciprocal_root(tape, gated, ROWS)
    normed = ops.multiply_by_row(tape, gated, root)
    tape.drop(gated, root)
    found = ops.scale_by_weight(tape, weight, normed) if weight else ops.scale(tape, normed)
    tape.drop(normed)
    return found


def _kernel(tape: Tape, joined: Value) -> Value:
    """mamba_ssm's fused kernel keeps its input and the scan's output, and computes the rest again."""
    tape.spike((CONVOLVED, joined.width), (STATES, FP32_BYTES), (INNER, joined.width))
    found = tape.new(INNER, joined.width)
    kept = tape.new(INNER, joined.width)
    inside = ((CONVOLVED, joined.width), (STATES, FP32_BYTES), (STATES, FP32_BYTES))
    tape.node((found,), (joined,), (joined, kept), inside)
    tape.drop(kept)
    return found
