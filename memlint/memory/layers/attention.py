"""Attention: projections, rotary, and the core by implementation."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import KERNEL_MEMORY, Parameter, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.mlp import multiplied
from memlint.memory.layers.projection import project
from memlint.memory.layers.rotary import rotate

FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4", "flash", "flex_attention", "sdpa", "xformers")


def attention(
    context: LayerContext,
    shape: TokenMixer,
    x: Value,
    head_norm: Parameter | None,
    scales_in_fp32: bool = False,
) -> Value:
    """The whole attention block on the normed input `x`. `scales_in_fp32`: the heads' norms are Gemma's."""
    tape = context.tape
    after = context.family.attention.norms_after_rotary
    first = shape._replace(qk_norm="none") if after else shape
    query, key, value, gate = _query_key_value(context, first, x, head_norm, scales_in_fp32)
    if shape.rotary_fraction:
        fraction, wide = shape.rotary_fraction, context.family.rotary.in_fp32
        turned = rotate(context, query, fraction, wide), rotate(context, key, fraction, wide)
        tape.drop(query, key)
        query, key = turned
    if after:
        query = _normed(context, shape, query, head_norm, "head_rows", scales_in_fp32)
        key = _normed(context, shape, key, head_norm, "key_head_rows", scales_in_fp32)
    mixed = _by_image(context, shape, query, key, value)
    if context.family.norm.inside_blocks:
        normed = norm.rms(tape, mixed, context.inner_norm, "rows")
        tape.drop(mixed)
        mixed = normed
    if gate is not None:
        mixed = apply_output_gate(context, mixed, gate)
    found = project(context, "output", mixed, "hidden")
    tape.drop(mixed, query, key, value, *(() if gate is None else (gate,)))
    return found


def _query_key_value(
    context: LayerContext, shape: TokenMixer, x: Value, head_norm: Parameter | None, gemma: bool
) -> tuple[Value, Value, Value, Value | None]:
    """Queries, keys, values, and the output's gate if the query projection gives one.

    Queries and keys are normed as soon as they are there (transformers 5.23 models/qwen3/modeling_qwen3.py).
    """
    tape = context.tape
    if not shape.fused_qkv:
        first, gate = _query_and_gate(context, x)
        query = _normed(context, shape, first, head_norm, "head_rows", gemma)
        raw = multiplied(context, project(context, "key", x, "key"))
        shared = _same(raw) if shape.values_are_keys else None
        key = _normed(context, shape, raw, head_norm, "key_head_rows", gemma)
        return query, key, _value_normed(context, shape, shared or project(context, "value", x, "value")), gate
    fused = project(context, "query_key_value", x, "query_key_value")
    query, key, value = ops.split(tape, fused, ("query", "key", "value"))
    tape.drop(fused)
    query = _normed(context, shape, query, head_norm, "head_rows", gemma)
    return query, _normed(context, shape, key, head_norm, "key_head_rows", gemma), value, None


def _query_and_gate(context: LayerContext, x: Value) -> tuple[Value, Value | None]:
    """Qwen3.5 cuts its query projection in two: strided views, of which the gate's is copied."""
    tape = context.tape
    if not context.family.attention.gated_query:
        return project(context, "query", x, "query"), None
    whole = project(context, "query", x, "query*2")
    query, strided = ops.split(tape, whole, ("query", "mixed"))
    gate = ops.copy(tape, strided)
    tape.drop(whole, strided)
    return query, gate


def apply_output_gate(context: LayerContext, mixed: Value, gate: Value) -> Value:
    """`mixed * sigmoid(gate)`."""
    tape = context.tape
    share = ops.unary_by_result(tape, gate)
    found = ops.multiply(tape, mixed, share)
    tape.drop(mixed, share)
    return found


def _normed(
    context: LayerContext, shape: TokenMixer, x: Value, weight: Parameter | None, rows: str, gemma: bool
) -> Value:
    if shape.qk_norm == "none":
        return x
    rows = rows if shape.qk_norm == "head" else "rows"
    if context.kernels.liger:
        found = norm.liger_rms(context.tape, x, weight, rows)
    else:
        found = norm.rms(context.tape, x, weight, rows, gemma)
    context.tape.drop(x)
    return found


def _value_normed(context: LayerContext, shape: TokenMixer, x: Value) -> Value:
    """Gemma 4's `v_norm` has no weight (transformers 5.23 models/gemma4/modeling_gemma4.py, Gemma4TextAttention)."""
    if not shape.value_norm:
        return x
    found = norm.rms(context.tape, x, None, "key_head_rows")
    context.tape.drop(x)
    return found


