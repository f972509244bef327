"""From the last layer of a vision tower to the embeddings of the language model.

Sources are the models' own files in transformers 5.23 (models/{llava,gemma4,glm4v,idefics3,internvl,gemma3,
mistral3,paligemma,qwen2_vl,qwen2_5_vl,qwen3_vl}/modeling_*.py, the projector or merger and the model's `forward`).
"""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint._record import NamedTuple
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.tape import KERNEL_MEMORY, Parameter, Tape, Value
from memlint.memory.families.traits import PatchPath
from memlint.memory.layers.activation_functions import activate
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.layers.projection import project
from memlint.memory.state.parameter_roles import Linear

Linears = tuple[tuple[str, Linear], ...]


class TowerExit(NamedTuple):
    """The operations after the layers of a tower. `deep`: mergers of features that the language model's first layers
    read as well (Qwen3-VL)."""

    path: PatchPath = PatchPath()
    width: int = 2  # bytes of one element of the tower's residual stream
    embeds: int = 2  # and of the language model's embeddings
    linears: Linears = ()
    norm: Parameter | None = None
    post_norm: bool = False
    last_norm: Parameter | None = None  # after the tower's layers (SigLIP)
    deep: tuple[tuple[Linears, Parameter | None], ...] = ()
    input_requires_grad: bool = True  # the tower's output needs a gradient
    embeds_require_grad: bool = True  # the embeddings of the language model need one
    embeds_are_leaf: bool = False  # they do not train, but were made to require a gradient: the graph holds them


@lru_cache(maxsize=64)
def exit_profile(shape: TowerExit, kernels: KernelConfig) -> Profile:
    """The profile of norms, merging and projection, until features replace the embeddings of image tokens.

    The model keeps its features until its forward ends (`mm_encoder_outputs` and `image_features` of
    LlavaModel.forward, models/llava/modeling_llava.py:241-273); the tokens' embeddings are alive meanwhile.
    """
    tape = kernels.tape()
    x = tape.new("hidden", shape.width, shape.input_requires_grad)
    deep = [_merged(tape, shape, kernels, x, *each) for each in shape.deep]
    last = _last_norm(tape, shape, kernels, x)
    tape.drop(x)
    features = _projected(tape, shape, kernels, last)
    kept_features = [features, *deep]
    features = _as_embeddings(tape, shape, features, kept_features)
    found = _in_place_of_tokens(tape, shape, kernels, features, deep)
    forward, live_in_forward = tape.take_peaks(), tape.live_now(minus=found)
    tape.end_autocast()
    tape.drop(*kept_features)
    live_until_backward = tape.live_now(minus=found)
    tape.drop(found)
    tape.take_peaks()
    tape.backward(found)
    return Profile(forward, live_in_forward, live_until_backward, tape.take_peaks(), tape.live_now())


def _last_norm(tape: Tape, shape: TowerExit, kernels: KernelConfig, x: Value) -> Value:
    if not shape.post_norm:
        return tape.view(x)
    if shape.path.last_kind == "rms":
        return norm.rms(tape, x, shape.last_norm, "rows")
    return norm.layer(tape, x, shape.last_norm, "rows", kernels.autocast_width)


def _normed(tape: Tape, kind: str, weight: Parameter | None, kernels: KernelConfig, x: Value) -> Value:
    if not kind:
        return x
    if kind == "layer":
        found = norm.layer(tape, x, weight, "rows", kernels.autocast_width)
    else:
        found = norm.rms(tape, x, weight, "rows", kind == "rms_gemma")
    tape.drop(x)
    return found


def _projected(tape: Tape, shape: TowerExit, kernels: KernelConfig, x: Value) -> Value:
    """Takes `x`."""
    path = shape.path
    if path.pools_by_position:
        x = _pooled_by_position(tape, kernels, x)
    if path.gated:
        return _gated(tape, shape, kernels, x)
    if path.norm_first:
        x = _normed(tape, path.norm_kind, shape.norm, kernels, x)
    for _ in range(path.shuffles):
        x = ops.replace(tape, x, ops.copy(tape, x, "patches"))
    if path.pooled:
        x = ops.replace(tape, x, _pooled(tape, x))
    if not path.norm_first:
        x = _normed(tape, path.norm_kind, shape.norm, kernels, x)
    x = _linears(tape, shape.linears, path, kernels, x)
    return ops.replace(tape, x, ops.scale(tape, x)) if path.reordered else x


