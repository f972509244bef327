"""The gated delta rule (Qwen3-Next, Qwen3.5): linear attention with one state per head instead of scores.

Two implementations. transformers writes it in PyTorch, all in fp32, chunk after chunk of 64 tokens (transformers 5.23
models/qwen3_5/modeling_qwen3_5.py, torch_chunk_gated_delta_rule; before 5.17 with a loop over the rows of a chunk).
With flash-linear-attention installed its kernels run (fla-core 0.6.0 ops/gated_delta_rule/chunk.py,
ChunkGatedDeltaRuleFunction), which save their inputs and compute the rest again in the backward.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.norm import reciprocal_root
from memlint.memory.layers.projection import project
from memlint.memory.layers.short_conv import depthwise_convolution, silu_convolution

# Extents (memory/layers/elements.py): queries and keys of all value heads, the convolution's input, products of the
# positions of a chunk, states at the end of each chunk, decays.
QUERY, MIXED, CONVOLVED = "query", "mixed", "delta_qkv"
PAIRS, STATES, ROWS = "delta_pairs", "delta_states", "head_rows"


def delta_net(
    context: LayerContext, shape: TokenMixer, x: Value, convolution: Parameter | None, inner: Parameter | None
) -> Value:
    """The output of the mixer for the normed input `x`. `inner`: the weight of the gated norm."""
    tape = context.tape
    convolution_input, gate, beta_input, decay_input, held = _projected(context, x)
    uses_fla = context.kernels.delta_rule == "fla"  # causal_conv1d keeps its input alone
    convolved = (depthwise_convolution if uses_fla else silu_convolution)(context, convolution_input, convolution)
    tape.drop(convolution_input)
    beta = ops.unary_by_result(tape, beta_input)
    decay = _decay(tape, decay_input)
    query, key, value = ops.split(tape, convolved, ("delta_key", "delta_key", MIXED))
    rule = _fla_kernel if uses_fla else _in_torch
    mixed = rule(context, shape, query, key, value, decay, beta)
    gate = gate if gate is not None else project(context, "g_proj", x, MIXED)
    normed = _gated_norm(context, mixed, gate, inner)
    tape.drop(mixed)
    found = project(context, "output", normed, "hidden")
    tape.drop(normed, convolved, query, key, value, gate, beta_input, decay_input, beta, decay, *held)
    return found


def _projected(context: LayerContext, x: Value) -> tuple[Value, Value | None, Value, Value, tuple[Value, ...]]:
    """The convolution's input, the output's gate, the inputs of beta and decay, and tensors to hold until the end. Of
    OLMo Hybrid, whose projections are all separate, the gate comes after the rule (OlmoHybridGatedDeltaNet).

    Qwen3-Next has two projections for all four; Python variables hold their results until the layer returns.
    """
    tape = context.tape
    if "g_proj" in context.linears:
        parts = [project(context, part, x, "delta_key") for part in ("query", "key")]
        parts.append(project(context, "value", x, MIXED))
        convolution_input = ops.concat(tape, tuple(parts), CONVOLVED)
        tape.drop(*parts)
        return convolution_input, None, project(context, "b_proj", x, ROWS), project(context, "a_proj", x, ROWS), ()
    if "in_projection" not in context.linears:
        convolution_input, gate = project(context, "in_proj_qkv", x, CONVOLVED), project(context, "in_proj_z", x, MIXED)
        return (
            convolution_input,
            gate,
            project(context, "in_proj_b", x, ROWS),
            project(context, "in_proj_a", x, ROWS),
            (),
        )
    qkvz, beta_and_decay = (
        project(context, "in_projection", x, "delta_qkvz"),
        project(context, "gate_projection", x, "rows*2"),
    )
    split = ops.split(tape, qkvz, ("delta_key", "delta_key", MIXED, MIXED))
    copies = [ops.copy(tape, part) for part in split]  # grouped by key heads, so that no part is contiguous
    convolution_input = ops.concat(tape, (copies[0], copies[1], copies[2]), CONVOLVED)
    beta_input, decay_input = (ops.copy(tape, part) for part in ops.split(tape, beta_and_decay, (ROWS, ROWS)))
    tape.drop(*split, *copies[:3])
    return convolution_input, copies[3], beta_input, decay_input, (qkvz, beta_and_decay)


def _decay(tape: Tape, x: Value) -> Value:
    """`-exp(A_log) * softplus(a.float() + dt_bias)`: fp32, one number per token and head."""
    in_fp32 = ops.cast(tape, x, FP32_BYTES)
    shifted = ops.scale(tape, in_fp32)
    tape.drop(in_fp32)
    positive = ops.unary(tape, shifted)
    tape.drop(shifted)
    found = ops.scale(tape, positive)
    tape.drop(positive)
    return found


def _in_torch(
    context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value, decay: Value, beta: Value
) -> Value:
    """torch_chunk_gated_delta_rule, op by op. Its Python variables hold their tensors until it returns."""
    tape, width = context.tape, query.width
    repeats_heads = shape.kv_heads != shape.heads
    queries = ops.copy(tape, query, QUERY) if repeats_heads else tape.view(query, QUERY)
    keys = ops.copy(tape, key, QUERY) if repeats_heads else tape.view(key, QUERY)
    in_fp32 = [_contiguous_fp32(tape, x) for x in (queries, keys, value)]
    beta_fp32, decay_copy = ops.cast(tape, beta, FP32_BYTES), ops.copy(tape, decay)
    tape.drop(queries, keys)
    normed = [_l2_normed(tape, x) for x in in_fp32[:2]]
    tape.drop(*in_fp32[:2])
    scaled = ops.scale(tape, normed[0])
    tape.drop(normed[0])
    padded = [ops.copy(tape, x) for x in (scaled, normed[1], in_fp32[2])]
    tape.drop(scaled, normed[1], in_fp32[2])
    core = _chunks(context, (padded[0], padded[1], padded[2]), beta_fp32, decay_copy)
    tape.drop(beta_fp32, decay_copy)
    found = tape.new(MIXED, width)
    tape.node((found,), (core,))
    tape.drop(core)
    return found


def _contiguous_fp32(tape: Tape, x: Value) -> Value:
    """`x.transpose(1, 2).to(float32, contiguous)`: a copy even where `x` is fp32 already."""
    return ops.cast(tape, x, FP32_BYTES) if x.width != FP32_BYTES else ops.copy(tape, x)


def _l2_normed(tape: Tape, x: Value) -> Value:
    """`x * rsqrt(sum(x * x) + eps)`."""
    root = reciprocal_root(tape, x, ROWS, squares=1)
    found = ops.multiply_by_row(tape, x, root)
    tape.drop(root)
    return found


def _chunks(context: LayerContext, padded: tuple[Value, Value, Value], beta: Value, decay: Value) -> Value:
    tape = context.tape
    query, key, value = padded
    v_beta, k_beta = ops.multiply_by_row(tape, value, beta), ops.multiply_by_row(tape, key, beta)
    decay_sums = ops.scale(tape, decay)
    differences = tape.new(PAIRS, FP32_BYTES)
    tape.node((differences,), (decay_sums,), (), ((PAIRS, FP32_BYTES),))
    masked = ops.scale(tape, differences)
    tape.drop(differences)
    pair_decay = ops.unary_by_result(tape, masked)
    tape.drop(masked)
    system = _decayed_product(context, k_beta, key, pair_decay)
    chunk_scores = _decayed_product(context, query, key, pair_decay)
    decay_from_start = ops.unary_by_result(tape, decay_sums)
    decayed_keys = ops.multiply_by_row(tape, k_beta, decay_from_start)
    loop_rows = _rows_saved_by_loop(context)
    values = _solve_triangular(tape, system, v_beta, loop_rows)
    state_keys = _solve_triangular(tape, system, decayed_keys, ())
    core = tape.new(MIXED, FP32_BYTES)
    query_decay = ops.unary_by_result(tape, decay_sums)
    queries = ops.multiply_by_row(tape, query, query_decay)
    tape.drop(query, query_decay)
    decay_to_end = ops.unary_by_result(tape, decay_sums)
    keys = ops.multiply_by_row(tape, key, decay_to_end)
    tape.drop(key, decay_to_end)
    found = _scan(context, (values, state_keys, queries, keys, chunk_scores), decay_sums)
    tape.drop(
        core,
        v_beta,
        k_beta,
        decay_sums,
        pair_decay,
        system,
        chunk_scores,
        decay_from_start,
        decayed_keys,
        values,
        state_keys,
    )
    tape.drop(queries, keys, value, *loop_rows)
    return found


def _decayed_product(context: LayerContext, a: Value, b: Value, pair_decay: Value) -> Value:
    tape = context.tape
    product = ops.autocast_matmul(tape, a, b, PAIRS, context.kernels.autocast_width)
    found = ops.multiply(tape, product, pair_decay)
    tape.drop(product)
    return found


def _solve_triangular(tape: Tape, system: Value, right: Value, saved: tuple[Value, ...]) -> Value:
    """`solve_triangular(system, right)` saves the system and its result. The system's gradient is a product first."""
    found = tape.new(right.extent, FP32_BYTES)
    tape.node((found,), (right, system), (system, found, *saved), ((PAIRS, FP32_BYTES),))
    return found


