"""A decoder layer: norms, token mixer, MLP, residuals."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.attention as attention
import memlint.memory.layers.norm as norm
from memlint.architectures.model import DecoderLayer, TokenMixer
from memlint.memory.autograd.tape import Storage, Value
from memlint.memory.layers.activation_functions import activate
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.mlp import mlp
from memlint.memory.layers.projection import project
from memlint.memory.state.parameter_roles import Roles


def layer(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """The output of the layer. The caller drops its input `x`."""
    before = _weights_before(context)
    found = _computed(context, shape, roles, x)
    context.tape.drop(*context.held, *before)
    return found


def _weights_before(context: LayerContext) -> tuple[Value, ...]:
    """The attention weights that the layer before returned, where they live until this one returns. Without autocast
    the graph holds them anyway; a checkpoint holds what it returned."""
    tape = context.tape
    runs_once = tape.grad and not tape.leaves
    if context.family.attention.holds_weights_before and context.kernels.autocast_width and runs_once:
        return (tape.new(context.scores, ops.FP32_BYTES),)
    return ()


def _computed(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    if shape.parallel:
        return _parallel(context, shape, roles, x)
    if context.family.norm.after_blocks:
        return _norm_after(context, shape, roles, x)
    if context.family.norm.after_sums:
        return _norm_after_sums(context, shape, roles, x)
    tape = context.tape
    if shape.norms == 1:
        return _mixer_or_mlp(context, shape, roles, x)
    if shape.streams > 1:
        return _altup(context, shape, roles, x)
    first_normed = _norm(context, shape, roles, x) if shape.norms_input else ops.hold(x)
    mixed = _token_mixer(context, shape, roles, first_normed)
    traits = context.family.norm
    held = [ops.hold(first_normed)] if traits.holds_first_norm else []
    held += [ops.hold(mixed)] if traits.holds_attention else []
    tape.drop(first_normed)
    mixed = _layer_scale(context, roles, _post_norm(context, shape, roles, mixed))
    residual = _plus(context, x, mixed)
    tape.drop(mixed)
    if shape.cross_attention is not None:
        residual = _plus_cross_attention(context, shape, shape.cross_attention, roles, residual)
    normed = _norm(context, shape, roles, residual)
    held += [ops.hold(normed)] if traits.holds_second_norm else []
    if context.family.computes_mlp_itself:
        mlp_output = _mlp_dropout(context, shape, mlp(context, shape.mlp, normed, drops_input=True))
    else:
        mlp_output = _mlp_block(context, shape, roles, normed)
        tape.drop(normed)
    if shape.mlp.parallel_experts:
        mlp_output = _with_experts(context, shape, roles, residual, mlp_output)
    mlp_output = _layer_scale(context, roles, _post_norm(context, shape, roles, mlp_output))
    found = _plus(context, residual, mlp_output)
    tape.drop(residual, mlp_output, *held)
    if shape.per_layer_size:
        found = _with_own_embedding(context, shape, roles, found)
    return ops.scale_in_place(tape, found) if context.family.scales_output else found


def _plus(context: LayerContext, residual: Value, branch: Value) -> Value:
    """`residual + branch`, where the family asks for it `residual + branch * number`."""
    tape = context.tape
    if not context.family.scales_branches:
        return ops.add(tape, residual, branch)
    scaled = ops.scale(tape, branch)
    found = ops.add(tape, residual, scaled)
    tape.drop(scaled)
    return found


def _plus_cross_attention(
    context: LayerContext, shape: DecoderLayer, cross: TokenMixer, roles: Roles, x: Value
) -> Value:
    """`x` plus attention from its norm to the encoder's output. Drops `x`."""
    tape = context.tape
    normed = _norm(context, shape, roles, x)
    after = _cross_attention(context, shape, cross, normed)
    tape.drop(normed)
    summed = ops.add(tape, x, after)
    tape.drop(x, after)
    return summed


