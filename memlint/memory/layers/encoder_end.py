"""Between an encoder and its decoder: norm and dropout of the encoder's output, and the decoder's own embedding."""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint._record import NamedTuple
from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.tape import Parameter, Storage, Tape, Value
from memlint.memory.layers.embedding import EmbeddingShape, looked_up
from memlint.memory.layers.kernel_config import KernelConfig


class EncoderEnd(NamedTuple):
    """`width`: bytes of an element of the last layer's output. `norm`: kind of the norm after it, or none."""

    width: int
    norm: str
    norm_weight: Parameter
    drops: bool = False
    kept: bool = True  # the decoder's layers save the output itself; else the model alone holds it until its loss


@lru_cache(maxsize=64)
def encoder_end_profile(kernels: KernelConfig, end: EncoderEnd, table: Parameter, shape: EmbeddingShape) -> Profile:
    """The profile of both; its output is the decoder's embedding. The gradient of the encoder's output is counted where
    the decoder's layers sum it."""
    tape = kernels.tape()
    x = tape.new("source", end.width, True)
    encoded = ops.replace(tape, x, _normed(tape, kernels, end, x))
    if end.drops:
        encoded = ops.replace(tape, encoded, ops.dropout(tape, encoded))
    embedded = looked_up(tape, table, shape, kernels.autocast_width)
    forward = tape.take_peaks()
    live_in_forward = tape.live_now(minus=embedded)
    tape.end_autocast()
    if not end.kept:
        tape.drop(encoded)
    live_until_backward = tape.live_now(minus=embedded)
    tape.drop(embedded)
    tape.take_peaks()
    encoded.gradient = Storage(0)
    tape.backward(embedded)
    if end.kept:
        tape.drop(encoded)
    return Profile(forward, live_in_forward, live_until_backward, tape.take_peaks(), tape.live_now(), embedded.width)


def _normed(tape: Tape, kernels: KernelConfig, end: EncoderEnd, x: Value) -> Value:
    if end.norm == "none":
        return ops.hold(x)
    if end.norm == "layer":
        return norm.layer(tape, x, end.norm_weight, "source_rows", kernels.autocast_width)
    return norm.rms(tape, x, end.norm_weight, "source_rows")
