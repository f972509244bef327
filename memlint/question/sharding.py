"""The files that define how a run is sharded: a DeepSpeed JSON, an accelerate launch file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.llamafactory.shipped_deepspeed import shipped_deepspeed
from memlint.question.model import Question
from memlint.question.optimizers import DEEPSPEED


def deepspeed_name(question: Question) -> str:
    """The name of the DeepSpeed file; "" if the question does not ask for ZeRO."""
    offload = "_offload" if question.offload else ""
    return f"ds_z{question.zero}{offload}.json" if question.zero else ""


def deepspeed_settings(question: Question) -> dict[str, Any]:
    """The file that LLaMA-Factory ships for this stage (0.9.4 examples/deepspeed/); for stage 1 that of stage 2 with
    stage 1 set."""
    stage = question.zero or 0
    offload = "_offload" if question.offload else ""
    shipped = shipped_deepspeed(f"ds_z{max(2, stage)}{offload}_config.json")
    assert shipped is not None, stage
    zero: Mapping[str, Any] = shipped["zero_optimization"]
    if question.offload == "optimizer":
        zero = {key: value for key, value in zero.items() if key != "offload_param"}
    own = {"optimizer": DEEPSPEED[question.optimizer]} if question.optimizer in DEEPSPEED else {}
    return {**shipped, **own, "zero_optimization": {**zero, "stage": stage}}


def fsdp_settings(question: Question) -> dict[str, Any]:
    """An accelerate launch file, as LLaMA-Factory's examples/accelerate/fsdp_config.yaml (0.9.5)."""
    options: dict[str, Any] = {
        "fsdp_version": question.fsdp,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_offload_params": question.offload == "all",
        "fsdp_state_dict_type": "FULL_STATE_DICT",
    }
    if question.fsdp == 1:
        options |= {"fsdp_sharding_strategy": "FULL_SHARD", "fsdp_use_orig_params": True}
        options |= {"fsdp_backward_prefetch": "BACKWARD_PRE", "fsdp_forward_prefetch": False}
        options["fsdp_sync_module_states"] = True
    else:
        options["fsdp_reshard_after_forward"] = True
    gpus = question.gpus or 1
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "fsdp_config": options,
        "machine_rank": 0,
        "main_training_function": "main",
        "mixed_precision": {"bf16": "bf16", "fp16": "fp16"}.get(question.dtype, "no"),
        "num_machines": max(1, gpus // (question.gpus_per_node or gpus)),
        "num_processes": gpus,
    }
