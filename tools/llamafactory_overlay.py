"""What LLaMA-Factory's sources do not say in a field's annotation: accepted forms, renames, other frameworks' names."""

from __future__ import annotations

from typing import Any

from memlint.formats.trainer.meant import REPORTS

# `split_arg` leaves what is no string as it is (hparams/data_args.py:148, finetuning_args.py:580): lists work.
LISTS = {
    "dataset",
    "eval_dataset",
    "interleave_probs",
    "freeze_trainable_modules",
    "freeze_extra_modules",
    "lora_target",
    "oft_target",
    "additional_target",
    "galore_target",
    "apollo_target",
}

# None passes: the field is only tested for truth, or its default is taken for it.
NULLABLE = {
    "media_dir",
    "output_dir",
    "run_name",
    "report_to",
    "resume_from_checkpoint",
    "infer_backend",
    "ddp_timeout",
}

_TEXT_OR_LIST = {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}]}

_REPORTS = {
    "anyOf": [
        {"type": ["string", "null"], "enum": [*REPORTS, None]},
        {"type": "array", "items": {"type": "string", "enum": list(REPORTS)}},
    ]
}

# transformers utils/logging.py:44 and training_args.py (trainer_log_levels)
LOG_LEVELS = ["detail", "debug", "info", "warning", "error", "critical", "passive"]

# The whole schema of a key, where code accepts more or less than the annotation.
OVERRIDES: dict[str, dict[str, Any]] = {
    "report_to": _REPORTS,
    "resume_from_checkpoint": {"type": ["string", "boolean", "null"]},  # trainer.train takes a bool or a path
    "fsdp": {"anyOf": [{"type": ["string", "boolean", "null"]}, {"type": "array", "items": {"type": "string"}}]},
    "fsdp_config": {"type": ["object", "string", "null"]},
    "deepspeed": {"type": ["object", "string", "null"]},
    "debug": _TEXT_OR_LIST,
    "accelerator_config": {"type": ["object", "string", "null"]},
    "gradient_checkpointing_kwargs": {"type": ["object", "string", "null"]},
    "activation_checkpointing_kwargs": {"type": ["object", "string", "null"]},
    "lr_scheduler_kwargs": {"type": ["object", "string", "null"]},
    "optim_target_modules": _TEXT_OR_LIST,
    "label_names": _TEXT_OR_LIST,
    "master_port": {"type": ["string", "integer", "null"]},  # train/tuner.py passes it on as text
    "ray_init_kwargs": {"type": ["object", "string", "null"]},
    "include_num_input_tokens_seen": {"type": ["boolean", "string", "null"]},
    "logging_steps": {"type": "number", "minimum": 0},
    "eval_steps": {"type": ["number", "null"], "minimum": 0},
    "save_steps": {"type": "number"},  # -1 saves nothing (transformers 5.23 trainer_callback.py:586)
    "warmup_steps": {"type": "number", "minimum": 0},  # a share of the steps since transformers 5
    "num_train_epochs": {"type": "number", "minimum": 0},
    "learning_rate": {"type": "number", "minimum": 0},
    "val_size": {"type": "number", "minimum": 0},
    "cutoff_len": {"type": "integer", "minimum": 1},
    "lora_rank": {"type": "integer", "minimum": 1},  # peft/tuners/lora/layer.py: `r` should be positive
    "lora_dropout": {"type": "number", "minimum": 0, "maximum": 1},
    "per_device_train_batch_size": {"type": "integer", "minimum": 1},
    "per_device_eval_batch_size": {"type": "integer", "minimum": 1},
    "gradient_accumulation_steps": {"type": "integer", "minimum": 1},
    "quantization_bit": {"enum": [None, 1, 2, 3, 4, 5, 6, 8]},  # model_utils/quantization.py:177-226
    "ref_model_quantization_bit": {"enum": [None, 4, 8]},  # hparams/finetuning_args.py:596
    "reward_model_quantization_bit": {"enum": [None, 4, 8]},
    "export_quantization_bit": {"enum": [None, 2, 3, 4, 8]},  # model_utils/quantization.py:145
    "image_max_pixels": {"type": "integer", "minimum": 1},
    "image_min_pixels": {"type": "integer", "minimum": 1},
    "image_resolution": {"type": "integer"},
    "eval_strategy": {"enum": ["no", "steps", "epoch"]},
    "evaluation_strategy": {"enum": ["no", "steps", "epoch"]},
    "logging_strategy": {"enum": ["no", "steps", "epoch"]},
    "save_strategy": {"enum": ["no", "steps", "epoch", "best"]},
    "adam_beta1": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},  # torch 2.13 optim/adamw.py:54-63
    "adam_beta2": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    "adam_epsilon": {"type": "number", "minimum": 0},
    "weight_decay": {"type": "number", "minimum": 0},
    "seed": {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    "log_level": {"enum": LOG_LEVELS},
    "log_level_replica": {"enum": LOG_LEVELS},
    "vllm_config": {"type": ["object", "string", "null"]},
    "sglang_config": {"type": ["object", "string", "null"]},
    "extra_config": {"type": ["object", "string", "null"]},
    "kt_config": {"type": ["object", "null"]},
    "fp8": {"anyOf": [{"$ref": "#/$defs/flag"}, {"enum": ["e4m3", "hybrid"]}]},  # mcore_adapter takes a format
    "moe_token_dispatcher_type": {"enum": ["allgather", "alltoall", "flex", None]},
    "recompute_method": {"enum": ["uniform", "block", "recompute", None]},
    "badam_mask_mode": {"enum": ["adjacent", "scatter"]},
    "torch_dtype": {"type": ["string", "null"]},
}

RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "no_cuda": "use_cpu",
    "use_mps_device": "use_cpu",
    "include_inputs_for_metrics": "include_for_metrics",
    "group_by_length": "train_sampling_strategy",
    "push_to_hub_token": "hub_token",
    "push_to_hub_model_id": "hub_model_id",
    "name_module_trainable": "freeze_trainable_modules",
    "num_layer_trainable": "freeze_trainable_layers",
    "image_resolution": "image_max_pixels",
    "video_resolution": "video_max_pixels",
    "reserved_label_len": "cutoff_len",
    "sft_packing": "packing",
    "dpo_beta": "pref_beta",
    "dpo_loss": "pref_loss",
    "dpo_ftx": "pref_ftx",
    "orpo_beta": "pref_beta",
    "max_source_length": "cutoff_len",
    "max_target_length": "cutoff_len",
    "checkpoint_dir": "adapter_name_or_path",
    "hf_auth_token": "hf_hub_token",
    "use_auth_token": "hf_hub_token",
    "system_prompt": "default_system",
    "cache_path": "tokenized_path",
    "train_mm_proj_only": "freeze_language_model",
    "image_dir": "media_dir",
    "neft_alpha": "neftune_noise_alpha",
    "new_special_tokens": "add_special_tokens",
    "dpo_ref_model": "ref_model",
    "dpo_ref_model_checkpoint": "ref_model_adapters",
    "ref_model_checkpoint": "ref_model_adapters",
    "reward_model_checkpoint": "reward_model_adapters",
    "ppo_logger": "report_to",
    "lora_bf16_mode": "pure_bf16",
    "vllm_dtype": "infer_dtype",
    "include_tokens_per_second": "include_num_input_tokens_seen",
    "torchdynamo": "torch_compile_backend",
    "prompt_template": "template",
    "fsdp_min_num_params": "fsdp_config",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config",
}

# The new key of these wants another value, or means something else with the old one: no renaming mends the file.
OTHER_VALUE = frozenset(
    {
        *("fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap", "group_by_length", "include_inputs_for_metrics"),
        *("reserved_label_len", "use_auth_token", "use_mps_device"),
    }
)

NOTES: dict[str, str] = {
    "overwrite_output_dir": "kept by LLaMA-Factory itself although transformers 5 dropped it",
    "quantization_method": "a name that LLaMA-Factory does not know leaves the model unquantised, without a word",
    "warmup_ratio": "transformers 5 reads a `warmup_steps` below 1 as the share",
}

VALUE_ALIASES: dict[str, dict[str, Any]] = {
    "flash_attn": {
        "flash_attention_2": "fa2",
        "flash_attention_3": "fa3",
        "flash_attn_2": "fa2",
        "eager": "disabled",
        "off": "disabled",
        "false": "disabled",
        "true": "fa2",
    },
    "finetuning_type": {"qlora": "lora", "dora": "lora", "full_finetune": "full", "freezing": "freeze"},
    "quantization_method": {"bitsandbytes": "bnb"},
    "infer_backend": {"hf": "huggingface", "transformers": "huggingface"},
    "save_strategy": {"false": "'no' (with quotes)"},
    "eval_strategy": {"false": "'no' (with quotes)"},
    "logging_strategy": {"false": "'no' (with quotes)"},
}

# mcore_adapter's Seq2SeqTrainingArguments take the place of transformers' with USE_MCA=1 (hparams/training_args.py:32).
# Its own fields, as of alibaba/ROLL@1bc1205, mcore_adapter/src/mcore_adapter/training_args.py.
_INT: dict[str, Any] = {"type": ["integer", "null"]}
_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_FLAG: dict[str, Any] = {"$ref": "#/$defs/flag"}
MCA: dict[str, dict[str, Any]] = {
    "expert_tensor_parallel_size": _INT,
    "pipeline_model_parallel_layout": _TEXT,
    "overlap_p2p_comm": _FLAG,
    "variable_seq_lengths": _FLAG,
    "recompute_modules": _TEXT,
    "moe_layer_recompute": _FLAG,
    "moe_aux_loss_coeff": {"type": ["number", "null"]},
    "moe_expert_capacity_factor": {"type": ["number", "null"]},
    "moe_pad_expert_input_to_capacity": _FLAG,
    "moe_token_drop_policy": {"enum": ["probs", "position", None]},
    "moe_shared_expert_overlap": _FLAG,
    "moe_enable_routing_replay": _FLAG,
    "moe_router_dtype": _TEXT,
    "mtp_num_layers": _INT,
    "micro_batch_size": _INT,
    "transformer_impl": {"enum": ["local", "transformer_engine", None]},
    "cuda_graph_impl": {"enum": ["local", "transformer_engine", None]},
    "cuda_graph_scope": _TEXT,
    "fp8_recipe": _TEXT,
    "fp8_param": _FLAG,
    "fp8_format": _TEXT,
    "use_flash_attn": _FLAG,
    "use_flash_attn_npu_batch_invariant": _FLAG,
    "additional_configs": {"type": ["object", "string", "null"]},
}

