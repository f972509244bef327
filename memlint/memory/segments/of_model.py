"""The segments of a run's training step: the embedding, the decoder layers, the head with the loss.

`segments` turns the model's units into segments, which `memlint.memory.autograd.walk` adds up. Counts are elements on
one GPU and for one micro-batch; memory is in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import memlint.memory.families.lookup as families
import memlint.memory.layers.elements as elements
import memlint.memory.segments.shared_keys as shared_keys
import memlint.memory.sharding.model_parallel as parallel
from memlint.architectures.model import Architecture, DecoderLayer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import LayerMode, Profile
from memlint.memory.autograd.walk import HeadProduct, Segment, TensorBytes, tensor_bytes
from memlint.memory.layers.kernel_config import KernelConfig
from memlint.memory.layers.profiles import layer_profile
from memlint.memory.loss.head import head_profile
from memlint.memory.loss.shape import (
    COMPILED_CHUNKS,
    FUSED_LOSSES,
    LossShape,
    copies_shifted_logits,
    keeps_logits_dtype,
    loss_kind,
    upcasts_logits,
)
from memlint.memory.segments.embedding import embedding_segment, gradient_of_tied, waiting_gradient_of_tied
from memlint.memory.segments.encoder_decoder import (
    decodes,
    encoder_end_segment,
    mel_segment,
    of_source,
    with_shared_gradients,
)
from memlint.memory.segments.step import (
    COPY_PREFIX,
    TrainingStep,
    autograd_owns_grads,
    caches_keys,
    segment,
    token_embedding,
)
from memlint.memory.state.parameter_roles import Roles, extents, roles
from memlint.memory.state.parameters import MissingValue, ties_head
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import ModelState, Tensor, Unit, UnitState
from memlint.run import Checkpointing, Run


def segments(
    step: TrainingStep, units: tuple[Unit, ...], state: ModelState, input_requires_grad: bool = False
) -> list[Segment]:
    """The embedding, the layers and the head, in the order of the forward.

    `input_requires_grad`: the input of the first layer needs a gradient even if the embedding is frozen.
    """
    forward = _Forward(step, units, state, input_requires_grad)
    for unit, unit_state in zip(units[1:-1], state.units[1:-1], strict=True):
        if unit.name == "layer":
            forward.add_layers(unit, unit_state)
    return forward.with_head()


class _Forward:
    """The segments of a step as far as its forward was followed: it begins with the embedding.

    `_step` is the step as the next layer meets it: with the width of the residual stream there, and with the source's
    tokens until the decoder of an encoder-decoder begins.
    """

    def __init__(
        self, step: TrainingStep, units: tuple[Unit, ...], state: ModelState, input_requires_grad: bool
    ) -> None:
        self._whole, self._units, self._state = step, units, state
        self._step = of_source(step) if step.architecture.encoder_decoder else step
        first = mel_segment if step.architecture.mel_bins else embedding_segment
        self._found = [first(self._step, units[0], state.units[0])]
        self._step = self._step._replace(width=self._width)
        self._input_requires_grad = input_requires_grad or self._embeds_with_gradient("decoder")
        self._source_requires_grad = False
        self._stores_keys = shared_keys.stores_keys(step)
        self._kinds: dict[tuple[int, int], _LayerKind] = {}

    @property
    def _width(self) -> int:
        """Bytes per element of what the last segment gives to the next."""
        return self._found[-1].profile.width

    def _embeds_with_gradient(self, other_side: str) -> bool:
        """Whether the embeddings that a first layer reads train. `other_side`: whose, in an encoder-decoder, it does
        not read."""
        return any(one.trainable and f"{other_side}." not in one.name for one in self._units[0].tensors)

    def add_layers(self, unit: Unit, unit_state: UnitState) -> None:
        """Adds the equal layers of a unit."""
        type_id = self._step.architecture.layer_type_ids[unit.layer_index]
        in_encoder = self._whole.architecture.encoder_decoder and self._step.tokens is not self._whole.tokens
        if in_encoder and decodes(self._step, type_id):
            self._begin_decoder()
        if self._source_requires_grad and not _trains(unit):
            # The gradient of the source passes frozen layers. Of the first, attention to itself needs none.
            self._input_requires_grad = True
        kind = self._kind(type_id, unit)
        for part_run, part in _parts(self._step, unit):
            part_state = unit_state if part is unit else _state_of_part(unit_state, unit, part)
            self._add_part(part_run, part, part_state, kind)
        self._input_requires_grad = self._input_requires_grad or _trains(unit)

    def _begin_decoder(self) -> None:
        self._found.append(encoder_end_segment(self._whole, self._units, self._state, self._width))
        self._step = self._whole._replace(width=self._width)
        self._source_requires_grad = self._input_requires_grad
        self._input_requires_grad = self._embeds_with_gradient("encoder")

    def _kind(self, type_id: int, unit: Unit) -> _LayerKind:
        key = (type_id, id(unit.tensors))
        if key not in self._kinds:
            self._kinds[key] = _layer_kind(self._step, self._step.architecture.layer_types[type_id], unit)
        return self._kinds[key]

    def _add_part(self, run: Run, part: Unit, part_state: UnitState, kind: _LayerKind) -> None:
        """Adds the layers of a unit that are checkpointed alike, as `run` says."""
        step = self._step if run is self._step.run else self._step._replace(run=run)
        is_first = len(self._found) == 1
        added = _layer_segments(step, part, part_state, kind, self._input_requires_grad, is_first)
        held = shared_keys.held_inputs(step, part) if self._stores_keys else 0
        stored = shared_keys.stored_key_values(step, part) if self._stores_keys else 0
        if held or stored:
            added[-1] = _keeping(added[-1], held + stored)
            # Its gradient is the incoming one of the layer before, which runs backward next.
            self._found[-1] = _keeping(self._found[-1], held)
        self._found += added
        if self._width != self._step.width:
            self._step = self._step._replace(width=self._width)

    def with_head(self) -> list[Segment]:
        """All segments, the head at their end."""
        if self._step.architecture.encoder_decoder:
            self._found = with_shared_gradients(self._step, self._found)
        if self._step.counts["per_layer"]:
            self._found[-1] = _with_summed_gradient(self._step, self._found[-1])
        return [*self._found, _head_segment(self._step, self._units, self._state, self._input_requires_grad)]


class _LayerKind:
    """The values that equal layers share: code, parameters, and the number of elements of their tensors by extent."""

    __slots__ = ("_profiles", "_sizes", "counts", "kernels", "roles", "shape")

    def __init__(
        self, shape: DecoderLayer, layer_roles: Roles, kernels: KernelConfig, counts: Mapping[str, int]
    ) -> None:
        self.shape = shape
        self.roles = layer_roles
        self.kernels = kernels
        self.counts = counts
        self._sizes: dict[bool, TensorBytes] = {}
        self._profiles: dict[LayerMode, Profile] = {}

    def profile(self, mode: LayerMode) -> Profile:
        """The recording of such a layer. Cached here by the mode, which is a cheaper key than all values together."""
        found = self._profiles.get(mode)
        if found is None:
            found = self._profiles[mode] = layer_profile(self.shape, self.roles, self.kernels, mode)
        return found

    def sizes(self, keeps_gradients: bool) -> TensorBytes:
        """The bytes of such a layer's tensors, with gradients that stay where autograd made them or without."""
        found = self._sizes.get(keeps_gradients)
        if found is None:
            found = self._sizes[keeps_gradients] = tensor_bytes(self.counts, keeps_gradients)
        return found


