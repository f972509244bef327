"""Keys of accelerate's launch file and its FSDP options: spelled, read, written back, defaulted and described once.

accelerate 1.15: commands/config/config_args.py, commands/launch.py (options and their defaults), utils/launch.py,
utils/dataclasses.py (FullyShardedDataParallelPlugin, DeepSpeedPlugin, ParallelismConfig).
"""

from __future__ import annotations

import memlint.formats.accelerate.fsdp_options as fsdp
from memlint.formats.keys import Key, Keys

_STRATEGIES = {name: name for name in fsdp.STRATEGIES}
_STATE_DICTS = ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")  # utils/constants.py, FSDP_STATE_DICT_TYPE
_ENGINES = {
    "NO": "single",
    "MULTI_GPU": "ddp",
    "DEEPSPEED": "deepspeed",
    "FSDP": "fsdp",
    "MEGATRON_LM": "megatron",
}
# In any case (1.15 utils/launch.py:574), and written in small letters.
_DEVICES = {word: word.lower() for word in ("none", "cpu", "nvme", "None", "NONE", "CPU", "NVMe", "NVME")}

# Options of `fsdp_config`, in a launch file and in transformers' TrainingArguments: with the prefix, else without.
_FSDP = (
    Key(
        "fsdp_version",
        "whole",
        "parallelism.fsdp.version",
        default=1,
        older=("version",),
        values={1: 1, 2: 2},
        read_only=True,  # other options have to change with it
        about="FSDP1 (flat parameters) or FSDP2 (DTensors, one a parameter).",
    ),
    Key(
        "fsdp_sharding_strategy",
        "text",
        "parallelism.fsdp.strategy",
        default="FULL_SHARD",
        older=("sharding_strategy",),
        values=_STRATEGIES,
        read=fsdp.read_strategy,
        about="FSDP1: what is divided over the GPUs. FULL_SHARD divides parameters, gradients and optimizer states; "
        "SHARD_GRAD_OP keeps gathered parameters until the backward pass; the HYBRID ones divide within a node.",
    ),
    Key(
        "fsdp_reshard_after_forward",
        "flag",
        "parallelism.fsdp.reshard_after_forward",
        default=True,
        older=("reshard_after_forward",),
        read_with="fsdp_sharding_strategy",
        about="FSDP2: free gathered parameters after each unit's forward pass, and gather them again in backward.",
    ),
    Key(
        "fsdp_auto_wrap_policy",
        "text",
        "parallelism.fsdp.wrap",
        default="NO_WRAP",
        older=("auto_wrap_policy",),
        values={"TRANSFORMER_BASED_WRAP": "transformer", "SIZE_BASED_WRAP": "size", "NO_WRAP": "none"},
        read=fsdp.read_wrap,
        about="What is gathered at once: a decoder layer, modules of a size, or the whole model.",
    ),
    Key(
        "fsdp_transformer_layer_cls_to_wrap",
        "words",
        "parallelism.fsdp.wrapped_classes",
        older=("transformer_layer_cls_to_wrap",),
        only_if_given=True,
        read_only=True,
        about="The classes that TRANSFORMER_BASED_WRAP makes units of. Unset: those that the model names.",
    ),
    Key(
        "fsdp_min_num_params",
        "whole",
        "parallelism.fsdp.min_num_params",
        default=100_000_000,
        older=("min_num_params",),
        least=0,
        about="Parameters that make a unit under SIZE_BASED_WRAP.",
    ),
    Key(
        "fsdp_backward_prefetch",
        "text",
        "parallelism.fsdp.backward_prefetch",
        default="NO_PREFETCH",
        older=("backward_prefetch",),
        values={"BACKWARD_PRE": "BACKWARD_PRE", "BACKWARD_POST": "BACKWARD_POST", "NO_PREFETCH": "NONE"},
        read=fsdp.read_prefetch,
        about="FSDP1: gather the next unit before or after this one's gradients. Before, two units are gathered.",
    ),
    Key(
        "fsdp_forward_prefetch",
        "flag",
        "parallelism.fsdp.forward_prefetch",
        default=False,
        older=("forward_prefetch",),
        about="FSDP1: gather the next unit during this one's forward pass.",
    ),
    Key(
        "fsdp_offload_params",
        "flag",
        "parallelism.fsdp.cpu_offload",
        default=False,
        older=("offload_params",),
        read=fsdp.read_offload,
        about="Keep each GPU's part of parameters, gradients and optimizer states in host memory.",
    ),
    Key(
        "fsdp_use_orig_params",
        "flag",
        "parallelism.fsdp.use_orig_params",
        default=True,
        older=("use_orig_params",),
        about="FSDP1: let a unit have frozen and trainable parameters. FSDP2 always does.",
    ),
    Key(
        "fsdp_cpu_ram_efficient_loading",
        "flag",
        "parallelism.fsdp.cpu_ram_efficient_loading",
        default=True,
        older=("cpu_ram_efficient_loading",),
        about="Load the checkpoint in one process alone. Else each one of a node holds the model in host memory.",
    ),
    Key(
        "fsdp_state_dict_type",
        "text",
        "parallelism.fsdp.state_dict_type",
        older=("state_dict_type",),
        values={name: name for name in _STATE_DICTS},
        read=fsdp.read_state_dict,
        about="How checkpoints are saved; FULL_STATE_DICT gathers the whole model. Unset: full for FSDP1, sharded for "
        "FSDP2.",
    ),
    Key(
        "fsdp_activation_checkpointing",
        "flag",
        "parallelism.fsdp.activation_checkpointing",
        default=False,
        older=("activation_checkpointing",),
        read=fsdp.read_checkpointing,
        about="Recompute each unit in the backward pass instead of keeping its activations.",
    ),
    Key(
        "fsdp_activation_checkpointing_offload",
        "flag",
        "checkpointing.offload",
        default=False,
        older=("activation_checkpointing_offload",),
        read=fsdp.read_checkpointing_offload,
        read_only=True,  # nothing without fsdp_activation_checkpointing
        about="Keep the inputs of recomputed units in host memory.",
    ),
)
# Only TrainingArguments have these (transformers 5.23 training_args.py, _process_fsdp_args).
_FSDP_OF_TRANSFORMERS = (
    Key("fsdp_cpu_offload", "flag", older=("cpu_offload",), about="transformers' name for `offload_params`."),
    Key(
        "fsdp_limit_all_gathers",
        "flag",
        default=True,
        older=("limit_all_gathers",),
        about="FSDP1: keep the CPU from running ahead, so that no more than two units are gathered.",
    ),
)

