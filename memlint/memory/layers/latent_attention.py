"""Multi-head latent attention (transformers 5.23 models/deepseek_v3/modeling_deepseek_v3.py)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.tape import Parameter, Value
from memlint.memory.layers.attention import core
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.projection import project


def latent(context: LayerContext, shape: TokenMixer, x: Value, weight: Parameter | None) -> Value:
    """Queries and the shared latent of keys and values, expanded to every head before the core."""
    tape = context.tape
    query = _queries(context, shape, x, weight)
    passed, turned = ops.split(tape, query, ("query.passed", "query.rotary"))
    both = project(context, "latent_down", x, "latent+rope")
    compressed, key_turned = ops.split(tape, both, ("latent", "key_rotary"))
    tape.drop(both)
    normed = norm.rms(tape, compressed, weight, "rows")
    tape.drop(compressed)
    rotated, key_rotated = _interleaved(context, turned), _interleaved(context, key_turned)
    tape.drop(turned, key_turned)
    whole = ops.concat(tape, (passed, rotated), "query")
    key, value = _expanded(context, normed, key_rotated)
    mixed = core(context, shape, whole, key, value)
    found = project(context, "output", mixed, "hidden")
    tape.drop(mixed, whole, key, value, passed, rotated, key_rotated, normed, query)
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


def _expanded(context: LayerContext, latent_: Value, key_rotated: Value) -> tuple[Value, Value]:
    """`kv_b_proj` gives the keys' unrotated part and the values; the rotary part is shared by all heads."""
    tape = context.tape
    wide = project(context, "latent_up", latent_, "key+value")
    plain, value = ops.split(tape, wide, ("key.passed", "value"))
    tape.drop(wide)
    key = ops.concat(tape, (plain, key_rotated), "key")
    tape.drop(plain)
    return key, value


def _interleaved(context: LayerContext, x: Value) -> Value:
    """`cat(x1 * cos - x2 * sin, x2 * cos + x1 * sin)` on even and odd slices."""
    tape = context.tape
    extent = x.extent + "/2"
    halves = []
    for _ in range(2):
        first, second = ops.slice_of(tape, x, extent), ops.slice_of(tape, x, extent)
        straight = ops.scale_by_constant(tape, first, context.cos)
        crossed = ops.scale_by_constant(tape, second, context.sin)
        halves.append(ops.add(tape, straight, crossed))
        tape.drop(straight, crossed, first, second)
    found = ops.concat(tape, (halves[0], halves[1]), x.extent)
    tape.drop(*halves)
    return found
