"""What one decoder layer holds through forward and backward, checkpointed or not."""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.families.lookup as families
from memlint._record import NamedTuple
from memlint.architectures.model import DecoderLayer
from memlint.memory.autograd.profile import LayerMode, Profile, finish_profile
from memlint.memory.autograd.tape import PeakCandidates, Tape, Value
from memlint.memory.layers.decoder_layer import layer as decoder_layer
from memlint.memory.layers.fused_adapter import with_fused
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.parameter_roles import Roles


@lru_cache(maxsize=512)
def layer_profile(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode) -> Profile:
    """One decoder layer's profile."""
    if mode.checkpoint:
        return _checkpointed(shape, roles, kernels, mode)
    tape, x, y, returned = _forward(shape, roles, kernels, mode, grad=True)
    tape.drop(x, *returned)
    return finish_profile(tape, y)


Recording = tuple[Tape, Value, Value, tuple[Value, ...]]  # the input, the output, what is returned beside it


def _forward(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode, grad: bool) -> Recording:
    tape = Tape(grad, in_place=kernels.kernel_memory)
    cos, sin = Value.external("rope", mode.width), Value.external("rope", mode.width)
    linears = with_fused(dict(roles.linears), kernels, shape)
    context = LayerContext(tape, kernels, linears, cos, sin, families.of_layer(shape.class_name))
    x = tape.new("hidden", mode.width, mode.input_needs_gradient)
    y = decoder_layer(context, shape, roles, x)
    return tape, x, y, tuple(context.returned_weights)


def _checkpointed(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode) -> Profile:
    """Forward without autograd that keeps the input or moves it; in backward the forward again, then its backward."""
    first, x, y, returned = _forward(shape, roles, kernels, mode, grad=False)
    if mode.offload:
        first.drop(x)
    for value in returned:  # what the layer before returned is alive until this one is done
        first.live_sets = {live + value.storage.increment for live in first.live_sets}
    forward = first.take_peaks()
    first.drop(*returned)
    live_in_forward = first.live_now(minus=y)
    first.end_autocast()
    live_until_backward = first.live_now(minus=y)
    again = _recomputed(shape, roles, kernels, mode._replace(input_needs_gradient=True, offload=False))
    return Profile(forward, live_in_forward, live_until_backward, again.backward, again.after, again.width)


class _Again(NamedTuple):
    backward: PeakCandidates
    after: PeakCandidates
    width: int


@lru_cache(maxsize=512)
def _recomputed(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode) -> _Again:
    """The backward's part, which is the same wherever the input waited."""
    again, x, y, returned = _forward(shape, roles, kernels, mode, grad=True)
    incoming_gradient = again.incoming_gradient(y)
    again.end_autocast()
    zeros = [again.new(value.extent, value.width) for value in returned if mode.reentrant]
    if not mode.reentrant:
        again.drop(y, *returned)
    again.backward(y, incoming_gradient)
    if mode.reentrant:  # gradients of zeros for what nobody read (torch 2.13 utils/checkpoint.py, CheckpointFunction)
        again.drop(y, *returned, *zeros)
    again.drop(x)
    return _Again(again.take_peaks(), again.live_now(), y.width)
