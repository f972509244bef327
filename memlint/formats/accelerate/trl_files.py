"""The launch files that TRL's command knows by name: `trl sft --accelerate_config zero3`.

They are in the package, and the same in trl 0.19.0, 1.0.0 and 1.16.0 (accelerate_configs/*.yaml). Here stand the keys
that decide what a GPU holds. Each starts 8 processes on one machine, unless the command has `--num_processes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_ALL = {"compute_environment": "LOCAL_MACHINE", "mixed_precision": "bf16", "num_machines": 1, "num_processes": 8}
_NOT_OFFLOADED = {"offload_optimizer_device": "none", "offload_param_device": "none"}
_FSDP = {
    "fsdp_activation_checkpointing": False,
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_cpu_ram_efficient_loading": True,
    "fsdp_offload_params": False,
    "fsdp_state_dict_type": "FULL_STATE_DICT",
}
_FSDP1 = {
    "fsdp_backward_prefetch": "BACKWARD_PRE",
    "fsdp_forward_prefetch": True,
    "fsdp_reshard_after_forward": "FULL_SHARD",
    "fsdp_sync_module_states": True,
    "fsdp_use_orig_params": True,
    "fsdp_version": 1,
}
_ZERO1 = {"zero_stage": 1, "zero3_init_flag": False, "gradient_accumulation_steps": 1}
_ZERO2 = {"zero_stage": 2, "zero3_init_flag": False, **_NOT_OFFLOADED}
_ZERO3 = {"zero_stage": 3, "zero3_init_flag": True, "zero3_save_16bit_model": True, **_NOT_OFFLOADED}

LAUNCH_FILES: Mapping[str, Mapping[str, Any]] = {
    "single_gpu": {**_OF_ALL, "distributed_type": "NO"},
    "multi_gpu": {**_OF_ALL, "distributed_type": "MULTI_GPU"},
    "zero1": {**_OF_ALL, "distributed_type": "DEEPSPEED", "deepspeed_config": _ZERO1},
    "zero2": {**_OF_ALL, "distributed_type": "DEEPSPEED", "deepspeed_config": _ZERO2},
    "zero3": {**_OF_ALL, "distributed_type": "DEEPSPEED", "deepspeed_config": _ZERO3},
    "fsdp1": {**_OF_ALL, "distributed_type": "FSDP", "fsdp_config": {**_FSDP, **_FSDP1}},
    "fsdp2": {
        **_OF_ALL,
        "distributed_type": "FSDP",
        "fsdp_config": {**_FSDP, "fsdp_reshard_after_forward": True, "fsdp_version": 2},
    },
}
