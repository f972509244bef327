"""What one decoder layer holds through forward and backward, checkpointed or not."""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint.architectures.model import DecoderLayer
from memlint.memory.autograd.profile import LayerMode, Profile, finish_profile
from memlint.memory.autograd.tape import PeakCandidates, Tape, Value, tensor_size, with_one_less
from memlint.memory.layers.decoder_layer import layer as decoder_layer
from memlint.memory.layers.fused_adapter import mark_fused
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.state.parameter_roles import Roles


def record(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode) -> Profile:
    """The profile of one decoder layer, recorded now (`profiles.layer_profile` reads it where it is stored)."""
    if mode.checkpoint:
        return _checkpointed(shape, roles, kernels, mode)
    tape, x, y, returned = _forward(shape, roles, kernels, mode, grad=True)
    tape.drop(x, *returned)
    return finish_profile(tape, y)


Recording = tuple[Tape, Value, Value, tuple[Value, ...]]  # the input, the output, attention weights that are returned


def _forward(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode, grad: bool) -> Recording:
    tape = kernels.tape(grad)
    cos, sin = Value.external("rope", mode.width), Value.external("rope", mode.width)
    linears = mark_fused(dict(roles.linears), kernels, shape) | dict(roles.expert_linears)
    context = LayerContext(tape, kernels, linears, cos, sin, families.of_layer(shape.class_name), mode.stores_keys)
    x = tape.new(_input_extent(shape), mode.width, mode.input_needs_gradient)
    if grad and mode.checkpoint and mode.reentrant:
        tape.leaves.append(x)
    y = decoder_layer(context, shape, roles, x)
    return tape, x, y, tuple(context.returned_weights)


def _input_extent(shape: DecoderLayer) -> str:
    return "streams" if shape.streams > 1 else "hidden"


def _checkpointed(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode) -> Profile:
    """The forward runs without autograd and keeps the input. The backward runs the forward again."""
    forward = _forward_of_checkpointed(shape, roles, kernels, mode)
    return Profile(*forward, *_recomputation(shape, roles, kernels, mode))


def offloading(keeping: Profile, shape: DecoderLayer, width: int) -> Profile:
    """The profile of a checkpointed layer that offloads its input, from that of the same layer that keeps it: the input
    is gone when the forward has ended, and comes back for the backward. `width`: bytes of an element of it."""
    size = tensor_size(_input_extent(shape), width)
    return keeping._replace(
        live_in_forward=with_one_less(keeping.live_in_forward, size),
        live_until_backward=with_one_less(keeping.live_until_backward, size),
    )


def _forward_of_checkpointed(
    shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode
) -> tuple[PeakCandidates, PeakCandidates, PeakCandidates]:
    """The first three fields of the profile: the forward, and what is alive during and after it."""
    tape, _, y, returned = _forward(shape, roles, kernels, mode, grad=False)
    for value in returned:  # the previous layer's attention weights are alive until this layer ends
        tape.count_in_all(value.storage)
    forward = tape.take_peaks()
    tape.drop(*returned)
    live_in_forward = tape.live_now(minus=y)
    tape.end_autocast()
    return forward, live_in_forward, tape.live_now(minus=y)


def _recomputation(
    shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode
) -> tuple[PeakCandidates, PeakCandidates, int]:
    """The last three fields of the profile: the forward once more with its backward, what that leaves, the width."""
    tape, x, y, returned = _forward(shape, roles, kernels, mode._replace(input_needs_gradient=True), grad=True)
    if not mode.reentrant:
        tape.drop(y, *returned)
        tape.end_autocast()
        tape.stop_at_last_saved()
    incoming_gradient = tape.incoming_gradient(y)
    tape.end_autocast()
    zeros = [tape.new(value.extent, value.width) for value in returned if mode.reentrant]
    # CheckpointFunction.backward holds its arguments (torch 2.13 utils/checkpoint.py). Where the output is a sum, its
    # gradient is that of the residual stream, and the engine adds the next one out of place.
    incoming_gradient.references += mode.reentrant
    tape.backward(y, incoming_gradient, recomputed=not mode.reentrant)
    if mode.reentrant:  # unused outputs get zeros as gradients
        tape.release(incoming_gradient)
        tape.drop(y, *returned, *zeros)
    tape.drop(x)
    return tape.take_peaks(), tape.live_now(), y.width
