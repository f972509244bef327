"""The gated delta rule (Qwen3-Next, Qwen3.5): a linear attention with a state per head instead of scores.

Two implementations. transformers writes it in PyTorch, all in fp32, chunk after chunk of 64 tokens (transformers 5.23
models/qwen3_5/modeling_qwen3_5.py, torch_chunk_gated_delta_rule; before 5.17 with a loop over the rows of a chunk).
With flash-linear-attention installed its kernels run (fla-core 0.6.0 ops/gated_delta_rule/chunk.py,
ChunkGatedDeltaRuleFunction), which keep their inputs and compute the rest again.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.norm import reciprocal_root
from memlint.memory.layers.projection import project
from memlint.memory.layers.short_conv import activated, depthwise

# Extents (memory/layers/elements.py): queries and keys of all value heads, what the convolution reads, products of
# positions of a chunk, states at the end of every chunk, decays.
QUERY, MIXED, CONVOLVED = "query", "mixed", "delta_qkv"
PAIRS, STATES, ROWS = "delta_pairs", "delta_states", "head_rows"


def delta_net(
    context: LayerContext, shape: TokenMixer, x: Value, convolution: Parameter | None, inner: Parameter | None
) -> Value:
    """The whole mixer on the normed input `x`. `inner`: the weight of the gated norm."""
    tape = context.tape
    joined, gate, rates, decays, named = _projected(context, x)
    fused = context.kernels.delta_rule == "fla"  # causal_conv1d keeps its input alone
    convolved = (depthwise if fused else activated)(context, joined, convolution)
    tape.drop(joined)
    beta = ops.unary_by_result(tape, rates)
    decay = _decay(tape, decays)
    query, key, value = ops.split(tape, convolved, ("delta_key", "delta_key", MIXED))
    rule = _kernel if fused else _written_out
    mixed = rule(context, shape, query, key, value, decay, beta)
    normed = _gated_norm(context, mixed, gate, inner)
    tape.drop(mixed)
    found = project(context, "output", normed, "hidden")
    tape.drop(normed, convolved, query, key, value, gate, rates, decays, beta, decay, *named)
    return found


def _projected(context: LayerContext, x: Value) -> tuple[Value, Value, Value, Value, tuple[Value, ...]]:
    """What the convolution reads, the output's gate, beta's input, the decay's, and what has a name besides.

    Qwen3-Next projects them in pairs, whose names live until the layer returns.
    """
    tape = context.tape
    if "in_projection" not in context.linears:
        joined, gate = project(context, "in_proj_qkv", x, CONVOLVED), project(context, "in_proj_z", x, MIXED)
        return joined, gate, project(context, "in_proj_b", x, ROWS), project(context, "in_proj_a", x, ROWS), ()
    whole, small = project(context, "in_projection", x, "delta_qkvz"), project(context, "gate_projection", x, "rows*2")
    parts = ops.split(tape, whole, ("delta_key", "delta_key", MIXED, MIXED))
    copies = [ops.copy(tape, one) for one in parts]  # grouped by key heads, so that no part is contiguous
    joined = ops.concat(tape, (copies[0], copies[1], copies[2]), CONVOLVED)
    rates, decays = (ops.copy(tape, one) for one in ops.split(tape, small, (ROWS, ROWS)))
    tape.drop(*parts, *copies[:3])
    return joined, copies[3], rates, decays, (whole, small)


def _decay(tape: Tape, x: Value) -> Value:
    """`-exp(A_log) * softplus(a.float() + dt_bias)`: fp32, one number a token and head."""
    single = ops.cast(tape, x, FP32_BYTES)
    shifted = ops.scale(tape, single)
    tape.drop(single)
    soft = ops.unary(tape, shifted)
    tape.drop(shifted)
    found = ops.scale(tape, soft)
    tape.drop(soft)
    return found


def _written_out(
    context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value, decay: Value, beta: Value
) -> Value:
    """torch_chunk_gated_delta_rule, op by op; the names of its Python variables hold them until it returns."""
    tape, width = context.tape, query.width
    repeated = shape.kv_heads != shape.heads
    queries = ops.copy(tape, query, QUERY) if repeated else tape.view(query, QUERY)
    keys = ops.copy(tape, key, QUERY) if repeated else tape.view(key, QUERY)
    singles = [_single(tape, one) for one in (queries, keys, value)]
    rate, fade = ops.cast(tape, beta, FP32_BYTES), ops.copy(tape, decay)
    tape.drop(queries, keys)
    unit = [_unit_length(tape, one) for one in singles[:2]]
    tape.drop(*singles[:2])
    scaled = ops.scale(tape, unit[0])
    tape.drop(unit[0])
    padded = [ops.copy(tape, one) for one in (scaled, unit[1], singles[2])]
    tape.drop(scaled, unit[1], singles[2])
    core = _chunks(context, (padded[0], padded[1], padded[2]), rate, fade)
    tape.drop(rate, fade)
    found = tape.new(MIXED, width)
    tape.node((found,), (core,))
    tape.drop(core)
    return found


def _single(tape: Tape, x: Value) -> Value:
    """`x.transpose(1, 2).to(float32, contiguous)`: a copy also of what is fp32."""
    return ops.cast(tape, x, FP32_BYTES) if x.width != FP32_BYTES else ops.copy(tape, x)


def _unit_length(tape: Tape, x: Value) -> Value:
    """`x * rsqrt(sum(x * x) + eps)`."""
    root = reciprocal_root(tape, x, ROWS, squares=1)
    found = ops.multiply_by_row(tape, x, root)
    tape.drop(root)
    return found


def _chunks(context: LayerContext, padded: tuple[Value, Value, Value], rate: Value, fade: Value) -> Value:
    tape = context.tape
    query, key, value = padded
    v_beta, k_beta = ops.multiply_by_row(tape, value, rate), ops.multiply_by_row(tape, key, rate)
    cumulated = ops.scale(tape, fade)
    apart = tape.new(PAIRS, FP32_BYTES)
    tape.node((apart,), (cumulated,), (), ((PAIRS, FP32_BYTES),))
    masked = ops.scale(tape, apart)
    tape.drop(apart)
    pairwise = ops.unary_by_result(tape, masked)
    tape.drop(masked)
    system = _times_pairs(context, k_beta, key, pairwise)
    within = _times_pairs(context, query, key, pairwise)
    grown = ops.unary_by_result(tape, cumulated)
    decayed = ops.multiply_by_row(tape, k_beta, grown)
    kept = _rows_by_loop(context)
    values = _solved(tape, system, v_beta, kept)
    faded_keys = _solved(tape, system, decayed, ())
    core = tape.new(MIXED, FP32_BYTES)
    again = ops.unary_by_result(tape, cumulated)
    queries = ops.multiply_by_row(tape, query, again)
    tape.drop(query, again)
    rest = ops.unary_by_result(tape, cumulated)
    keys = ops.multiply_by_row(tape, key, rest)
    tape.drop(key, rest)
    found = _scan(context, (values, faded_keys, queries, keys, within), cumulated)
    tape.drop(core, v_beta, k_beta, cumulated, pairwise, system, within, grown, decayed, values, faded_keys)
    tape.drop(queries, keys, value, *kept)
    return found


def _times_pairs(context: LayerContext, a: Value, b: Value, pairwise: Value) -> Value:
    tape = context.tape
    product = ops.autocast_matmul(tape, a, b, PAIRS, context.kernels.autocast_width)
    found = ops.multiply(tape, product, pairwise)
    tape.drop(product)
    return found


def _solved(tape: Tape, system: Value, right: Value, kept: tuple[Value, ...]) -> Value:
    """`solve_triangular(system, right)` keeps the system and its result; the system's gradient is a product first."""
    found = tape.new(right.extent, FP32_BYTES)
    tape.node((found,), (right, system), (system, found, *kept), ((PAIRS, FP32_BYTES),))
    return found


