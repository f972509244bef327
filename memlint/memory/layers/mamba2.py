"""Mamba 2: a state-space layer that works on chunks (Bamba, Granite 4 hybrid, Nemotron-H).

transformers writes the scan in PyTorch, in fp32, all chunks at once (transformers 5.23
models/granitemoehybrid/modeling_granitemoehybrid.py, mamba2_chunk_scan; the same text in each of these families). With
mamba_ssm installed one kernel runs from the convolution to the output projection and saves its input and the scan's
output (mamba_ssm 2.2.6 ops/triton/ssd_combined.py, MambaSplitConv1dScanCombinedFn).
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.mlp import scaled_by_config
from memlint.memory.layers.norm import reciprocal_root
from memlint.memory.layers.projection import project
from memlint.memory.layers.short_conv import silu_convolution

# Extents (memory/layers/elements.py): what the layer works on, what the convolution reads, B or C of a group and of
# every head, products of positions of a chunk, states of all chunks, the same with the state before the first chunk,
# one number a head.
INNER, CONVOLVED, GROUPED, STATE_ROWS = "ssm_inner", "ssm_conv", "ssm_grouped", "ssm_state_rows"
PAIRS, STATES, CARRIED, ROWS = "ssm_pairs", "ssm_states", "ssm_carried", "ssm_rows"


def mamba2(
    context: LayerContext, shape: TokenMixer, x: Value, convolution: Parameter | None, inner: Parameter | None
) -> Value:
    """The output of the mixer for the normed input `x`. `inner`: the weight of the gated norm."""
    tape = context.tape
    projected = _in_projection(context, x)
    if context.kernels.scan == "kernel":
        normed = _fused_kernel(tape, projected)
    else:
        normed = _in_torch(context, shape, projected, convolution, inner)
    found = project(context, "scan_output" if "scan_output" in context.linears else "output", normed, "hidden")
    tape.drop(normed, projected)
    return found


def _in_projection(context: LayerContext, x: Value) -> Value:
    """The projected input: gate, convolution's input and dt. Falcon-H1 scales the input and the result."""
    tape = context.tape
    if not context.family.multiplies_projections:
        return project(context, "in_projection", x, "ssm_joined")
    scaled = ops.scale(tape, x)
    projected = project(context, "in_projection", scaled, "ssm_joined")
    tape.drop(scaled)
    return scaled_by_config(context, projected)


def _in_torch(
    context: LayerContext, shape: TokenMixer, projected: Value, convolution: Parameter | None, inner: Parameter | None
) -> Value:
    tape = context.tape
    gate, convolution_input, dt = ops.split(tape, projected, (INNER, CONVOLVED, ROWS))
    convolved = silu_convolution(context, convolution_input, convolution)
    value, b, c = ops.split(tape, convolved, (INNER, GROUPED, GROUPED))
    scanned = _scan(context, value, b, c, dt, inner is not None and inner.trainable)
    normed = _gated_norm(tape, scanned, gate, inner) if shape.gated_norm else _gated(tape, scanned, gate)
    tape.drop(scanned)
    output = ops.cast(tape, normed, projected.width)
    tape.drop(normed, gate, convolution_input, dt, convolved, value, b, c)
    return output