def _cross_attention(context: LayerContext, shape: DecoderLayer, cross: TokenMixer, x: Value) -> Value:
    """Attention from `x` to the encoder's output. The gradient of that is summed over the decoder's layers, outside of
    this one; a checkpointed layer sums its own share first. The variable that held the weights of the attention before
    holds its own afterwards (`hidden_states, _ = ...`)."""
    tape, held_before = context.tape, len(context.held)
    encoded = Value(Storage(0), "source", _encoded_width(context, shape, x), tape.grad)
    if tape.leaves:
        tape.leaves.append(encoded)
    else:
        encoded.gradient = Storage(0)
    query = project(context, "cross_query", x, "query")
    key = project(context, "cross_key", encoded, "cross_keys")
    value = project(context, "cross_value", encoded, "cross_values")
    own = context.scores, context.bias, context.pairs, context.mask_width
    context.scores, context.bias, context.pairs = "cross_scores", "cross_bias", "cross_pairs"
    context.mask_width = encoded.width
    mixed = attention.core(context, cross, query, key, value)
    context.scores, context.bias, context.pairs, context.mask_width = own
    tape.drop(query, key, value)
    found = project(context, "cross_output", mixed, "hidden")
    tape.drop(mixed)
    context.end_attention()
    after = _residual_dropout(context, shape, found)
    tape.drop(*context.held[:held_before])
    del context.held[:held_before]
    return after


def _encoded_width(context: LayerContext, shape: DecoderLayer, x: Value) -> int:
    """Bytes of an element of the encoder's output, which a LayerNorm makes fp32 under autocast."""
    if not context.kernels.autocast_width:
        return x.width
    return ops.FP32_BYTES if shape.norm == "layer" else context.cos.width


