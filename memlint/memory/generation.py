"""Completions that the trained model generates between steps (PPO, GRPO): gathered weights, the key-value cache."""

from __future__ import annotations

import memlint.memory.inference as inference
from memlint.memory.phases import COMPONENTS, phase
from memlint.memory.step import sequences_per_sample
from memlint.memory.values import ModelState, Phase, Unit, UnitState
from memlint.run import Run

# vLLM gets one parameter at a time (trl 0.19.1 grpo_trainer.py, _move_model_to_vllm); before, the whole state dict.
_ONE_BY_ONE = (0, 19)


def generation(run: Run, units: tuple[Unit, ...], state: ModelState) -> Phase | None:
    """The peak while completions are generated. None where lengths are not known.

    Under ZeRO-3 the whole model is gathered on each GPU first (trl 1.16 models/utils.py, unwrap_model_for_generation:
    `deepspeed.zero.GatheredParameters(model.parameters())`; LLaMA-Factory 0.9.5 train/ppo/trainer.py:358).
    """
    micro = run.batch.micro_batch_size
    if not isinstance(micro, int) or not isinstance(run.sequence.length, int):
        return None
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["optimizer_states"] = state.optimizer_states
    parts["communication"] = state.communication
    parts["weights"] = state.weights
    gathered = gathered_bytes(run, units)
    if run.method.generator in ("", "model"):
        whole = state._replace(units=tuple(UnitState() for _ in state.units)) if gathered else state
        moments = inference.phases(_asked(run, micro), units, whole)
        highest = max(moments, key=lambda moment: moment.allocated_bytes).components
        parts |= {name: size for name, size in highest.items() if name in ("activations", "logits", "kv_cache")}
    parts["temporaries"] = gathered
    return phase("generation", parts)


def gathered_bytes(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of unsharded parameters while completions are generated, or while the generating engine gets weights."""
    zero = run.parallelism.zero
    if run.parallelism.engine != "deepspeed" or zero.stage != 3 or not zero.gathers_for_generation:
        return 0
    version = run.stack.trl
    adapters = run.method.kind not in ("full", "freeze")  # merged with all parameters gathered
    if run.method.generator.startswith("vllm") and not adapters and (not version or version >= _ONE_BY_ONE):
        return 0
    return sum(tensor.stored_bytes * tensor.copies * unit.repeat for unit in units for tensor in unit.tensors)


def _asked(run: Run, micro: int) -> Run:
    """The run as inference reads it: prompts, and as many sequences as the training step has."""
    length = run.sequence.length if isinstance(run.sequence.length, int) else 0
    prompt = run.sequence.max_prompt_length
    sequence = run.sequence._replace(length=prompt if isinstance(prompt, int) and 0 < prompt < length else length)
    batch = run.batch._replace(micro_batch_size=micro * sequences_per_sample(run))
    evaluation = run.evaluation._replace(enabled=False, num_beams=1)
    return run._replace(sequence=sequence, batch=batch, evaluation=evaluation)