def _rows_saved_by_loop(context: LayerContext) -> tuple[Value, ...]:
    """transformers before 5.17 inverts the system row by row, and every row saves copies of the rows above it."""
    if context.kernels.delta_rule != "loop" or not context.tape.grad:
        return ()
    return (context.tape.new("delta_rows", FP32_BYTES),)


def _scan(context: LayerContext, inputs: tuple[Value, ...], decay_sums: Value) -> Value:
    """The loop over chunks. Each step saves the state that it began with and the values that it added; under autocast
    it saves the inputs of its products in half precision (the state twice, the values twice). A slice's gradient is
    padded to the whole tensor before it is added."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    if not tape.grad:
        tape.spike(*(("delta_state", FP32_BYTES),) * 2)
        return tape.new(MIXED, FP32_BYTES)
    states = tape.new(STATES, FP32_BYTES)
    if autocast_width:
        halves = [STATES, STATES, MIXED, MIXED, *(x.extent for x in inputs[1:])]
        made = [tape.new(extent, autocast_width) for extent in halves]
        saved: list[Value] = [states, *made]
    else:
        made = [tape.new(MIXED, FP32_BYTES)]
        saved = [states, *made, *inputs]
    found = tape.new(MIXED, FP32_BYTES)
    tape.node((found,), (*inputs, decay_sums), saved, ((MIXED, FP32_BYTES),), gradient_width=FP32_BYTES)
    tape.drop(states, *made)
    return found


def _fla_kernel(
    context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value, decay: Value, beta: Value
) -> Value:
    """fla's kernels save normed queries and keys, values, decays, betas and one product of positions per chunk. The
    backward computes the states of all chunks again."""
    tape, width = context.tape, query.width
    saved = [tape.new(x.extent, width) for x in (query, key, value)]
    saved += [tape.new(ROWS, FP32_BYTES), tape.new(PAIRS, width)]
    tape.spike((QUERY, width), (MIXED, width), (MIXED, width), (STATES, width))
    found = tape.new(MIXED, width)
    temporaries = ((STATES, width),) * 2 + ((QUERY, width),) * 2 + ((MIXED, width),) * 3
    tape.node((found,), (query, key, value, decay, beta), saved, temporaries)
    tape.drop(*saved)
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
    in_fp32 = ops.cast(tape, x, FP32_BYTES)
    root = reciprocal_root(tape, in_fp32, ROWS)
    normed = ops.multiply_by_row(tape, in_fp32, root)
    tape.drop(in_fp32, root)
    in_dtype = ops.cast(tape, normed, x.width)
    tape.drop(normed)
    weighted = ops.scale_by_weight(tape, weight, in_dtype) if weight else ops.scale(tape, in_dtype)
    tape.drop(in_dtype)
    activated = ops.unary_in_fp32(tape, gate)
    gated = ops.multiply(tape, weighted, activated)
    tape.drop(weighted, activated)
    found = ops.cast(tape, gated, x.width)
    tape.drop(gated)
    return found