def _altup(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    from memlint.memory.layers.altup import altup_layer

    def norm_of(value: Value) -> Value:
        return _norm(context, shape, roles, value)

    def attend(normed: Value) -> Value:
        return _post_norm(context, shape, roles, _token_mixer(context, shape, roles, normed))

    def feed(residual: Value) -> Value:
        normed = _norm(context, shape, roles, residual)
        found = _mlp_block(context, shape, roles, normed)
        context.tape.drop(normed)
        return _post_norm(context, shape, roles, found)

    def own_embedding(value: Value) -> Value:
        return gated_own_embedding(context, shape, roles, value)

    return altup_layer(context, roles, norm_of, attend, feed, own_embedding, x)


def _with_own_embedding(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """`x + norm(projection(act(gate(x)) * embedding))` with the layer's own token embedding
    (transformers 5.23 models/gemma4/modeling_gemma4.py, Gemma4TextDecoderLayer.forward)."""
    tape = context.tape
    normed = gated_own_embedding(context, shape, roles, x)
    found = ops.add(tape, x, normed)
    tape.drop(x, normed)
    return found


def gated_own_embedding(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """The block that the layer's own embedding gates, normed. That embedding is a slice of one tensor of all layers:
    its gradient is padded to the whole and added to that of later layers."""
    tape = context.tape
    gate = project(context, "per_layer_input_gate", x, "own_embedding")
    active = activate(context, shape.mlp.activation, gate)
    tape.drop(gate)
    whole = Value(Storage(0), "own_embedding", x.width, tape.grad)
    embedding = Value(Storage(0), "own_embedding", x.width, tape.grad)
    tape.node((embedding,), (whole,), (), (("per_layer", x.width),))
    product = ops.multiply(tape, active, embedding)
    tape.drop(active)
    projected = project(context, "per_layer_projection", product, "hidden")
    tape.drop(product)
    normed = _norm(context, shape, roles, projected)
    tape.drop(projected)
    return normed


def _layer_scale(context: LayerContext, roles: Roles, x: Value) -> Value:
    """LayerScale: `lambda * x` with a vector (transformers 5.23 models/internvl/modeling_internvl.py:326)."""
    if roles.scale is None:
        return x
    found = ops.scale_by_weight(context.tape, roles.scale, x)
    context.tape.drop(x)
    return found


def _mixer_or_mlp(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """A layer with one block, a token mixer or an MLP (Nemotron-H, Mamba 2)."""
    tape = context.tape
    upcasts = context.family.fp32_residual
    norm_input = ops.cast(tape, x, roles.norm.width if upcasts and roles.norm else x.width)
    normed = _norm(context, shape, roles, norm_input)
    tape.drop(norm_input)
    residual = ops.cast(tape, x, ops.FP32_BYTES if upcasts else x.width)
    block = _mlp_block if shape.attention.kind == "none" else _token_mixer
    mixed = block(context, shape, roles, normed)
    tape.drop(normed)
    found = ops.add(tape, residual, mixed)
    tape.drop(residual, mixed)
    return found


def _with_experts(
    context: LayerContext, shape: DecoderLayer, roles: Roles, residual: Value, mlp_output: Value
) -> Value:
    """The MLP's output plus that of experts that read the residual stream, both normed (Gemma4TextDecoderLayer)."""
    from memlint.memory.layers.moe import mixture

    tape = context.tape
    dense = _post_norm(context, shape, roles, mlp_output)
    expert_input = _norm(context, shape, roles, residual)
    router_input = _router_input(context, roles, residual)
    mixed = mixture(context, shape.mlp, roles, expert_input, router_input)
    tape.drop(expert_input, router_input)
    mixed = _post_norm(context, shape, roles, mixed)
    found = ops.add(tape, dense, mixed)
    tape.drop(dense, mixed)
    return found


def _router_input(context: LayerContext, roles: Roles, x: Value) -> Value:
    """`norm(x) * scale * size ** -0.5`; the norm has no weight, the scale is a parameter (Gemma4TextRouter)."""
    tape = context.tape
    normed = norm.rms(tape, x, None, "rows")
    scaled = tape.new(normed.extent, normed.width)
    trains = roles.router is not None and roles.router.trainable
    tape.node((scaled,), (normed,), (normed,) if trains else ())
    found = ops.scale(tape, scaled)
    tape.drop(normed, scaled)
    return found


def _norm_after(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """`x + norm(attention(x))`, then the same with the MLP (transformers 5.23
    models/{olmo2,olmo3,exaone4,flex_olmo})."""
    tape = context.tape
    mixed = _token_mixer(context, shape, roles, x)
    normed = _norm(context, shape, roles, mixed)
    tape.drop(mixed)
    residual = ops.add(tape, x, normed)
    tape.drop(normed)
    mlp_output = _mlp_block(context, shape, roles, residual)
    normed = _norm(context, shape, roles, mlp_output)
    tape.drop(mlp_output)
    found = ops.add(tape, residual, normed)
    tape.drop(residual, normed)
    return found


def _norm_after_sums(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """`norm(attention(x) + x)`, then the same with the MLP (transformers 5.23 models/bert/modeling_bert.py)."""
    mixed = _token_mixer(context, shape, roles, x)
    held = (ops.hold(mixed),) if context.family.norm.holds_attention else ()
    residual = _normed_sum(context, shape, roles, mixed, x)
    if shape.cross_attention is not None:
        mixed = _cross_attention(context, shape, shape.cross_attention, residual)
        summed = _normed_sum(context, shape, roles, mixed, residual)
        context.tape.drop(residual)
        residual = summed
    found = _normed_sum(context, shape, roles, _mlp_block(context, shape, roles, residual), residual)
    context.tape.drop(residual, *held)
    return found


def _normed_sum(context: LayerContext, shape: DecoderLayer, roles: Roles, block: Value, x: Value) -> Value:
    """`norm(block + x)`. Drops `block`."""
    tape = context.tape
    summed = ops.add(tape, block, x)
    found = _norm(context, shape, roles, summed)
    tape.drop(summed, block)
    return found


def _parallel(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """Attention and MLP both read the layer's input (NeoX: each has its norm; Phi, Falcon: they share one)."""
    tape = context.tape
    normed = _norm(context, shape, roles, x)
    mixed = _token_mixer(context, shape, roles, normed)
    if shape.norms > 1:
        tape.drop(normed)
        normed = _norm(context, shape, roles, x)
    mlp_output = _mlp_block(context, shape, roles, normed)
    tape.drop(normed)
    block_output = ops.add(tape, mlp_output, mixed)
    tape.drop(mlp_output, mixed)
    found = ops.add(tape, block_output, x)
    tape.drop(block_output)
    return found


def _norm(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    if context.family.norm.centred:
        return norm.centred(context.tape, x, roles.norm, "rows")
    if shape.norm == "layer_no_affine":
        return norm.layer_no_affine(context.tape, x, "rows", context.kernels.autocast_width)
    if shape.norm.startswith("layer"):
        width, in_dtype = context.kernels.autocast_width, context.family.norm.in_autocast_dtype
        return norm.layer(context.tape, x, roles.norm, "rows", width, in_dtype)
    if context.kernels.liger:
        return norm.liger_rms(context.tape, x, roles.norm, "rows", context.kernels.norms_in_place)
    of_input = context.family.norm.multiplies_input
    return norm.rms(context.tape, x, roles.norm, "rows", _scales_in_fp32(context, shape), of_input)


def _scales_in_fp32(context: LayerContext, shape: DecoderLayer) -> bool:
    return shape.norm == "rms_gemma" or context.family.norm.scales_in_fp32


def _post_norm(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """The norm after a block (Gemma 2 and 3)."""
    if shape.norms < 4:
        return x
    normed = _norm(context, shape, roles, x)
    context.tape.drop(x)
    return normed


def _token_mixer(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    if shape.attention.kind == "mla":
        from memlint.memory.layers.latent_attention import latent

        return latent(context, shape.attention, x, roles.norm)
    if shape.attention.position_terms:
        from memlint.memory.layers.disentangled_attention import disentangled

        return _residual_dropout(context, shape, disentangled(context, shape.attention, x))
    if shape.attention.kind == "gated_delta":
        from memlint.memory.layers.gated_delta import delta_net

        return delta_net(context, shape.attention, x, roles.convolution, roles.norm)
    if shape.attention.kind == "mamba2":
        from memlint.memory.layers.mamba2 import mamba2

        return mamba2(context, shape.attention, x, roles.convolution, roles.norm)
    if shape.parallel_ssm is not None:
        return _with_parallel_ssm(context, shape, shape.parallel_ssm, roles, x)
    if shape.attention.kind == "conv":
        from memlint.memory.layers.short_conv import short_conv

        return short_conv(context, x, roles.convolution)
    return _attention_block(context, shape, roles, x)


def _with_parallel_ssm(context: LayerContext, shape: DecoderLayer, ssm: TokenMixer, roles: Roles, x: Value) -> Value:
    """A state-space scan and attention on the same input, each output times a number (transformers 5.23
    models/falcon_h1/modeling_falcon_h1.py:911-931, FalconH1DecoderLayer.forward)."""
    from memlint.memory.layers.mamba2 import mamba2

    tape = context.tape
    ssm_output = mamba2(context, ssm, x, roles.convolution, roles.norm)
    scaled_ssm = ops.scale(tape, ssm_output)
    attention_input = ops.scale(tape, x)
    tape.drop(ssm_output)
    mixed = _attention_block(context, shape, roles, attention_input)
    tape.drop(attention_input)
    scaled_attention = ops.scale(tape, mixed)
    tape.drop(mixed)
    found = ops.add(tape, scaled_ssm, scaled_attention)
    tape.drop(scaled_ssm, scaled_attention)
    return found


def _attention_block(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    context.inner_norm = roles.norm
    scales = _scales_in_fp32(context, shape)
    mixed = attention.attention(context, shape.attention, x, roles.head_norm, scales)
    return mixed if context.family.attention.drops_no_output else _residual_dropout(context, shape, mixed)


def _mlp_block(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    if shape.mlp.parallel_experts:
        return mlp(context, shape.mlp._replace(kind="gated"), x)
    if shape.mlp.kind == "moe":
        from memlint.memory.layers.moe import mixture

        return mixture(context, shape.mlp, roles, x)
    shared = (
        "shared_" if shape.mlp.shared_intermediate_size else ""
    )  # Granite 4 hybrid without experts has the shared MLP alone
    found = mlp(context, shape.mlp, x, shared)
    return _mlp_dropout(context, shape, found)


def _mlp_dropout(context: LayerContext, shape: DecoderLayer, x: Value) -> Value:
    return x if context.family.drops_attention_alone else _residual_dropout(context, shape, x)


def _residual_dropout(context: LayerContext, shape: DecoderLayer, x: Value) -> Value:
    """Dropout on the output of attention and MLP (GPT-2, OPT, Phi, StarCoder 2, Seed-OSS, ...)."""
    if not shape.mlp.dropout:
        return x
    found = ops.dropout(context.tape, x)
    context.tape.drop(x)
    return found
