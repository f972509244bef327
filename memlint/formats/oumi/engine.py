"""The sections `fsdp` and `deepspeed` of Oumi, as accelerate and DeepSpeed get them (oumi 0.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.fields import Fields
from memlint.formats.oumi.config import OumiConfig
from memlint.run import Origin

# What `to_deepspeed` writes (core/configs/params/deepspeed_params.py): at every stage, at 0 to 2, and at 3.
_ALWAYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping") + (
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
)
_BEFORE_3 = ("allgather_partitions", "allgather_bucket_size", "overlap_comm", "reduce_scatter") + (
    "reduce_bucket_size",
    "contiguous_gradients",
    "round_robin_gradients",
)
_AT_3 = ("overlap_comm", "contiguous_gradients", "sub_group_size", "reduce_bucket_size") + (
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_gather_16bit_weights_on_model_save",
)
OFFLOADS = ("offload_optimizer", "offload_param")


# FSDP over every layer, as in Oumi's recipe of QLoRA (configs/recipes/llama3_1/sft/70b_qlora/train.yaml). Accelerate
# knows the class of the layers (1.15 utils/dataclasses.py, set_auto_wrap_policy, `_no_split_modules`).
STARTED_FSDP: Mapping[str, Any] = {"fsdp.enable_fsdp": True, "fsdp.auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}


def read_what_starts_fsdp(fields: Fields, config: OumiConfig) -> None:
    """Whether FSDP can share 4-bit weights: Oumi starts where the model is loaded in the dtype that they are stored in,
    which has to be stated (train.py:591)."""
    in_compute_dtype = config.dtype in ("bfloat16", "float16") and config.dtype == fields.get("precision.compute")
    can_store = fields.get("planning.stores_4_bits_in_half", "") == "asked"
    started = in_compute_dtype and can_store and config.trainer != "OUMI"
    source = "oumi 0.9 train.py:591, coerce_model_to_dtype"
    fields.put("planning.starts_fsdp", int(started), Origin("framework", detail=source))


def zero_keys(stage: int) -> tuple[str, ...]:
    """The keys of `deepspeed` that become keys of `zero_optimization` at this stage. Those of stage 3 have no effect
    before it."""
    return _AT_3 if stage == 3 else (*_BEFORE_3, *(name for name in _AT_3 if name.startswith("stage3_")))


def deepspeed_of(config: OumiConfig) -> Mapping[str, Any]:
    """The DeepSpeed configuration that Oumi makes of its section."""
    stage = config.zero_stage
    zero: dict[str, Any] = {"stage": stage}
    zero |= {name: config.get(f"deepspeed.{name}") for name in zero_keys(stage)}
    for name in OFFLOADS:
        if config.mapping("deepspeed").get(name) is not None:
            device = config.text(f"deepspeed.{name}.device") or "CPU"
            zero[name] = {"device": device.lower(), "pin_memory": config.flag(f"deepspeed.{name}.pin_memory")}
    found = {name: config.get(f"deepspeed.{name}") for name in _ALWAYS}
    precision = config.text("deepspeed.precision").lower()
    return {**found, **({precision: {"enabled": "auto"}} if precision else {}), "zero_optimization": zero}


def fsdp_of(config: OumiConfig) -> Mapping[str, Any]:
    """`fsdp` and `fsdp_config` of TrainingArguments that say what Oumi gives accelerate in environment variables: the
    first version of FSDP (core/distributed.py, get_accelerate_env_vars). Accelerate recomputes the layers then, and
    the trainer does not (prepare_accelerate_fsdp_run)."""
    wrap = config.text("fsdp.auto_wrap_policy")
    words = [config.text("fsdp.sharding_strategy").lower(), *(("offload",) if config.flag("fsdp.cpu_offload") else ())]
    options: dict[str, Any] = {
        "version": 1,
        "auto_wrap_policy": wrap,
        "cpu_ram_efficient_loading": True,
        "use_orig_params": _keeps_parameters(config),
        "state_dict_type": config.text("fsdp.state_dict_type"),
        "activation_checkpointing": config.flag("training.enable_gradient_checkpointing"),
    }
    if wrap == "SIZE_BASED_WRAP":
        options["min_num_params"] = config.get("fsdp.min_num_params")
    classes = config.text("fsdp.transformer_layer_cls")
    if classes:
        options["transformer_layer_cls_to_wrap"] = [one.strip().rpartition(".")[2] for one in classes.split(",")]
    return {"fsdp": " ".join((*words, "auto_wrap")), "fsdp_config": options}


def _keeps_parameters(config: OumiConfig) -> bool:
    """`use_orig_params`; unless said all but adapters that nothing compiles (core/distributed.py,
    _get_use_orig_params)."""
    said = config.get("fsdp.use_orig_params")
    return bool(said) if said is not None else config.flag("training.compile") or not config.trains_adapter