def _layer_kind(step: TrainingStep, shape: DecoderLayer, unit: Unit) -> _LayerKind:
    counts = dict(step.counts)
    inner = parallel.activation_divisors(step.run).inner
    layer_counts = elements.of_layer(shape, step.tokens, step.architecture.hidden_size)
    counts.update({extent: count // inner for extent, count in layer_counts.items()})
    of_parameters = extents(unit.tensors, step.tokens.count)
    counts.update(of_parameters)
    counts.update(elements.of_expert_adapters(counts, of_parameters, shape.mlp, step.tokens))
    layer_roles = roles(unit.tensors, step.run.method.dropout > 0)
    return _LayerKind(shape._replace(weights=()), layer_roles, step.kernels, counts)


def _with_summed_gradient(step: TrainingStep, last: Segment) -> Segment:
    """The last layers, whose backward leaves the gradient of every layer's own embedding for the layers before them."""
    kept = rounded(step.counts["per_layer"] * step.width)
    return _keeping(last, kept)


def _keeping(segment: Segment, size: int) -> Segment:
    """The segment with `size` bytes more that its backward leaves."""
    return segment._replace(kept_after_backward=segment.kept_after_backward + size // segment.repeat)


def _trains(unit: Unit) -> bool:
    return any(tensor.trainable for tensor in unit.tensors)


def _split_every_n(step: TrainingStep, unit: Unit) -> list[tuple[Run, Unit]]:
    """(run, unit) of equal layers, where the run tells whether they are checkpointed: one pair, or two if only every
    n-th layer is (transformers 5.23 modeling_utils.py:3237, `layer_index % every_n_layers == 0`)."""
    checkpointed, every = step.run, step.run.checkpointing.every
    if checkpointed.checkpointing.mode != "every_n" or every < 2:
        return [(checkpointed, unit)]
    not_checkpointed = checkpointed._replace(checkpointing=checkpointed.checkpointing._replace(mode="none"))
    layers = range(unit.layer_index, unit.layer_index + unit.repeat)
    return [
        (not_checkpointed if index % every else checkpointed, unit._replace(repeat=1, layer_index=index))
        for index in layers
    ]


def _parts(step: TrainingStep, unit: Unit) -> list[tuple[Run, Unit]]:
    """As `_split_every_n`, the layer whose keys and values the model holds apart: the last of its unit."""
    found = _split_every_n(step, unit)
    if len(found) > 1 or unit.repeat == 1 or not shared_keys.stored_key_values(step, unit):
        return found
    last = unit.layer_index + unit.repeat - 1
    return [(step.run, unit._replace(repeat=unit.repeat - 1)), (step.run, unit._replace(repeat=1, layer_index=last))]


def _state_of_part(unit_state: UnitState, unit: Unit, part: Unit) -> UnitState:
    """The state of some repetitions of a unit."""
    later = unit.layer_index + unit.repeat - part.layer_index - part.repeat
    return unit_state._replace(moments=unit_state.moments[later : later + part.repeat])


def _layer_segments(
    step: TrainingStep,
    unit: Unit,
    unit_state: UnitState,
    kind: _LayerKind,
    input_requires_grad: bool,
    is_first: bool,
) -> list[Segment]:
    """The segments of consecutive equal layers: one, or two where the first layer differs.

    The input of the first layer may need no gradient. It may also be narrower: after fp32 norms, 4-bit layers add fp32
    to a residual stream in half precision. Where a hook alone makes it require a gradient, it is a leaf: the graph
    holds it on the card, although a copy of it waits on the host.
    """
    checkpoint = step.run.checkpointing
    checkpointed = checkpoint.mode not in ("none", "selective") or keeps_some(checkpoint)
    if checkpoint.skips_frozen_layers and not _trains(unit):
        checkpointed = False
    offloads = checkpoint.offload or step.run.offload.activations != "none"
    needs_gradient = input_requires_grad or checkpointed
    is_leaf = checkpointed and not input_requires_grad and (is_first or checkpoint.skips_frozen_layers)
    stores = unit.repeat == 1 and shared_keys.stored_key_values(step, unit) > 0
    off_card = offloads and not is_leaf
    first_mode = LayerMode(step.width, needs_gradient, checkpointed, checkpoint.reentrant, off_card, stores)
    first = _layer(step, kind, first_mode, unit_state, unit, unit.repeat)
    if unit.repeat == 1:
        return [first]
    needs_gradient = needs_gradient or _trains(unit)
    later_mode = LayerMode(first.profile.width, needs_gradient, checkpointed, checkpoint.reentrant, offloads)
    if later_mode == first_mode:
        return [first]
    later = _layer(step, kind, later_mode, unit_state, unit, unit.repeat - 1)
    return [first._replace(repeat=1, moments=first.moments[-1:]), later._replace(moments=later.moments[:-1])]


def _layer(
    step: TrainingStep, kind: _LayerKind, mode: LayerMode, unit_state: UnitState, unit: Unit, repeat: int
) -> Segment:
    sizes = kind.sizes(autograd_owns_grads(step.run, unit_state))
    found = segment(kind.profile(mode), sizes, unit_state, repeat)
    graph = mode.input_needs_gradient or _trains(unit)
    kept, held = _kept_by_fsdp1(step, unit, mode), _held_by_cache(step, kind, mode, graph)
    inputs = _inputs_of_parts(step, mode) + _kept_results(step, mode, unit)
    if not (kept or held or inputs):
        return found
    return found._replace(kept_after_backward=kept, held_until_loss=held, held_until_backward=inputs)


_HOOKS_OUTSIDE_SINCE = (5, 23)
_PARTS_BEHIND_THE_FIRST = 3  # attention, the second norm and the MLP; the layer's input is that of the first norm


def keeps_some(checkpoint: Checkpointing) -> bool:
    """Whether it is known which results of a layer a selective checkpoint keeps."""
    return checkpoint.mode == "selective" and bool(checkpoint.keeps)


def _kept_results(step: TrainingStep, mode: LayerMode, unit: Unit) -> int:
    """Bytes of the results that a selective checkpoint keeps of a layer beside its input: of projections, and of the
    attention."""
    checkpoint = step.run.checkpointing
    if not (mode.checkpoint and step.needs_gradient and keeps_some(checkpoint)):
        return 0
    shapes = {tensor.name.split(".")[-2]: tensor.shape for tensor in unit.tensors if len(tensor.shape) == 2}
    kept = [shapes[name][0] for name in checkpoint.keeps if name in shapes]
    if "attention" in checkpoint.keeps and "o_proj" in shapes:
        kept.append(shapes["o_proj"][1])
    return sum(rounded(step.tokens.count * width * mode.width) for width in kept)


def _inputs_of_parts(step: TrainingStep, mode: LayerMode) -> int:
    """Bytes that a checkpointed layer keeps besides its input: the inputs of the parts that are checkpointed one by
    one, or, where the whole layer is, its input in the wider dtype that FSDP2 makes of the output of the layer before.
    FSDP's hooks cast it (torch 2.13 distributed/fsdp/_fully_shard/_fsdp_state.py, _pre_forward), which transformers
    before 5.23 checkpointed with the layer (5.22 modeling_layers.py, GradientCheckpointingLayer.__call__)."""
    if not (mode.checkpoint and step.needs_gradient):
        return 0
    hidden = step.counts["hidden"]
    if step.run.checkpointing.by_parts:
        return _PARTS_BEHIND_THE_FIRST * rounded(hidden * mode.width)
    if not () < step.run.stack.transformers < _HOOKS_OUTSIDE_SINCE:
        return 0
    wider = BYTES.get(step.run.parallelism.fsdp.output_dtype, mode.width)
    return max(0, rounded(hidden * wider) - rounded(hidden * mode.width))


_VALUES_KEEP_DTYPE_SINCE = (5, 24)


def _held_by_cache(step: TrainingStep, kind: _LayerKind, mode: LayerMode, graph: bool) -> int:
    """Bytes of the keys and values that the language model of an image-text model caches in its forward, beside what
    attention saves.

    Rotated keys are fp32 under autocast where the residual stream or the weight of their norm is. Before 5.24 values
    were cached in the dtype of the keys (transformers 5.23 and 5.24 cache_utils.py, DynamicLayer.lazy_initialization).
    In half precision they are what attention saves, except where no graph (`graph`) is recorded: below the first layer
    that trains. A checkpointed model caches nothing (5.24 utils/generic.py:1135).
    """
    attention, family = kind.shape.attention, families.of_layer(kind.shape.class_name)
    rotary, normed_later = family.rotary, family.attention.norms_after_rotary
    casts_back = rotary.casts_back or rotary.in_fp32 or rotary.factors_in_fp32
    normed_in_fp32 = kind.roles.head_norm is not None and kind.roles.head_norm.width == FP32_BYTES
    norm_casts_back = family.norm.scales_in_fp32 or kind.shape.norm == "rms_gemma"
    casts_back = casts_back and (norm_casts_back or not normed_in_fp32)
    in_fp32 = not casts_back or normed_later
    layer_normed = attention.qk_norm != "none" and family.attention.layer_norm_of_heads
    width = FP32_BYTES if layer_normed and step.kernels.autocast_width else mode.width
    in_fp32 = in_fp32 and 0 < step.kernels.autocast_width < width
    caches = caches_keys(step.architecture) and step.run.checkpointing.mode == "none" and step.needs_gradient
    if not caches or attention.kind != "attention" or attention.shares_kv or (graph and not in_fp32):
        return 0
    half = step.kernels.autocast_width or width
    keys = rounded(kind.counts["key"] * (width if in_fp32 else half))
    if in_fp32 and () < step.run.stack.transformers < _VALUES_KEEP_DTYPE_SINCE:
        return keys + rounded(kind.counts["value"] * width)
    return keys if graph else keys + rounded(kind.counts["value"] * half)


def _kept_by_fsdp1(step: TrainingStep, unit: Unit, mode: LayerMode) -> int:
    """Bytes that FSDP1 keeps until the backward ends: the detached input of a recomputed layer, and its gradient.

    transformers before 4.52 checkpoints around the FSDP unit, so the unit's forward sees a detached leaf; the hook
    that reshards a frozen flat parameter (torch 2.4 torch/distributed/fsdp/_runtime_utils.py,
    _register_post_backward_reshard_only_hook) holds the unit's inputs. Later layers checkpoint inside of themselves
    (GradientCheckpointingLayer). Without this, measured runs are 16 to 32 % higher (fms-liger-46 and -47, -179).
    """
    run = step.run
    version = run.stack.transformers
    uses_fsdp1 = run.parallelism.engine == "fsdp" and run.parallelism.fsdp.version == 1
    checkpoints_outside = bool(version) and version < (4, 52)
    trains_adapters = run.method.kind not in ("full", "freeze")
    if not (uses_fsdp1 and checkpoints_outside and trains_adapters and mode.checkpoint and mode.reentrant):
        return 0
    return 2 * rounded(step.counts["hidden"] * step.width)


def _head_segment(step: TrainingStep, units: tuple[Unit, ...], state: ModelState, input_requires_grad: bool) -> Segment:
    """The final norm, the head and the loss.

    With tied embeddings the head reads the embedding's weight, whose gradient arrives here first. Where
    `modules_to_save` copied one of the two, the copy has a gradient of its own. Scores have a head of their own.
    """
    tensors, unit_state = units[-1].tensors, state.units[-1]
    if ties_head(step.run) and not any(tensor.kind == "head" for tensor in tensors):
        embedding = token_embedding(units[0])
        table = next(tensor for tensor in units[0].tensors if tensor.kind == "embedding")
        tensors += (table._replace(kind="head"),)
        if not embedding.name.startswith(COPY_PREFIX):
            kept = unit_state.gradient_kept + gradient_of_tied(units[0], state.units[0])
            kept += waiting_gradient_of_tied(step, units[0], state.units[0])
            unit_state = unit_state._replace(gradient_kept=kept)
    counts = dict(step.counts)
    counts.update(extents(tensors, step.tokens.count))
    mode = LayerMode(step.width, input_requires_grad or step.run.checkpointing.mode not in ("none", ""))
    profile = head_profile(roles(tensors, step.run.method.dropout > 0), step.kernels, mode, _loss_shape(step))
    kept = _kept_logits(step, tensors)
    product = HeadProduct()
    if step.run.parallelism.engine in ("deepspeed", "fsdp") and loss_kind(step.run) not in FUSED_LOSSES:
        product = _head_product(step, unit_state, kept)
        unit_state = _at_loss(unit_state, state)
    found = segment(profile, tensor_bytes(counts, autograd_owns_grads(step.run, unit_state)), unit_state, 1)
    return found._replace(kept_after_backward=kept, product=product)


def _head_product(step: TrainingStep, unit_state: UnitState, kept: int) -> HeadProduct:
    """The moments of the head's matrix product: its input and output, and what the final norm saved, with the
    parameters that are gathered then. In the backward the product has the head's gradient beside it."""
    width = step.kernels.autocast_width or step.width
    hidden, logits = step.counts["hidden"], step.counts["logits"]
    forward = rounded(4 * hidden) + 2 * rounded(width * hidden) + rounded(width * logits)
    gradient = unit_state.moments[0].live if unit_state.moments else unit_state.gradient_live
    gathered = unit_state.gathered_forward, unit_state.gathered_backward
    return HeadProduct(forward, forward + rounded(width * hidden) + kept, *gathered, gradient)


def _at_loss(unit_state: UnitState, state: ModelState) -> UnitState:
    """The head's state while the loss runs: it has no gradients yet, and its parameters may already be released."""
    return unit_state._replace(
        gathered_forward=state.gathered_at_loss,
        gathered_backward=state.gathered_at_loss_backward,
        gradient_live=0,
        moments=tuple(moment._replace(live=0) for moment in unit_state.moments),
    )


def _kept_logits(step: TrainingStep, tensors: tuple[Tensor, ...]) -> int:
    """Bytes of the logits that the training loop holds until the backward ends; 0 if it does not."""
    run = step.run
    if not run.loss.keeps_logits or loss_kind(run) in FUSED_LOSSES:
        return 0
    head = next((tensor for tensor in tensors if tensor.kind == "head"), None)
    width = step.kernels.autocast_width or (BYTES.get(head.dtype, 2) if head else 2)
    wide = run.precision.outputs_to_fp32 or upcasts_logits(run) or run.precision.upcast_lmhead_output
    wide = wide or (run.loss.scores_in_fp32 and _loss_stage(run) == "logps" and loss_kind(run) != "fused_ce")
    return rounded(step.counts["logits"] * (4 if wide else width))


def _by_erf(architecture: Architecture) -> str:
    """How a head for masked words computes GELU: as the layers do where they write it out, else in one kernel."""
    written_out = architecture.layer_types[-1].mlp.activation == "gelu_of_erf"
    return "gelu_of_erf" if written_out else "gelu"


def _loss_shape(step: TrainingStep) -> LossShape:
    run, architecture = step.run, step.architecture
    family = families.of(architecture)
    if not isinstance(run.loss.kind, str):
        raise MissingValue("loss.kind", "it is not known whether the loss builds the logits")
    return LossShape(
        kind=loss_kind(run),
        keeps_logits=run.loss.keeps_logits,
        outputs_to_fp32=bool(run.precision.outputs_to_fp32),
        softcap=architecture.logits_softcap,
        scales_logits=architecture.logits_scale or run.loss.scales_logits,
        norm=_final_norm(architecture),
        activation=_by_erf(architecture),
        copies_shifted=copies_shifted_logits(run),
        in_logits_dtype=keeps_logits_dtype(run),
        drops_norm=family.drops_last_norm and architecture.embedding_dropout > 0,
        bias_width=BYTES.get(str(run.model.weights_dtype), FP32_BYTES) if family.loss.adds_bias else 0,
        scales_input=family.loss.scales_input and architecture.tied_embeddings,
        shifts=family.loss.shifts,
        upcasts_logits=upcasts_logits(run) or run.precision.upcast_lmhead_output,
        parts=run.loss.parts if run.loss.kind == "plain" else 0,
        logits_first=run.loss.logits_first,
        compiled=run.loss.compiled,
        stage=_loss_stage(run),
        label_smoothing=run.loss.label_smoothing > 0 and run.method.stage in ("pt", "sft"),
        runs_reference=runs_reference_forward(run),
        scores_mismatched=run.method.stage == "kto",
        likelihood_of_chosen=run.loss.likelihood_of_chosen,
        selection=run.loss.selection,
        scores_in_fp32=run.loss.scores_in_fp32 or bool(run.precision.outputs_to_fp32),
        scores_completions=run.loss.scores_completions,
        reference_converted=run.loss.reference_converted,
        labels_beside_teacher=run.loss.labels_beside_teacher,
        divergence=run.loss.divergence,
        in_row_chunks=run.loss.in_row_chunks,
        entropy=run.loss.entropy,
        gradient_apart=run.loss.gradient_apart,
        divides_in_place=run.loss.divides_in_place,
        joins_logits=run.loss.joins_logits,
        holds_chunks=run.loss.holds_chunks,
        one_chunk=step.tokens.count <= run.loss.chunk_tokens,
        one_sequence=step.tokens.sequences == 1 and run.loss.scores_completions,
        needs_gradient=step.needs_gradient,
        streams=max((kind.streams for kind in architecture.layer_types), default=1),
    )


def _final_norm(architecture: Architecture) -> str:
    last = architecture.layer_types[architecture.layer_type_ids[-1]]
    traits = families.of_layer(last.class_name).norm
    if traits.after_sums:
        return "none"
    if traits.centred:
        return "centred"
    if traits.in_autocast_dtype:
        return "layer_in_autocast_dtype"
    return "rms_gemma" if traits.scales_in_fp32 and last.norm == "rms" else last.norm


_LOG_PROBABILITY_STAGES = (
    *("dpo", "online_dpo", "xpo", "nash_md", "orpo", "cpo", "simpo", "ipo", "kto", "ppo", "grpo"),
)


def runs_reference_forward(run: Run) -> bool:
    """Whether a reference model's forward runs while the graph of the policy is alive."""
    beforehand = run.rollout.reference_micro_batch_size != 0
    compares = _loss_stage(run) == "logps" or bool(run.loss.divergence)
    return run.method.reference_model not in ("none", "precomputed") and compares and not beforehand


def _loss_stage(run: Run) -> str:
    if run.method.stage == "rm":
        return run.method.reward_head
    if run.method.drops_language_head:
        return "score"
    scores = run.method.stage in _LOG_PROBABILITY_STAGES or run.loss.selection == COMPILED_CHUNKS
    return "logps" if scores else ""