_LAUNCH = (
    Key(
        "distributed_type",
        "text",
        "parallelism.engine",
        values={
            "NO": "single",
            "MULTI_GPU": "ddp",
            "DEEPSPEED": "deepspeed",
            "FSDP": "fsdp",
            "MEGATRON_LM": "megatron",
        },
        read_only=True,
        about="What divides the work over GPUs.",
    ),
    Key(
        "num_processes",
        "whole",
        "parallelism.world_size",
        least=1,
        read_only=True,
        about="Processes on all machines together, one a GPU.",
    ),
    Key("num_machines", "whole", default=1, least=1, about="Nodes; the processes are divided over them."),
    Key(
        "mixed_precision",
        "text",
        default="no",
        values={word: word for word in ("no", "fp16", "bf16", "fp8")},
        about="The dtype of autocast, where the training arguments say nothing. Parameters stay fp32 beside it.",
    ),
    Key("fp16", "flag", about="The deprecated way to say `mixed_precision: fp16`."),
    Key(
        "fp8_config.backend",
        "word",
        "precision.fp8",
        default="ao",
        older=("fp8_config.fp8_backend",),
        values={"ao": "torchao", "te": "te", "msamp": "msamp"},
        read_only=True,  # nothing without `mixed_precision: fp8`
        about="Who computes in fp8: torchao, Transformer Engine or MS-AMP.",
    ),
    Key(
        "fp8_config.use_mxfp8_block_scaling",
        "flag",
        default=False,
        about="Transformer Engine's MXFP8: a scale for 32 elements, on Blackwell alone.",
    ),
    Key("fsdp_config", "any", about="FSDP's options, for `distributed_type: FSDP`."),
    Key("deepspeed_config", "any", about="DeepSpeed's options, for `distributed_type: DEEPSPEED`."),
    Key("parallelism_config", "any", about="Degrees of tensor, context and sequence parallelism."),
    Key("megatron_lm_config", "any", about="Megatron-LM's options, for `distributed_type: MEGATRON_LM`."),
)
_DEEPSPEED = (
    Key("deepspeed_config.mixed_precision", "text", about="It wins over the `mixed_precision` at the top of the file."),
    Key(
        "deepspeed_config.deepspeed_config_file",
        "text",
        about="A DeepSpeed configuration; the other keys of the section may not stand beside it.",
    ),
    Key(
        "deepspeed_config.zero_stage",
        "whole",
        "parallelism.zero.stage",
        default=2,
        values={stage: stage for stage in range(4)},
        about="What is divided over the GPUs: 1 the optimizer states and fp32 weights, 2 the gradients as well, 3 the "
        "parameters as well.",
    ),
    Key(
        "deepspeed_config.offload_optimizer_device",
        "text",
        "offload.optimizer",
        default="none",
        values=_DEVICES,
        about="Where optimizer states and fp32 weights are: none (the GPU), cpu or nvme.",
    ),
    Key(
        "deepspeed_config.offload_param_device",
        "text",
        "offload.parameters",
        default="none",
        values=_DEVICES,
        about="Where each GPU's part of the parameters is: none (the GPU), cpu or nvme. It needs stage 3.",
    ),
    Key(
        "deepspeed_config.zero3_save_16bit_model",
        "flag",
        "parallelism.zero.gather_16bit_weights_on_model_save",
        default=False,
        about="Gather the whole model for saving. The first process holds it in host memory.",
    ),
    Key(
        "deepspeed_config.zero3_init_flag",
        "flag",
        about="Divide a model's weights while they load. Releases from 1.0 on do so whatever it says.",
    ),
    Key(
        "deepspeed_config.gradient_accumulation_steps",
        "whole",
        "batch.gradient_accumulation_steps",
        least=1,
        read_only=True,  # it has to equal the training arguments' value
        about="Forward passes before the optimizer steps.",
    ),
    Key(
        "deepspeed_config.gradient_clipping",
        "number",
        "optimizer.max_grad_norm",
        read_only=True,  # it has to equal the training arguments' value
        about="The largest norm of all gradients.",
    ),
)


