"""The texts that a field of the run can have, so that a misspelt one in a rule is an error when the rule loads.

Fields that are not named here may hold any text. The words are those of the docstrings in `memlint.run`.
"""

from __future__ import annotations

from collections.abc import Mapping

_DTYPES = ("float32", "bfloat16", "float16")
_DEVICES = ("none", "cpu", "nvme")
_CHECKPOINT_METHODS = ("none", "bnb", "gptq", "awq", "hqq", "eetq", "fp8", "mxfp4", "aqlm", "quanto")

CHOICES: Mapping[str, tuple[str, ...]] = {
    "purpose": ("train", "inference", "export", "partial"),
    "model.weights_dtype": _DTYPES,
    "model.quantization.method": (*_CHECKPOINT_METHODS, "torchao"),
    "model.stored_method": _CHECKPOINT_METHODS,
    "method.kind": ("full", "freeze", "lora", "dora", "oft", "boft", "ia3", "prefix", "none"),
    "method.reference_model": ("none", "shared", "copy", "precomputed", "named"),
    "method.reward_model": ("none", "lora", "full", "api"),
    "precision.compute": _DTYPES,
    "precision.trainable_dtype": _DTYPES,
    "precision.fp8": ("none", "torchao", "te", "te_mxfp8", "msamp", "deepspeed"),
    "checkpointing.mode": ("none", "full", "selective", "unsloth", "every_n"),
    "loss.kind": ("plain", "liger", "chunked", "cut", "unsloth", "fused_ce", "fused_head"),
    "optimizer.engine": ("torch", "deepspeed", "bitsandbytes", "torchao"),
    "parallelism.engine": ("single", "ddp", "deepspeed", "fsdp", "megatron", "device_map", "vllm", "sglang"),
    "parallelism.fsdp.strategy": ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "NO_SHARD"),
    "parallelism.fsdp.wrap": ("transformer", "size", "none"),
    "offload.optimizer": _DEVICES,
    "offload.parameters": _DEVICES,
    "offload.activations": _DEVICES,
    "estimate.verdict": ("fits", "tight", "out_of_memory", "unknown"),
    "estimate.peak_phase": (
        *("load", "forward", "backward", "optimizer_step", "evaluation", "save"),
        *("prefill", "decode"),
        *("rollout", "weight_sync", "log_probabilities", "reference", "value_update"),
    ),
}
