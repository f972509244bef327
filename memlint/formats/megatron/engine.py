"""Precision, optimizer and recomputation of a command of Megatron-LM.

Bytes of a parameter, by docs/user-guide/features/dist_optimizer.md: bf16 18, or 6 + 12/d with the distributed
optimizer on d data-parallel ranks; fp16 with gradients in fp16 20, or 4 + 16/d; fp32 16, or 8 + 8/d.
"""

from __future__ import annotations

from memlint.formats.fields import Behaviour, Fields
from memlint.formats.megatron.config import SOURCE, MegatronConfig
from memlint.formats.megatron.parallel import unread_stages
from memlint.formats.megatron_options import put_options
from memlint.run import Origin

COMMON = (
    Behaviour("parallelism.engine", "megatron", f"{SOURCE} training/training.py"),
    Behaviour("precision.autocast", False, f"{SOURCE} core/transformer/module.py, Float16Module"),
    Behaviour("optimizer.state_dtype", "float32", f"{SOURCE} core/optimizer: moments of fp32 parameters"),
    Behaviour("sequence.length_is_bound", False, f"{SOURCE} core/datasets/gpt_dataset.py: every sample is full"),
    Behaviour("evaluation.enabled", False, f"{SOURCE} training/training.py: evaluation keeps nothing of a backward"),
    Behaviour("batch.auto_find", False, f"{SOURCE} has no such search"),
    Behaviour("method.kind", "full", f"{SOURCE} pretrain_gpt.py: all parameters train"),
    Behaviour("method.stage", "pt", f"{SOURCE} pretrain_gpt.py"),
)
# What keeps less on a card than the bound counts, so that there is none.
_UNMODELLED = {
    "use_torch_fsdp2": "PyTorch's FSDP",
    "use_megatron_fsdp": "Megatron's FSDP",
    "use_custom_fsdp": "Megatron's FSDP",
    "fp4_param_gather": "parameters in 4 bits",
    "skip_train": "evaluation alone",
    "perform_rl_step": "reinforcement learning",
    "rl_offload_optimizer_during_inference": "reinforcement learning",
    "gtp_weight_remat_size": "weights that are divided once more",
    "tensor_parallel_num_weight_shards": "weights that are divided once more",
    "expert_tensor_parallel_num_weight_shards": "weights that are divided once more",
    "expert_gtp_weight_remat_size": "weights that are divided once more",
}
PRECISION_AWARE = "use_precision_aware_optimizer"
_ADAM = {"adam": "adamw_torch", "adamw": "adamw_torch", "sgd": "sgd"}


def read_precision(fields: Fields, config: MegatronConfig) -> None:
    """`--bf16` or `--fp16`: parameters are in that dtype; gradients of bf16 are summed in fp32 unless the command says
    otherwise, those of fp16 are as the parameters (training/arguments.py)."""
    key = "bf16" if config.flag("bf16") else "fp16"
    open_key = next((name for name in ("bf16", "fp16") if config.written(name) and config.get(name) is not True), "")
    if open_key and config.raw(open_key) is not False and not config.flag(open_key):
        for field in ("precision.compute", "precision.trainable_dtype", "model.weights_dtype"):
            fields.unknown(field, config.why(open_key))
        return
    dtype = "bfloat16" if config.flag("bf16") else "float16" if config.flag("fp16") else "float32"
    stored = "float8" if config.flag("fp8_param_gather") else dtype
    fields.put("precision.compute", dtype, config.origin(key))
    fields.put("precision.trainable_dtype", stored, config.origin(key))
    fields.put("model.weights_dtype", stored, config.origin(key))
    fields.put("precision.grad_dtype", _gradients(config, dtype), config.origin(key))
    fields.put("precision.master_weights", dtype != "float32", Origin("framework", detail=f"{SOURCE} core/optimizer"))


def _gradients(config: MegatronConfig, dtype: str) -> str:
    """The dtype of the buffer that gradients are summed in."""
    if config.flag("accumulate_allreduce_grads_in_fp32"):
        return "float32"
    halves = config.flag("grad_reduce_in_bf16") or config.text("main_grads_dtype") == "bf16"
    return "float32" if dtype == "bfloat16" and not halves else dtype


_MOMENTS = ("exp_avg_dtype", "exp_avg_sq_dtype")
_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8"}


def read_optimizer(fields: Fields, config: MegatronConfig) -> None:
    """Adam unless said."""
    key = "optimizer"
    name = _ADAM.get(config.text(key).lower(), "")
    if name:
        fields.put("optimizer.name", name, config.origin(key))
    else:
        fields.unknown("optimizer.name", config.origin(key).detail or f"the optimizer `{config.raw(key)}` is not known")
    if config.flag(PRECISION_AWARE):
        _read_aware(fields, config)


