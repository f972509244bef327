"""Attention: projections, rotary embedding, and scores times values by implementation."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint.architectures.model import TokenMixer
from memlint.memory.autograd.ops import FP32_BYTES, INT64_BYTES
from memlint.memory.autograd.tape import KERNEL_MEMORY, Parameter, ParameterGradient, Storage, Tape, Value
from memlint.memory.layers.kernel_config import FLASH, LayerContext
from memlint.memory.layers.mlp import scaled_by_config
from memlint.memory.layers.projection import project
from memlint.memory.layers.rotary import rotate


def attention(
    context: LayerContext,
    shape: TokenMixer,
    x: Value,
    head_norm: Parameter | None,
    scales_in_fp32: bool = False,
) -> Value:
    """The output of attention for the normed input `x`. `scales_in_fp32`: query and key norms are Gemma's."""
    tape = context.tape
    norms_after_rotary = context.family.attention.norms_after_rotary
    projected_shape = shape._replace(qk_norm="none") if norms_after_rotary else shape
    query, key, value, gate = _query_key_value(context, projected_shape, x, head_norm, scales_in_fp32)
    gate = gate or _own_gate(context, shape, x)
    query, key = _rotated(context, shape, query, key)
    if norms_after_rotary:
        query = _normed_heads(context, shape, query, head_norm, "head_rows", scales_in_fp32)
        key = _normed_heads(context, shape, key, head_norm, "key_head_rows", scales_in_fp32)
    if context.stores_keys:
        ops.hold(key)
        ops.hold(value)
    if context.kernels.caches_fused_parts:
        key, value = _cached(context, key, value)
    width = query.width
    if context.kernels.ring > 1:
        tape.spike(*_merging(context.kernels.ring, width))
    mixed = _by_image(context, shape, query, key, value)
    if context.kernels.moves_attention:
        mixed = _moved(context, mixed, width)
    if context.family.norm.inside_blocks:
        normed = norm.rms(tape, mixed, context.inner_norm, "rows")
        tape.drop(mixed)
        mixed = normed
    if gate is not None:
        mixed = (_gate_heads if shape.head_gate else apply_output_gate)(context, mixed, gate)
    found = project(context, "output", mixed, "hidden")
    tape.drop(mixed, query, key, value, *(() if gate is None else (gate,)))
    context.end_attention()
    return found


def _rotated(context: LayerContext, shape: TokenMixer, query: Value, key: Value) -> tuple[Value, Value]:
    """Queries and keys after rotary embedding; keys that an earlier layer made are rotated already."""
    fraction = shape.rotary_fraction
    if not fraction:
        return query, key
    if not context.family.rotary.one_by_one:
        query, key = rotate(context, fraction, query, key)
        return query, key
    (query,) = rotate(context, fraction, query)
    return query, key if shape.shares_kv else rotate(context, fraction, key)[0]


def _merging(ranks: int, width: int) -> tuple[tuple[str, int], ...]:
    """What a ring allocates in a forward, as (extent, bytes an element): two results in fp32, their difference and its
    weighted copy, and a result as the kernel wrote it; keys and values of all GPUs, and a copy of one's (torch 2.13
    _context_parallel/_attention.py, _SDPAMerger and _AllGatherRotater, the default)."""
    gathered = (ranks + (ranks > 2)) * width
    return ("query", 4 * FP32_BYTES + width), ("key", gathered), ("value", gathered)


def _gradients_of_ring(ranks: int, width: int) -> tuple[tuple[str, int], ...]:
    """What a ring allocates in a backward beside the gradients that it returns: their sums in fp32, for keys and values
    two more on their way, and keys and values of all GPUs."""
    gathered = 3 * FP32_BYTES + (ranks + 1) * width
    return ("query", FP32_BYTES), ("key", gathered), ("value", gathered)


def _moved(context: LayerContext, mixed: Value, width: int) -> Value:
    """Attention's result where GPUs share a sequence, a tensor of its own beside the one that attention keeps: Ulysses
    exchanges heads for tokens (deepspeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py, forward), a ring joins the
    halves of its tokens (torch 2.13 distributed/tensor/experimental/_context_parallel/_attention.py, _partial_update;
    on all GPUs but the last)."""
    tape, ranks = context.tape, context.kernels.ring
    found = tape.new(mixed.extent, mixed.width)
    tape.node((found,), (mixed,), temporaries=_gradients_of_ring(ranks, width) if ranks > 1 else ())
    tape.drop(mixed)
    return found


