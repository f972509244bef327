"""The segment before the first decoder layer."""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint._record import NamedTuple
from memlint.memory.autograd.profile import Profile, finish_profile
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.layers.projection import project
from memlint.memory.state.parameter_roles import Linear


class EmbeddingShape(NamedTuple):
    """What happens to the embedded tokens before the first layer."""

    scaled: bool = False
    positions: bool = False
    types: bool = False  # as `Architecture.typed_embeddings`
    norm: str = ""  # layer or rms
    dropout: bool = False
    projected: bool = False  # to the residual stream's width, after the dropout (ELECTRA)
    tied: bool = False  # the head's gradient is added to this one
    own_embeddings: bool = False  # a second table gives each layer an embedding of its own
    streams: int = 1  # residual streams, of which the others are projections of the first one (Gemma 3n)
    leaf: bool = False  # a hook makes the frozen embedding's output require a gradient: the graph holds this leaf


@lru_cache(maxsize=64)
def embedding_profile(
    weight: Parameter,
    shape: EmbeddingShape,
    in_place: bool,
    projection: Parameter | None = None,
    autocast_width: int = 0,
    linears: tuple[tuple[str, Linear], ...] = (),
) -> Profile:
    """`looked_up`, and what some models do to it before their first layer."""
    tape = Tape(True, in_place=in_place)
    x = looked_up(tape, weight, shape, autocast_width)
    if shape.projected and projection is not None:
        x = ops.replace(tape, x, ops.linear(tape, x, projection, "hidden", autocast_width))
    rope = Value.external("rope", weight.width)
    context = LayerContext(tape, KernelConfig(autocast_width=autocast_width), dict(linears), rope, rope)
    if shape.own_embeddings:
        _own_embeddings(context, x, weight)
    if shape.streams > 1:
        x = ops.replace(tape, x, _streams(context, x, shape.streams))
    return finish_profile(tape, x)


def looked_up(tape: Tape, weight: Parameter, shape: EmbeddingShape, autocast_width: int) -> Value:
    """Look-up, types, positions, scaling, norm, dropout. Its backward builds a dense gradient of the whole table."""
    extent = "embedded" if shape.projected else "hidden"
    x = tape.new(extent, weight.width, weight.trainable or shape.leaf)
    if shape.leaf:
        x.storage.references += 1
    gradients = (ParameterGradient(weight.extent, weight.width, weight.width),) if weight.trainable else ()
    summed = ((weight.extent, weight.width),) if shape.tied and not tape.in_place else ()
    tape.node((x,), (), (), summed, weights=gradients)
    if shape.types:
        x = ops.replace(tape, x, _plus(tape, x, extent))
    if shape.positions:
        x = ops.replace(tape, x, _plus(tape, x, "positions"))
    if shape.scaled:
        x = ops.replace(tape, x, ops.scale(tape, x))
    if shape.norm == "layer":
        x = ops.replace(tape, x, norm.layer(tape, x, None, "rows", autocast_width))
    elif shape.norm:
        x = ops.replace(tape, x, norm.rms(tape, x, None, "rows"))
    if shape.dropout:
        x = ops.replace(tape, x, ops.dropout(tape, x))
    return x


def _streams(context: LayerContext, x: Value, streams: int) -> Value:
    """The embedding and its projections with the same magnitude, stacked (transformers 5.23
    models/gemma3n/modeling_gemma3n.py, Gemma3nTextModel.forward)."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    target = magnitude(tape, x, autocast_width)
    stacked = [tape.view(x)]
    for index in range(streams - 1):
        projected = project(context, str(index), x, "hidden")
        stacked.append(brought_to_magnitude(tape, projected, target, x.width, autocast_width))
        tape.drop(projected)
    whole = ops.concat(tape, (stacked[-1], *stacked[:-1]), "streams")
    tape.drop(target, *stacked)
    return whole


def magnitude(tape: Tape, x: Value, autocast_width: int) -> Value:
    """`mean(x ** 2) ** 0.5` of each row. Autocast computes powers in fp32 (torch 2.13 autocast_mode.h)."""
    operand = ops.cast(tape, x, ops.FP32_BYTES if autocast_width else x.width)
    square = ops.unary(tape, operand, 1)
    mean = tape.new("rows", operand.width)
    tape.node((mean,), (square,))
    tape.drop(operand, square)
    found = ops.unary(tape, mean)
    tape.drop(mean)
    return found


def brought_to_magnitude(tape: Tape, projected: Value, target: Value, width: int, autocast_width: int) -> Value:
    """`x * target / magnitude(x)` where x is `projected` with `width` bytes an element."""
    x = ops.cast(tape, projected, width)
    own = magnitude(tape, x, autocast_width)
    scaled = ops.multiply_by_row(tape, x, target, max(x.width, target.width))
    found = ops.multiply_by_row(tape, scaled, own, scaled.width)
    tape.drop(x, own, scaled)
    return found


def _own_embeddings(context: LayerContext, x: Value, weight: Parameter) -> None:
    """Every layer's own embedding of each token, which stays until the last layer's backward: a look-up in a second
    table plus a projection of the first embedding, normed (transformers 5.23 models/gemma4/modeling_gemma4.py,
    Gemma4TextModel.project_per_layer_inputs)."""
    tape = context.tape
    looked_up = tape.new("per_layer", x.width, weight.trainable)
    scaled = ops.scale(tape, looked_up)
    tape.drop(looked_up)
    projected = project(context, "per_layer_model_projection", x, "per_layer")
    in_scale = ops.scale(tape, projected)
    normed = norm.rms(tape, in_scale, weight._replace(extent="own_norm"), "per_layer_rows", True)
    summed = ops.add(tape, normed, scaled)
    ops.scale(tape, summed)
    tape.drop(projected, in_scale, normed, scaled, summed)


def _plus(tape: Tape, x: Value, extent: str) -> Value:
    """`x` plus what another table gives: "hidden", a row for each token; "positions", one for each position."""
    other = tape.new(extent, x.width)
    found = ops.add(tape, x, x)
    tape.drop(other)
    return found
