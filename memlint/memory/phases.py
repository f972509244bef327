"""The phases of a run on one GPU. Each has components, in bytes, that sum to the allocated memory."""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint.memory.autograd.walk import Peak, Walk, walk
from memlint.memory.step import TrainingStep, segments
from memlint.memory.storage import rounded
from memlint.memory.values import ModelState, Phase, Unit

COMPONENTS = ("weights", "gradients", "optimizer_states", "activations", "logits", "temporaries", "communication")
_ROTARY_BUFFER_BYTES = 1024  # the frequencies of rotary embedding, rounded


def phases(step: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> tuple[tuple[Phase, ...], Walk]:
    """The phases load, forward, backward, optimizer_step and save, and the walk over the step that gave them."""
    peaks = walk(segments(step, units, state), _masks_until_loss(step))
    return _phases(state, peaks, inputs_bytes(step)), peaks


def phases_with_images(step: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> tuple[Phase, ...]:
    """The same phases if every token belongs to an image, which a vision tower with gradients encodes first."""
    import memlint.memory.vision.towers as towers

    images = towers.image_segments(step, units, state)
    embedding, *rest = segments(step, units, state, input_requires_grad=True)
    peaks = walk([embedding, *images.segments, *rest], _masks_until_loss(step) + images.outputs)
    return _phases(state, peaks, inputs_bytes(step) + images.inputs)


def _masks_until_loss(step: TrainingStep) -> int:
    return 0 if step.run.checkpointing.mode != "none" else masks_bytes(step)


def _phases(state: ModelState, peaks: Walk, inputs: int) -> tuple[Phase, ...]:
    forward = _phase_at_peak(state, peaks.forward, inputs, "forward")
    backward = _phase_at_peak(state, peaks.backward, inputs, "backward")
    return _load(state), forward, backward, _optimizer_step(state), _save(state)


def inputs_bytes(step: TrainingStep) -> int:
    """Bytes of the step's inputs: token ids and labels (int64), rotary cosine and sine, masks for the recomputation."""
    tokens = step.tokens
    shape = step.architecture.layer_types[0].attention if step.architecture.layer_types else None
    rotary = 0
    if shape is not None and shape.rotary_fraction:
        rotated_dim = int((shape.rope_head_dim or shape.head_dim) * shape.rotary_fraction)
        rotary = 2 * rounded(tokens.length * rotated_dim * step.width) * _rotary_tables(step)
    kept = masks_bytes(step) + _shared_key_values(step) if step.run.checkpointing.mode != "none" else 0
    return 2 * rounded(8 * tokens.count) + rotary + kept + _position_biases(step)


def _position_biases(step: TrainingStep) -> int:
    """Bytes of T5's biases of scores, which all layers share: the encoder's, the decoder's and the zeros of cross
    attention, and the gradient of one (transformers 5.23 models/t5/modeling_t5.py, T5Attention.forward)."""
    if not families.of(step.architecture).attention.position_bias:
        return 0
    heads = step.architecture.layer_types[0].attention.heads
    return 4 * rounded(heads * step.tokens.length**2 * step.width)


def _shared_key_values(step: TrainingStep) -> int:
    """Bytes of the keys and values that later layers reuse: one pair for layers with a window, one for the others.

    Only counted with checkpointing: without it, the layer that makes them saves them anyway.
    """
    shapes = {kind.attention.sliding_window > 0: kind.attention for kind in step.architecture.layer_types}
    if not any(kind.attention.shares_kv for kind in step.architecture.layer_types):
        return 0
    width = step.kernels.autocast_width or step.width
    return sum(2 * rounded(step.tokens.count * shape.kv_heads * shape.head_dim * width) for shape in shapes.values())


def _rotary_tables(step: TrainingStep) -> int:
    """The number of pairs of cosine and sine tables in a step. Gemma 3 has one more for layers with a sliding window
    (transformers 5.23 models/gemma3/modeling_gemma3.py:549)."""
    kinds = step.architecture.layer_types
    if not families.of_layer(kinds[0].class_name).rotary.separate_for_windows:
        return 1
    return len({kind.attention.sliding_window > 0 for kind in kinds})


def masks_bytes(step: TrainingStep) -> int:
    """Bytes of eager attention's masks: one for full attention, one for sliding windows."""
    if not step.kernels.mask:
        return 0
    attentions = (kind.attention for kind in step.architecture.layer_types)
    windows = {shape.sliding_window > 0 for shape in attentions if shape.kind in ("attention", "mla")}
    return rounded(step.tokens.count * step.tokens.length * step.width) * len(windows)


def _phase_at_peak(state: ModelState, peak: Peak, inputs: int, name: str) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights + _ROTARY_BUFFER_BYTES + peak.components["weights"]
    parts["gradients"] = state.gradients_resident + peak.components["gradients"]
    parts["optimizer_states"] = state.optimizer_states
    parts["activations"] = peak.components["activations"] + inputs
    parts["logits"] = peak.components["logits"]
    parts["temporaries"] = peak.components["temporaries"]
    parts["communication"] = state.communication
    return phase(name, parts)


def phase(name: str, parts: dict[str, int]) -> Phase:
    """A phase from its components."""
    return Phase(name, sum(parts.values()), parts)


def least_allocated(state: ModelState) -> int:
    """A lower bound of the bytes that a step allocates, independent of its activations: after loading, and in the
    optimizer's step."""
    return max(_load(state).allocated_bytes, _optimizer_step(state).allocated_bytes)


def _load(state: ModelState) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights + _ROTARY_BUFFER_BYTES
    parts["temporaries"] = max(0, state.load_peak - state.weights)
    return phase("load", parts)


def _optimizer_step(state: ModelState) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights + _ROTARY_BUFFER_BYTES
    parts["gradients"] = state.gradients_at_step
    parts["optimizer_states"] = state.optimizer_states
    parts["temporaries"] = state.step_temporaries
    parts["communication"] = state.communication_at_step
    return phase("optimizer_step", parts)


def _save(state: ModelState) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights + _ROTARY_BUFFER_BYTES
    parts["optimizer_states"] = state.optimizer_states
    parts["temporaries"] = state.save_temporaries
    return phase("save", parts)
