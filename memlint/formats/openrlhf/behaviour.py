"""What OpenRLHF's code does whatever a command says: fields of the run with the lines that say so."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

SOURCE = "OpenRLHF 0.11.2"
_ACTOR = f"{SOURCE} models/actor.py"
_RING = "the ring-flash-attn package must be installed"
COMMON = (
    Behaviour("precision.outputs_to_fp32", False, f"{_ACTOR}: accelerate has no part in it"),
    Behaviour("loss.upcast_logits", False, f"{_ACTOR}:267, its own conversion of the logits"),
    Behaviour("evaluation.enabled", False, f"{SOURCE}: evaluation takes no more than a training step"),
    Behaviour("saving.gathers_full_weights", True, f"{SOURCE} utils/deepspeed/deepspeed.py:533, save_model"),
    Behaviour("batch.auto_find", False, f"{SOURCE} has no such search"),
    Behaviour("planning.sequence_sharing", "parallelism.sequence_parallel_size", f"{SOURCE} models/ring_attn_utils.py"),
    Behaviour("planning.sequence_sharing_needs", _RING, f"{SOURCE} models/ring_attn_utils.py"),
)
# `output["logits"].to(torch.float32)`, then FlashAttention's cross entropy, which allocates its gradient
# (models/utils.py:182, `inplace_backward` is off by default); the training loop holds `output` until the backward ends.
LOGITS = (
    Behaviour("precision.upcast_lmhead_output", True, f"{_ACTOR}:267, logits to float32"),
    Behaviour("loss.kind", "fused_ce", f"{SOURCE} models/utils.py:182, flash_attn's cross_entropy_loss"),
    Behaviour("loss.gradient_apart", True, "flash_attn cross_entropy.py, inplace_backward=False"),
    Behaviour("loss.prompt_logits", True, f"{_ACTOR}: log-probabilities of all tokens"),
)
HELD = Behaviour("loss.keeps_logits", True, f"{SOURCE}: the training step holds the model's output")
REWARD = (
    Behaviour("method.reward_head", "score", f"{SOURCE} models/model.py, _get_reward_model"),
    Behaviour("loss.kind", "plain", f"{SOURCE} models/loss.py: one reward for each sequence"),
)
# Weights go to vLLM one parameter at a time (trainer/ray/ppo_actor.py, broadcast_to_vllm).
BETWEEN_UPDATES = (
    Behaviour("rollout.offloads_until_update", True, f"{SOURCE} trainer/ppo_trainer.py, ppo_train"),
    Behaviour("parallelism.zero.gathers_for_generation", False, f"{SOURCE} trainer/ray/ppo_actor.py: one by one"),
)
