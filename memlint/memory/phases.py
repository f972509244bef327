"""The phases of a run on one GPU. Each has components, in bytes, that sum to the allocated memory."""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint.architectures.model import DecoderLayer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.walk import Peak, Walk, walk
from memlint.memory.segments.encoder_decoder import bias_bytes, masks_by_side, shares_biases
from memlint.memory.segments.of_model import segments
from memlint.memory.segments.step import TrainingStep
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import ModelState, Phase, Unit

COMPONENTS = ("weights", "gradients", "optimizer_states", "activations", "logits", "temporaries", "communication")
_ROTARY_BUFFER_BYTES = 1024  # the frequencies of rotary embedding, rounded


def phases(step: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> tuple[tuple[Phase, ...], Walk]:
    """The phases load, forward, backward, optimizer_step and save, and the walk over the step that gave them."""
    peaks = walk(segments(step, units, state), _until_loss(step))
    return phases_of(state, peaks, inputs_bytes(step)), peaks


def phases_with_images(step: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> tuple[Phase, ...]:
    """The same phases if every token belongs to an image, which a vision tower with gradients encodes first."""
    import memlint.memory.vision.towers as towers

    images = towers.image_segments(step, units, state)
    embedding, *rest = segments(step, units, state, input_requires_grad=True)
    peaks = walk([embedding, *images.segments, *rest], _until_loss(step) + images.outputs)
    return phases_of(state, peaks, inputs_bytes(step) + images.inputs)


def _until_loss(step: TrainingStep) -> int:
    """Bytes that layers read and the backward does not: without checkpointing, masks and tables that layers spread."""
    if step.run.checkpointing.mode != "none":
        return 0
    biases = sum(bias_bytes(step)[1:]) if shares_biases(step) else 0
    biases += _bias_of_encoder(step)
    masks = _masks_of_one_side(step) if step.kernels.mask and step.architecture.encoder_decoder else masks_bytes(step)
    return masks + biases + (_rotary_tables(step) if _spreads_tables(step) else 0)


def _bias_of_encoder(step: TrainingStep) -> int:
    """Bytes of a bias that an encoder expands to each sequence (models/mpnet/modeling_mpnet.py,
    MPNetEncoder.compute_position_bias), in the dtype of its table."""
    if not families.of(step.architecture).attention.bias_of_encoder:
        return 0
    heads, full = step.architecture.layer_types[0].attention.heads, step.run.method.kind == "full"
    dtype = step.run.precision.trainable_dtype if full else step.run.model.weights_dtype
    return rounded(heads * step.tokens.count * step.tokens.length * BYTES.get(str(dtype), step.width))


def _spreads_tables(step: TrainingStep) -> bool:
    return any(families.of_layer(kind.class_name).rotary.spreads_tables for kind in step.architecture.layer_types)


def phases_of(state: ModelState, peaks: Walk, inputs: int) -> tuple[Phase, ...]:
    """The phases of a walk. `inputs`: see `inputs_bytes`."""
    forward = _phase_at_peak(state, peaks.forward, inputs, "forward")
    backward = _phase_at_peak(state, peaks.backward, inputs, "backward")
    return _load(state), forward, backward, _optimizer_step(state), _save(state)


def inputs_bytes(step: TrainingStep) -> int:
    """Bytes of the step's inputs: token ids and labels (int64), rotary cosine and sine, masks for the recomputation."""
    tokens = step.tokens
    recomputes = step.run.checkpointing.mode != "none"
    kept = masks_bytes(step) if recomputes else 0
    kept += _rotary_tables(step) if recomputes or not _spreads_tables(step) else 0
    sound = rounded(FP32_BYTES * 2 * tokens.sequences * tokens.source * step.architecture.mel_bins)
    return 2 * rounded(8 * tokens.count) + sound + kept + _position_biases(step) + _causal_buffer(step)


def _causal_buffer(step: TrainingStep) -> int:
    """Bytes of the tables of all pairs of positions that the model keeps as buffers (64 MiB of StarCoder)."""
    traits, architecture = families.of(step.architecture), step.architecture
    if not traits.causal_buffer:
        return 0
    copies = len(architecture.layer_type_ids) if traits.causal_buffer == "layers" else 1
    loaded = BYTES.get(str(step.run.model.weights_dtype), FP32_BYTES)
    width = loaded if traits.causal_buffer_in_dtype else 1
    return copies * rounded(architecture.max_positions**2 * width)


def _position_biases(step: TrainingStep) -> int:
    """Bytes that biases of scores leave until the backward: the distances of tokens that they were looked up by; where
    layers are recomputed, T5's of both sides and the zeros between them, which each layer reads."""
    if families.of(step.architecture).attention.bias_of_encoder:
        return rounded(8 * step.tokens.length**2) if step.run.method.kind == "full" else 0
    if not shares_biases(step):
        return 0
    if step.run.checkpointing.mode != "none":
        return sum(bias_bytes(step))
    if step.run.method.kind != "full":
        return 0
    return sum(rounded(8 * length**2) for length in (step.tokens.length, step.tokens.source))


def _rotary_tables(step: TrainingStep) -> int:
    """Bytes of cosine and sine. Gemma 3 has two more for layers with a sliding window (transformers 5.23
    models/gemma3/modeling_gemma3.py:549)."""
    rotating = [kind for kind in _attending(step) if kind.attention.rotary_fraction]
    if not rotating:
        return 0
    traits = families.of_layer(rotating[0].class_name).rotary
    if traits.whole_tables:
        copies = len(step.architecture.layer_type_ids) if traits.whole_tables == "layers" else 1
        return copies * rounded(step.architecture.max_positions * rotating[0].attention.head_dim * FP32_BYTES)
    width = FP32_BYTES if traits.fp32_tables else step.width
    shapes = {kind.attention.sliding_window > 0: kind.attention for kind in reversed(rotating)}
    found = list(shapes.values()) if traits.separate_for_windows else [rotating[0].attention]
    rotated = [int((shape.rope_head_dim or shape.head_dim) * shape.rotary_fraction) for shape in found]
    positions = step.tokens.count if traits.tables_by_sequence else step.tokens.length
    return sum(2 * rounded(positions * each * width) for each in rotated)


def _attending(step: TrainingStep) -> list[DecoderLayer]:
    """The kinds of layers that compare tokens: not those that convolve or scan them."""
    return [kind for kind in step.architecture.layer_types if kind.attention.kind in ("attention", "mla")]


def masks_bytes(step: TrainingStep) -> int:
    """Bytes of eager attention's masks: one for full attention, one for sliding windows."""
    if not step.kernels.mask:
        return 0
    if any(kind.attention.position_terms for kind in step.architecture.layer_types):
        return _distances_and_mask(step)
    if step.architecture.encoder_decoder:
        return _masks_of_both_sides(step)
    windows = {kind.attention.sliding_window > 0 for kind in _attending(step)}
    rows = 1 if families.of(step.architecture).attention.mask_of_keys else step.tokens.length
    return rounded(step.tokens.count * rows * step.mask_width) * len(windows)


def _masks_of_both_sides(step: TrainingStep) -> int:
    """Bytes of the masks of an encoder, of its decoder, and between them."""
    return sum(masks_by_side(step))


def _masks_of_one_side(step: TrainingStep) -> int:
    """Bytes of the masks of the side whose are larger: those of an encoder are gone when its decoder runs."""
    return max(masks_by_side(step))


def _distances_and_mask(step: TrainingStep) -> int:
    """Bytes of DeBERTa's distances between tokens and of its mask, both int64 as a data collator's mask is
    (transformers 5.23 models/deberta_v2/modeling_deberta_v2.py, DebertaV2Encoder.forward)."""
    pairs = step.tokens.length**2
    return rounded(8 * pairs) + rounded(8 * step.tokens.sequences * pairs)


def beside_another_graph(found: tuple[Phase, ...], peaks: Walk) -> tuple[Phase, ...]:
    """The phases of a step whose forward and backward run while a graph of another, equal forward is alive."""
    return tuple(_with_saved_of(one, peaks) if one.name in ("forward", "backward") else one for one in found)


def _with_saved_of(found: Phase, peaks: Walk) -> Phase:
    parts = dict(found.components)
    parts["logits"] += peaks.saved_logits
    parts["activations"] += peaks.saved_activations - peaks.saved_logits
    return phase(found.name, parts)


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
