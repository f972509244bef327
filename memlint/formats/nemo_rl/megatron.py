"""Megatron-LM under NeMo-RL (0.7.0 nemo_rl/models/megatron/setup.py): a lower bound of the fullest stage."""

from __future__ import annotations

from memlint.formats.fields import Behaviour, Fields, as_number
from memlint.formats.megatron_options import put_options
from memlint.formats.nemo_rl.config import NemoConfig
from memlint.formats.verl.model import DTYPES

SECTION = "policy.megatron_cfg"
REDUCES_IN_FP32 = f"{SECTION}.distributed_data_parallel_config.grad_reduce_in_fp32"
OWN_FSDP = f"{SECTION}.distributed_data_parallel_config.use_custom_fsdp"
OPTIMIZER = f"{SECTION}.optimizer"
ADAPTER = f"{SECTION}.peft.enabled"
FP8 = f"{SECTION}.fp8_cfg"
_UNEVEN = (f"{SECTION}.num_layers_in_first_pipeline_stage", f"{SECTION}.num_layers_in_last_pipeline_stage")
_ADAM = {"adam": "adamw_torch", "adamw": "adamw_torch", "sgd": "sgd"}
MEGATRON = (
    Behaviour("parallelism.engine", "megatron", "NeMo-RL 0.7.0 nemo_rl/models/megatron/setup.py"),
    Behaviour("precision.autocast", False, "Megatron-LM core/transformer/module.py, Float16Module"),
    Behaviour("optimizer.state_dtype", "float32", "Megatron-LM core/optimizer: moments of fp32 parameters"),
    Behaviour("loss.kind", "plain", "NeMo-RL 0.7.0 nemo_rl/models/megatron/train.py"),
)


def read_engine(fields: Fields, config: NemoConfig) -> None:
    """Parameters in half precision and fp32 ones beside them, which the distributed optimizer divides."""
    fields.behave(*MEGATRON)
    key = "policy.precision"
    dtype = DTYPES.get(config.word(key), "bfloat16")
    stored = "float8" if config.flag(f"{FP8}.enabled") and config.flag(f"{FP8}.fp8_param") else dtype
    fields.put("precision.compute", dtype, config.origin(key))
    fields.put("precision.trainable_dtype", stored, config.origin(key))
    fields.put("model.weights_dtype", stored, config.origin(key))
    fields.put("precision.master_weights", dtype != "float32", config.origin(key))
    halves = dtype != "float32" and not config.flag(REDUCES_IN_FP32)
    fields.put("precision.grad_dtype", dtype if halves else "float32", config.origin(REDUCES_IN_FP32))
    if config.flag(ADAPTER):
        fields.unknown("method.kind", "what Megatron Bridge's adapters train is not read")
    _read_unmodelled(fields, config)


def _read_unmodelled(fields: Fields, config: NemoConfig) -> None:
    """What keeps less on a card than the bound counts."""
    key = next((one for one in (OWN_FSDP, *_UNEVEN) if config.get(one)), "")
    if key:
        what = "Megatron's FSDP" if key == OWN_FSDP else "stages with different numbers of layers"
        fields.put("stack.unmodelled", f"{what} (`{key}`)", config.origin(key))


def read_optimizer(fields: Fields, config: NemoConfig) -> None:
    """Adam. The precision-aware one keeps moments in dtypes of its own, and of fp32 parameters the 16 bits that bf16
    does not have (Megatron-LM core 0.19 optimizer/distrib_optimizer.py:1008)."""
    key = f"{OPTIMIZER}.optimizer"
    name = _ADAM.get(config.word(key))
    if config.flag(f"{OPTIMIZER}.use_precision_aware_optimizer"):
        reason = "`use_precision_aware_optimizer` keeps parameters and moments in dtypes of its own"
        fields.unknown("optimizer.name", reason)
        fields.infer("precision.master_dtype", "float16", reason)
    elif name is not None:
        fields.put("optimizer.name", name, config.origin(key))
    else:
        fields.unknown("optimizer.name", config.origin(key).detail or f"`{key}` is not known here")
    divided = f"{OPTIMIZER}.use_distributed_optimizer"
    fields.put("parallelism.replicates_optimizer", not config.flag(divided), config.origin(divided))
    offloads = f"{OPTIMIZER}.optimizer_cpu_offload"
    if config.flag(offloads):
        share = as_number(config.get(f"{OPTIMIZER}.optimizer_offload_fraction"))
        fields.put("offload.optimizer", "cpu", config.origin(offloads))
        fields.put("offload.optimizer_ratio", 1.0 if share is None else float(share), config.origin(offloads))


_OF_OPTIMIZER = ("use_distributed_optimizer", "optimizer_cpu_offload")


def put_own_options(fields: Fields, config: NemoConfig) -> None:
    """The names of Megatron's options, which stand in a section of their own (examples/configs/grpo_math_1B.yaml)."""
    recomputation = "" if fields.get("checkpointing.mode") == "full" else f"{SECTION}.activation_checkpointing: true"
    key = f"{SECTION}.sequence_parallel"
    put_options(fields, _spell, recomputation, "" if config.get(key) else f"{key}: true", "NeMo-RL 0.7.0")


def _spell(name: str) -> str:
    if name == "micro_batch_size":
        return "policy.train_micro_batch_size"
    return f"{OPTIMIZER}.{name}: true" if name in _OF_OPTIMIZER else f"{SECTION}.{name}"
