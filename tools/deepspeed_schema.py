"""Write schemas/deepspeed.json from an installed DeepSpeed: `python tools/deepspeed_schema.py` (read: 0.19.8).

Run `python tools/schema_descriptions.py` after it.

Sections that DeepSpeed reads through pydantic forbid unknown keys (config_utils.py, `extra="forbid"`) and drop
"auto" values; top-level keys and sections read with `dict.get` ignore what they do not know.
"""

from __future__ import annotations

import os
import typing
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
from deepspeed.comm.config import CommsLoggerConfig
from deepspeed.compile.config import CompileConfig
from deepspeed.inference.config import WeightQuantConfig
from deepspeed.monitor.config import CometConfig, CSVConfig, TensorBoardConfig, WandbConfig
from deepspeed.runtime import config as runtime
from deepspeed.runtime.config_utils import DeepSpeedConfigModel
from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.utils.config import DeepSpeedThroughputTimerConfig
from schema_parts import Schema, any_of, default_of, of_annotation, write

from memlint.formats.deepspeed.config import DTYPES
from memlint.formats.deepspeed.keys import KEYS
from memlint.formats.deepspeed.zero import ZERO

AUTO: Schema = {"const": "auto"}
# pydantic's lax mode also takes these words for booleans, and numbers in quotes (pydantic 2 conversion table).
BOOLEAN: Schema = {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false", "True", "False", 0, 1]}, AUTO]}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"anyOf": [{"type": "integer", "minimum": 1}, AUTO]}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
DTYPE: Schema = {"enum": ["fp32", "fp16", "bf16", None]}
# runtime/config.py DtypeEnum: what data_types and torch_autocast take.
WIDE_DTYPE: Schema = {"enum": [*DTYPES, None]}

# When a key went: the releases' runtime/config.py `_REMOVED_*` tables and optimizers (0.19.6, 0.19.7, 0.19.8 compared).
REMOVED_IN = {
    **dict.fromkeys(("nebula", "compression_training", "quantize_training", "sparse_attention"), "deepspeed 0.19.7"),
    **dict.fromkeys(("mics_shard_size", "mics_hierarchical_params_gather"), "deepspeed 0.19.7"),
}


def pydantic(model: type[DeepSpeedConfigModel], **described: Schema) -> Schema:
    """The section that `model` reads. `described` replaces the schema of single keys."""
    properties: dict[str, Schema] = {}
    for name, field in model.model_fields.items():
        schema = described.get(name) or pydantic_field(field)
        properties[field.alias or name] = schema
        if field.alias:  # populate_by_name: both spellings are read
            properties[name] = schema
    return {"type": "object", "properties": properties, "additionalProperties": False}


def since(release: str, schema: Schema) -> Schema:
    """A section that older releases do not read: nothing in it is refused by those."""
    return {**schema, "x-memlint-checked-since": f"deepspeed {release}"}


def precision(model: type[DeepSpeedConfigModel]) -> Schema:
    """fp16 and bf16: up to 0.17.0 read with `dict.get` (0.16.9 runtime/config.py:130-250), any key and value goes."""
    return since("0.17.1", pydantic(model))


def compilation() -> Schema:
    """Up to 0.14.3 `compile` was for torch.compile (0.14.2 runtime/compiler.py:56-79)."""
    schema = pydantic(CompileConfig)
    gone = {
        "x-memlint-removed-in": "deepspeed 0.14.4",
        "x-memlint-note": "refused since 0.16.6; engine.compile() is called instead",
    }
    schema["properties"].update(dict.fromkeys(("enabled", "backend", "kwargs"), gone))
    return schema


def pydantic_field(field: Any) -> Schema:
    schema = of_model(field.annotation)
    for bound in field.metadata:
        for attribute, keyword in (("gt", "exclusiveMinimum"), ("ge", "minimum"), ("le", "maximum")):
            if getattr(bound, attribute, None) is not None and "type" in schema:
                schema = {**schema, keyword: getattr(bound, attribute)}
    if schema.get("type") in ("integer", "number"):
        schema = {"anyOf": [schema, AUTO]}
    if not isinstance(field.default, DeepSpeedConfigModel):
        schema = {**schema, **default_of(field.default)}
    extra = field.json_schema_extra or {}
    if extra.get("deprecated"):
        schema = {**schema, "deprecated": True, "x-memlint-note": f"deprecated: use {extra['new_param']}"}
    return schema


def of_model(annotation: Any) -> Schema:
    if annotation is bool:
        return BOOLEAN
    if isinstance(annotation, type) and issubclass(annotation, DeepSpeedConfigModel):
        return pydantic(annotation)
    if typing.get_origin(annotation) is typing.Union:
        return any_of([of_model(arg) for arg in typing.get_args(annotation)] + [AUTO])
    return of_annotation(annotation)


def section(**properties: Schema) -> Schema:
    """A section read with `dict.get`: keys it does not know change nothing."""
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "x-memlint-unknown": "warning",
    }