def _rows_by_loop(context: LayerContext) -> tuple[Value, ...]:
    """transformers before 5.17 inverts the system row by row, and every row keeps copies of those above it."""
    if context.kernels.delta_rule != "loop" or not context.tape.grad:
        return ()
    return (context.tape.new("delta_rows", FP32_BYTES),)


def _scan(context: LayerContext, given: tuple[Value, ...], cumulated: Value) -> Value:
    """The loop over chunks. Each step keeps the state it began with and the values it added; under autocast what its
    products read, in half precision (the state twice, the values twice). A slice's gradient is as large as the whole
    before it is added."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    if not tape.grad:
        tape.spike(*(("delta_state", FP32_BYTES),) * 2)
        return tape.new(MIXED, FP32_BYTES)
    states, added = tape.new(STATES, FP32_BYTES), tape.new(MIXED, FP32_BYTES)
    kept: list[Value] = [states, added, *given]
    if autocast_width:
        kept = [states]
        kept += [
            tape.new(STATES, autocast_width),
            tape.new(STATES, autocast_width),
            tape.new(MIXED, autocast_width),
            tape.new(MIXED, autocast_width),
        ]
        kept += [tape.new(one.extent, autocast_width) for one in given[1:]]
    found = tape.new(MIXED, FP32_BYTES)
    tape.node(
        (found,), (*given, cumulated), kept, ((MIXED, FP32_BYTES), (MIXED, FP32_BYTES)), gradient_width=FP32_BYTES
    )
    tape.drop(states, added, *(kept[1:] if autocast_width else ()))
    return found


def _kernel(
    context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value, decay: Value, beta: Value
) -> Value:
    """fla's kernels keep normed queries and keys, values, decays, rates and one product of positions a chunk; the
    backward computes the states of all chunks again."""
    tape, width = context.tape, query.width
    kept = [tape.new(one.extent, width) for one in (query, key, value)]
    kept += [tape.new(ROWS, FP32_BYTES), tape.new(PAIRS, width)]
    tape.spike((QUERY, width), (MIXED, width), (MIXED, width), (STATES, width))
    found = tape.new(MIXED, width)
    inside = ((STATES, width),) * 2 + ((QUERY, width),) * 2 + ((MIXED, width),) * 3
    tape.node((found,), (query, key, value, decay, beta), kept, inside)
    tape.drop(*kept)
    return found


def _gated_norm(context: LayerContext, x: Value, gate: Value, weight: Parameter | None) -> Value:
    """`(weight * norm(x)) * silu(gate.float())`, back in x's dtype (Qwen3_5RMSNormGated)."""
    tape = context.tape
    if context.kernels.delta_rule == "fla":
        found = tape.new(MIXED, x.width)
        root = tape.new(ROWS, FP32_BYTES)
        tape.node((found,), (x, gate), (x, gate, root))
        tape.drop(root)
        return found
    single = ops.cast(tape, x, FP32_BYTES)
    root = reciprocal_root(tape, single, ROWS)
    normed = ops.multiply_by_row(tape, single, root)
    tape.drop(single, root)
    back = ops.cast(tape, normed, x.width)
    tape.drop(normed)
    weighted = ops.scale_by_weight(tape, weight, back) if weight else ops.scale(tape, back)
    tape.drop(back)
    acted = ops.unary_in_fp32(tape, gate)
    gated = ops.multiply(tape, weighted, acted)
    tape.drop(weighted, acted)
    found = ops.cast(tape, gated, x.width)
    tape.drop(gated)
    return found