def _query_key_value(
    context: LayerContext, shape: TokenMixer, x: Value, head_norm: Parameter | None, gemma: bool
) -> tuple[Value, Value, Value, Value | None]:
    """Queries, keys, values, and the gate of the output if the query projection computes one.

    Queries and keys are normed right after their projection (transformers 5.23 models/qwen3/modeling_qwen3.py).
    """
    tape = context.tape
    if shape.shares_kv:
        return _with_shared_key_value(context, shape, x, head_norm, gemma)
    if not shape.fused_qkv:
        projected, gate = _query_and_gate(context, x)
        query = _normed_heads(context, shape, projected, head_norm, "head_rows", gemma)
        projected_key = scaled_by_config(context, project(context, "key", x, "key"))
        key_as_value = ops.hold(projected_key) if shape.values_are_keys else None
        key = _normed_heads(context, shape, projected_key, head_norm, "key_head_rows", gemma)
        return query, key, _normed_values(context, shape, key_as_value or project(context, "value", x, "value")), gate
    fused = project(context, "query_key_value", x, "query_key_value")
    query, key, value = ops.split(tape, fused, ("query", "key", "value"))
    tape.drop(fused)
    query = _normed_heads(context, shape, query, head_norm, "head_rows", gemma)
    return query, _normed_heads(context, shape, key, head_norm, "key_head_rows", gemma), value, None


def _cached(context: LayerContext, key: Value, value: Value) -> tuple[Value, Value]:
    """Copies in the dtype of the keys, as the cache concatenates them (transformers 5.23 cache_utils.py,
    DynamicLayer.update): what a fused projection made is no longer read."""
    tape = context.tape
    found = ops.copy(tape, key), ops.cast(tape, value, key.width) if value.width != key.width else ops.copy(tape, value)
    tape.drop(key, value)
    return found


def _with_shared_key_value(
    context: LayerContext, shape: TokenMixer, x: Value, head_norm: Parameter | None, gemma: bool
) -> tuple[Value, Value, Value, Value | None]:
    """Queries of the layer's own; keys and values are those that an earlier layer keeps anyway (transformers 5.23
    models/gemma4/modeling_gemma4.py, Gemma4TextAttention, `shared_kv_states`)."""
    projected = project(context, "query", x, "query")
    query = _normed_heads(context, shape, projected, head_norm, "head_rows", gemma)
    width = context.kernels.autocast_width or x.width
    key, value = (Value(Storage(0), extent, width, context.tape.grad) for extent in ("key", "value"))
    return query, key, value, None


def _query_and_gate(context: LayerContext, x: Value) -> tuple[Value, Value | None]:
    """The queries and the gate. Qwen3.5 splits its query projection into strided views and copies the gate's."""
    tape = context.tape
    if not context.family.attention.gated_query:
        return project(context, "query", x, "query"), None
    query_and_gate = project(context, "query", x, "query*2")
    query, gate_view = ops.split(tape, query_and_gate, ("query", "mixed"))
    gate = ops.copy(tape, gate_view)
    tape.drop(query_and_gate, gate_view)
    return query, gate


def _own_gate(context: LayerContext, shape: TokenMixer, x: Value) -> Value | None:
    """A gate that has a projection of its own (models/afmoe/modeling_afmoe.py, AfmoeAttention)."""
    if "output_gate" not in context.linears:
        return None
    return project(context, "output_gate", x, "head_rows" if shape.head_gate else "mixed")


def _gate_heads(context: LayerContext, mixed: Value, gate: Value) -> Value:
    """`mixed * sigmoid(gate)` with one number for each head (models/step3p7/modeling_step3p7.py:742)."""
    tape = context.tape
    sigmoid = ops.unary_by_result(tape, gate)
    found = ops.multiply_by_row(tape, mixed, sigmoid, max(mixed.width, sigmoid.width))
    tape.drop(mixed, sigmoid)
    return found


def apply_output_gate(context: LayerContext, mixed: Value, gate: Value) -> Value:
    """`mixed * sigmoid(gate)`."""
    tape = context.tape
    sigmoid = ops.unary_by_result(tape, gate)
    found = ops.multiply(tape, mixed, sigmoid)
    tape.drop(mixed, sigmoid)
    return found


