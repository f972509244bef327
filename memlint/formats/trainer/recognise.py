"""Whether a file is for `HfArgumentParser` or `TrlParser`, judged by its keys alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.base import Recognition
from memlint.formats.schema.validate import compiled_schema
from memlint.source.document import Document

NAME = "trainer"
SCHEMA = "trainer.json"
# TrainingArguments keys that training files really set.
_ARGUMENTS = frozenset(
    {
        *("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "output_dir"),
        *("learning_rate", "lr_scheduler_type", "num_train_epochs", "max_steps", "warmup_ratio", "warmup_steps"),
        *("weight_decay", "logging_steps", "save_steps", "save_strategy", "save_total_limit", "eval_strategy"),
        *("evaluation_strategy", "eval_steps", "gradient_checkpointing", "gradient_checkpointing_kwargs", "optim"),
        *("bf16", "fp16", "report_to", "max_grad_norm", "overwrite_output_dir", "push_to_hub", "hub_model_id"),
        *("dataloader_num_workers", "remove_unused_columns", "disable_tqdm", "logging_strategy", "deepspeed"),
        *("activation_checkpointing", "fsdp", "fsdp_config", "tf32", "use_liger_kernel", "ddp_timeout", "do_train"),
        *("do_eval", "logging_first_step", "save_only_model", "torch_compile", "auto_find_batch_size", "run_name"),
        *("per_gpu_train_batch_size", "neftune_noise_alpha", "load_best_model_at_end", "adam_beta2", "hub_strategy"),
    }
)
# Keys of TRL's configurations and its ModelConfig that plain Trainer scripts do not have.
_TRL_CONFIGURATIONS = frozenset(
    {
        *("use_peft", "lora_modules_to_save", "lora_task_type", "use_dora", "lora_target_parameters"),
        *("packing", "packing_strategy", "dataset_text_field", "dataset_num_proc", "dataset_kwargs", "eval_packing"),
        *("dataset_train_split", "dataset_test_split", "dataset_mixture", "dataset_mixer", "model_init_kwargs"),
        *("max_prompt_length", "max_completion_length", "num_generations", "reward_funcs", "use_vllm"),
        *("completion_only_loss", "assistant_only_loss", "padding_free", "precompute_ref_log_probs", "loss_type"),
        *("beta", "use_bnb_nested_quant", "chat_template_path", "activation_offloading", "reference_free"),
        *("center_rewards_coefficient", "teacher_model_name_or_path", "lmbda", "seq_kd"),
    }
)
# Keys that other scripts have too, but together TRL's alone: transformers' own examples with `dataset_name` call the
# length otherwise (5.23.0 examples/pytorch: block_size, max_seq_length, max_source_length).
_TRL_TOGETHER = frozenset({"dataset_name", "max_length"})
# open-instruct has TRL's names for some things and a trainer of its own (open_instruct/finetune.py, FlatArguments).
OPEN_INSTRUCT = frozenset(
    {
        *("with_tracking", "use_slow_tokenizer", "use_flash_attn", "checkpointing_steps", "add_bos", "dpo_beta"),
        *("dataset_mixer_list", "try_launch_beaker_eval_jobs", "push_to_hub_entity", "dpo_loss_type"),
    }
)
# Arguments of TRL alone: GRPO's and RLOO's files leave most of TrainingArguments at its defaults (`output_dir` has one
# in transformers 5.23.0 training_args.py:1518).
_TRL = frozenset({"reward_funcs", "num_generations", "max_completion_length", "use_vllm", "num_iterations"})
# What says that a file trains with these arguments and does not merely share two of their names.
_CORE = frozenset(
    {
        *("per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate", "num_train_epochs"),
        *("max_steps", "output_dir", "lr_scheduler_type", "per_gpu_train_batch_size"),
    }
)
_MODEL = frozenset(
    {
        "model_name_or_path",
        "model_name",
        "model_id",
        "torch_dtype",
        "dtype",
        "attn_implementation",
        "use_peft",
        "lora_r",
    }
)
# Keys of frameworks that have TrainingArguments' names beside their own; each list names one framework.
_OTHERS: tuple[frozenset[str], ...] = (
    frozenset({"finetuning_type", "cutoff_len", "dataset_info", "lora_target", "quantization_bit", "template"}),
    frozenset(
        {"base_model", "micro_batch_size", "sequence_len", "datasets", "adapter", "sample_packing", "num_epochs"}
    ),
    frozenset(  # ms-swift
        {
            *("tuner_type", "train_type", "sft_type", "rlhf_type", "split_dataset_ratio", "model_author"),
            *("external_plugins", "model"),
        }
    ),
    frozenset({"zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"}),
    frozenset({"distributed_type", "compute_environment", "main_training_function"}),
    frozenset({"tokenizer", "checkpointer", "optimizer", "lr_scheduler", "_component_"}),
    frozenset({"pipe_parallel_size", "pipe-parallel-size", "train_iters", "global_batch_size", "train-iters"}),
)
# LLaMA-Factory's training file cannot do without one of these.
_LLAMAFACTORY = frozenset({"finetuning_type", "cutoff_len", "stage", "template", "dataset_dir"})


def recognise(document: Document) -> Recognition:
    """`certain` with core arguments and a model; `unsure` where the keys decide neither way."""
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    keys = {key for key in value if isinstance(key, str)}
    known, core = len(keys & (_ARGUMENTS | _TRL)), len(keys & _CORE)
    is_for_trl = len(keys & _TRL) >= 2 and _mostly_arguments(keys)
    if (core < 2 and not is_for_trl) or known < 3:
        return Recognition("no")
    if _belongs_elsewhere(keys, value) or _composed(value) or not _plain(value):
        return Recognition("no")
    if not keys & {"output_dir", "model_name_or_path"} and (known < 10 or not _mostly_arguments(keys)):
        return Recognition("no")  # scripts with a parser of their own share a few names
    reason = f"{known} TrainingArguments keys"
    if keys & _MODEL and core >= 3:
        return Recognition("certain", reason=reason)
    return Recognition("likely" if known >= 5 or keys & _MODEL else "unsure", reason=reason)


def is_training_arguments(keys: set[str]) -> bool:
    """Whether these names, of flags of a program that nobody has, are mostly arguments of transformers or TRL."""
    return (
        len(keys & _CORE) >= 2
        and len(keys & (_ARGUMENTS | _TRL)) >= 3
        and not any(len(keys & marks) >= 2 for marks in _OTHERS)
    )


def _mostly_arguments(keys: set[str]) -> bool:
    """Two thirds of the keys are arguments of transformers or TRL: model and folder come from the command line."""
    return 3 * len(keys & compiled_schema(SCHEMA).schema["properties"].keys()) >= 2 * len(keys)


def _belongs_elsewhere(keys: set[str], value: dict[Any, Any]) -> bool:
    if len(keys & _LLAMAFACTORY) >= 2 or ("stage" in keys and isinstance(value["stage"], str)):
        return True
    return any(len(keys & marks) >= 2 for marks in _OTHERS)


def _composed(value: dict[Any, Any]) -> bool:
    """Hydra's own keys (1.3.2 hydra/_internal/defaults_list.py and instantiate/_instantiate2.py): it reads `1e-5` as a
    number, fills `${...}` in, and the Trainer sees what a script makes of the result."""
    return "_target_" in value or isinstance(value.get("hydra"), dict) or isinstance(value.get("defaults"), list)


def _plain(value: dict[Any, Any]) -> bool:
    """HfArgumentParser's values are scalars, lists and a few dictionaries: the core ones are scalars."""
    return not any(isinstance(value.get(key), (dict, list)) for key in _CORE)


def is_trl(value: Mapping[str, Any]) -> bool:
    """Whether these keys are for a trainer and the ModelConfig of TRL."""
    has_own = bool(_TRL_CONFIGURATIONS & value.keys()) or value.keys() >= _TRL_TOGETHER
    return has_own and not OPEN_INSTRUCT & value.keys()