def _scan(context: LayerContext, value: Value, b: Value, c: Value, raw_dt: Value, trains: bool) -> Value:
    """mamba2_chunk_scan, op by op. Python variables hold its tensors until it returns. `trains`: whether D does."""
    tape = context.tape
    dt = _softplus(tape, raw_dt)
    value_fp32 = ops.cast(tape, value, FP32_BYTES)
    b_heads, c_heads = _per_head(tape, b), _per_head(tape, c)
    skip_input = ops.copy(tape, value_fp32)
    skip = tape.new(INNER, FP32_BYTES)
    tape.node((skip,), (skip_input,), (skip_input,) if trains else ())  # times D
    tape.drop(skip_input)
    value_dt = ops.multiply_by_row(tape, value_fp32, dt)
    tape.drop(value_fp32)
    values = ops.copy(tape, value_dt)
    tape.drop(value_dt)
    padded = [ops.copy(tape, one) for one in (b_heads, c_heads)]
    tape.drop(b_heads, c_heads)
    b_heads, c_heads = padded
    decay = ops.scale(tape, dt)
    # What the positions of a chunk add to each other.
    mask = _segment_sum(tape, decay)
    product = _einsum(context, c_heads, b_heads, PAIRS, ("a", "b"))
    mixed = ops.multiply(tape, product, mask)
    within_chunk = _einsum(context, mixed, values, INNER, ("b",))
    # The state that each chunk hands on to the next.
    decay_to_end = ops.unary_by_result(tape, decay)
    decayed_b = ops.multiply_by_row(tape, b_heads, decay_to_end)
    states = _einsum(context, decayed_b, values, STATES, ("a", "b"))
    chunk_states = ops.concat(tape, (states,), CARRIED)
    tape.drop(states)
    carried_states = _einsum(context, decay, chunk_states, CARRIED, ("b",))
    entered_states = ops.slice_of(tape, carried_states, STATES)
    # What earlier chunks add to the positions of a chunk.
    state_output = _einsum(context, c_heads, entered_states, INNER, ("a", "b"))
    decay_from_start = ops.unary_by_result(tape, decay)
    from_earlier_chunks = ops.multiply_by_row(tape, state_output, decay_from_start)
    both = ops.add(tape, within_chunk, from_earlier_chunks)
    output = ops.copy(tape, both)
    tape.drop(both)
    found = ops.add(tape, output, skip)
    tape.drop(output, skip, within_chunk, from_earlier_chunks, state_output, decay_from_start, carried_states)
    tape.drop(entered_states, chunk_states, decay_to_end, decayed_b, mixed, product, mask)
    tape.drop(decay, b_heads, c_heads, values, dt)
    return found


def _softplus(tape: Tape, dt: Value) -> Value:
    shifted = ops.scale(tape, dt)
    positive = ops.unary(tape, shifted)
    tape.drop(shifted)
    found = ops.unary(tape, positive)
    tape.drop(positive)
    return found


def _per_head(tape: Tape, x: Value) -> Value:
    """`x.float().repeat_interleave(...)`."""
    in_fp32 = ops.cast(tape, x, FP32_BYTES)
    found = ops.copy(tape, in_fp32, STATE_ROWS)
    tape.drop(in_fp32)
    return found


def _segment_sum(tape: Tape, decay: Value) -> Value:
    """`exp(segment_sum(A))`: the masked copy, its sums and the masked sums are alive together."""
    pairs = tape.new(PAIRS, FP32_BYTES)
    tape.node((pairs,), (decay,), (), ((PAIRS, FP32_BYTES),))
    summed = ops.scale(tape, pairs)
    masked = ops.scale(tape, summed)
    tape.drop(pairs, summed)
    found = ops.unary_by_result(tape, masked)
    tape.drop(masked)
    return found


def _einsum(context: LayerContext, a: Value, b: Value, extent: str, copied: tuple[str, ...]) -> Value:
    """A product over transposed axes. `copied`: the operands ("a", "b") that are copied to be contiguous."""
    tape = context.tape
    operands = [ops.copy(tape, x) if name in copied else tape.view(x) for name, x in (("a", a), ("b", b))]
    found = ops.autocast_matmul(tape, operands[0], operands[1], extent, context.kernels.autocast_width)
    tape.drop(*operands)
    return found


def _gated(tape: Tape, x: Value, gate: Value) -> Value:
    """`x * silu(gate)` (transformers 5.23 models/falcon_h1/modeling_falcon_h1.py, FalconH1Mixer)."""
    activated = ops.unary(tape, gate)
    found = ops.multiply(tape, x, activated)
    tape.drop(activated)
    return found


def _gated_norm(tape: Tape, x: Value, gate: Value, weight: Parameter | None) -> Value:
    """`weight * norm(x * silu(gate.float()))` on the scan's fp32 output."""
    activated = ops.unary_in_fp32(tape, gate)
    gated = ops.multiply(tape, x, activated)
    tape.drop(activated)
    root = reciprocal_root(tape, gated, ROWS)
    normed = ops.multiply_by_row(tape, gated, root)
    tape.drop(gated, root)
    found = ops.scale_by_weight(tape, weight, normed) if weight else ops.scale(tape, normed)
    tape.drop(normed)
    return found


def _fused_kernel(tape: Tape, projected: Value) -> Value:
    """mamba_ssm's fused kernel saves its input and the scan's output, and computes the rest again in the backward."""
    tape.spike((CONVOLVED, projected.width), (STATES, FP32_BYTES), (INNER, projected.width))
    found = tape.new(INNER, projected.width)
    scan_output = tape.new(INNER, projected.width)
    temporaries = ((CONVOLVED, projected.width), (STATES, FP32_BYTES), (STATES, FP32_BYTES))
    tape.node((found,), (projected,), (projected, scan_output), temporaries)
    tape.drop(scan_output)
    return found