def _normed_heads(
    context: LayerContext, shape: TokenMixer, x: Value, weight: Parameter | None, rows: str, gemma: bool
) -> Value:
    if shape.qk_norm == "none":
        return x
    rows = rows if shape.qk_norm == "head" else "rows"
    if context.family.attention.layer_norm_of_heads:
        found = norm.layer(context.tape, x, weight, rows, context.kernels.autocast_width)
    elif context.kernels.liger:
        found = norm.liger_rms(context.tape, x, weight, rows)
    else:
        found = norm.rms(context.tape, x, weight, rows, gemma)
    context.tape.drop(x)
    return found


def _normed_values(context: LayerContext, shape: TokenMixer, x: Value) -> Value:
    """Gemma 4's `v_norm` has no weight (transformers 5.23 models/gemma4/modeling_gemma4.py, Gemma4TextAttention)."""
    if not shape.value_norm:
        return x
    found = norm.rms(context.tape, x, None, "key_head_rows")
    context.tape.drop(x)
    return found


def _by_image(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    """`core`, image by image where the tower splits a packed sequence: its inputs are views of queries, keys and
    values, and its outputs are concatenated (transformers 5.23 models/qwen2_vl/modeling_qwen2_vl.py:395-418,
    VisionAttention)."""
    tape = context.tape
    in_one_call = not context.family.attention.image_by_image or context.kernels.attention.startswith("flash")
    if in_one_call:
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
    expands = kernels.expands_kv_heads or context.family.attention.expands_kv_heads
    if expands and shape.kv_heads != shape.heads:
        unexpanded, cast[1:] = cast[1:], [ops.copy(tape, x, extent) for x, extent in zip(cast[1:], ("query", "mixed"))]
        tape.drop(*unexpanded)
    pads = shape.value_head_dim not in (0, shape.head_dim) and kernels.attention.startswith("flash_attention")
    found = (_flash_padded if pads else _flash_core)(context, shape, *cast)
    tape.drop(*cast)
    return found


def _flash_padded(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    """Values that are narrower than queries are padded, and so is the result before it is cut (transformers 5.23
    integrations/flash_attention.py:72-108; 4.57 in each model)."""
    tape = context.tape
    padded = ops.copy(tape, value, "query")
    wide = _flash_core(context, shape, query, key, padded, "query")
    cut = ops.slice_of(tape, wide, "mixed")
    found = ops.copy(tape, cut)
    tape.drop(padded, wide, cut)
    return found


def _flash_core(
    context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value, extent: str = "mixed"
) -> Value:
    tape, kernels = context.tape, context.kernels
    found = tape.new(extent, query.width)
    logsumexp = tape.new("head_rows", FP32_BYTES)
    temporaries: tuple[tuple[str, int], ...] = ()
    if kernels.kernel_memory:
        # fp32 accumulator of dQ, row sums, dK and dV over all query heads (flash_attn 2 csrc/flash_api.cpp, mha_bwd)
        temporaries = ((KERNEL_MEMORY + "query", FP32_BYTES), (KERNEL_MEMORY + "head_rows", FP32_BYTES))
        if shape.kv_heads != shape.heads:
            temporaries += ((KERNEL_MEMORY + "query", query.width), (KERNEL_MEMORY + "mixed", query.width))
    saved = [query, key, value, found, logsumexp]
    inputs = [query, key, value]
    if context.family.attention.position_bias:
        saved.append(_additive_mask(context, shape, query))
        inputs += saved[5:]
    if kernels.bias and kernels.kernel_memory:  # torch 2.13 aten/src/ATen/native/transformers/attention.cpp, attn_bias
        saved.append(tape.new("bias", query.width))
    tape.node((found,), tuple(inputs), saved, temporaries)
    tape.drop(logsumexp, *saved[5:])
    return found


def _additive_mask(context: LayerContext, shape: TokenMixer, query: Value) -> Value:
    """`where(mask, position_bias, lowest)` for each sequence, as a kernel reads it: in the dtype of the queries
    (transformers 5.23 integrations/sdpa_attention.py, create_position_bias_mask)."""
    tape, bias = context.tape, _position_bias(context, shape, query)
    mask = tape.new(context.pairs, 1)
    masked = tape.new(context.scores, bias.width)
    tape.node((masked,), (bias,) if bias.requires_grad else (), (mask,), ((context.scores, bias.width),))
    found = ops.cast(tape, masked, query.width)
    tape.drop(mask, masked)
    context.until_output.append(bias)
    return found


def _eager(context: LayerContext, shape: TokenMixer, query: Value, key: Value, value: Value) -> Value:
    """`softmax(q k^T * scale + mask) v` op by op (transformers 5.23 models/llama/modeling_llama.py)."""
    tape = context.tape
    repeats_kv = shape.kv_heads != shape.heads
    keys = ops.copy(tape, key, "query") if repeats_kv else ops.hold(key)
    values = ops.copy(tape, value, "mixed") if repeats_kv else ops.hold(value)
    weights = _probabilities(context, shape, query, keys)
    product = ops.autocast_matmul(tape, weights, values, "mixed", context.kernels.autocast_width)
    if context.family.attention.scales_by_sinks:
        product = ops.replace(tape, product, ops.multiply_by_row(tape, product, context.held[-1], product.width))
    found = ops.copy(tape, product)
    tape.drop(product, weights, keys, values)
    return found


def _probabilities(context: LayerContext, shape: TokenMixer, query: Value, keys: Value) -> Value:
    tape, traits = context.tape, context.family.attention
    if traits.adds_to_zeros:
        context.held.append(tape.new(context.scores, query.width))
    product = ops.autocast_matmul(tape, query, keys, context.scores, context.kernels.autocast_width)
    scores = ops.scale(tape, product)
    tape.drop(product)
    if shape.softcap:
        scores = _softcap(tape, scores)
    if traits.position_bias:
        scores = ops.replace(tape, scores, _biased(context, shape, query, scores))
    if (
        context.kernels.mask
    ):  # `scores + mask`, out of place; the mask has the dtype of the embeddings (masking_utils.py)
        masked = ops.add(tape, scores, Value.external(context.scores, context.mask_width))
        tape.drop(scores)
        scores = masked
    if traits.clamps_scores:
        scores = ops.replace(tape, scores, _clamped(tape, scores))
    if traits.concatenates_sinks:
        return _with_sinks(tape, context, scores)
    if traits.scales_by_sinks:
        context.held.append(_sink_scale(context, scores))
    result = _softmax(context, scores)
    if traits.holds_scores:
        context.until_output.append(ops.hold(scores))
    found = ops.cast(tape, result, result.width if traits.keeps_weights_dtype else query.width)
    tape.drop(scores, result)  # `weights = softmax(weights).to(...)` holds its input until the cast is done
    if shape.dropout:
        after_dropout = ops.dropout(tape, found)
        tape.drop(found)
        found = after_dropout
    if traits.keeps_weights_dtype and not traits.drops_weights:
        context.held.append(ops.hold(found))
    if traits.returns_weights or context.kernels.returns_weights:
        context.returned_weights.append(ops.hold(found))
    return found


def _clamped(tape: Tape, scores: Value) -> Value:
    """`max(scores, lowest)`: its derivative compares both (transformers 5.23 models/xglm/modeling_xglm.py)."""
    found = tape.new(scores.extent, scores.width)
    tape.node((found,), (scores,), (scores,), ((scores.extent, 1),))
    return found


def _biased(context: LayerContext, shape: TokenMixer, query: Value, scores: Value) -> Value:
    """`scores + position_bias`, which all sequences share: its gradient is summed over them (transformers 5.23
    models/t5/modeling_t5.py). In cross attention it is zero, in the dtype of the queries."""
    tape, bias = context.tape, _position_bias(context, shape, query)
    found = tape.new(scores.extent, max(scores.width, bias.width))
    if tape.leaves and not context.family.attention.own_position_bias:
        # an input of the recomputed layer, which sums its gradients until the layer is done
        gradient = (ParameterGradient(bias.extent, bias.width, bias.width),)
        tape.node((found,), (scores,), weights=gradient, aliases=True)
    else:
        temporaries = ((bias.extent, bias.width),) if bias.requires_grad else ()
        tape.node((found,), (scores,), temporaries=temporaries, aliases=True)
    context.until_output.append(bias)
    return found


def _position_bias(context: LayerContext, shape: TokenMixer, query: Value) -> Value:
    """The bias that layers share, or one that this layer makes: of zeros in cross attention, else by distance."""
    tape, between = context.tape, context.bias == "cross_bias"
    width = query.width if between else context.cos.width
    trains = context.linears["query"].weight.trainable and not between
    if context.family.attention.own_position_bias and between:
        return tape.new(context.bias, width)
    if context.family.attention.own_position_bias:
        tape.spike(*_BUCKETS)
        return _looked_up(tape, tape.new(context.bias, width, trains))
    if shape.relative_rows and tape.leaves:  # the first layer, recomputed: its bias is that of all layers
        tape.spike(*_BUCKETS)
        _looked_up(tape, Value(Storage(0), context.bias, width, trains))
    return Value(Storage(0), context.bias, width, trains or bool(tape.leaves))


def _looked_up(tape: Tape, bias: Value) -> Value:
    """`bias` as the embedding of the distance of each pair of tokens, which saves its indices (transformers 5.23
    models/umt5/modeling_umt5.py, UMT5Attention.compute_bias and _relative_position_bucket)."""
    distances = tape.new("distances", INT64_BYTES)
    if bias.requires_grad:
        gradient = (ParameterGradient("w:position", bias.width, bias.width),)
        tape.node((bias,), (), (distances,), weights=gradient)
    tape.drop(distances)
    return bias


# What lives while buckets of distances are computed: five tensors of int64 and the least of two of them, logarithms in
# fp32, and which distances are small.
_BUCKETS = (*(("distances", INT64_BYTES),) * 6, ("distances", FP32_BYTES), ("distances", 1))


def _sink_scale(context: LayerContext, scores: Value) -> Value:
    """`sigmoid(logsumexp(scores) - sink)` of each row, in fp32 under autocast: the logsumexp saves its input and result
    (transformers 5.23 models/granite_swa/modeling_granite_swa.py, eager_attention_forward)."""
    tape, autocasts = context.tape, context.kernels.autocast_width > 0
    operand = ops.cast(tape, scores, FP32_BYTES if autocasts else scores.width)
    rows = tape.new("head_rows", operand.width)
    tape.node((rows,), (operand,), (operand, rows), ((scores.extent, operand.width),))
    in_fp32 = ops.cast(tape, rows, FP32_BYTES)
    found = ops.unary_by_result(tape, in_fp32)
    tape.drop(operand, rows, in_fp32)
    return found


def _with_sinks(tape: Tape, context: LayerContext, scores: Value) -> Value:
    """`softmax(cat(scores, sinks) - max, dtype=scores.dtype)[..., :-1]` (models/gpt_oss/modeling_gpt_oss.py)."""
    with_sinks = ops.concat(tape, (scores,), "scores")
    shifted = ops.scale(tape, with_sinks)
    tape.drop(scores, with_sinks)
    probabilities = tape.new("scores", shifted.width)
    temporaries = ((KERNEL_MEMORY + "scores", shifted.width),) if context.kernels.kernel_memory else ()
    tape.node((probabilities,), (shifted,), (probabilities,), temporaries)
    tape.drop(shifted)
    found = ops.slice_of(tape, probabilities, "scores")
    tape.drop(probabilities)
    return found


def _softcap(tape: Tape, scores: Value) -> Value:
    """`tanh(scores / cap) * cap` (transformers 5.23 models/gemma2/modeling_gemma2.py)."""
    divided = ops.scale(tape, scores)
    tape.drop(scores)
    capped = ops.unary_by_result(tape, divided)
    tape.drop(divided)
    found = ops.scale(tape, capped)
    tape.drop(capped)
    return found


def _softmax(context: LayerContext, scores: Value) -> Value:
    """`softmax(scores, dtype=float32)` saves its result.

    bf16 scores are converted first; fp16 ones go in as they are (torch 2.13 aten/src/ATen/native/cuda/SoftMax.cu).
    Its CUDA backward allocates the product of gradient and result.
    """
    tape = context.tape
    keeps_dtype = context.kernels.softmax_keeps_dtype or context.family.attention.softmax_keeps_dtype
    without_upcast = keeps_dtype and not context.kernels.autocast_width
    reads_scores = without_upcast or (context.kernels.kernel_memory and not context.kernels.bfloat16)
    width = scores.width if without_upcast else FP32_BYTES
    softmax_input = ops.hold(scores) if reads_scores else ops.cast(tape, scores, width)
    found = tape.new(context.scores, width)
    temporaries = ((KERNEL_MEMORY + context.scores, width),) if context.kernels.kernel_memory else ()
    saved = (found, softmax_input) if context.kernels.softmax_keeps_input else (found,)
    tape.node((found,), (softmax_input,), saved, temporaries)
    tape.drop(softmax_input)
    return found
