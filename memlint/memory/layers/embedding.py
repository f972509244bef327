"""The segment before the first decoder layer."""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint._record import NamedTuple
from memlint.memory.autograd.profile import Profile, finish_profile
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value


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
) -> Profile:
    """`looked_up`, and what some models do to it before their first layer."""
    tape = Tape(True, in_place=in_place)
    x = looked_up(tape, weight, shape, autocast_width)
    if shape.projected and projection is not None:
        x = ops.replace(tape, x, ops.linear(tape, x, projection, "hidden", autocast_width))
    if shape.own_embeddings:
        _own_embeddings(
            tape, x, weight, projection or Parameter("w:per_layer_model_projection", x.width), autocast_width
        )
    if shape.streams > 1:
        x = ops.replace(tape, x, _streams(tape, x, shape.streams, projection or weight, autocast_width))
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


def _streams(tape: Tape, x: Value, streams: int, weight: Parameter, autocast_width: int) -> Value:
    """The embedding and its projections with the same magnitude, stacked (transformers 5.23
    models/gemma3n/modeling_gemma3n.py:1655, Gemma3nTextModel.forward)."""
    projection = Parameter("w:altup_projection", weight.width, weight.trainable)
    stacked = [tape.view(x)]
    for _ in range(streams - 1):
        projected = ops.linear(tape, x, projection, "hidden", autocast_width)
        in_dtype = ops.cast(tape, projected, x.width)
        tape.drop(projected)
        square = ops.unary(tape, in_dtype, 1)
        tape.drop(square)
        scaled = tape.new("hidden", x.width)
        tape.node((scaled,), (in_dtype,), (in_dtype,), (("hidden", x.width),))
        found = tape.new("hidden", x.width)
        tape.node((found,), (scaled,), (scaled,), (("hidden", x.width),))
        tape.drop(in_dtype, scaled)
        stacked.append(found)
    whole = ops.concat(tape, tuple(stacked), "streams")
    tape.drop(*stacked)
    return whole


def _own_embeddings(tape: Tape, x: Value, weight: Parameter, projection: Parameter, autocast_width: int) -> None:
    """Every layer's own embedding of each token, which stays until the last layer's backward: a look-up in a second
    table plus a projection of the first embedding, normed (transformers 5.23 models/gemma4/modeling_gemma4.py,
    Gemma4TextModel.project_per_layer_inputs)."""
    looked_up = tape.new("per_layer", x.width, weight.trainable)
    scaled = ops.scale(tape, looked_up)
    tape.drop(looked_up)
    projected = ops.linear(tape, x, projection, "per_layer", autocast_width)
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
