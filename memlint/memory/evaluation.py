"""Forwards without gradients: evaluation between steps and reference models; the KV cache. All in bytes."""

from __future__ import annotations

from collections.abc import Sequence

import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture, DecoderLayer, TokenMixer
from memlint.memory.autograd.walk import Segment
from memlint.memory.loss.shape import FUSED_LOSSES, loss_kind
from memlint.memory.phases import COMPONENTS, inputs_bytes, masks_bytes, phase
from memlint.memory.segments.of_model import segments
from memlint.memory.segments.step import TrainingStep, training_step
from memlint.memory.state.parameters import MissingValue, gives_scores
from memlint.memory.state.storage import rounded
from memlint.memory.values import ModelState, Phase, Unit
from memlint.run import Run

_LEAST_BATCH = 1  # sequences, where something decides it that is not known: each format puts its default
_HALF_BYTES = 2
_NOT_COUNTED = "the logits of all evaluation samples stay on the GPU until the end, and nobody says how many these are"


def evaluation(run: Run, units: tuple[Unit, ...], state: ModelState, simulated: bool) -> Phase:
    """The peak of an evaluation, with optimizer states and without gradients."""
    batch = run.evaluation.batch_size if isinstance(run.evaluation.batch_size, int) else _LEAST_BATCH
    step = training_step(_with_evaluation_loss(run), units, simulated, batch)
    forward, logits = forward_without_gradients(step, units, state)
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights
    parts["optimizer_states"] = state.optimizer_states
    parts["communication"] = state.communication
    parts["activations"] = forward - logits + forward_inputs(step)
    parts["logits"] = logits + collected_logits(run, step)
    if run.evaluation.predict_with_generate:
        new = run.evaluation.max_new_tokens
        sequences = batch * max(1, run.evaluation.num_beams)
        width = step.kernels.autocast_width or _HALF_BYTES
        parts["kv_cache"] = cache_bytes(step.architecture, sequences, step.tokens.length + new, width)
    return phase("evaluation", parts)


def _with_evaluation_loss(run: Run) -> Run:
    """The run with the loss that evaluation computes.

    Liger's models only fuse it in training mode, and else build the logits, unless they get `skip_logits`
    (liger_kernel 0.8.5 transformers/model/qwen2.py; the same since 0.1, `if self.training`). LLaMA-Factory, which
    patches models by itself, never passes it.
    """
    if loss_kind(run) != "liger" or run.evaluation.fused_loss:
        return run
    return run._replace(loss=run.loss._replace(kind="plain"))


