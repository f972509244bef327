"""The segments that an encoder-decoder has beside those of a decoder: what the encoder reads, and its end.

An encoder reads the source, which has a length of its own, and a decoder's layers attend to what the encoder makes of
it. Counts are elements on one GPU and for one micro-batch; memory is in bytes.
"""

from __future__ import annotations

import memlint.memory.families.lookup as families
import memlint.memory.layers.elements as elements
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter
from memlint.memory.autograd.walk import Segment, tensor_bytes
from memlint.memory.layers.elements import Tokens
from memlint.memory.segments.embedding import embedding_shape, gradient_of_tied
from memlint.memory.segments.step import TrainingStep, segment, token_embedding
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import ModelState, Unit, UnitState


def of_source(step: TrainingStep) -> TrainingStep:
    """The step with the tokens that the encoder reads."""
    tokens = Tokens(step.tokens.sequences, step.tokens.source)
    counts = elements.of_model(step.architecture, tokens, step.vocabulary)
    counts["mel"] = 2 * tokens.count * step.architecture.mel_bins
    counts["frames"] = 2 * counts["hidden"]
    return step._replace(tokens=tokens, counts={**step.counts, **counts})


def decodes(step: TrainingStep, kind: int) -> bool:
    return step.architecture.layer_types[kind].cross_attention is not None


def mel_segment(step: TrainingStep, unit: Unit, unit_state: UnitState) -> Segment:
    """The convolutions that make the encoder's input of sound."""
    from memlint.memory.layers.mel_convolutions import mel_profile

    counts, weights = dict(step.counts), []
    for name in ("conv1", "conv2"):
        tensor = next(one for one in unit.tensors if one.name.endswith(f"{name}.weight"))
        weights.append(Parameter(f"w:{name}", BYTES.get(tensor.dtype, 0), tensor.trainable))
        counts[f"w:{name}"] = tensor.numel
    hooked = step.run.checkpointing.mode not in ("none", "selective") and not weights[0].trainable
    profile = mel_profile(step.kernels, *weights, hooked, step.architecture.embedding_dropout > 0)
    kept = unit_state.gradient_kept - gradient_of_tied(unit, unit_state)
    return segment(profile, tensor_bytes(counts, False), unit_state._replace(gradient_kept=kept), 1)


def encoder_end_segment(step: TrainingStep, units: tuple[Unit, ...], state: ModelState, width: int) -> Segment:
    """What is between an encoder and its decoder. `width`: bytes of an element of the encoder's last layer."""
    from memlint.memory.layers.encoder_end import EncoderEnd, encoder_end_profile

    table, architecture = token_embedding(units[0]), step.architecture
    family = families.of(architecture)
    kind = "none" if family.norm.after_sums else _last_norm(step)
    weight = Parameter("w:embedding", BYTES[table.dtype], table.trainable)
    norm_weight = Parameter("w:norm", BYTES[table.dtype], table.trainable)
    drops = family.drops_last_norm and architecture.embedding_dropout > 0
    recomputes = step.run.checkpointing.mode != "none"
    encoded = encoded_width(step, width)
    end = EncoderEnd(width, kind, norm_weight, drops, recomputes or encoded == (step.kernels.autocast_width or encoded))
    shape = embedding_shape(step, units[0])._replace(tied=True)
    counts = {**step.counts, "w:embedding": table.numel, "w:norm": architecture.hidden_size}
    profile = encoder_end_profile(step.kernels, end, weight, shape)
    found = segment(profile, tensor_bytes(counts, False), UnitState(), 1)
    return found._replace(kept_after_backward=-rounded(step.counts["source"] * encoded))


def encoded_width(step: TrainingStep, width: int) -> int:
    """Bytes of an element of the encoder's output. `width`: of its last layer's."""
    return FP32_BYTES if _last_norm(step) == "layer" and step.kernels.autocast_width else width


def _last_norm(step: TrainingStep) -> str:
    architecture = step.architecture
    return architecture.layer_types[architecture.layer_type_ids[-1]].norm


def masks_by_side(step: TrainingStep) -> tuple[int, int]:
    """Bytes of the masks of an encoder, and of its decoder with that between them; an encoder of sound has none. That
    between them has the dtype of the encoder's output (5.0 masking_utils.py, create_bidirectional_mask), up to
    4.57 that of the decoder's embeddings (4.57.6 models/bart/modeling_bart.py, _update_cross_attn_mask)."""
    length, source = step.tokens.length, 0 if step.architecture.mel_bins else step.tokens.source
    older = () < step.run.stack.transformers < (5,)
    between = step.mask_width if older else encoded_width(step, step.mask_width)
    each = ((source * source, step.mask_width), (source * length, between), (length * length, step.mask_width))
    of_encoder, *of_decoder = (rounded(step.tokens.sequences * pairs * width) for pairs, width in each)
    return of_encoder, sum(of_decoder)


def with_shared_gradients(step: TrainingStep, found: list[Segment]) -> list[Segment]:
    """The gradients that several layers sum: of the encoder's output by the decoder's layers, of T5's biases by those
    of each side. The last layer of a side begins them; what is between the sides ends the decoder's."""
    sides = [index for index, one in enumerate(found) if one.profile.width and index]
    between = next(index for index in sides if found[index].kept_after_backward < 0)
    biases = bias_bytes(step) if shares_biases(step) else (0, 0, 0)
    recomputes = step.run.checkpointing.mode != "none"
    of_decoder = biases[1] + (biases[2] if recomputes else 0) - found[between].kept_after_backward
    for index, kept in ((between - 1, biases[0]), (len(found) - 1, of_decoder)):
        found[index] = found[index]._replace(kept_after_first=rounded(kept))
    found[between] = found[between]._replace(kept_after_backward=-rounded(of_decoder))
    return found


def shares_biases(step: TrainingStep) -> bool:
    traits = families.of(step.architecture).attention
    return traits.position_bias and not traits.own_position_bias


def bias_bytes(step: TrainingStep) -> tuple[int, int, int]:
    """Bytes of the biases that an encoder's layers share, those of a decoder, and between them, which have the dtype of
    the queries (transformers 5.23 models/t5/modeling_t5.py, T5Attention.forward). Up to 5.14 each sequence had its own,
    as the mask was added to them."""
    copies = step.tokens.sequences if () < step.run.stack.transformers < (5, 15) else 1
    heads = copies * step.architecture.layer_types[0].attention.heads
    length, source = step.tokens.length, step.tokens.source
    between = heads * length * source * (step.kernels.autocast_width or step.width)
    return rounded(heads * source**2 * step.width), rounded(heads * length**2 * step.width), rounded(between)
