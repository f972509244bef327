"""Completions that the trained model generates between steps (PPO, GRPO): gathered weights and the KV cache."""

from __future__ import annotations

import memlint.memory.generation.inference as inference
from memlint.memory.evaluation import cache_bytes, forward_inputs, forward_without_gradients
from memlint.memory.phases import COMPONENTS, phase
from memlint.memory.segments.step import sequences_per_sample, training_step
from memlint.memory.values import ModelState, Phase, Unit, UnitState
from memlint.run import Run

# From this trl on vLLM gets one parameter at a time (trl 0.19.1 grpo_trainer.py, _move_model_to_vllm); before, the
# whole state dict.
_MOVES_ONE_PARAMETER_AT_A_TIME = (0, 19)


def generation(run: Run, units: tuple[Unit, ...], state: ModelState, beside: tuple[Unit, ...] = ()) -> Phase | None:
    """The peak while completions are generated; None if lengths are unknown. `beside`: units of a second model that is
    gathered together with the trained one.

    Under ZeRO-3 the whole model is gathered on each GPU first (trl 1.16 models/utils.py, unwrap_model_for_generation:
    `deepspeed.zero.GatheredParameters(model.parameters())`; LLaMA-Factory 0.9.5 train/ppo/trainer.py:358).
    """
    micro_batch = run.batch.micro_batch_size
    if not isinstance(micro_batch, int) or not isinstance(run.sequence.length, int):
        return None
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["optimizer_states"] = state.optimizer_states
    parts["communication"] = state.communication
    parts["weights"] = state.weights
    gathered = gathered_bytes(run, (*units, *beside))
    gathered_state = state._replace(units=tuple(UnitState() for _ in state.units)) if gathered else state
    if run.rollout.generator in ("", "model"):
        inference_phases = inference.phases(_as_inference(run, micro_batch), units, gathered_state)
        peak = max(inference_phases, key=lambda found: found.allocated_bytes).components
        parts |= {name: size for name, size in peak.items() if name in ("activations", "logits", "kv_cache")}
    parts["temporaries"] = gathered
    if run.method.stage == "nash_md":
        parts |= _larger(parts, _mixture(_as_inference(run, micro_batch), units, gathered_state))
    parts["logits"] += scores_bytes(run, micro_batch, units)
    return phase("generation", parts)


# From here on transformers gives the wrapper of both models a cache that both write to, where one is asked for
# (4.53.3 and 4.54.0 generation/utils.py, _supports_default_dynamic_cache).
_CACHES_MIXTURES = (4, 54)


def _mixture(run: Run, units: tuple[Unit, ...], state: ModelState) -> dict[str, int]:
    """Activations, logits and cache while Nash-MD writes the completions of a mixture of its policy and its reference.

    Both return the logits of all tokens that they read, which are multiplied, added and normalised (trl 1.13
    experimental/nash_md/nash_md_trainer.py, GeometricMixtureWrapper). Without a cache they read all tokens each time.
    """
    caches = run.serving.uses_cache and not () < run.stack.transformers < _CACHES_MIXTURES
    length = run.sequence.length if isinstance(run.sequence.length, int) else 0
    read = length if caches else length + run.sequence.max_new_tokens
    rows = run.batch.micro_batch_size if isinstance(run.batch.micro_batch_size, int) else 0
    whole = run._replace(
        method=run.method._replace(stage="sft"),
        sequence=run.sequence._replace(length=read),
        loss=run.loss._replace(kind="plain"),
    )
    step = training_step(whole, units, sequences=rows)
    width = 4 if run.precision.outputs_to_fp32 else 2
    reference = width if run.loss.reference_converted else 2
    peak, _ = forward_without_gradients(step, units, state, head=False)
    cache = 2 * cache_bytes(step.architecture, rows, read, 2, after_prefill=True) if caches else 0
    inputs, elements = forward_inputs(step), step.counts["logits"]
    of_reference = {"activations": inputs + peak, "logits": elements * width, "kv_cache": cache}
    of_sum = {"activations": inputs, "logits": elements * (3 * width + 2 * reference), "kv_cache": cache}
    return max(of_reference, of_sum, key=lambda parts: sum(parts.values()))


def _larger(parts: dict[str, int], others: dict[str, int]) -> dict[str, int]:
    """The components of the higher of two moments."""
    return others if sum(others.values()) > sum(parts.get(name, 0) for name in others) else {}


_COPIES_OF_SCORES = 2  # a tensor per token, and all of them stacked (trl 0.22 trainer/utils.py, generate)


def scores_bytes(run: Run, micro_batch: int, units: tuple[Unit, ...]) -> int:
    """Bytes of the fp32 logits of all generated tokens; 0 if they are not kept."""
    if not run.rollout.keeps_scores:
        return 0
    rows = run.rollout.sequences if isinstance(run.rollout.sequences, int) and run.rollout.sequences else micro_batch
    vocabulary: int = run.model.architecture.vocab_size
    return 4 * _COPIES_OF_SCORES * rows * run.sequence.max_new_tokens * vocabulary


def gathered_bytes(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of gathered parameters while completions are generated, or while an inference engine gets the weights."""
    zero = run.parallelism.zero
    if run.parallelism.engine != "deepspeed" or zero.stage != 3 or not zero.gathers_for_generation:
        return 0
    everything = sum(tensor.stored_bytes * tensor.copies * unit.repeat for unit in units for tensor in unit.tensors)
    if run.rollout.generator.startswith("vllm") and run.rollout.gathered_parts:
        return everything // run.rollout.gathered_parts
    version = run.stack.trl
    adapters = run.method.kind not in ("full", "freeze")  # merging them gathers all parameters
    if (
        run.rollout.generator.startswith("vllm")
        and not adapters
        and (not version or version >= _MOVES_ONE_PARAMETER_AT_A_TIME)
    ):
        return 0
    return everything


def _as_inference(run: Run, micro_batch: int) -> Run:
    """The run for `inference.phases`: with the prompt's length, and the sequences of a training step as batch."""
    length = run.sequence.length if isinstance(run.sequence.length, int) else 0
    prompt = run.sequence.max_prompt_length
    sequence = run.sequence._replace(length=prompt if isinstance(prompt, int) and 0 < prompt < length else length)
    at_once = run.rollout.sequences if isinstance(run.rollout.sequences, int) else 0
    batch = run.batch._replace(micro_batch_size=at_once or micro_batch * sequences_per_sample(run))
    evaluation = run.evaluation._replace(enabled=False, num_beams=1)
    loss = run.loss._replace(divergence="")
    return run._replace(sequence=sequence, batch=batch, evaluation=evaluation, loss=loss)
