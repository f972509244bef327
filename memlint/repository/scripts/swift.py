"""ms-swift's flags as the Trainer's keys: `swift sft`, `swift pt` and `swift rlhf` train with transformers and TRL.

Read in ms-swift 4.6.0: trainers/arguments.py:130-136 (batch size 1, checkpointing on), arguments/base_args (lora by
default, dtype and length from the model), arguments/tuner_args.py (rank 8, alpha 32, every linear layer),
config/*.json (what `--deepspeed zero3` and `--fsdp fsdp2` stand for).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.repository.scripts.document import Placed

_NAMES: Mapping[str, str] = {
    "model": "model_name_or_path",
    "torch_dtype": "dtype",
    "attn_impl": "attn_implementation",
    "lora_rank": "lora_r",
    "target_modules": "lora_target_modules",
    "modules_to_save": "lora_modules_to_save",
    "quant_bits": "bits",
}
FLAGS: Mapping[str, str] = {key: flag for flag, key in _NAMES.items()}  # the flag for a key
_DEFAULTS: Mapping[str, Any] = {"per_device_train_batch_size": 1, "gradient_checkpointing": True}
_LORA: Mapping[str, Any] = {"lora_r": 8, "lora_alpha": 32, "lora_dropout": 0.05, "lora_target_modules": "all-linear"}
_AUTO = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
_BUCKETS = {"allgather_bucket_size": 200_000_000, "reduce_bucket_size": 200_000_000, "reduce_scatter": True}
_ZERO3 = {
    **dict.fromkeys(
        ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"), "auto"
    ),
    **dict.fromkeys(("sub_group_size", "stage3_max_live_parameters", "stage3_max_reuse_distance"), 1_000_000_000),
    "stage3_gather_16bit_weights_on_model_save": True,
}
_FSDP2 = {"fsdp_version": 2, "reshard_after_forward": True, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"} | {
    "cpu_ram_efficient_loading": True,
    "state_dict_type": "SHARDED_STATE_DICT",
    "activation_checkpointing": True,
}


def translated(flags: list[Placed]) -> Iterator[Placed]:
    """ms-swift's defaults, then the flags under the Trainer's names."""
    given = {str(one.path[0]): one for one in flags}
    for key, value in _DEFAULTS.items():
        yield Placed((key,), value)
    tuner = given.get("tuner_type") or given.get("train_type") or given.get("sft_type")
    is_lora = tuner is None or tuner.value in ("lora", "adalora", "dora")
    if tuner is None or tuner.value in ("lora", "full"):
        yield Placed(("use_peft",), is_lora, tuner.key if tuner else None, tuner.at if tuner else None)
    else:
        yield tuner._replace(
            path=("use_peft",), value="${tuner_type}", unknown=f"the tuner `{tuner.value}` is not modelled"
        )
    if is_lora:
        for key, value in _LORA.items():
            yield Placed((key,), value)
    if "gradient_accumulation_steps" not in given:
        reason = "ms-swift chooses it: 16 over the batch size and the number of GPUs"
        yield Placed(("gradient_accumulation_steps",), "${gradient_accumulation_steps}", unknown=reason)
    yield from _precision(given)
    for one in flags:
        yield from _named(one)


def _precision(given: Mapping[str, Placed]) -> Iterator[Placed]:
    """Mixed precision follows the weights' dtype unless it is said (arguments/base_args/model_args.py:129)."""
    dtype = given.get("torch_dtype")
    if dtype is None or dtype.unknown:
        for key in ("bf16", "fp16"):
            yield Placed(
                (key,), f"${{{key}}}", unknown="it follows the dtype of the checkpoint (`--torch_dtype` is not given)"
            )
        return
    yield dtype._replace(path=("bf16",), value=dtype.value == "bfloat16", source=None)
    yield dtype._replace(path=("fp16",), value=dtype.value in ("float16", "float32"), source=None)


def _named(one: Placed) -> Iterator[Placed]:
    name = str(one.path[0])
    if name == "deepspeed" and isinstance(one.value, str) and (config := shipped_deepspeed(one.value)):
        yield one._replace(value=config)
    elif name == "fsdp" and one.value == "fsdp2":
        yield one._replace(value="full_shard auto_wrap", source=None)
        yield one._replace(path=("fsdp_config",), value=dict(_FSDP2), source=None)
        yield one._replace(path=("gradient_checkpointing",), value=False, source=None)  # sft_args.py:354
    elif name in ("quant_method", "rlhf_type"):
        return
    else:
        yield one._replace(path=(_NAMES.get(name, name),))


def shipped_deepspeed(name: str) -> dict[str, Any] | None:
    """What `--deepspeed zero3` stands for (config/zero3.json); None for another word."""
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