def _by_image(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    """`core`, over parts of a packed sequence where the tower cuts it: views of queries, keys and values go in, what
    comes out is joined (transformers 5.23 models/qwen2_vl/modeling_qwen2_vl.py:395-418, VisionAttention)."""
    tape = context.tape
    whole = not context.family.attention.image_by_image or context.kernels.attention.startswith("flash")
    if whole:
        return core(context, shape, query, key, value)
    parts = [ops.slice_of(tape, x, x.extent) for x in (query, key, value)]
    mixed = core(context, shape, *parts)
    found = ops.concat(tape, (mixed,), "mixed")
    tape.drop(mixed, *parts)
    return found


def core(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    """Scores times values, by implementation; the result has extent "mixed"."""
    if context.kernels.attention in FLASH:
        return _flash(context, shape, query, key, value)
    return _eager(context, shape, query, key, value)


def _flash(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    """FlashAttention keeps q, k, v, the output and one fp32 log-sum-exp per row and head."""
    tape, kernels = context.tape, context.kernels
    width = kernels.autocast_width or query.width  # autocast and flash_attn's wrapper cast fp32 inputs
    cast = [ops.cast(tape, x, width) for x in (query, key, value)]
    if kernels.expands_kv_heads and shape.kv_heads != shape.heads:
        given, cast[1:] = cast[1:], [ops.copy(tape, x, extent) for x, extent in zip(cast[1:], ("query", "mixed"))]
        tape.drop(*given)
    found = _flash_core(context, shape, *cast)
    tape.drop(*cast)
    return found


def _flash_core(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    tape, kernels = context.tape, context.kernels
    found = tape.new("mixed", query.width)
    logsumexp = tape.new("head_rows", FP32_BYTES)
    temporaries: tuple[tuple[str, int], ...] = ()
    if kernels.kernel_memory:
        # fp32 accumulator of dQ, row sums, dK and dV over all query heads (flash_attn 2 csrc/flash_api.cpp, mha_bwd)
        temporaries = ((KERNEL_MEMORY + "query", FP32_BYTES), (KERNEL_MEMORY + "head_rows", FP32_BYTES))
        if shape.kv_heads != shape.heads:
            temporaries += ((KERNEL_MEMORY + "query", query.width), (KERNEL_MEMORY + "mixed", query.width))
    kept = [query, key, value, found, logsumexp]
    if kernels.bias and kernels.kernel_memory:  # torch 2.13 aten/src/ATen/native/transformers/attention.cpp, attn_bias
        kept.append(tape.new("bias", query.width))
    tape.node((found,), (query, key, value), kept, temporaries)
    tape.drop(logsumexp, *kept[5:])
    return found


def _eager(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    """`softmax(q k^T * scale + mask) v` op by op (transformers 5.23 models/llama/modeling_llama.py)."""
    tape = context.tape
    repeated = shape.kv_heads != shape.heads
    keys = ops.copy(tape, key, "query") if repeated else _same(key)
    values = ops.copy(tape, value, "mixed") if repeated else _same(value)
    weights = _probabilities(context, shape, query, keys)
    product = ops.autocast_matmul(tape, weights, values, "mixed", context.kernels.autocast_width)
    found = ops.copy(tape, product)
    tape.drop(product, weights, keys, values)
    return found


def _same(x: Value) -> Value:
    x.storage.references += 1
    return x


def _probabilities(context: LayerContext, shape: TokenMixer, query: Value, keys: Value) -> Value:
    tape = context.tape
    raw = ops.autocast_matmul(tape, query, keys, "scores", context.kernels.autocast_width)
    scores = ops.scale(tape, raw)
    tape.drop(raw)
    if shape.softcap:
        scores = _softcap(tape, scores)
    if (
        context.kernels.mask
    ):  # `scores + mask`, out of place; the mask has the dtype of the embeddings (masking_utils.py)
        masked = ops.add(tape, scores, Value.external("scores", context.cos.width))
        tape.drop(scores)
        scores = masked
    if context.family.attention.joins_sinks:
        return _with_sinks(tape, context, scores)
    result = _softmax(context, scores)
    found = ops.cast(tape, result, query.width)
    tape.drop(scores, result)  # `weights = softmax(weights).to(...)`: the name is bound anew when all is done
    if shape.dropout:
        dropped = ops.dropout(tape, found)
        tape.drop(found)
        found = dropped
    if context.family.attention.returns_weights:
        context.returned_weights.append(_same(found))
    return found


def _with_sinks(tape: Tape, context: LayerContext, scores: Value) -> Value:
    """`softmax(cat(scores, sinks) - max, dtype=scores.dtype)[..., :-1]` (models/gpt_oss/modeling_gpt_oss.py)."""
    joined = ops.concat(tape, (scores,), "scores")
    apart = ops.scale(tape, joined)
    tape.drop(scores, joined)
    whole = tape.new("scores", apart.width)
    inside = ((KERNEL_MEMORY + "scores", apart.width),) if context.kernels.kernel_memory else ()
    tape.node((whole,), (apart,), (whole,), inside)
    tape.drop(apart)
    found = ops.slice_of(tape, whole, "scores")
    tape.drop(whole)
    return found


def _softcap(tape: Tape, scores: Value) -> Value:
    """`tanh(scores / cap) * cap` (transformers 5.23 models/gemma2/modeling_gemma2.py)."""
    divided = ops.scale(tape, scores)
    tape.drop(scores)
    bounded = ops.unary_by_result(tape, divided)
    tape.drop(divided)
    found = ops.scale(tape, bounded)
    tape.drop(bounded)
    return found


def _softmax(context: LayerContext, scores: Value) -> Value:
    """`softmax(scores, dtype=float32)` saves its result.

    bf16 scores are converted first; fp16 ones go in as they are (torch 2.13 aten/src/ATen/native/cuda/SoftMax.cu).
    Its CUDA backward allocates the product of gradient and result.
    """
    tape = context.tape
    as_given = context.kernels.softmax_keeps_dtype or context.family.attention.softmax_keeps_dtype
    given = as_given and not context.kernels.autocast_width
    direct = given or (context.kernels.kernel_memory and not context.kernels.bfloat16)
    width = scores.width if given else FP32_BYTES
    single = _same(scores) if direct else ops.cast(tape, scores, width)
    found = tape.new("scores", width)
    inside = ((KERNEL_MEMORY + "scores", width),) if context.kernels.kernel_memory else ()
    tape.node((found,), (single,), (found,), inside)
    tape.drop(single)
    return found