def _pooled_by_position(tape: Tape, kernels: KernelConfig, x: Value) -> Value:
    """Padding is filled with zeros, a one-hot matrix gathers patches, the rest is fp32 (transformers 5.23
    models/gemma4/modeling_gemma4.py, Gemma4VisionPooler and Gemma4VisionModel.forward). Takes `x`."""
    width = x.width
    x = ops.replace(tape, x, ops.scale(tape, x))
    tape.spike(("assigned", 8), ("assigned", FP32_BYTES))
    tape.spike(("assigned", FP32_BYTES), ("assigned", FP32_BYTES))
    shares = tape.new("assigned", FP32_BYTES)
    in_fp32 = ops.cast(tape, x, FP32_BYTES)
    found = ops.autocast_matmul(tape, shares, in_fp32, "slots", kernels.autocast_width)
    tape.drop(in_fp32)
    tape.spike(("assigned", 1))
    found = ops.replace(tape, found, ops.cast(tape, found, width))
    tape.drop(shares, x)
    found = ops.replace(tape, found, ops.cast(tape, found, FP32_BYTES))
    found = ops.replace(tape, found, ops.scale(tape, found))
    without_padding = tape.new("pooled", FP32_BYTES)
    tape.node((without_padding,), (found,))
    tape.drop(found)
    for _ in range(2):  # standardised by buffers
        without_padding = ops.replace(tape, without_padding, ops.scale(tape, without_padding))
    return ops.replace(tape, without_padding, ops.cast(tape, without_padding, width))


def _gated(tape: Tape, shape: TowerExit, kernels: KernelConfig, x: Value) -> Value:
    """`downsample(x)`, `gelu(norm(proj(x)))`, then `down(silu(gate(x)) * up(x))` (transformers 5.23
    models/glm4v/modeling_glm4v.py, Glm4vVisionPatchMerger)."""
    no_rotary = Value.external("rope", FP32_BYTES)
    context = LayerContext(tape, kernels, dict(shape.linears), no_rotary, no_rotary)
    tape.node((), (x,), (x,))  # a convolution keeps its input whether or not its weight trains
    for name in ("downsample", "first"):
        x = ops.replace(tape, x, project(context, name, x, "out:" + name))
    x = _normed(tape, shape.path.norm_kind, shape.norm, kernels, x)
    x = ops.replace(tape, x, activate(context, "gelu", x))
    gate = project(context, "gate", x, "out:gate")
    active = ops.replace(tape, gate, activate(context, "silu", gate))
    up = project(context, "up", x, "out:up")
    product = ops.multiply(tape, active, up)
    tape.drop(active, up, x)
    return ops.replace(tape, product, project(context, "down", product, "out:down"))


def _pooled(tape: Tape, x: Value) -> Value:
    """`avg_pool2d`, which keeps its input (torch 2.13 tools/autograd/derivatives.yaml)."""
    found = tape.new("pooled", x.width)
    tape.node((found,), (x,), (x,))
    return found


def _linears(tape: Tape, linears: Linears, path: PatchPath, kernels: KernelConfig, x: Value) -> Value:
    no_rotary = Value.external("rope", FP32_BYTES)
    context = LayerContext(tape, kernels, dict(linears), no_rotary, no_rotary)
    for index, (name, _) in enumerate(linears):
        x = ops.replace(tape, x, project(context, name, x, "out:" + name))
        if path.linears_before_activation <= index < len(linears) - 1:
            x = ops.replace(tape, x, activate(context, path.activation, x))
    return x


def _merged(
    tape: Tape, shape: TowerExit, kernels: KernelConfig, x: Value, linears: Linears, weight: Parameter | None
) -> Value:
    """A merger of its own for the features of one layer (Qwen3VLVisionPatchMerger with `use_postshuffle_norm`)."""
    return _linears(tape, linears, shape.path, kernels, _normed(tape, "layer", weight, kernels, tape.view(x)))


def _as_embeddings(tape: Tape, shape: TowerExit, features: Value, kept_features: list[Value]) -> Value:
    """`cat(features).to(inputs_embeds.dtype)`: what was joined stays beside the result."""
    for _ in range(shape.path.feature_copies):
        features = ops.copy(tape, features, "embeds")
        kept_features.append(features)
    if features.width != shape.embeds:
        features = ops.cast(tape, features, shape.embeds)
        kept_features.append(features)
    return features


def _in_place_of_tokens(
    tape: Tape, shape: TowerExit, kernels: KernelConfig, features: Value, deep: list[Value]
) -> Value:
    """`inputs_embeds.masked_scatter(mask, features)`.

    Its CUDA kernel counts the mask's ones in int64 beside a contiguous mask; its backward selects by mask, which lists
    three int64 coordinates of every chosen element (torch 2.13 aten/src/ATen/native/cuda/IndexKernel.cpp,
    masked_scatter__cuda and masked_select_cuda; FunctionsManual.cpp, masked_scatter_backward). The gradients of
    features that later layers read (`deep`) stay alive until the tower's backward as well.
    """
    embeds = tape.new("embeds", shape.embeds, shape.embeds_require_grad)
    found = tape.new("embeds", shape.embeds)
    coordinates: tuple[tuple[str, int], ...] = ()
    if kernels.kernel_memory:
        tape.spike((KERNEL_MEMORY + "embeds", 8), (KERNEL_MEMORY + "embeds", 1))
        if shape.path.pools_by_position:  # `inputs_embeds[image_mask].numel()` lists the places of every element first
            tape.spike((KERNEL_MEMORY + "embeds", 24), (KERNEL_MEMORY + "embeds", shape.embeds))
        coordinates = ((KERNEL_MEMORY + "embeds", 24),) if features.requires_grad else ()
    tape.node((found,), (features, embeds, *deep), (embeds,) if shape.embeds_are_leaf else (), coordinates)
    tape.drop(embeds)
    return found
