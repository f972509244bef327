"""Evaluation between steps, and inference: forwards without gradients, logits, the key-value cache."""

from __future__ import annotations

from memlint.architectures.model import Architecture, DecoderLayer, TokenMixer
from memlint.memory.loss import kind_of
from memlint.memory.phases import COMPONENTS, inputs_bytes, phase
from memlint.memory.step import TrainingStep, segments, step
from memlint.memory.values import ModelState, Phase, Unit
from memlint.run import Run

DEFAULT_BATCH = 8  # per_device_eval_batch_size, transformers 5.23 training_args.py
_HALF = 2


def evaluation(run: Run, units: tuple[Unit, ...], state: ModelState, simulated: bool) -> Phase | None:
    """The evaluation's peak: states stay, gradients are gone; None when nothing is evaluated."""
    if run.evaluation.enabled is not True:
        return None
    batch = run.evaluation.batch_size if isinstance(run.evaluation.batch_size, int) else DEFAULT_BATCH
    shared = step(_builds_logits(run), units, simulated, batch)
    forward, logits = forward_without_gradients(shared, units, state)
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights
    parts["optimizer_states"] = state.optimizer_states
    parts["communication"] = state.communication
    parts["activations"] = forward - logits + inputs_bytes(shared)
    parts["logits"] = logits + kept_logits(run, shared)
    if run.evaluation.predict_with_generate:
        new = run.evaluation.max_new_tokens
        parts["activations"] += max(1, run.evaluation.num_beams) * cache_bytes(
            shared.architecture, batch, shared.tokens.length + new, shared.kernels.autocast_width or _HALF
        )
    return phase("evaluation", parts)


def _builds_logits(run: Run) -> Run:
    """The run with the loss that it has here: Liger's models fuse it where they train and, unless told to skip the
    logits, take the plain one elsewhere (liger_kernel 0.8.5 transformers/model/qwen2.py, `skip_logits`; the same since
    0.1, `if self.training`). LLaMA-Factory, which patches models by itself, never tells them."""
    if kind_of(run) != "liger" or run.evaluation.fused_loss:
        return run
    return run._replace(loss=run.loss._replace(kind="plain"))


def kept_logits(run: Run, shared: TrainingStep) -> int:
    """Logits that wait on the GPU until `eval_accumulation_steps` or the end; fp32 after accelerate's conversion."""
    if not run.evaluation.keeps_logits or run.evaluation.predict_with_generate:
        return 0
    batches = run.evaluation.accumulation_steps or 1
    samples = run.evaluation.samples
    if run.evaluation.accumulation_steps is None and isinstance(samples, int):
        batches = -(-samples // shared.tokens.sequences)
    return batches * shared.counts["logits"] * (4 if run.precision.outputs_to_fp32 else _HALF)


def forward_without_gradients(
    shared: TrainingStep, units: tuple[Unit, ...], state: ModelState, head: bool = True
) -> tuple[int, int]:
    """Highest level of a forward under `no_grad` (with `head` or until there), and the logits in it, bytes."""
    run = shared.run
    free = run._replace(checkpointing=run.checkpointing._replace(mode="full"))
    peak = cached = logits = 0
    found = segments(shared._replace(run=free), units, state)
    for part in found if head else found[:-1]:
        own = part.sizes.peak(part.profile.forward)
        if cached + own + part.gathered_forward > peak:
            peak = cached + own + part.gathered_forward
            logits = part.sizes.peak_components(part.profile.forward)["logits"]
        hidden = part.sizes.of("hidden", shared.width)
        cached += part.repeat * max(0, part.sizes.peak(part.profile.live_in_forward) - hidden)
    return peak, logits


def beside_the_policy(shared: TrainingStep, forward: Phase, held: int, reference: int) -> Phase:
    """The forward phase where a reference model's forward runs while the policy's graph and fp32 logits are there
    (LLaMA-Factory 0.9.5 train/dpo/trainer.py:215-260): its layers may be higher than its own logits, which the loss
    counts. `held`: activations alive when the policy's forward ends; `reference`: the highest level of the
    reference's."""
    parts = dict(forward.components)
    parts["logits"] = 4 * shared.counts["logits"]
    parts["activations"] = held + reference + inputs_bytes(shared)
    parts["temporaries"] = 0
    found = phase("forward", parts)
    return found if found.allocated_bytes > forward.allocated_bytes else forward


def cache_bytes(architecture: Architecture, sequences: int, length: int, width: int) -> int:
    """Key-value cache of `sequences` of `length` tokens."""
    return (
        sequences
        * sum(_layer_cache(architecture.layer_types[kind], length) for kind in architecture.layer_type_ids)
        * width
    )


def _layer_cache(layer: DecoderLayer, length: int) -> int:
    """Elements one sequence caches in a layer: keys and values, a window of them, or MLA's latent."""
    beside = _mixer_cache(layer.parallel_ssm, length) if layer.parallel_ssm is not None else 0
    return _mixer_cache(layer.attention, length) + beside


def _mixer_cache(shape: TokenMixer, length: int) -> int:
    if shape.shares_kv:
        return 0
    if shape.kind == "conv":
        return shape.conv_kernel * shape.head_dim
    if shape.kind == "mamba2":
        channels = shape.heads * shape.head_dim + 2 * shape.kv_heads * shape.state_size
        return 2 * shape.heads * shape.head_dim * shape.state_size + shape.conv_kernel * channels
    if shape.kind == "gated_delta":  # one fp32 state a head, and what the convolution looks back at
        channels = 2 * shape.kv_heads * shape.head_dim + shape.heads * shape.value_head_dim
        return 2 * shape.heads * shape.head_dim * shape.value_head_dim + shape.conv_kernel * channels
    if shape.kind == "mla":
        return length * (shape.kv_lora_rank + shape.rope_head_dim)
    kept = min(length, shape.sliding_window) if shape.sliding_window else length
    return kept * shape.kv_heads * (shape.head_dim + (shape.value_head_dim or shape.head_dim))