def removed(table: dict[str, str]) -> dict[str, Schema]:
    return {
        key: {
            "x-memlint-removed-in": REMOVED_IN.get(key, "deepspeed 0.19.8"),
            "x-memlint-note": note.split(". See ")[0],
        }
        for key, note in table.items()
    }


# What zero/constants.py had before the section became a pydantic model, and what says it now in other words.
RENAMED_ZERO = {
    "cpu_offload_params": ("deepspeed 0.7.0", "offload_param"),
    "find_unused_parameters": ("deepspeed 0.4.0", "ignore_unused_parameters"),
}


def zero() -> Schema:
    row = KEYS[f"{ZERO}.stage"]
    stage: Schema = {"anyOf": [{"enum": [*(row.values or ())]}, AUTO], "default": row.default}
    schema = pydantic(DeepSpeedZeroConfig, stage=stage)
    schema["properties"].update(removed(runtime._REMOVED_ZERO_CONFIG_KEYS))
    for key, (since, new) in RENAMED_ZERO.items():
        schema["properties"][key] = {
            "x-memlint-removed-in": since,
            "x-memlint-renamed-to": new,
            "x-memlint-other-value": True,
        }
    return schema  # `zero_optimization: true` (deprecated) is let through in formats/deepspeed/format.py


# Arguments of DeepSpeed's optimizers (ops/*/*.py, runtime/fp16/onebit/*.py) and of torch.optim's, which
# runtime/engine.py builds from `params`; others raise TypeError there. Only slips of these are reported: more
# optimizers can be installed.
OPTIMIZER_ARGUMENTS = """
lr betas eps weight_decay bias_correction adam_w_mode adamw_mode torch_adam amsgrad set_grad_none
fp32_optimizer_states momentum max_grad_norm max_coeff min_coeff eps_inside_sqrt freeze_step cuda_aware
comm_backend_name var_freeze_step var_update_scaler local_step_scaler local_step_clipper coeff_beta factor_max
factor_min factor_threshold muon_lr adam_lr ns_method nesterov ns_steps dampening lr_decay
initial_accumulator_value alpha centered foreach fused maximize capturable differentiable
decoupled_weight_decay use_nesterov clip_threshold decay_rate
"""
# lr_schedules.py, and torch.optim.lr_scheduler (runtime/engine.py:1926).
SCHEDULES = [
    *("LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"),
    *("LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR"),
    *("SequentialLR", "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR", "OneCycleLR"),
    *("CosineAnnealingWarmRestarts", "PolynomialLR"),
]
SCHEDULE_ARGUMENTS = """
warmup_min_lr warmup_max_lr warmup_num_steps warmup_type last_batch_iteration total_num_steps warmup_min_ratio
cos_min_ratio lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase cycle_min_lr
cycle_max_lr decay_lr_rate cycle_first_step_size cycle_second_step_size cycle_first_stair_count
cycle_second_stair_count decay_step_size cycle_momentum cycle_min_mom cycle_max_mom decay_mom_rate
"""
_OPTIMIZER_WORDS = {"wd": "weight_decay", "adam_weight_decay": "weight_decay", "learning_rate": "lr", "epsilon": "eps"}
OPTIMIZER_ALIASES = {name: {"key": key} for name, key in _OPTIMIZER_WORDS.items()}


def arguments(names: str, aliases: Schema, **typed: Schema) -> Schema:
    """The arguments of a class that the file names: only slips of known ones are reported."""
    properties: Schema = {name: typed.get(name, {}) for name in names.split()}
    known: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**known, "x-memlint-unknown": "near", "x-memlint-aliases": aliases}


def optimizer() -> Schema:
    """torch 2.13 optim/adamw.py:54 and the like: a negative rate or decay raises ValueError."""
    least: Schema = {"anyOf": [{"type": "number", "minimum": 0}, AUTO]}
    params = arguments(OPTIMIZER_ARGUMENTS, OPTIMIZER_ALIASES, lr=least, weight_decay=least, eps=least)
    return section(type=TEXT, params=params, legacy_fusion=FLAG)


def scheduler() -> Schema:
    return section(type={"enum": SCHEDULES}, params=arguments(SCHEDULE_ARGUMENTS, {}))


