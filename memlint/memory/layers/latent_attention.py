"""Multi-head latent attention (transformers 5.23 models/deepseek_v3/modeling_deepseek_v3.py)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, Value
from memlint.memory.layers.attention import core
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.projection import project


def latent(context: LayerContext, shape: TokenMixer, x: Value, weight: Parameter | None) -> Value:
    """The output of attention for the normed input `x`. Keys and values are expanded from their shared latent."""
    tape = context.tape
    query = _queries(context, shape, x, weight)
    unrotated, to_rotate = ops.split(tape, query, ("query.passed", "query.rotary"))
    latent_and_rope = project(context, "latent_down", x, "latent+rope")
    compressed, key_to_rotate = ops.split(tape, latent_and_rope, ("latent", "key_rotary"))
    tape.drop(latent_and_rope)
    normed = norm.rms(tape, compressed, weight, "rows")
    tape.drop(compressed)
    rotated, key_rotated = _interleaved(context, to_rotate), _interleaved(context, key_to_rotate)
    tape.drop(to_rotate, key_to_rotate)
    full_query = ops.concat(tape, (unrotated, rotated), "query")
    key, value = _expanded(context, normed, key_rotated)
    mixed = _core_of_chosen(context, shape, full_query, key, value)
    found = project(context, "output", mixed, "hidden")
    tape.drop(mixed, full_query, key, value, unrotated, rotated, key_rotated, normed, query)
    return found


def _core_of_chosen(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    """Attention to the keys that an indexer chose: without gradients it scores every pair of tokens in fp32, head by
    head, and each layer makes a mask of its own, which sdpa saves in the queries' dtype (transformers 5.23
    models/deepseek_v32/modeling_deepseek_v32.py, DeepseekV32Indexer and DeepseekV32Attention)."""
    if not shape.masks_choice:
        return core(context, shape, query, key, value)
    tape = context.tape
    if shape.index_heads:
        tape.spike(("index_scores", FP32_BYTES), ("index_scores", FP32_BYTES))
    mask = tape.new("pairs", query.width)
    found = core(context, shape, query, key, value)
    if context.kernels.attention == "sdpa":
        tape.node((found,), (found,), (mask,), aliases=True)
    tape.drop(mask)
    return found


def _queries(context: LayerContext, shape: TokenMixer, x: Value, weight: Parameter | None) -> Value:
    if not shape.q_lora_rank:
        return project(context, "query", x, "query")
    tape = context.tape
    low = project(context, "query_down", x, "query_latent")
    normed = norm.rms(tape, low, weight, "rows")
    tape.drop(low)
    found = project(context, "query_up", normed, "query")
    tape.drop(normed)
    return found


def _expanded(context: LayerContext, latent_values: Value, key_rotated: Value) -> tuple[Value, Value]:
    """`kv_b_proj` gives the keys' unrotated part and the values; the rotary part is shared by all heads."""
    tape = context.tape
    expanded = project(context, "latent_up", latent_values, "key+value")
    unrotated, value = ops.split(tape, expanded, ("key.passed", "value"))
    tape.drop(expanded)
    key = ops.concat(tape, (unrotated, key_rotated), "key")
    tape.drop(unrotated)
    return key, value


def _interleaved(context: LayerContext, x: Value) -> Value:
    """`cat(x1 * cos - x2 * sin, x2 * cos + x1 * sin)` on even and odd slices."""
    tape = context.tape
    extent = x.extent + "/2"
    halves = []
    for _ in range(2):
        first, second = ops.slice_of(tape, x, extent), ops.slice_of(tape, x, extent)
        times_cos = ops.scale_by_constant(tape, first, context.cos)
        times_sin = ops.scale_by_constant(tape, second, context.sin)
        halves.append(ops.add(tape, times_cos, times_sin))
        tape.drop(times_cos, times_sin, first, second)
    found = ops.concat(tape, (halves[0], halves[1]), x.extent)
    tape.drop(*halves)
    return found
