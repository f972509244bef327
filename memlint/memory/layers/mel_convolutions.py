"""Two convolutions over mel bins, in place of an embedding (transformers 5.23 models/whisper/modeling_whisper.py,
WhisperEncoder.forward)."""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.profile import Profile, finish_profile
from memlint.memory.autograd.tape import Parameter, Value
from memlint.memory.layers.kernel_config import KernelConfig


@lru_cache(maxsize=32)
def mel_profile(kernels: KernelConfig, first: Parameter, second: Parameter, hooked: bool, dropout: bool) -> Profile:
    """`gelu(conv2(gelu(conv1(features)))) + positions`. `hooked`: what the first convolution returns requires a
    gradient though nothing here trains."""
    tape = kernels.tape()
    features = Value.external("mel", ops.FP32_BYTES if kernels.autocast_width else first.width)
    frames = ops.linear(tape, features, first, "frames", kernels.autocast_width)
    frames.requires_grad = first.trainable or hooked
    active = ops.unary(tape, frames)
    tape.drop(frames)
    merged = ops.linear(tape, active, second, "hidden", kernels.autocast_width)
    tape.drop(active)
    x = ops.unary(tape, merged)
    tape.drop(merged)
    positions = Value.external("hidden", second.width)
    x = ops.replace(tape, x, ops.add(tape, x, positions))
    if dropout:
        x = ops.replace(tape, x, ops.dropout(tape, x))
    return finish_profile(tape, x)
