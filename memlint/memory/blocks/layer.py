"""A decoder layer: norms, token mixer, MLP, residuals."""

from __future__ import annotations

import memlint.memory.blocks.attention as attention
import memlint.memory.blocks.norm as norm
import memlint.memory.ops as ops
from memlint.architectures.model import Layer
from memlint.memory.blocks.latent import latent
from memlint.memory.blocks.mlp import mlp
from memlint.memory.blocks.moe import mixture
from memlint.memory.blocks.regime import Context
from memlint.memory.roles import Roles
from memlint.memory.tape import Value


def layer(context: Context, shape: Layer, roles: Roles, x: Value) -> Value:
    """The layer's output; `x` is dropped by the caller."""
    if shape.parallel:
        return _parallel(context, shape, roles, x)
    if shape.class_name.startswith(_NORM_AFTER):
        return _norm_after(context, shape, roles, x)
    tape = context.tape
    normed = _norm(context, shape, roles, x)
    mixed = _mix(context, shape, roles, normed)
    tape.drop(normed)
    mixed = _post(context, shape, roles, mixed)
    middle = ops.add(tape, x, mixed)
    tape.drop(mixed)
    normed = _norm(context, shape, roles, middle)
    fed = _feed(context, shape, roles, normed)
    tape.drop(normed)
    fed = _post(context, shape, roles, fed)
    found = ops.add(tape, middle, fed)
    tape.drop(middle, fed)
    return found


# Blocks whose two norms stand behind attention and MLP (transformers 5.23 models/{olmo2,olmo3,exaone4,flex_olmo}).
_NORM_AFTER = ("Olmo2", "Olmo3", "Exaone4", "FlexOlmo")


def _norm_after(context: Context, shape: Layer, roles: Roles, x: Value) -> Value:
    """`x + norm(attention(x))`, then the same with the MLP."""
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


def _parallel(context: Context, shape: Layer, roles: Roles, x: Value) -> Value:
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


def _norm(context: Context, shape: Layer, roles: Roles, x: Value) -> Value:
    if shape.class_name.startswith("Cohere"):
        return norm.centred(context.tape, x, roles.norm, "rows")
    if shape.norm == "layer_no_affine":
        return norm.layer_no_affine(context.tape, x, "rows", context.regime.half)
    if shape.norm.startswith("layer"):
        return norm.layer(context.tape, x, roles.norm, "rows", context.regime.half)
    if context.regime.liger:
        return norm.liger_rms(context.tape, x, roles.norm, "rows", context.regime.norms_in_place)
    return norm.rms(context.tape, x, roles.norm, "rows", shape.norm == "rms_gemma" or _scales_in_single(shape))


def _scales_in_single(shape: Layer) -> bool:
    """OLMo 2 and 3 multiply by the weight before they cast back (models/olmo2/modeling_olmo2.py, Olmo2RMSNorm)."""
    return shape.class_name.startswith(("Olmo2", "Olmo3", "FlexOlmo"))


def _post(context: Context, shape: Layer, roles: Roles, x: Value) -> Value:
    """The norm after a block (Gemma 2 and 3)."""
    if shape.norms < 4:
        return x
    normed = _norm(context, shape, roles, x)
    context.tape.drop(x)
    return normed


def _mix(context: Context, shape: Layer, roles: Roles, x: Value) -> Value:
    if shape.attention.kind == "mla":
        return latent(context, shape.attention, x, roles.norm)
    return attention.attention(context, shape.attention, x, roles.head_norm, shape.class_name.startswith("Cohere"))


def _feed(context: Context, shape: Layer, roles: Roles, x: Value) -> Value:
    if shape.mlp.kind == "moe":
        return mixture(context, shape.mlp, roles, x)
    return mlp(context, shape.mlp, x)
