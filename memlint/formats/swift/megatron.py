"""Megatron-SWIFT (`megatron sft`, `pt`, `rlhf`): what bounds its memory.

Read in ms-swift 4.6.0 megatron/arguments/megatron_args.py.
"""

from __future__ import annotations

from memlint.formats.fields import Fields, as_bool, as_int, as_number
from memlint.formats.megatron_options import put_options
from memlint.formats.swift.config import SwiftConfig
from memlint.run import UNKNOWN

_TOTAL = "global_batch_size"
_SHARE = "optimizer_offload_fraction"
# Degree -> field; each is 1 unless said.
_DEGREES = {
    "tensor_model_parallel_size": "parallelism.tensor_parallel_size",
    "pipeline_model_parallel_size": "parallelism.pipeline_parallel_size",
    "context_parallel_size": "parallelism.context_parallel_size",
    "expert_model_parallel_size": "parallelism.expert_parallel_size",
}


def read_megatron(fields: Fields, config: SwiftConfig) -> None:
    """Engine, degrees and batch. A degree that nobody can know leaves the bound unknown."""
    fields.infer("parallelism.engine", "megatron", "Megatron-SWIFT")
    section = config.section
    copies = fields.get("parallelism.world_size")
    for key, field in _DEGREES.items():
        degree = as_int(section.value.get(key, 1))
        if degree is None or degree < 1:
            fields.unknown("model.architecture", f"the model is divided over `{key}` GPUs, which are not known")
            return
        fields.put(field, degree, section.origin(key))
        copies = max(1, copies // degree) if isinstance(copies, int) and "expert" not in key else copies
    micro, total = (as_int(section.value.get(key, least)) for key, least in (("micro_batch_size", 1), (_TOTAL, 16)))
    if micro is None or micro < 1:
        fields.unknown("batch.micro_batch_size", "`micro_batch_size` is not known")
        return
    fields.put("batch.micro_batch_size", micro, section.origin("micro_batch_size"))
    steps = max(1, total // micro // copies) if total and isinstance(copies, int) else UNKNOWN
    fields.put("batch.gradient_accumulation_steps", steps, section.origin(_TOTAL))
    _recomputed_groups(fields, config)
    _host_optimizer(fields, config)
    _weights_in_few_bits(fields, config)
    _put_options(fields, config)


def _recomputed_groups(fields: Fields, config: SwiftConfig) -> None:
    """Of layers that are recomputed together, one input is kept (megatron core 0.16 transformer_block.py)."""
    section, count = config.section, "recompute_num_layers"
    value = section.value
    if value.get("recompute_granularity") == "full" and value.get("recompute_method") != "block" and count in value:
        fields.put("checkpointing.every", as_int(value[count]) or 1 << 12, section.origin(count))


_RECOMPUTATION = "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1"


def _put_options(fields: Fields, config: SwiftConfig) -> None:
    value = config.section.value
    recomputation = "" if value.get("recompute_granularity") == "full" else _RECOMPUTATION
    sequence = "" if as_bool(value.get("sequence_parallel")) else "--sequence_parallel true"
    put_options(fields, _flag, recomputation, sequence, "ms-swift 4.6.0 megatron/arguments/megatron_args.py")


def _flag(name: str) -> str:
    return f"--{name} true --use_precision_aware_optimizer true" if name == "optimizer_cpu_offload" else f"--{name}"


# With the format that each needs (megatron_args.py:662-671).
_FEW_BITS = (("fp8_param_gather", "fp8_format"), ("fp4_param_gather", "fp4_format"))


def _weights_in_few_bits(fields: Fields, config: SwiftConfig) -> None:
    """Weights that are kept as their products read them take less than the bound counts: a byte or half a byte, once or
    (transposed) twice. Without these keys fp8 and fp4 are copies beside the weights, which a bound leaves out."""
    section = config.section
    for key, kind in _FEW_BITS:
        if as_bool(section.value.get(key)) and section.value.get(kind):
            reason = f"`{key}`: weights as Transformer Engine multiplies them, in one copy or two"
            fields.unknown("model.weights_dtype", reason)


def _host_optimizer(fields: Fields, config: SwiftConfig) -> None:
    """Optimizer states that wait and step on the host (megatron_args.py:521), all of them unless a share is said."""
    section = config.section
    if as_bool(section.value.get("optimizer_cpu_offload")):
        share = as_number(section.value.get(_SHARE, 1))
        fields.put("offload.optimizer", "cpu", section.origin("optimizer_cpu_offload"))
        fields.put("offload.optimizer_ratio", 1.0 if share is None else float(share), section.origin(_SHARE))
