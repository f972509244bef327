"""Completions that the trained model generates between steps (PPO, GRPO): gathered weights and the KV cache."""

from __future__ import annotations

import memlint.memory.inference as inference
from memlint.memory.phases import COMPONENTS, phase
from memlint.memory.step import sequences_per_sample
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
    if run.rollout.generator in ("", "model"):
        gathered_state = state._replace(units=tuple(UnitState() for _ in state.units)) if gathered else state
        inference_phases = inference.phases(_as_inference(run, micro_batch), units, gathered_state)
        peak = max(inference_phases, key=lambda found: found.allocated_bytes).components
        parts |= {name: size for name, size in peak.items() if name in ("activations", "logits", "kv_cache")}
    parts["temporaries"] = gathered
    parts["logits"] += scores_bytes(run, micro_batch, units)
    return phase("generation", parts)


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
    return run._replace(sequence=sequence, batch=batch, evaluation=evaluation)
