"""The segments of a run's training step: the embedding, the decoder layers, the head with the loss.

`training_step` collects the values that all segments share. `segments` turns the model's units into segments, which
`memlint.memory.autograd.walk` adds up. Counts are elements on one GPU and for one micro-batch; memory is in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import memlint.memory.families.lookup as families
import memlint.memory.layers.elements as elements
import memlint.memory.sharding.model_parallel as parallel
import memlint.memory.sharding.packed_experts as packed_experts
from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, DecoderLayer
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import LayerMode, Profile
from memlint.memory.autograd.tape import Parameter
from memlint.memory.autograd.walk import HeadProduct, Segment, TensorBytes, tensor_bytes
from memlint.memory.divergence import CHUNK, CHUNK_ROWS, REST
from memlint.memory.layers.elements import Tokens
from memlint.memory.layers.embedding import EmbeddingShape, embedding_profile
from memlint.memory.layers.kernel_config import KernelConfig
from memlint.memory.layers.profiles import layer_profile
from memlint.memory.loss import (
    FUSED_LOSSES,
    HALF,
    LABELLED,
    LOGITS_BLOCK,
    LOGITS_ROW,
    LOGITS_ROWS_BEYOND,
    SCORED,
    TILE_COLUMNS,
    LossShape,
    block_elements,
    copies_shifted_logits,
    head_profile,
    keeps_logits_dtype,
    loss_kind,
    upcasts_logits,
)
from memlint.memory.parameter_roles import Roles, extents, part_names, roles
from memlint.memory.parameters import MissingValue, stacks_experts, ties_head
from memlint.memory.storage import BYTES, rounded
from memlint.memory.values import ModelState, Tensor, Unit, UnitState
from memlint.run import Run

_COPY_PREFIX = "adapter_copy."  # of the names of copies that `modules_to_save` makes (parameters.py)


class TrainingStep(NamedTuple):
    """The values that all segments of one training step share. `counts`: number of elements by extent."""

    run: Run
    architecture: Architecture
    tokens: Tokens
    kernels: KernelConfig
    width: int  # bytes of one element of the residual stream as it leaves the embedding
    counts: dict[str, int]
    vocabulary: int
    mask_width: int = 0  # bytes of one element of eager attention's mask
    needs_gradient: bool = True  # False: the head runs under `no_grad`


def required_count(value: object, field: str, reason: str) -> int:
    """`value` as a count. Raises `MissingValue` with `field` and `reason` if it is unknown."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise MissingValue(field, reason)