def top_level() -> dict[str, Schema]:
    """Keys that runtime/config.py reads itself, and the sections."""
    return {
        "train_batch_size": COUNT,
        "train_micro_batch_size_per_gpu": COUNT,
        "gradient_accumulation_steps": COUNT,
        "managed_gradient_accumulation": {**FLAG, "default": True},
        "steps_per_print": {"type": ["number", "null"]},
        "dump_state": FLAG,
        "disable_python_gc": FLAG,
        "disable_allgather": FLAG,
        "communication_data_type": DTYPE,
        "seq_parallel_communication_data_type": DTYPE,
        "sequence_parallel_size": {"type": "integer", "minimum": 1},
        "prescale_gradients": FLAG,
        "gradient_predivide_factor": NUMBER,
        "gradient_allreduce_op": {"enum": ["mean", "sum"], "default": "mean"},
        "gradient_clipping": {
            "anyOf": [{"type": "number"}, AUTO],
            "default": 1.0,
        },  # engine.py:3506: none at or below 0
        "optimizer": optimizer(),
        "scheduler": scheduler(),
        "zero_allow_untested_optimizer": FLAG,
        "zero_force_ds_cpu_optimizer": {**FLAG, "default": True},
        "zero_optimization": zero(),
        "allgather_size": {**NUMBER, "deprecated": True},
        "fp16": precision(DeepSpeedFP16Config),
        "bf16": precision(DeepSpeedBF16Config),
        "bfloat16": precision(DeepSpeedBF16Config),
        "torch_autocast": section(
            enabled=FLAG, dtype=WIDE_DTYPE, lower_precision_safe_modules={"type": "array", "items": TEXT}
        ),
        "data_types": section(
            grad_accum_dtype=WIDE_DTYPE, param_dtype=WIDE_DTYPE, buffer_dtype=WIDE_DTYPE, keep_in_fp32_modules={}
        ),
        "activation_checkpointing": section(
            partition_activations=FLAG,
            number_checkpoints={"type": ["integer", "null"]},
            contiguous_memory_optimization=FLAG,
            synchronize_checkpoint_boundary=FLAG,
            profile=FLAG,
            cpu_checkpointing=FLAG,
        ),
        "wall_clock_breakdown": FLAG,
        "memory_breakdown": FLAG,
        "vocabulary_size": {"type": ["integer", "null"]},
        "dataloader_drop_last": FLAG,
        "log_level": {},
        "use_data_before_expert_parallelism": FLAG,
        **sections(),
        **removed(runtime._REMOVED_TOP_LEVEL_CONFIG_KEYS),
    }


def sections() -> dict[str, Schema]:
    return {
        "flops_profiler": section(
            enabled=FLAG,
            recompute_fwd_factor=NUMBER,
            profile_step=INTEGER,
            module_depth=INTEGER,
            top_modules=INTEGER,
            detailed=FLAG,
            output_file={"type": ["string", "null"]},
        ),
        "comms_logger": pydantic(CommsLoggerConfig),
        "tensorboard": pydantic(TensorBoardConfig),
        "wandb": pydantic(WandbConfig),
        "csv_monitor": pydantic(CSVConfig),
        "comet": pydantic(CometConfig),
        "timers": section(throughput=pydantic(DeepSpeedThroughputTimerConfig)),
        "autotuning": OBJECT,
        "hybrid_engine": pydantic(runtime.HybridEngineConfig),
        "pipeline": OBJECT,
        "data_efficiency": OBJECT,
        "checkpoint": section(
            tag_validation={"enum": ["Warn", "Ignore", "Fail", "WARN", "IGNORE", "FAIL", "warn", "ignore", "fail"]},
            load_universal=FLAG,
            use_node_local_storage=FLAG,
            parallel_write=section(pipeline_stage=FLAG),
            checkpoint_serialization=FLAG,
            writer={"type": ["object", "null"]},
        ),
        "aio": section(
            block_size=INTEGER,
            queue_depth=INTEGER,
            intra_op_parallelism=INTEGER,
            single_submit=FLAG,
            overlap_events=FLAG,
            use_gds=FLAG,
            thread_count={
                "x-memlint-renamed-to": "intra_op_parallelism",
                "x-memlint-note": "ignored by newer releases",
            },
        ),
        "datastates_ckpt": {},
        "weight_quantization": pydantic(WeightQuantConfig),
        "compile": compilation(),
        "tensor_parallel": since("0.16.4", pydantic(TPTrainingConfig)),
        "expert_parallel": OBJECT,
        "inference": OBJECT,  # read by transformers' integrations/deepspeed.py
        "msamp": OBJECT,  # accelerate's DeepSpeedPlugin writes it
    }


def main() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "DeepSpeed configuration",
        "description": f"Generated by tools/deepspeed_schema.py from deepspeed {deepspeed.__version__.strip()}.",
        "type": "object",
        "properties": top_level(),
        "additionalProperties": False,
        "x-memlint-unknown": "warning",
    }
    write("deepspeed.json", schema)


if __name__ == "__main__":
    main()
