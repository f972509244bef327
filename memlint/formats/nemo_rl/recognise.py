"""Whether a document is NeMo-RL's: by keys of its section `policy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "nemo_rl"
SCHEMA = "nemo_rl.json"
# Sections that say what a file trains, the first that a file has (0.7.0 examples/configs).
ALGORITHMS = ("grpo", "ppo", "distillation", "dpo", "rm", "sft")
# Keys of `policy` that other frameworks' sections of that name do not have (0.2.0 to 0.7.0
# nemo_rl/models/policy/__init__.py).
_OF_POLICY = frozenset(
    {
        *("dtensor_cfg", "megatron_cfg", "train_global_batch_size", "train_micro_batch_size", "logprob_batch_size"),
        *("max_total_sequence_length", "make_sequence_length_divisible_by", "generation_batch_size"),
        *("fsdp_offload_enabled", "activation_checkpointing_enabled", "refit_buffer_size_gb", "logprob_chunk_size"),
        *("offload_optimizer_for_logprob", "hf_config_overrides"),
    }
)
_OF_GENERATION = frozenset({"vllm_cfg", "sglang_cfg", "colocated", "mcore_generation_config"})
_OF_CLUSTER = frozenset({"gpus_per_node", "num_nodes"})
_ENOUGH = 2


def recognise(document: Document) -> Recognition:
    """Keys of `policy` beside a section of an algorithm, of the cluster, or what the file inherits from."""
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    if document.start is not None and document.start.format == NAME:
        return Recognition("certain", reason="a command of NeMo-RL")
    found = _policy_keys(value)
    if not found and not _inherits(value):
        return Recognition("no")
    beside = sum(isinstance(value.get(name), dict) for name in (*ALGORITHMS, "loss_fn"))
    beside += _is_cluster(value.get("cluster")) + _inherits(value)
    if found and found + beside >= _ENOUGH and beside:
        return Recognition("certain", reason="keys of NeMo-RL in `policy`")
    if not found:
        return Recognition("likely" if beside >= _ENOUGH else "no", reason="a file that inherits as NeMo-RL's do")
    return Recognition("likely" if found >= _ENOUGH else "no", reason="keys of NeMo-RL in `policy`")


def _policy_keys(value: Mapping[str, Any]) -> int:
    """How many of its own keys `policy` and the generation in it have."""
    policy = value.get("policy")
    if not isinstance(policy, dict):
        return 0
    generation = policy.get("generation")
    inside = _OF_GENERATION & generation.keys() if isinstance(generation, dict) else ()
    return len(_OF_POLICY & policy.keys()) + len(inside)


def _inherits(value: Mapping[str, Any]) -> bool:
    """Whether `defaults` names files by their paths; Hydra's lists have names of groups."""
    given = value.get("defaults")
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return bool(names) and all(isinstance(name, str) and name.endswith((".yaml", ".yml")) for name in names)


def _is_cluster(section: Any) -> bool:
    return isinstance(section, dict) and bool(_OF_CLUSTER & section.keys())
