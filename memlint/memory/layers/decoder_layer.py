"""A decoder layer: norms, token mixer, MLP, residuals."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.attention as attention
import memlint.memory.layers.norm as norm
from memlint.architectures.model import DecoderLayer, TokenMixer
from memlint.memory.autograd.tape import Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.mlp import mlp
from memlint.memory.parameter_roles import Roles


def layer(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """The layer's output; `x` is dropped by the caller."""
    if shape.parallel:
        return _parallel(context, shape, roles, x)
    if context.family.norm.after_blocks:
        return _norm_after(context, shape, roles, x)
    tape = context.tape
    if shape.norms == 1:
        return _single(context, shape, roles, x)
    normed = _norm(context, shape, roles, x)
    mixed = _mix(context, shape, roles, normed)
    tape.drop(normed)
    mixed = _scaled(context, roles, _post(context, shape, roles, mixed))
    middle = ops.add(tape, x, mixed)
    tape.drop(mixed)
    normed = _norm(context, shape, roles, middle)
    fed = _feed(context, shape, roles, normed)
    tape.drop(normed)
    if shape.mlp.parallel_experts:
        fed = _with_experts(context, shape, roles, middle, fed)
    fed = _scaled(context, roles, _post(context, shape, roles, fed))
    found = ops.add(tape, middle, fed)
    tape.drop(middle, fed)
    return found


def _scaled(context: LayerContext, roles: Roles, x: Value) -> Value:
    """`lambda * x` with a vector (transformers 5.23 models/internvl/modeling_internvl.py:326, InternVLVisionLayer)."""
    if roles.scale is None:
        return x
    found = ops.scale_by_weight(context.tape, roles.scale, x)
    context.tape.drop(x)
    return found


def _single(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """A mixer or an MLP alone (Nemotron-H, Mamba 2)."""
    tape = context.tape
    normed = _norm(context, shape, roles, x)
    run = _feed if shape.attention.kind == "none" else _mix
    mixed = run(context, shape, roles, normed)
    tape.drop(normed)
    found = ops.add(tape, x, mixed)
    tape.drop(mixed)
    return found


def _with_experts(context: LayerContext, shape: DecoderLayer, roles: Roles, middle: Value, fed: Value) -> Value:
    """The MLP's output and the experts', which read the residual stream, each normed (Gemma4TextDecoderLayer)."""
    from memlint.memory.layers.moe import mixture

    tape = context.tape
    dense = _post(context, shape, roles, fed)
    given = _norm(context, shape, roles, middle)
    routed = _router_input(context, roles, middle)
    mixed = mixture(context, shape.mlp, roles, given, routed)
    tape.drop(given, routed)
    mixed = _post(context, shape, roles, mixed)
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
    mixed = _mix(context, shape, roles, x)
    normed = _norm(context, shape, roles, mixed)
    tape.drop(mixed)
    middle = ops.add(tape, x, normed)
    tape.drop(normed)
    fed = _feed(context, shape, roles, middle)
    normed = _norm(context, shape, roles, fed)
    tape.drop(fed)
    found = ops.add(tape, middle, normed)
    tape.drop(middle, normed)
    return found


def _parallel(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """Attention and MLP read the block's input (NeoX: each with its norm; Phi, Falcon: one norm)."""
    tape = context.tape
    normed = _norm(context, shape, roles, x)
    mixed = _mix(context, shape, roles, normed)
    if shape.norms > 1:
        tape.drop(normed)
        normed = _norm(context, shape, roles, x)
    fed = _feed(context, shape, roles, normed)
    tape.drop(normed)
    both = ops.add(tape, fed, mixed)
    tape.drop(fed, mixed)
    found = ops.add(tape, both, x)
    tape.drop(both)
    return found


def _norm(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    if context.family.norm.centred:
        return norm.centred(context.tape, x, roles.norm, "rows")
    if shape.norm == "layer_no_affine":
        return norm.layer_no_affine(context.tape, x, "rows", context.kernels.autocast_width)
    if shape.norm.startswith("layer"):
        return norm.layer(context.tape, x, roles.norm, "rows", context.kernels.autocast_width)
    if context.kernels.liger:
        return norm.liger_rms(context.tape, x, roles.norm, "rows", context.kernels.norms_in_place)
    return norm.rms(context.tape, x, roles.norm, "rows", _scales_in_fp32(context, shape))


def _scales_in_fp32(context: LayerContext, shape: DecoderLayer) -> bool:
    return shape.norm == "rms_gemma" or context.family.norm.scales_in_fp32


def _post(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    """The norm after a block (Gemma 2 and 3)."""
    if shape.norms < 4:
        return x
    normed = _norm(context, shape, roles, x)
    context.tape.drop(x)
    return normed


def _mix(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    if shape.attention.kind == "mla":
        from memlint.memory.layers.latent_attention import latent

        return latent(context, shape.attention, x, roles.norm)
    if shape.attention.kind == "gated_delta":
        from memlint.memory.layers.gated_delta import delta_net

        return delta_net(context, shape.attention, x, roles.convolution, roles.norm)
    if shape.attention.kind == "mamba2":
        from memlint.memory.layers.mamba2 import mamba2

        return mamba2(context, shape.attention, x, roles.convolution, roles.norm)
    if shape.parallel_ssm is not None:
        return _side_by_side(context, shape, shape.parallel_ssm, roles, x)
    if shape.attention.kind == "conv":
        from memlint.memory.layers.short_conv import short_conv

        return short_conv(context, x, roles.convolution)
    return _attend(context, shape, roles, x)


def _side_by_side(context: LayerContext, shape: DecoderLayer, scan: TokenMixer, roles: Roles, x: Value) -> Value:
    """A scan and attention on the same input, each times a number (transformers 5.23
    models/falcon_h1/modeling_falcon_h1.py:911-931, FalconH1DecoderLayer.forward)."""
    from memlint.memory.layers.mamba2 import mamba2

    tape = context.tape
    scanned = mamba2(context, scan, x, roles.convolution, roles.norm)
    first = ops.scale(tape, scanned)
    given = ops.scale(tape, x)
    tape.drop(scanned)
    mixed = _attend(context, shape, roles, given)
    tape.drop(given)
    second = ops.scale(tape, mixed)
    tape.drop(mixed)
    found = ops.add(tape, first, second)
    tape.drop(first, second)
    return found


def _attend(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    context.inner_norm = roles.norm
    scales = _scales_in_fp32(context, shape)
    mixed = attention.attention(context, shape.attention, x, roles.head_norm, scales)
    return _residual_dropout(context, shape, mixed)


def _feed(context: LayerContext, shape: DecoderLayer, roles: Roles, x: Value) -> Value:
    if shape.mlp.parallel_experts:
        return mlp(context, shape.mlp._replace(kind="gated"), x)
    if shape.mlp.kind == "moe":
        from memlint.memory.layers.moe import mixture

        return mixture(context, shape.mlp, roles, x)
    shared = "shared_" if shape.mlp.shared_intermediate_size else ""  # Granite's hybrid without experts
    return _residual_dropout(context, shape, mlp(context, shape.mlp, x, shared))


def _residual_dropout(context: LayerContext, shape: DecoderLayer, x: Value) -> Value:
    """Residual dropout, on what attention and MLP add alike (GPT-2, OPT, Phi, StarCoder 2, Seed-OSS, ...)."""
    if not shape.mlp.dropout:
        return x
    found = ops.dropout(context.tape, x)
    context.tape.drop(x)
    return found