# v1 plugin families: the dataclasses of their parameters (strict, v1/utils/plugin.py:72) and their names.
PLUGIN_PARAMETERS: dict[str, dict[str, Any]] = {
    "peft_config": {"classes": ("LoraParams", "FreezeParams"), "name": {"enum": ["lora", "freeze"]}},
    "quant_config": {"classes": ("BnbParams",), "name": {"enum": ["bnb", "auto"]}},
    "dist_config": {
        "classes": ("FSDP2Params", "FSDPTurboParams", "DeepSpeedParams"),
        "name": {"enum": ["fsdp2", "fsdpturbo", "deepspeed"]},
    },
    "kernel_config": {"classes": (), "name": {"type": "string"}},
    "init_config": {"classes": (), "name": {"enum": ["init_on_meta", "init_on_rank0", "init_on_default"]}},
    "optim_config": {"classes": (), "name": {"enum": ["muon"]}},
    "lr_scheduler_config": {"classes": (), "name": {"type": "string"}},
}

# What the same thing is called elsewhere, for "did you mean".
ALIASES: dict[str, dict[str, Any]] = {
    "max_seq_length": {"key": "cutoff_len"},
    "max_seq_len": {"key": "cutoff_len"},
    "sequence_len": {"key": "cutoff_len"},
    "seq_length": {"key": "cutoff_len"},
    "block_size": {"key": "cutoff_len"},
    "model_max_length": {"key": "cutoff_len"},
    "max_model_len": {"key": "cutoff_len"},
    "load_in_4bit": {"key": "quantization_bit", "value": 4},
    "load_in_8bit": {"key": "quantization_bit", "value": 8},
    "bnb_4bit_quant_type": {"key": "quantization_type"},
    "bnb_4bit_use_double_quant": {"key": "double_quantization"},
    "use_double_quant": {"key": "double_quantization"},
    "quant_bits": {"key": "quantization_bit"},
    "attn_implementation": {"key": "flash_attn"},
    "flash_attention": {"key": "flash_attn", "value": "fa2"},
    "use_flash_attention": {"key": "flash_attn", "value": "fa2"},
    "use_flash_attention_2": {"key": "flash_attn", "value": "fa2"},
    "lora_r": {"key": "lora_rank"},
    "r": {"key": "lora_rank"},
    "lora_target_modules": {"key": "lora_target"},
    "target_modules": {"key": "lora_target"},
    "lora_target_linear": {"key": "lora_target", "value": "all"},
    "lora_modules_to_save": {"key": "additional_target"},
    "modules_to_save": {"key": "additional_target"},
    "micro_batch_size": {"key": "per_device_train_batch_size"},
    "batch_size": {"key": "per_device_train_batch_size"},
    "train_batch_size": {"key": "per_device_train_batch_size"},
    "train_micro_batch_size_per_gpu": {"key": "per_device_train_batch_size"},
    "eval_batch_size": {"key": "per_device_eval_batch_size"},
    "num_epochs": {"key": "num_train_epochs"},
    "epochs": {"key": "num_train_epochs"},
    "lr": {"key": "learning_rate"},
    "lr_scheduler": {"key": "lr_scheduler_type"},
    "optimizer": {"key": "optim"},
    "base_model": {"key": "model_name_or_path"},
    "model_name": {"key": "model_name_or_path"},
    "model_path": {"key": "model_name_or_path"},
    "model_id": {"key": "model_name_or_path"},
    "adapter": {"key": "finetuning_type"},
    "training_type": {"key": "finetuning_type"},
    "train_type": {"key": "finetuning_type"},
    "sample_packing": {"key": "packing"},
    "val_set_size": {"key": "val_size"},
    "dataset_name": {"key": "dataset"},
    "datasets": {"key": "dataset"},
    "beta": {"key": "pref_beta"},
    "loss_type": {"key": "pref_loss"},
    "liger_kernel": {"key": "enable_liger_kernel"},
    "use_liger": {"key": "enable_liger_kernel"},
    "max_pixels": {"key": "image_max_pixels"},
    "lora_model_dir": {"key": "adapter_name_or_path"},
    "training_stage": {"key": "stage"},
}
