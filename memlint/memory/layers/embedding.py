"""The segment before the first decoder layer."""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.autograd.ops as ops
from memlint._record import NamedTuple
from memlint.memory.autograd.profile import Profile, finish_profile
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value


class EmbeddingShape(NamedTuple):
    """What happens to the embedded tokens before the first layer."""

    scaled: bool = False
    positions: bool = False
    dropout: bool = False
    tied: bool = False  # the head's gradient is added to this one


@lru_cache(maxsize=64)
def embedding_profile(weight: Parameter, shape: EmbeddingShape, in_place: bool) -> Profile:
    """Look-up, scaling, learned positions, dropout. Its backward builds a dense gradient of the whole table."""
    tape = Tape(True, in_place=in_place)
    x = tape.new("hidden", weight.width, weight.trainable)
    gradients = (ParameterGradient(weight.extent, weight.width, weight.width),) if weight.trainable else ()
    summed = ((weight.extent, weight.width),) if shape.tied and not in_place else ()
    tape.node((x,), (), (), summed, weights=gradients)
    if shape.positions:
        x = ops.replace(tape, x, _with_positions(tape, x))
    if shape.scaled:
        x = ops.replace(tape, x, ops.scale(tape, x))
    if shape.dropout:
        x = ops.replace(tape, x, ops.dropout(tape, x))
    return finish_profile(tape, x)


def _with_positions(tape: Tape, x: Value) -> Value:
    positions = tape.new("positions", x.width)
    found = ops.add(tape, x, x)
    tape.drop(positions)
    return found
