"""Which files are DeepSpeed configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "deepspeed"
SCHEMA = "deepspeed.json"

# Keys that no other config format has at its top with these meanings.
_TELLTALE_KEYS = frozenset(
    {
        *("zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer", "prescale_gradients"),
        *("zero_force_ds_cpu_optimizer", "wall_clock_breakdown", "steps_per_print", "communication_data_type"),
        *("compression_training", "data_efficiency", "flops_profiler", "hybrid_engine", "torch_autocast"),
    }
)
_COMMON = frozenset(
    {
        *("train_batch_size", "gradient_accumulation_steps", "gradient_clipping", "optimizer", "scheduler", "fp16"),
        *("bf16", "bfloat16", "amp", "activation_checkpointing", "aio", "autotuning", "tensor_parallel", "data_types"),
        *("comms_logger", "checkpoint", "compile", "dump_state", "memory_breakdown", "sparse_attention", "pipeline"),
        *("gradient_predivide_factor", "tensorboard", "wandb", "csv_monitor", "nebula", "elasticity", "timers"),
        *("curriculum_learning", "progressive_layer_drop", "seq_parallel_communication_data_type", "eigenvalue"),
        *("disable_allgather", "sparse_gradients", "quantize_training", "zero_quantized_weights", "amp_enabled"),
    }
)
_OF_TRAINING = frozenset(("zero_optimization", "optimizer", "scheduler", "fp16", "bf16", "bfloat16"))
_MAPPINGS = ("optimizer", "scheduler", "fp16", "bf16", "activation_checkpointing")


def recognise(document: Document) -> Recognition:
    """By keys: one that only DeepSpeed has, and few that it does not have (GPT-NeoX embeds DeepSpeed's keys)."""
    value = document.value
    if not isinstance(value, dict) or not value or _is_for_inference(value):
        return Recognition("no")
    telling = len(_TELLTALE_KEYS.intersection(value))
    known = telling + len(_COMMON.intersection(value))
    is_plain = any(not isinstance(value.get(key, {}), (dict, type(None))) for key in _MAPPINGS)
    if 2 * known < len(value) or (is_plain and not isinstance(value.get("zero_optimization"), dict)):
        return Recognition("no")
    if telling:
        sure = telling > 1 or known > 2 or isinstance(value.get("zero_optimization"), dict)
        return Recognition("certain" if sure else "likely", reason=f"{known} DeepSpeed keys")
    if known > 1 and any(isinstance(value.get(key), dict) and "enabled" in value[key] for key in ("fp16", "bf16")):
        return Recognition("likely", reason=f"{known} DeepSpeed keys")
    return Recognition("no")


def _is_for_inference(value: Mapping[str, Any]) -> bool:
    """Whether it is for `deepspeed.init_inference`, whose `zero` is a training's `zero_optimization` (deepspeed 0.19.8
    inference/config.py, DeepSpeedInferenceConfig). accelerate and transformers read no such file."""
    return isinstance(value.get("zero"), dict) and _OF_TRAINING.isdisjoint(value)