def _degree(key: str, field: str, about: str) -> Key:
    """A number of GPUs. It never changes alone: the degrees multiply to the world size."""
    return Key(key, "whole", f"parallelism.{field}_parallel_size", least=1, read_only=True, about=about)


_DEGREES = (
    _degree("parallelism_config.parallelism_config_tp_size", "tensor", "GPUs that share each linear layer."),
    _degree("parallelism_config.parallelism_config_cp_size", "context", "GPUs that share each sequence (ring)."),
    # Ulysses is DeepSpeed's (1.15 parallelism_config.py: sp_backend).
    _degree("parallelism_config.parallelism_config_sp_size", "sequence", "GPUs that share each sequence (Ulysses)."),
)
_MEGATRON = (
    _degree("megatron_lm_config.megatron_lm_tp_degree", "tensor", "GPUs that share each linear layer."),
    _degree("megatron_lm_config.megatron_lm_pp_degree", "pipeline", "Stages that the layers are divided into."),
)


def _in_launch_file(row: Key) -> Key:
    """An FSDP option as launch files spell it (commands/launch.py:1266: with the prefix or without)."""
    section = "fsdp_config."
    older = tuple(f"{section}{name}" for name in row.older)
    return row._replace(
        name=f"{section}{row.name}", older=older, read_with=f"{section}{row.read_with}" if row.read_with else ""
    )


OPTIONS = Keys(*_FSDP, *_FSDP_OF_TRANSFORMERS)
DEGREES = Keys(*_DEGREES)
MEGATRON = Keys(*_MEGATRON)
INLINE = Keys(*_DEEPSPEED)
KEYS = Keys(*_LAUNCH, *(_in_launch_file(row) for row in _FSDP), *_DEEPSPEED, *_DEGREES, *_MEGATRON)