def collected_logits(run: Run, step: TrainingStep) -> int:
    """Bytes of the logits that the Trainer collects on the GPU until `eval_accumulation_steps` or the end. They are
    fp32 if accelerate converts the model's outputs, and each GPU gathers those of all (transformers 5.23
    trainer.py:3013). Raises `MissingValue` where their number is not known."""
    if not run.evaluation.keeps_logits or run.evaluation.predict_with_generate or gives_scores(run):
        return 0
    batches, ranks = run.evaluation.accumulation_steps, run.parallelism.data_parallel_size
    ranks = ranks if isinstance(ranks, int) else 1
    if batches is None:
        if not isinstance(run.evaluation.samples, int):
            raise MissingValue("evaluation.samples", _NOT_COUNTED)
        batches = -(-run.evaluation.samples // (step.tokens.sequences * ranks))
    return batches * ranks * step.counts["logits"] * (4 if run.precision.outputs_to_fp32 else _HALF_BYTES)


def forward_without_gradients(
    step: TrainingStep, units: tuple[Unit, ...], state: ModelState, head: bool = True
) -> tuple[int, int]:
    """The peak of a forward under `no_grad`, and the logits in it, bytes. `head`: whether the head is part of it."""
    found = segments_without_gradients(step, units, state)
    found = found if head else found[:-1]
    peaks = _forward_peaks(found, step)
    if not peaks:
        return 0, 0
    highest = peaks.index(max(peaks))
    segment = found[highest]
    return peaks[highest], segment.sizes.peak_components(segment.profile.forward)["logits"]


def forward_inputs(step: TrainingStep) -> int:
    """Bytes of token ids and labels (or the padding mask), rotary tables, and the masks of eager attention."""
    counted = step.run.checkpointing.mode != "none"  # `inputs_bytes` has the masks then
    return inputs_bytes(step) + (0 if counted else masks_bytes(step))


def segments_without_gradients(step: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> list[Segment]:
    """The segments of a forward under `no_grad`. Each only leaves its output."""
    run = step.run
    no_grad_run = run._replace(checkpointing=run.checkpointing._replace(mode="full"))
    return segments(step._replace(run=no_grad_run, needs_gradient=False), units, state)


def forward_position(found: Sequence[Segment], step: TrainingStep) -> int:
    """The index of the segment at which such a forward peaks."""
    peaks = _forward_peaks(found, step)
    return peaks.index(max(peaks))


def _forward_peaks(found: Sequence[Segment], step: TrainingStep) -> list[int]:
    """Bytes at the peak of each segment, with what the ones before it left."""
    peaks, retained, held = [], 0, held_while_layers_run(step)
    for index, segment in enumerate(found):
        is_layer = index and segment.profile.width
        around = held if is_layer else 0
        inside = segment.sizes.peak(segment.profile.forward) + segment.gathered_forward
        peaks.append(retained + around + max(inside, segment.entering()))
        hidden = segment.sizes.of("hidden", step.width)
        retained += segment.repeat * max(0, segment.sizes.peak(segment.profile.live_in_forward) - hidden)
    return peaks


def held_while_layers_run(step: TrainingStep) -> int:
    """Bytes that the model's code holds while its layers run, besides the input of the running layer.

    The embedding's output (transformers 5.23 models/llama/modeling_llama.py, `inputs_embeds` in LlamaModel.forward),
    and the weights of attention that the layer before returned (models/bloom/modeling_bloom.py:531, `outputs`).
    """
    hidden = rounded(step.counts["hidden"] * step.width)
    traits = families.of(step.architecture).attention
    returns = traits.returns_weights or step.kernels.returns_weights
    if not returns or step.kernels.attention != "eager":
        return hidden
    heads = step.architecture.layer_types[0].attention.heads
    return hidden + rounded(heads * step.tokens.count * step.tokens.length * step.width)


def with_reference_forward(
    step: TrainingStep, forward: Phase, activations: int, reference_peak: int, moved: int = 0
) -> Phase:
    """The forward phase while a reference model runs and the policy's graph and fp32 logits are alive (LLaMA-Factory
    0.9.5 train/dpo/trainer.py:215-260). Its logits are counted with the loss. Returns `forward` if that is higher.

    `activations`: bytes alive when the policy's forward ends. `reference_peak`: bytes of the reference's forward;
    `moved`: of its parameters, where they come to the card for it.
    """
    parts = dict(forward.components)
    # Who scores completions returns their log-probabilities; what these keep of the logits is saved.
    returned = loss_kind(step.run) in FUSED_LOSSES or step.run.loss.scores_completions
    parts["logits"] = 0 if returned else _width_of_logits(step) * step.counts["logits"]
    parts["activations"] = activations + reference_peak + inputs_bytes(step)
    parts["weights"] += moved
    parts["temporaries"] = 0
    found = phase("forward", parts)
    return found if found.allocated_bytes > forward.allocated_bytes else forward


def _width_of_logits(step: TrainingStep) -> int:
    """Bytes of an element of the policy's logits while a reference model runs."""
    if not step.run.loss.divergence or step.run.precision.outputs_to_fp32:
        return 4
    return step.kernels.autocast_width or step.width


def cache_bytes(
    architecture: Architecture, sequences: int, length: int, width: int, after_prefill: bool = False
) -> int:
    """Bytes of the KV cache of `sequences` sequences of `length` tokens. `width`: bytes of an element.

    `after_prefill`: layers with a sliding window hold the whole prompt still. What transformers caches of them is a
    view of all keys, which keeps these alive until the next token (5.23 cache_utils.py, DynamicSlidingWindowLayer).
    """
    kinds = [layer_cache(layer, length, after_prefill) for layer in architecture.layer_types]
    return sequences * sum(kinds[kind] for kind in architecture.layer_type_ids) * width


def layer_cache(layer: DecoderLayer, length: int, after_prefill: bool = False) -> int:
    """Elements that one sequence caches in a layer: keys and values (of a sliding window), MLA's latent, or a state."""
    mixers = [layer.attention, *([layer.parallel_ssm] if layer.parallel_ssm is not None else [])]
    whole = [shape._replace(sliding_window=0) for shape in mixers] if after_prefill else mixers
    return sum(_mixer_cache(shape, length) for shape in whole)


def _mixer_cache(shape: TokenMixer, length: int) -> int:
    if shape.shares_kv:
        return 0
    if shape.kind == "conv":
        return shape.conv_kernel * shape.head_dim
    if shape.kind == "mamba2":
        channels = shape.heads * shape.head_dim + 2 * shape.kv_heads * shape.state_size
        return 2 * shape.heads * shape.head_dim * shape.state_size + shape.conv_kernel * channels
    if shape.kind == "gated_delta":  # one fp32 state per head, and the convolution's history
        channels = 2 * shape.kv_heads * shape.head_dim + shape.heads * shape.value_head_dim
        return 2 * shape.heads * shape.head_dim * shape.value_head_dim + shape.conv_kernel * channels
    if shape.kind == "mla":
        return length * (shape.kv_lora_rank + shape.rope_head_dim)
    positions = min(length, shape.sliding_window) if shape.sliding_window else length
    return positions * shape.kv_heads * (shape.head_dim + (shape.value_head_dim or shape.head_dim))