def _read_aware(fields: Fields, config: MegatronConfig) -> None:
    """The precision-aware optimizer keeps moments in the dtypes that the command says, and of fp32 parameters the 16
    bits that bf16 does not have (core 0.19 optimizer/distrib_optimizer.py:1008, store_param_remainders)."""
    fields.put("precision.master_dtype", "float16", config.origin(PRECISION_AWARE))
    dtypes = {_DTYPES.get(config.text(key), "") for key in _MOMENTS}
    if len(dtypes) == 1 and "" not in dtypes:
        fields.put("optimizer.state_dtype", dtypes.pop(), config.origin(_MOMENTS[0]))
    else:
        fields.unknown("optimizer.name", f"`{_MOMENTS[0]}` and `{_MOMENTS[1]}`: moments in dtypes of their own")


def read_distributed(fields: Fields, config: MegatronConfig) -> None:
    """`--use-distributed-optimizer` divides the states among data-parallel ranks; without it each has all of its share
    of the model. Muon's divides them by layers."""
    key = "use_distributed_optimizer"
    value = config.get(key)
    divided = value is not False and value is not None
    other = "dist" in config.text("optimizer")
    fields.put("parallelism.replicates_optimizer", not (divided or other), config.origin(key))


def read_offload(fields: Fields, config: MegatronConfig) -> None:
    """Optimizer states that wait and step on the host, all of them unless a share is said."""
    key, share = "optimizer_cpu_offload", "optimizer_offload_fraction"
    if config.gives(key):
        number = config.number(share)
        fields.put("offload.optimizer", "cpu", config.origin(key))
        fields.put("offload.optimizer_ratio", 1.0 if number is None else number, config.origin(share))


def read_activations(fields: Fields, config: MegatronConfig) -> None:
    for key in ("cpu_offloading_num_layers", "fine_grained_activation_offloading"):
        if config.gives(key):
            fields.put("offload.activations", "cpu", config.origin(key))


def read_recomputation(fields: Fields, config: MegatronConfig) -> None:
    """`--recompute-activations` recomputes attention alone, `--recompute-granularity full` layers: each `uniform` group
    of layers keeps one input. Before 23.04 `--checkpoint-activations` and `--activations-checkpoint-method` did."""
    key = "recompute_granularity"
    older = next((one for one in ("checkpoint_activations", "activations_checkpoint_method") if config.gives(one)), "")
    value = config.get(key)
    if config.flag("recompute_activations"):
        fields.put("checkpointing.mode", "selective", config.origin("recompute_activations"))
    elif older or value == "full":
        fields.put("checkpointing.mode", "full", config.origin(older or key))
        _read_groups(fields, config)
    elif value is None:
        fields.put("checkpointing.mode", "none", config.origin(key))
    elif value == "selective":
        fields.put("checkpointing.mode", "selective", config.origin(key))
    else:
        fields.unknown("checkpointing.mode", config.why(key))
        fields.infer("checkpointing.every", 1 << 12, "how many layers one group has is not known")


def _read_groups(fields: Fields, config: MegatronConfig) -> None:
    method, count = "recompute_method", "recompute_num_layers"
    if config.get(method) == "block" or config.written(count) is None:
        return
    layers = config.whole(count)
    fields.put("checkpointing.every", layers or 1 << 12, config.origin(count))


def read_unmodelled(fields: Fields, config: MegatronConfig) -> None:
    """What keeps less on a card than is counted here, and forks' programs, of which nothing is known."""
    uneven = unread_stages(config)
    what = next((f"{what} (`{key}`)" for key, what in _UNMODELLED.items() if config.gives(key)), "")
    if config.foreign:
        shown = ", ".join(f"`{key}`" for key in config.foreign[:3])
        what = f"a fork of Megatron-LM, with arguments that it does not have ({shown})"
    elif uneven and not what:
        what = f"stages with different numbers of layers (`{uneven}`)"
    if what:
        fields.infer("stack.unmodelled", what, "arguments of the command")
        fields.infer("stack.unmodelled_adds", False, "arguments of the command")


_RECOMPUTATION = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"


def put_flags(fields: Fields, config: MegatronConfig, source: str) -> None:
    """How a command's flags say the options that advice names."""
    recomputation = "" if fields.get("checkpointing.mode") == "full" else _RECOMPUTATION
    sequence = "" if config.gives("sequence_parallel") else "--sequence-parallel"
    put_options(fields, _flag, recomputation, sequence, source)


def _flag(name: str) -> str:
    flag = f"--{name.replace('_', '-')}"
    return f"{flag} --use-precision-aware-optimizer" if name == "optimizer_cpu_offload" else flag
