"""What Axolotl's sources do not say in a field's annotation: validators, renames, other frameworks' names."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TORCHAO: Schema = {"enum": ["int4", "int8", "float8_e4m3fn", "fp8", "float8", "nvfp4", "mxfp4", "ternary"]}

# Types whose values the source does not spell as literals.
TYPES: dict[str, Schema] = {
    "TorchAOQuantDType": _TORCHAO,  # utils/schemas/quantization.py: validate_ao_dtype
    "Resampling": {"enum": [0, 1, 2, 3, 4, 5]},  # PIL.Image.Resampling
    "PositiveInt": {"type": "integer", "exclusiveMinimum": 0},
}

_ATTENTION = [
    *("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4", "flash_attention_torch"),
    *("flex_attention", "xformers", "sage", "fp8", "varlen"),
]
_LARGE_HEAD = ["auto", "sdpa", "triton_flash"]
_RESIZE = ["bilinear", "bicubic", "lanczos"]
_INDUCTOR = (
    *("coordinate_descent_tuning", "coordinate_descent_check_all_directions", "shape_padding", "epilogue_fusion"),
    *("max_autotune_gemm", "fx_graph_cache", "assume_aligned_inputs", "comprehensive_padding"),
    *("decompose_mem_bound_mm", "triton.cudagraphs"),
)

_RATES = [f"{digit}e-{zero}{power}" for zero in ("", "0") for power in range(1, 8) for digit in range(1, 10)]

# The whole schema of a key, where a validator takes more or less than the annotation.
OVERRIDES: dict[str, Schema] = {
    # utils/schemas/config.py: validate_attn_implementation; a name with a slash is a kernel on the hub
    "attn_implementation": {
        "anyOf": [
            {"enum": [*_ATTENTION, None]},
            {"type": "string", "pattern": "/", "x-memlint-says": "a kernel's name on the hub"},
        ],
    },
    "large_head_attention": {"enum": [*_LARGE_HEAD, *(word.upper() for word in _LARGE_HEAD), None]},
    "image_resize_algorithm": {
        "anyOf": [{"enum": [*_RESIZE, *(word.upper() for word in _RESIZE), None]}, TYPES["Resampling"]]
    },
    # Text is converted (training.py: convert_learning_rate). PyYAML makes text of 2e-5; spelled out, as the cheap check
    # of a file (memlint/formats/schema/quick_check.py) knows no patterns.
    "learning_rate": {"anyOf": [{"$ref": "#/$defs/number"}, {"enum": _RATES}], "x-memlint-says": "a number"},
    # mora/args.py: normalize_mora_type
    "mora_type": {"enum": ["sharing", "rope", 1, 6, "1", "6"]},
    "save_safetensors": {
        "enum": [True, None, 1, "true", "True"],
        "x-memlint-says": "true or null",
    },  # model.py: false is refused
    "pretraining_dataset": {
        "type": ["array", "null"],
        "items": {"$ref": "#/$defs/PretrainingDataset"},
        "minItems": 1,
    },
    "eval_causal_lm_metrics": {  # validation.py: SUPPORTED_METRICS
        "type": ["array", "null"],
        "items": {"enum": ["sacrebleu", "comet", "ter", "chrf", "perplexity"]},
    },
    "swanlab_mode": {"enum": ["cloud", "local", "offline", "disabled", None]},
    "torch_compile_options": {  # enums.py: INDUCTOR_COMPILE_OPTIONS_ALLOWLIST
        "type": ["object", "null"],
        "properties": {name: {"type": ["boolean", "number", "string"]} for name in _INDUCTOR},
        "additionalProperties": False,
    },
    # core/builders/base.py hands them to TrainingArguments, which make an IntervalStrategy of them
    "eval_strategy": {"enum": ["no", "steps", "epoch", None]},
    "save_strategy": {"enum": ["no", "steps", "epoch", "best", None]},
}

# Bounds beyond the annotation's, by what refuses the value.
LIMITS: dict[str, Schema] = {
    "neftune_noise_alpha": {"exclusiveMinimum": 0},  # validation.py: validate_neftune_noise_alpha
    "micro_batch_size": {"minimum": 1},  # DataLoader
    "eval_batch_size": {"minimum": 1},
    "lora_r": {"minimum": 1},  # peft/tuners/lora/layer.py
    "lora_dropout": {"minimum": 0, "maximum": 1},  # torch.nn.Dropout
    "sequence_len": {"minimum": 1},
}

# lr_scheduler: what TrainingArguments take (transformers' SchedulerType), and core/builders/base.py:281.
SCHEDULERS = [
    *("linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup"),
    *("inverse_sqrt", "reduce_lr_on_plateau", "cosine_with_min_lr", "cosine_warmup_with_min_lr"),
    *("warmup_stable_decay", "greedy", "one_cycle", "rex"),
]

# Old name -> (since when, new name, what else is to say). The release is the first that lacks the old name or refuses
# it; "" where it is still read. Tags v0.1.0 to v0.18.0 and 0.19.0 were compared.
RENAMED: dict[str, tuple[str, str, str]] = {
    "relora_steps": ("0.12.0", "jagged_restart_steps", "with `relora: true`"),
    "relora_warmup_steps": ("0.12.0", "jagged_restart_warmup_steps", ""),
    "relora_anneal_steps": ("0.12.0", "jagged_restart_anneal_steps", ""),
    "unsloth_lora_mlp": ("0.17.0", "lora_mlp_kernel", "true is refused"),
    "unsloth_lora_qkv": ("0.17.0", "lora_qkv_kernel", "true is refused"),
    "unsloth_lora_o": ("0.17.0", "lora_o_kernel", "true is refused"),
    "eval_table_max_new_tokens": ("0.5.0", "eval_max_new_tokens", ""),
    "push_to_hub_model_id": ("0.5.0", "hub_model_id", ""),
    "liger_swiglu": ("", "liger_glu_activation", "the old name is still read"),
    "noisy_embedding_alpha": ("", "neftune_noise_alpha", "the old name is still read"),
    "dpo_beta": ("", "rl_beta", "the old name is still read"),
    "evaluation_strategy": ("", "eval_strategy", "the old name is still read"),
    "sequence_parallel_degree": ("", "context_parallel_size", "the old name is still read"),
    "dataset_processes": ("", "dataset_num_proc", "the old name is still read"),
    "pretrain_multipack_buffer_size": ("", "streaming_multipack_buffer_size", "the old name is still read"),
}

# Key -> (the first release that lacks or refuses it, what to know).
REMOVED: dict[str, tuple[str, str]] = {
    "max_packed_sequence_len": ("0.5.0", "a value is refused; `sample_packing` with `sequence_len` packs"),
    "rope_scaling": ("0.5.0", "a value is refused; it belongs below `overrides_of_model_config`"),
    "dpo_use_logits_to_keep": ("0.15.0", "a value is refused"),
    "dpo_generate_during_eval": ("0.15.0", "a value is refused"),
    "dpo_norm_loss": ("0.16.0", "a value is refused"),
    "rpo_alpha": ("0.16.0", "a value is refused"),
    "s2_attention": ("0.17.0", "true is refused"),
    "flash_attn_rms_norm": ("0.17.0", "true is refused; `liger_rms_norm` is there"),
    "unsloth_cross_entropy_loss": ("0.17.0", "true is refused"),
    "unsloth_rms_norm": ("0.17.0", "true is refused"),
    "unsloth_rope": ("0.17.0", "true is refused"),
    # Before 0.5.0 keys were read one by one and nothing was checked; since then what no model lists is dropped.
    "load_4bit": ("0.1.0", "`gptq` or `load_in_4bit` is there"),
    "debug": ("0.5.0", "`axolotl preprocess --debug` is there"),
    "base_model_ignore_patterns": ("0.3.0", ""),
    "collator_pad_to_longest": ("0.3.0", "`pad_to_sequence_len` is there"),
    "gptq_groupsize": ("0.3.0", ""),
    "gptq_model_v1": ("0.3.0", ""),
    "gptq_disable_exllama": ("0.5.0", ""),
    "gradient_checkpointing_ratio": ("0.3.0", ""),
    "landmark_attention": ("0.4.0", ""),
    "xpos_rope": ("0.4.0", ""),
    "log_sweep_max_lr": ("0.5.0", ""),
    "log_sweep_min_lr": ("0.5.0", ""),
    "lora_out_dir": ("0.4.0", "`output_dir` is there"),
    "peft_adapter": ("0.5.0", ""),
    "bloat16": ("0.5.0", "`bfloat16` was meant"),
}

# Still read, with a warning; the value has to change with the name, so these are no renames.
DEPRECATED: dict[str, tuple[str, str]] = {
    "xformers_attention": ("0.17.0", "`attn_implementation: xformers`"),
    "sdp_attention": ("0.17.0", "`attn_implementation: sdpa`"),
    "flex_attention": ("0.17.0", "`attn_implementation: flex_attention`"),
    "flash_attention": ("0.17.0", "`attn_implementation: flash_attention_2`"),
    "sage_attention": ("0.17.0", "`attn_implementation: sage`"),
    "eager_attention": ("0.17.0", "`attn_implementation: eager`"),
    "gc_steps": ("0.17.0", "`torch_empty_cache_steps` and `gc_collect_steps`"),
    "fsdp": ("0.12.0", "`fsdp_config`"),
    "fsdp_final_state_dict_type": ("0.12.0", "`fsdp_config.final_state_dict_type`"),
    "eval_table_size": ("0.15.0", "`generate_samples` and `num_generation_samples`"),
    "eval_max_new_tokens": ("0.15.0", "`generation_max_new_tokens`"),
}

# Model -> key -> value -> the first release that refuses it.
REMOVED_VALUES: dict[str, dict[str, dict[str, str]]] = {
    "AxolotlInputConfig": {
        "bf16": {"full": "axolotl 0.5.0"},
        "chat_template": {"inst": "axolotl 0.5.0"},
        "rl": {"kto_pair": "axolotl 0.5.0"},
        "optimizer": {
            "ao_adamw_4bit": "axolotl 0.12.0",  # still in the enum, but core/builders/base.py: "Unhandled optimizer"
            "ao_adamw_8bit": "axolotl 0.12.0",
            "lion_pytorch": "axolotl 0.8.0",
            "adamw_hf": "axolotl 0.8.0",  # the first that pins a transformers without it
            "adamw_apex_fused": "axolotl 0.17.0",
        },
    },
    "Dataset": {  # validation.py: deprecate_sharegpt_datasets
        "type": {
            f"sharegpt{ending}": "axolotl 0.5.0"
            for ending in ("", ".load_role", ".load_guanaco", ".load_ultrachat", ".load_multirole")
        }
    },
}

# Model -> key -> another spelling, or a value that is gone -> what it is now.
VALUE_ALIASES: dict[str, dict[str, dict[str, str]]] = {
    "AxolotlInputConfig": {
        "attn_implementation": {
            "flash": "flash_attention_2",
            "fa2": "flash_attention_2",
            "flash_attn": "flash_attention_2",
            "fa3": "flash_attention_3",
            "flex": "flex_attention",
            "sdp": "sdpa",
        },
        "bf16": {"full": "true"},
        "chat_template": {"inst": "mistral_v1"},
        "rl": {"kto_pair": "kto"},
        "optimizer": {
            "adam": "adamw_torch",
            "adamw": "adamw_torch",
            "adamw_hf": "adamw_torch",
            "adamw_apex_fused": "adamw_torch_fused",
            "adamw8bit": "adamw_bnb_8bit",
            "8bit_adam": "adamw_bnb_8bit",
            "paged_adamw": "paged_adamw_32bit",
            "paged_adam_8bit": "paged_adamw_8bit",
            "ao_adamw_4bit": "adamw_torch_4bit",
            "ao_adamw_8bit": "adamw_torch_8bit",
            "lion": "lion_32bit",
            "lion_pytorch": "lion_32bit",
            "came": "came_pytorch",
        },
    },
    "Dataset": {"type": {f"sharegpt{ending}": "chat_template" for ending in ("", ".load_role")}},
}

# Model -> key -> what to know of it.
MODEL_NOTES: dict[str, dict[str, str]] = {
    "TRLConfig": {
        f"vllm_{key}": f"`vllm.{key}` is there"
        for key in ("device", "dtype", "gpu_memory_utilization", "max_model_len")
    }
}

# Not in a model, but read by a validator before the models drop it (peft.py: validate_adapter).
# From 0.20 on a list `fsdp` is refused (validation.py: check_fsdp_version), which a rule says.
EXTRA: dict[str, Schema] = {
    "inference": {"$ref": "#/$defs/flag"},
    "fsdp": {"type": ["array", "null"], "items": {"type": "string"}},
}

# fsdp_config was a mapping that went to accelerate as it was up to 0.12; its model drops these.
FSDP_GONE = ("backward_prefetch", "forward_prefetch", "limit_all_gathers", "sharding_strategy", "xla", "xla_fsdp_v2")

# What other frameworks, and other spellings, call a key.
_ELSEWHERE = {
    "sequence_len": (
        "max_seq_length max_seq_len cutoff_len seq_length sequence_length seq_len max_length model_max_length max_len"
    ),
    "micro_batch_size": (
        "per_device_train_batch_size train_batch_size train_micro_batch_size_per_gpu train_micro_batch_size"
    ),
    "eval_batch_size": "per_device_eval_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation grad_accumulation_steps accumulation_steps",
    "base_model": "model_name_or_path model_name model_id model_path",
    "adapter": "finetuning_type train_type",
    "lora_r": "lora_rank r lora_dim",
    "lora_target_modules": "lora_target target_modules lora_targets",
    "lora_modules_to_save": "modules_to_save additional_target",
    "peft_use_dora": "use_dora",
    "peft_use_rslora": "use_rslora",
    "num_epochs": "num_train_epochs epochs train_epochs n_epochs",
    "optimizer": "optim optimiser",
    "learning_rate": "lr",
    "lr_scheduler": "lr_scheduler_type scheduler_type scheduler lr_schedule",
    "adam_epsilon": "adam_eps",
    "val_set_size": "val_size",
    "sample_packing": "packing neat_packing",
    "datasets": "dataset dataset_name",
    "gradient_checkpointing": "use_gradient_checkpointing grad_checkpointing",
    "load_best_model_at_end": "load_best_model",
    "rl_beta": "beta pref_beta",
    "weight_decay": "adam_weight_decay wd",
    "output_dir": "out_dir output_path save_dir",
    "bf16": "use_bf16",
    "max_grad_norm": "max_gradient_norm gradient_clipping grad_clip",
    "attn_implementation": "attention_implementation attn_impl",
    "load_in_4bit": "use_4bit",
    "warmup_steps": "num_warmup_steps",
}
_FLASH: Schema = {"key": "attn_implementation", "value": "flash_attention_2"}
ALIASES: dict[str, Schema] = {
    **{old: {"key": key} for key, names in _ELSEWHERE.items() for old in names.split()},
    **dict.fromkeys(("use_flash_attention", "use_flash_attention_2", "flash_attn"), _FLASH),
}