def training_step(run: Run, units: tuple[Unit, ...], simulated: bool = False, sequences: int = 0) -> TrainingStep:
    """The values that the segments of a step share. Raises `MissingValue` if one is unknown.

    `simulated`: comparable to a step on fake tensors, without the memory that CUDA kernels allocate internally.
    `sequences`: sequences in one forward; 0: those of the run's micro-batch.
    """
    architecture: Architecture = run.model.architecture
    micro_batch = required_count(run.batch.micro_batch_size, "batch.micro_batch_size", "say the batch size per GPU")
    length = required_count(run.sequence.length, "sequence.length", "say the longest sequence")
    if not isinstance(run.checkpointing.mode, str):
        raise MissingValue("checkpointing.mode", "it is not known whether activations are checkpointed")
    per_sample = sequences_per_sample(run)
    if run.batch.max_tokens != 0 and not sequences:
        sequences = 1
        length = required_count(run.batch.max_tokens, "batch.max_tokens", "say how many tokens one forward takes")
    divisors = parallel.activation_divisors(run)
    tokens = Tokens(sequences or per_sample * micro_batch, -(-length // divisors.tokens), architecture.source_positions)
    embedding = _embedding(units[0])
    vocabulary = embedding.shape[0]
    counts = elements.of_model(architecture, tokens, vocabulary)
    counts["source"] = tokens.sequences * tokens.source * architecture.hidden_size
    counts["source_rows"] = tokens.sequences * tokens.source
    counts["embedded"] = tokens.count * embedding.shape[-1]
    counts["logits"] //= divisors.logits
    labelled = _completion_tokens(run, tokens, 0) if _scores_completions_alone(run) else tokens.count
    counts[LABELLED] = labelled * architecture.hidden_size
    rows = chunk_rows(run, labelled, architecture.hidden_size, vocabulary)
    counts["logits_chunk"] = rows * vocabulary
    counts["logits_tile"] = rows * TILE_COLUMNS
    counts[HALF] = counts["logits"] // 2
    counts[SCORED] = _scored_tokens(run, tokens) * vocabulary // divisors.logits
    counts[CHUNK] = min(tokens.count, CHUNK_ROWS) * vocabulary
    counts[REST] = max(0, counts["logits"] - counts[CHUNK])
    counts["head_tile"] = TILE_COLUMNS * architecture.hidden_size
    counts["rows_tile"] = rows * architecture.hidden_size
    if _scores_completions_alone(run):  # and of one token before them (trl 0.15.2 grpo_trainer.py:449)
        counts["logits"] = min(counts["logits"], _completion_tokens(run, tokens, 1) * vocabulary)
    counts[LOGITS_BLOCK] = block_elements(-(-labelled // tokens.sequences), vocabulary)
    counts[LOGITS_ROW] = -(-counts["logits"] // tokens.sequences)
    counts[LOGITS_ROWS_BEYOND] = max(0, 2 * counts[LOGITS_ROW] - counts["logits"])
    kernels = kernel_config(run, simulated)
    width = _stream_width(architecture, BYTES[embedding.dtype], kernels.autocast_width)
    mask_width = BYTES[embedding.dtype] if families.of(architecture).attention.mask_before_norm else width
    return TrainingStep(run, architecture, tokens, kernels, width, counts, vocabulary, mask_width)


def _stream_width(architecture: Architecture, embedded: int, autocast_width: int) -> int:
    """Bytes of one element of the residual stream as it leaves the embedding; `embedded`: of its table. Autocast runs
    a LayerNorm in fp32 and a linear layer in its own dtype."""
    if autocast_width and architecture.projected_embeddings:
        return autocast_width
    return FP32_BYTES if autocast_width and _norm_of_embedding(architecture) == "layer" else embedded


def _norm_of_embedding(architecture: Architecture) -> str:
    """Kind of the norm over the embedded tokens: that of the layers, or "" without one."""
    return architecture.layer_types[0].norm if architecture.embedding_norm else ""


def _scores_completions_alone(run: Run) -> bool:
    """Whether only the logits of completions are computed."""
    return bool(run.method.stage == "grpo" and run.sequence.max_new_tokens and not run.loss.prompt_logits)


def _scored_tokens(run: Run, tokens: Tokens) -> int:
    """The number of tokens whose log-softmax a loss over log-probabilities computes."""
    return _completion_tokens(run, tokens, 0) if run.loss.scores_completions else tokens.count


def _completion_tokens(run: Run, tokens: Tokens, before: int) -> int:
    """The number of tokens of the completions in one forward, plus `before` tokens in front of each."""
    written = run.sequence.max_new_tokens
    return tokens.sequences * min(tokens.length, written + before) if isinstance(written, int) else tokens.count


def sequences_per_sample(run: Run) -> int:
    """Sequences in one forward for each sample of the micro-batch: chosen and rejected, or a prompt's completions.

    GRPO's micro batch counts prompts, each with all its completions, up to trl 0.14 (grpo_trainer.py:335 and 417), and
    completions since 0.15 (grpo_trainer.py:468, RepeatRandomSampler).
    """
    if run.method.stage == "grpo" and () < run.stack.trl < (0, 15):
        return max(1, run.method.num_generations)
    return 2 if run.method.stage in _PAIRED_STAGES else 1


def _embedding(unit: Unit) -> Tensor:
    """The token embedding that the forward reads: the trainable copy if `modules_to_save` made one."""
    found = [tensor for tensor in unit.tensors if tensor.kind == "embedding"]
    if found:
        return next((tensor for tensor in found if tensor.name.startswith(_COPY_PREFIX)), found[0])
    raise MissingValue("model.architecture", "this architecture names no token embedding")


def kernel_config(run: Run, simulated: bool) -> KernelConfig:
    """Which kernels the step's layers run. Raises `MissingValue` where precision or attention is not known."""
    precision = run.precision
    compute = precision.compute
    if not isinstance(compute, str):
        raise MissingValue("precision.compute", "say whether training runs in bf16, fp16 or fp32")
    if not isinstance(precision.autocast, bool):
        raise MissingValue("precision.autocast", "it is not known whether autocast is on")
    implementation = run.attention.implementation
    if not isinstance(implementation, str):
        raise MissingValue("attention.implementation", "say the attention implementation")
    autocast_width = BYTES[compute] if precision.autocast else 0
    if families.of(run.model.architecture).attention.eager_only:
        implementation = "eager"
    experts = _expert_implementation(run)
    needs_mask = implementation == "eager"
    liger = liger_layers(run)
    return KernelConfig(
        *(autocast_width, implementation, not simulated, needs_mask, compute == "bfloat16", liger != "", experts),
        delta_rule=_delta_rule_implementation(run),
        scan=_scan_implementation(run),
        fused_adapters=run.method.fused_adapters,
        softmax_keeps_dtype=_softmax_keeps_dtype(run),
        gated_kernel=not run.stack.use_unsloth,
        dequantized_width=_dequantized_width(run),
        moves_attention=run.parallelism.sequence_parallel_size * run.parallelism.context_parallel_size > 1,
        ring=run.parallelism.context_parallel_size,
        keeps_linear_inputs=_keeps_linear_inputs(run),
        mixes_halves=_mixes_halves(run),
        keeps_stacks=packed_experts.outlive_their_gathering(run),
        float8="" if precision.fp8 == "none" else precision.fp8,
        norms_in_place=liger != "out_of_place",
    )


def _keeps_linear_inputs(run: Run) -> bool:
    """Whether linear layers save their input even for a frozen weight. ZeRO-3 permanently replaces
    `torch.nn.functional.linear` by a function that does (deepspeed 0.19.8 runtime/zero/linear.py:100-105,
    LinearFunctionForZeroStage3.setup_context; partition_parameters.py:412)."""
    zero = run.parallelism.zero
    return run.parallelism.engine == "deepspeed" and zero.stage == 3 and zero.memory_efficient_linear


def _expert_implementation(run: Run) -> str:
    """How this run computes a layer's experts: grouped_mm, copied (one by one out of the stack), loop (linears), host
    (on the CPU), or a kernel that replaces grouped_mm."""
    if run.stack.use_ktransformers:
        return "host"
    if families.of(run.model.architecture).experts.copied.include(run.stack.transformers):
        return "copied"
    return (run.stack.expert_kernel or "grouped_mm") if stacks_experts(run) else "loop"


def _dequantized_width(run: Run) -> int:
    """Bytes of an element of experts that Axolotl quantised on load, once dequantised: 4-bit ones take the dtype that
    they were loaded in, 8-bit ones fp32 (bitsandbytes 0.50.2 functional.py:941 and _ops.py:119)."""
    quantization = run.model.quantization
    if not quantization.experts_on_load:
        return 0
    return 4 if quantization.bits > 4 else BYTES[str(run.model.weights_dtype)]


def _mixes_halves(run: Run) -> bool:
    """Whether experts have one half precision and router scores the other. Autocast casts the router's product, but
    leaves grouped products in the dtype of the experts (transformers 5.23 integrations/moe.py:373). Engines that cast
    weights themselves give both the same dtype."""
    weights = run.precision.trainable_dtype if run.method.kind == "full" else run.model.weights_dtype
    alone = run.parallelism.engine in ("single", "ddp") and run.precision.autocast is True
    return alone and {run.precision.compute, weights} == {"float16", "bfloat16"}


def _softmax_keeps_dtype(run: Run) -> bool:
    """Whether eager attention's softmax computes in the dtype of the scores in this release, not in fp32."""
    traits = families.of(run.model.architecture).attention
    upcast = traits.softmax_upcasts_fp16 and run.precision.compute == "float16"
    return traits.softmax_kept_dtype.include(run.stack.transformers) and not upcast


def _delta_rule_implementation(run: Run) -> str:
    """The implementation of the gated delta rule: fla's kernels, or transformers' own code, which solved row by row in
    a loop before 5.17 (models/qwen3_5/modeling_qwen3_5.py, torch_chunk_gated_delta_rule, of 5.16.0 and 5.17.0)."""
    if run.stack.linear_attention in ("fla", "kernels"):
        return "fla"
    return "loop" if () < run.stack.transformers < (5, 17) else "torch"


def _scan_implementation(run: Run) -> str:
    """The implementation of Mamba 2's scan: mamba_ssm's kernel, or transformers' own code.

    Before 5.18 transformers' code kept the product of every position with every other one's states
    (models/granitemoehybrid of 5.14.0: 17 GB per layer for 2,048 tokens). Training with that is impossible, so a run on
    such a release is assumed to have the kernel.
    """
    version = run.stack.transformers
    return "kernel" if run.stack.linear_attention == "kernels" or () < version < (5, 18) else "torch"


def liger_layers(run: Run) -> str:
    """How decoder layers run Liger's or Unsloth's kernels: "" (not), in_place (norms write their gradient over the
    incoming one), or out_of_place (norms allocate a new one)."""
    if run.stack.use_unsloth:
        return "in_place"
    return families.of(run.model.architecture).liger.layers if run.loss.liger_kernels else ""


def segments(
    step: TrainingStep, units: tuple[Unit, ...], state: ModelState, input_requires_grad: bool = False
) -> list[Segment]:
    """The embedding, the layers and the head, in the order of the forward.

    `input_requires_grad`: the input of the first layer needs a gradient even if the embedding is frozen.
    """
    target = step
    step = _of_source(step) if step.architecture.encoder_decoder else step
    first = _mel_segment if step.architecture.mel_bins else _embedding_segment
    step_segments = [first(step, units[0], state.units[0])]
    step = step._replace(width=step_segments[0].profile.width)
    kinds: dict[tuple[int, int], _LayerKind] = {}
    input_requires_grad = input_requires_grad or _trains(units[0])
    for unit, unit_state in zip(units[1:-1], state.units[1:-1], strict=True):
        if unit.name != "layer":
            continue
        kind = step.architecture.layer_type_ids[unit.layer_index]
        key = (kind, id(unit.tensors))
        if step.architecture.encoder_decoder and step.tokens is not target.tokens and _decodes(step, kind):
            step_segments.append(_encoder_end_segment(target, units, state, step_segments[-1].profile.width))
            step = target._replace(width=step_segments[-1].profile.width)
        if key not in kinds:
            kinds[key] = _layer_kind(step, step.architecture.layer_types[kind], unit)
        for part_run, part in _split_every_n(step, unit):
            part_state = unit_state if part is unit else _state_of_one(unit_state, unit, part)
            part_step = step if part_run is step.run else step._replace(run=part_run)
            is_first = len(step_segments) == 1
            step_segments += _layer_segments(part_step, part, part_state, kinds[key], input_requires_grad, is_first)
            width = step_segments[-1].profile.width
            step = step if width == step.width else step._replace(width=width)
        input_requires_grad = input_requires_grad or _trains(unit)
    if step.architecture.encoder_decoder:
        step_segments = _with_shared_gradients(step, step_segments)
    if step.counts["per_layer"]:
        step_segments[-1] = _with_summed_gradient(step, step_segments[-1])
    step_segments.append(_head_segment(step, units, state, input_requires_grad))
    return step_segments


def _with_shared_gradients(step: TrainingStep, found: list[Segment]) -> list[Segment]:
    """The gradients that several layers sum: of the encoder's output by the decoder's layers, of T5's biases by those
    of each side. The last layer of a side begins them; what is between the sides ends the decoder's."""
    sides = [index for index, one in enumerate(found) if one.profile.width and index]
    between = next(index for index in sides if found[index].kept_after_backward < 0)
    biases = bias_bytes(step) if shares_biases(step) else (0, 0, 0)
    recomputes = step.run.checkpointing.mode != "none"
    of_decoder = biases[1] + (biases[2] if recomputes else 0) - found[between].kept_after_backward
    for index, kept in ((between - 1, biases[0]), (len(found) - 1, of_decoder), (between, -of_decoder)):
        found[index] = found[index]._replace(kept_after_backward=rounded(kept // found[index].repeat))
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


def _decodes(step: TrainingStep, kind: int) -> bool:
    return step.architecture.layer_types[kind].cross_attention is not None


def _of_source(step: TrainingStep) -> TrainingStep:
    """The step with the tokens that the encoder reads."""
    tokens = Tokens(step.tokens.sequences, step.tokens.source)
    counts = elements.of_model(step.architecture, tokens, step.vocabulary)
    counts["mel"] = 2 * tokens.count * step.architecture.mel_bins
    counts["frames"] = 2 * counts["hidden"]
    return step._replace(tokens=tokens, counts={**step.counts, **counts})


def _mel_segment(step: TrainingStep, unit: Unit, unit_state: UnitState) -> Segment:
    """The convolutions that make the encoder's input of sound."""
    from memlint.memory.layers.mel_convolutions import mel_profile

    counts, weights = dict(step.counts), []
    for name in ("conv1", "conv2"):
        tensor = next(one for one in unit.tensors if one.name.endswith(f"{name}.weight"))
        weights.append(Parameter(f"w:{name}", BYTES.get(tensor.dtype, 0), tensor.trainable))
        counts[f"w:{name}"] = tensor.numel
    hooked = step.run.checkpointing.mode not in ("none", "selective") and not weights[0].trainable
    profile = mel_profile(step.kernels, *weights, hooked, step.architecture.embedding_dropout > 0)
    kept = unit_state.gradient_kept - _gradient_of_tied(unit, unit_state)
    return segment(profile, tensor_bytes(counts, False), unit_state._replace(gradient_kept=kept), 1)


def _encoder_end_segment(step: TrainingStep, units: tuple[Unit, ...], state: ModelState, width: int) -> Segment:
    """What is between an encoder and its decoder. `width`: bytes of an element of the encoder's last layer."""
    from memlint.memory.layers.encoder_end import EncoderEnd, encoder_end_profile

    table, architecture = _embedding(units[0]), step.architecture
    last = architecture.layer_types[architecture.layer_type_ids[-1]]
    family = families.of(architecture)
    kind = "none" if family.norm.after_sums else last.norm
    weight = Parameter("w:embedding", BYTES[table.dtype], table.trainable)
    norm_weight = Parameter("w:norm", BYTES[table.dtype], table.trainable)
    drops = family.drops_last_norm and architecture.embedding_dropout > 0
    recomputes = step.run.checkpointing.mode != "none"
    encoded = FP32_BYTES if kind == "layer" and step.kernels.autocast_width else width
    end = EncoderEnd(width, kind, norm_weight, drops, recomputes or encoded == (step.kernels.autocast_width or encoded))
    shape = _embedding_shape(step, units[0])._replace(tied=True)
    counts = {**step.counts, "w:embedding": table.numel, "w:norm": architecture.hidden_size}
    profile = encoder_end_profile(step.kernels, end, weight, shape)
    found = segment(profile, tensor_bytes(counts, False), UnitState(), 1)
    return found._replace(kept_after_backward=-rounded(step.counts["source"] * profile.width))


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
    counts.update(extents(unit.tensors, step.tokens.count))
    counts.update(elements.of_expert_adapters(counts, shape.mlp, step.tokens))
    layer_roles = roles(unit.tensors, step.run.method.dropout > 0)
    return _LayerKind(shape._replace(weights=()), layer_roles, step.kernels, counts)


def _with_summed_gradient(step: TrainingStep, last: Segment) -> Segment:
    """The last layers, whose backward leaves the gradient of every layer's own embedding for the layers before them."""
    kept = rounded(step.counts["per_layer"] * step.width)
    return last._replace(kept_after_backward=last.kept_after_backward + kept // last.repeat)


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


def _state_of_one(unit_state: UnitState, unit: Unit, one: Unit) -> UnitState:
    """The state of one repetition of a unit."""
    later = unit.layer_index + unit.repeat - 1 - one.layer_index
    return unit_state._replace(moments=unit_state.moments[later : later + 1])


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
    checkpointed = checkpoint.mode not in ("none", "selective")
    if checkpoint.skips_frozen_layers and not _trains(unit):
        checkpointed = False
    offloads = checkpoint.offload or step.run.offload.activations != "none"
    needs_gradient = input_requires_grad or checkpointed
    is_leaf = checkpointed and not input_requires_grad and (is_first or checkpoint.skips_frozen_layers)
    first_mode = LayerMode(step.width, needs_gradient, checkpointed, checkpoint.reentrant, offloads and not is_leaf)
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
    kept, held = _kept_by_fsdp1(step, unit, mode), _held_by_cache(step, kind, mode)
    return found._replace(kept_after_backward=kept, held_until_loss=held) if kept or held else found


def _held_by_cache(step: TrainingStep, kind: _LayerKind, mode: LayerMode) -> int:
    """Bytes of the keys and values that the language model of an image-text model caches in its forward, beside the
    half-precision copies that attention saves.

    Rotated keys are fp32 under autocast where the residual stream is, and values are cached in the dtype of the keys
    (transformers 5.23 cache_utils.py, DynamicLayer.lazy_initialization). Without autocast attention saves what is
    cached. A checkpointed model caches nothing (utils/generic.py:1042).
    """
    attention, family = kind.shape.attention, families.of_layer(kind.shape.class_name)
    rotary, normed_later = family.rotary, family.attention.norms_after_rotary
    casts_back = rotary.casts_back or rotary.in_fp32 or rotary.factors_in_fp32
    in_fp32 = attention.kind == "attention" and (not casts_back or normed_later)
    in_fp32 = in_fp32 and 0 < step.kernels.autocast_width < mode.width
    caches = step.architecture.towers and not families.of(step.architecture).vision.passes_use_cache
    if mode.checkpoint or not step.needs_gradient or not caches or not in_fp32 or attention.shares_kv:
        return 0
    return rounded(kind.counts["key"] * mode.width) + rounded(kind.counts["value"] * mode.width)


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


def autograd_owns_grads(run: Run, unit_state: UnitState) -> bool:
    """Whether gradients of parameters remain the tensors that autograd made, so that no engine moves them."""
    return unit_state.gradient_kept > 0 and run.parallelism.engine in ("single", "ddp")


def segment(profile: Profile, sizes: TensorBytes, unit_state: UnitState, repeat: int = 1) -> Segment:
    return Segment(
        profile,
        sizes,
        repeat,
        unit_state.gathered_forward,
        unit_state.gathered_backward,
        unit_state.gradient_live,
        unit_state.gradient_kept,
        unit_state.gradient_end,
        unit_state.moments,
        gathered_entering=unit_state.gathered_entering,
    )


def _embedding_segment(step: TrainingStep, unit: Unit, unit_state: UnitState) -> Segment:
    tensor = _embedding(unit)
    architecture = step.architecture
    weight = Parameter("w:embedding", BYTES[tensor.dtype], tensor.trainable)
    projection = _projection_of_embedding(unit)
    shape = _embedding_shape(step, unit)
    counts = dict(step.counts)
    counts["w:embedding"] = tensor.numel
    counts["own_norm"] = architecture.per_layer_embedding_size
    counts["w:altup_projection"] = architecture.hidden_size**2
    if projection is not None:
        counts |= extents(unit.tensors, step.tokens.count)
    autocast_width = step.kernels.autocast_width if projection or shape.norm else 0
    profile = embedding_profile(weight, shape, step.kernels.kernel_memory, projection, autocast_width)
    if shape.tied:
        kept = unit_state.gradient_kept - _gradient_of_tied(unit, unit_state)
        return segment(profile, tensor_bytes(counts, False), unit_state._replace(gradient_kept=kept), 1)
    return segment(profile, tensor_bytes(counts, autograd_owns_grads(step.run, unit_state)), unit_state, 1)


def _embedding_shape(step: TrainingStep, unit: Unit) -> EmbeddingShape:
    architecture, tensor = step.architecture, _embedding(unit)
    return EmbeddingShape(
        scaled=architecture.embedding_scale,
        positions=architecture.learned_positions,
        types=architecture.typed_embeddings,
        norm=_norm_of_embedding(architecture),
        dropout=architecture.embedding_dropout > 0,
        projected=architecture.projected_embeddings,
        tied=ties_head(step.run) and not tensor.name.startswith(_COPY_PREFIX),
        own_embeddings=architecture.per_layer_embedding_size > 0,
        streams=max((kind.streams for kind in architecture.layer_types), default=1),
        leaf=_embedding_is_leaf(step, tensor),
    )


def _gradient_of_tied(unit: Unit, unit_state: UnitState) -> int:
    """Bytes of the gradient of the table that the head reads too: the head's backward makes it. Those of the unit's
    other tensors (positions, types) come when the embedding's backward runs."""
    trained = sum(tensor.numel for tensor in unit.tensors if tensor.trainable)
    return unit_state.gradient_kept * _embedding(unit).numel // trained if trained else 0


def _embedding_is_leaf(step: TrainingStep, tensor: Tensor) -> bool:
    """Whether a hook alone makes the output of the embedding require a gradient, and the model changes it before its
    first layer: the graph holds it, as it holds every leaf. An embedding that scales in its own module gives the hook
    the scaled output, which the first layer reads."""
    hooked = step.run.checkpointing.mode not in ("none", "selective") and step.needs_gradient and not tensor.trainable
    architecture = step.architecture
    scaled = architecture.embedding_scale and families.of(architecture).scales_after_embedding
    changed = architecture.learned_positions or architecture.embedding_norm or architecture.embedding_dropout > 0
    return hooked and (scaled or changed)


# What an embedding is projected with: to those of all layers (Gemma 3n, Gemma 4), or to the residual stream (ELECTRA).
_PROJECTIONS_OF_EMBEDDING = ("per_layer_model_projection", "embeddings_project")


def _projection_of_embedding(unit: Unit) -> Parameter | None:
    for tensor, part in zip(unit.tensors, part_names(unit.tensors)):
        if part in _PROJECTIONS_OF_EMBEDDING:
            trains = tensor.trainable or any(one.kind == "adapter" for one in unit.tensors)
            return Parameter("w:" + part, BYTES.get(tensor.dtype, 0), trains)
    return None


def _head_segment(step: TrainingStep, units: tuple[Unit, ...], state: ModelState, input_requires_grad: bool) -> Segment:
    """The final norm, the head and the loss.

    With tied embeddings the head reads the embedding's weight, whose gradient arrives here first. Where
    `modules_to_save` copied one of the two, the copy has a gradient of its own. Scores have a head of their own.
    """
    tensors, unit_state = units[-1].tensors, state.units[-1]
    if ties_head(step.run) and not any(tensor.kind == "head" for tensor in tensors):
        embedding = _embedding(units[0])
        table = next(tensor for tensor in units[0].tensors if tensor.kind == "embedding")
        tensors += (table._replace(kind="head"),)
        if not embedding.name.startswith(_COPY_PREFIX):
            kept = unit_state.gradient_kept + _gradient_of_tied(units[0], state.units[0])
            unit_state = unit_state._replace(gradient_kept=kept)
    counts = dict(step.counts)
    counts.update(extents(tensors, step.tokens.count))
    counts["w:altup_unembed"] = step.architecture.hidden_size**2
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
        copies_shifted=copies_shifted_logits(run),
        in_logits_dtype=keeps_logits_dtype(run),
        drops_norm=family.drops_last_norm and architecture.embedding_dropout > 0,
        adds_bias=family.loss.adds_bias,
        scales_input=family.loss.scales_input and architecture.tied_embeddings,
        shifts=family.loss.shifts,
        upcasts_logits=upcasts_logits(run) or run.precision.upcast_lmhead_output,
        stage=_loss_stage(run),
        label_smoothing=run.loss.label_smoothing > 0 and run.method.stage in ("pt", "sft"),
        runs_reference=runs_reference_forward(run),
        likelihood_of_chosen=run.loss.likelihood_of_chosen,
        selection=run.loss.selection,
        scores_in_fp32=run.loss.scores_in_fp32 or bool(run.precision.outputs_to_fp32),
        scores_completions=run.loss.scores_completions,
        divergence=run.loss.divergence,
        in_row_chunks=run.loss.in_row_chunks,
        entropy=run.loss.entropy,
        gradient_apart=run.loss.gradient_apart,
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


# Chosen and rejected sequences go through one forward.
_PAIRED_STAGES = ("dpo", "online_dpo", "orpo", "cpo", "simpo", "ipo", "rm")
_LOG_PROBABILITY_STAGES = ("dpo", "online_dpo", "orpo", "cpo", "simpo", "ipo", "kto", "ppo", "grpo")


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
    return "logps" if run.method.stage in _LOG_PROBABILITY_STAGES else ""


def chunk_rows(run: Run, tokens: int, hidden: int, vocabulary: int) -> int:
    """The number of tokens whose logits a fused loss holds at once.

    Liger: tokens / ceil(vocabulary / hidden), rounded up to a power of two (liger_kernel 0.8.5
    ops/fused_linear_cross_entropy.py). Chunked losses have a setting for it. Cut cross entropy holds one block.
    """
    if run.loss.chunk_tokens:
        return min(tokens, run.loss.chunk_tokens)
    if run.loss.kind == "cut":
        return 128
    parts = -(-vocabulary // hidden)
    return int(min(tokens, 1 << max(0, (-(-tokens // parts) - 1).bit_length())))
