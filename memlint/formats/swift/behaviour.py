"""What ms-swift's code does whatever the file says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memlint.formats.fields import Behaviour
from memlint.run import Entailed, Zero

PLANNING = (
    Behaviour(
        "planning.fsdp_by_launch_file",
        "accelerate launch --config_file with FSDP (fsdp_version: 1, fsdp_cpu_ram_efficient_loading: true{offload}) in"
        " front of swift/cli/sft.py, and --bnb_4bit_quant_storage bfloat16",
        "ms-swift examples/train/multi-gpu/fsdp_qlora",
    ),
    Behaviour(
        "planning.single_gpu_launch", "start it with NPROC_PER_NODE=1", "ms-swift 4.6.0 cli/main.py, use_torchrun"
    ),
    Behaviour(
        "planning.colocated_engine",
        "--use_vllm true --vllm_mode colocate --vllm_tensor_parallel_size {ranks} --vllm_gpu_memory_utilization {share}"
        " --sleep_level 1 --move_model_batches 16",
        "ms-swift 4.6.0 arguments/rlhf_args.py; examples/train/grpo/internal/train_72b_4gpu.sh",
    ),
    Behaviour(
        "planning.shares_images", True, "ms-swift 4.6.0 sequence_parallel/sequence_parallel.py, pre-forward hook"
    ),
    Behaviour(
        "planning.sequence_sharing",
        "parallelism.sequence_parallel_size",
        "ms-swift 4.6.0 arguments/base_args/template_args.py:91",
    ),
)

_AUTO = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
_BUCKETS = {"allgather_bucket_size": 200_000_000, "reduce_bucket_size": 200_000_000, "reduce_scatter": True}
_ZERO3 = {
    **dict.fromkeys(
        ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"), "auto"
    ),
    **dict.fromkeys(("sub_group_size", "stage3_max_live_parameters", "stage3_max_reuse_distance"), 1_000_000_000),
    "stage3_gather_16bit_weights_on_model_save": True,
}
# ms-swift 4.6.0 config/fsdp2.json.
_FSDP2 = {"fsdp_version": 2, "reshard_after_forward": True, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"} | {
    "cpu_ram_efficient_loading": True,
    "state_dict_type": "SHARDED_STATE_DICT",
    "activation_checkpointing": True,
}


def fsdp_preset(value: Any) -> Mapping[str, Any] | None:
    """The words of FSDP and its section that `fsdp` stands for: `fsdp2` for ms-swift's own file, or JSON (4.6.0
    arguments/sft_args.py:285-317); None for another value."""
    if value == "fsdp2":
        return {"fsdp": "full_shard auto_wrap", "fsdp_config": dict(_FSDP2)}
    read = value if isinstance(value, dict) else _from_json(value)
    section = read.get("fsdp_config", {}) if read is not None else None
    if read is None or not isinstance(section, dict):
        return None
    return {"fsdp": read.get("fsdp", "full_shard auto_wrap"), "fsdp_config": {"fsdp_version": 2, **section}}


def _from_json(value: Any) -> dict[str, Any] | None:
    """What a text of JSON says; None for another value. A command's JSON is read with its words."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        return dict(json.loads(value))
    except ValueError:
        return None


FSDP_SINCE = (3, 12)  # examples/train/multi-gpu/fsdp_qlora/train.sh: "for swift>=3.12, you can use --fsdp"
_OF_4_BITS = {"fsdp_version": 1, "cpu_ram_efficient_loading": True, "state_dict_type": "FULL_STATE_DICT"}


def fsdp_of_4_bits(offloads: bool) -> dict[str, Any]:
    """What `fsdp` says where it shares 4-bit weights: the options of ms-swift's launch file for them (4.6.0
    examples/train/multi-gpu/fsdp_qlora/fsdp_offload.json). The word `fsdp2` loads by way of the first rank alone,
    which FSDP2 refuses for 4 bits (accelerate 1.15 utils/fsdp_utils.py, fsdp2_prepare_model)."""
    words = "full_shard auto_wrap offload" if offloads else "full_shard auto_wrap"
    return {"fsdp": words, "fsdp_config": dict(_OF_4_BITS)}


def shipped_deepspeed(name: str) -> Mapping[str, Any] | None:
    """What `deepspeed: zero3` stands for (ms-swift 4.6.0 config/zero3.json), `default-zero3` and `zero3-offload` before
    3.0 (2.6.1 llm/utils/argument.py: deepspeed_mapping); None for another word."""
    name = name.removeprefix("default-").replace("-", "_")
    stage, _, offload = name.removeprefix("zero").partition("_")
    if not name.startswith("zero") or stage not in ("0", "1", "2", "3") or offload not in ("", "offload"):
        return None
    zero: dict[str, Any] = {"stage": int(stage), "overlap_comm": False, "contiguous_gradients": True}
    zero |= _ZERO3 if stage == "3" else _BUCKETS
    if offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if offload and stage == "3":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    halves = {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
    return {**dict.fromkeys(_AUTO, "auto"), **halves, "zero_optimization": zero}


# The parts in which `move_model_batches` of PLANNING's keys sends new weights (4.6.0
# rlhf_trainers/rollout_mixin.py:564, split_batches).
SENT_IN_PARTS = Entailed((("rollout.generator", "vllm_colocate"),), (("rollout.gathered_parts", 16),))


def entailed_by_word(hidden: int, stage: int) -> Entailed:
    """What the word for one of ms-swift's files says of the buckets of a stage beside the stage."""
    wide = {
        "reduce_bucket_size": hidden * hidden,
        "prefetch_bucket_size": int(0.9 * hidden * hidden),
        "param_persistence_threshold": 10 * hidden,
        "max_live_parameters": 1_000_000_000,
        "max_reuse_distance": 1_000_000_000,
        "allgather_bucket_size": _NEW_ZERO.allgather_bucket_size,
    }
    sizes = wide if stage == 3 else {name: _BUCKETS[name] for name in ("reduce_bucket_size", "allgather_bucket_size")}
    changes = {f"parallelism.zero.{name}": size for name, size in {**sizes, "overlap_comm": False}.items()}
    gathers = {"saving.gathers_full_weights": True} if stage == 3 else {}
    given = (("parallelism.engine", "deepspeed"), ("parallelism.zero.stage", stage))
    return Entailed(given, tuple({**changes, **gathers}.items()))


_NEW_ZERO = Zero()
