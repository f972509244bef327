"""What writes completions in NeMo-RL, and what waits in host memory meanwhile."""

from __future__ import annotations

from memlint.formats.fields import Fields, as_number
from memlint.formats.nemo_rl.config import NemoConfig
from memlint.formats.nemo_rl.placement import COLOCATED, WRITING, writes_elsewhere
from memlint.run import Origin

BACKEND = "policy.generation.backend"
SHARE = "policy.generation.vllm_cfg.gpu_memory_utilization"
SHARE_OF_SGLANG = "policy.generation.sglang_cfg.sglang_server_config.mem_fraction_static"
ENGINE_RANKS = "policy.generation.vllm_cfg.tensor_parallel_size"
LONGEST = "policy.generation.vllm_cfg.max_model_len"
WAITS = "policy.offload_optimizer_for_logprob"
_REFIT = "NeMo-RL 0.7.0 nemo_rl/algorithms/grpo.py, refit_policy_generation: offload_before_refit, offload_after_refit"


def read_generator(fields: Fields, config: NemoConfig) -> None:
    """An engine on the training cards, or on others. While it writes, model and optimizer wait in host memory; the
    optimizer comes back for the update alone. Without colocation it leaves the card only where
    `offload_optimizer_for_logprob` says so."""
    if config.algorithm() not in WRITING:
        return
    if writes_elsewhere(config):
        fields.put("rollout.generator", "vllm", config.origin(COLOCATED))
        for field in ("rollout.offloads_optimizer", "rollout.offloads_until_update"):
            fields.put(field, config.flag(WAITS), config.origin(WAITS))
        return
    if config.word(BACKEND) in ("hf", "megatron"):
        fields.put("rollout.generator", "model", config.origin(BACKEND))
        return
    fields.put("rollout.generator", "vllm_colocate", config.origin(BACKEND))
    for field in ("rollout.offloads_weights", "rollout.offloads_optimizer", "rollout.offloads_until_update"):
        fields.put(field, True, Origin("framework", detail=_REFIT))
    _read_share(fields, config)


def _read_share(fields: Fields, config: NemoConfig) -> None:
    """vLLM's share is of the card, SGLang's of what is free when it starts."""
    sglang = config.word(BACKEND) == "sglang"
    key = SHARE_OF_SGLANG if sglang else SHARE
    share = as_number(config.get(key))
    if share is not None and 0 < share <= 1:
        fields.put("rollout.share", float(share), config.origin(key))
    else:
        fields.unknown("rollout.share", config.origin(key).detail or "the engine's share of the card is not known")
    if sglang:
        fields.put("rollout.share_of_free", True, config.origin(BACKEND))


def writes_here(config: NemoConfig) -> bool:
    """Whether an engine on the training cards writes completions."""
    return config.algorithm() in WRITING and not writes_elsewhere(config)
