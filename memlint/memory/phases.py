"""The phases of a run on one GPU, each with the components that sum to what is allocated."""

from __future__ import annotations

import memlint.memory.families.lookup as families
import memlint.memory.vision.towers as towers
from memlint.memory.autograd.walk import Peak, Walk, walk
from memlint.memory.step import TrainingStep, segments
from memlint.memory.storage import rounded
from memlint.memory.values import ModelState, Phase, Unit

COMPONENTS = ("weights", "gradients", "optimizer_states", "activations", "logits", "temporaries", "communication")
_BUFFERS = 1024  # rotary tables' frequencies


def phases(shared: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> tuple[tuple[Phase, ...], Walk]:
    """load, forward, backward, optimizer_step, save."""
    found = walk(segments(shared, units, state), _masks_until_loss(shared))
    return _phases(state, found, inputs_bytes(shared)), found


def phases_with_images(shared: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> tuple[Phase, ...]:
    """The same when every token is an image's and goes through a vision tower first."""
    before = towers.imaged(shared, units, state)
    embedding, *rest = segments(shared, units, state, input_requires_grad=True)
    found = walk([embedding, *before.segments, *rest], _masks_until_loss(shared) + before.outputs)
    return _phases(state, found, inputs_bytes(shared) + before.inputs)


def _masks_until_loss(shared: TrainingStep) -> int:
    return 0 if shared.run.checkpointing.mode != "none" else masks_bytes(shared)


def _phases(state: ModelState, found: Walk, constants: int) -> tuple[Phase, ...]:
    forward = _during(state, found.forward, constants, "forward")
    backward = _during(state, found.backward, constants, "backward")
    return _load(state), forward, backward, _optimizer_step(state), _save(state)


def inputs_bytes(shared: TrainingStep) -> int:
    """Token ids and labels (int64), the rotary cosine and sine, and masks that recomputation reads again."""
    tokens = shared.tokens
    shape = shared.architecture.layer_types[0].attention if shared.architecture.layer_types else None
    rope = 0
    if shape is not None and shape.rotary_fraction:
        turned = int((shape.rope_head_dim or shape.head_dim) * shape.rotary_fraction)
        rope = 2 * rounded(tokens.length * turned * shared.width) * _rotaries(shared)
    masks = masks_bytes(shared) if shared.run.checkpointing.mode != "none" else 0
    return 2 * rounded(8 * tokens.count) + rope + masks


def _rotaries(shared: TrainingStep) -> int:
    """Gemma 3 turns layers with a window at a frequency of their own (transformers 5.23
    models/gemma3/modeling_gemma3.py:549)."""
    kinds = shared.architecture.layer_types
    if not families.of_layer(kinds[0].class_name).rotary.apart_for_windows:
        return 1
    return len({kind.attention.sliding_window > 0 for kind in kinds})


def masks_bytes(shared: TrainingStep) -> int:
    """Eager attention's masks: one for whole attention, one for windows."""
    if not shared.kernels.mask:
        return 0
    attentions = (kind.attention for kind in shared.architecture.layer_types)
    windows = {shape.sliding_window > 0 for shape in attentions if shape.kind in ("attention", "mla")}
    return rounded(shared.tokens.count * shared.tokens.length * shared.width) * len(windows)


def _during(state: ModelState, peak: Peak, constants: int, name: str) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights + _BUFFERS + peak.components["weights"]
    parts["gradients"] = state.gradients_resident + peak.components["gradients"]
    parts["optimizer_states"] = state.optimizer_states
    parts["activations"] = peak.components["activations"] + constants
    parts["logits"] = peak.components["logits"]
    parts["temporaries"] = peak.components["temporaries"]
    parts["communication"] = state.communication
    return phase(name, parts)


def phase(name: str, parts: dict[str, int]) -> Phase:
    """A phase from its components."""
    return Phase(name, sum(parts.values()), parts)


def _load(state: ModelState) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights + _BUFFERS
    parts["temporaries"] = max(0, state.load_peak - state.weights)
    return phase("load", parts)


def _optimizer_step(state: ModelState) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights + _BUFFERS
    parts["gradients"] = state.gradients_at_step
    parts["optimizer_states"] = state.optimizer_states
    parts["temporaries"] = state.step_temporaries
    parts["communication"] = state.communication_at_step
    return phase("optimizer_step", parts)


def _save(state: ModelState) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights + _BUFFERS
    parts["optimizer_states"] = state.optimizer_states
    parts["temporaries"] = state.save_temporaries
    return phase("save", parts)
