"""Configurations that their frameworks take, one or more for each kind of run: what the mistakes are put into.

They are written for this benchmark after the frameworks' own examples. `EVERY` maps a name to the framework, the file's
name and its content.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Original(NamedTuple):
    """`framework` says which judge takes it; `file` how the file is called."""

    framework: str
    file: str
    content: dict[str, Any]


_LLAMAFACTORY = {
    "model_name_or_path": "Qwen/Qwen2.5-7B-Instruct",
    "trust_remote_code": True,
    "stage": "sft",
    "do_train": True,
    "dataset": "alpaca_en_demo",
    "template": "qwen",
    "cutoff_len": 2048,
    "max_samples": 1000,
    "overwrite_cache": True,
    "preprocessing_num_workers": 16,
    "dataloader_num_workers": 4,
    "output_dir": "saves/qwen",
    "logging_steps": 10,
    "save_steps": 500,
    "plot_loss": True,
    "overwrite_output_dir": True,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 8,
    "num_train_epochs": 3.0,
    "lr_scheduler_type": "cosine",
    "bf16": True,
    "ddp_timeout": 180000000,
}
_LORA = {"finetuning_type": "lora", "lora_rank": 8, "lora_target": "all", "learning_rate": 1e-4}
_EVALUATED = {"val_size": 0.1, "per_device_eval_batch_size": 1, "eval_strategy": "steps", "eval_steps": 500}
_TRAINER = {
    "model_name_or_path": "Qwen/Qwen2.5-1.5B",
    "output_dir": "out",
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 4,
    "learning_rate": 2e-5,
    "num_train_epochs": 1,
    "lr_scheduler_type": "cosine",
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "warmup_steps": 100,
    "optim": "adamw_torch",
    "bf16": True,
    "gradient_checkpointing": True,
    "logging_steps": 10,
    "save_strategy": "steps",
    "save_steps": 500,
    "save_total_limit": 2,
    "report_to": "none",
    "seed": 42,
}
_TRL = {
    **_TRAINER,
    "dataset_name": "trl-lib/Capybara",
    "dtype": "bfloat16",
    "attn_implementation": "sdpa",
}
_PEFT = {
    "use_peft": True,
    "lora_r": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.05,
    "lora_target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "learning_rate": 2e-4,
}
_AXOLOTL = {
    "base_model": "NousResearch/Meta-Llama-3-8B",
    "datasets": [{"path": "tatsu-lab/alpaca", "type": "alpaca"}],
    "dataset_prepared_path": "last_run_prepared",
    "val_set_size": 0.05,
    "output_dir": "./outputs/out",
    "sequence_len": 4096,
    "sample_packing": True,
    "gradient_accumulation_steps": 4,
    "micro_batch_size": 2,
    "num_epochs": 4,
    "optimizer": "adamw_torch_fused",
    "lr_scheduler": "cosine",
    "learning_rate": 2e-5,
    "bf16": True,
    "tf32": False,
    "gradient_checkpointing": True,
    "gradient_checkpointing_kwargs": {"use_reentrant": False},
    "logging_steps": 1,
    "attn_implementation": "flash_attention_2",
    "warmup_ratio": 0.1,
    "evals_per_epoch": 4,
    "saves_per_epoch": 1,
    "weight_decay": 0.0,
    "special_tokens": {"pad_token": "<|end_of_text|>"},
}
_DEEPSPEED = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "gradient_clipping": 1.0,
    "steps_per_print": 100,
    "wall_clock_breakdown": False,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-5, "warmup_num_steps": 100}},
}
_LAUNCH = {
    "compute_environment": "LOCAL_MACHINE",
    "debug": False,
    "downcast_bf16": "no",
    "enable_cpu_affinity": False,
    "machine_rank": 0,
    "main_training_function": "main",
    "mixed_precision": "bf16",
    "num_machines": 1,
    "num_processes": 8,
    "rdzv_backend": "static",
    "same_network": True,
    "use_cpu": False,
}
_FSDP = {
    "fsdp_version": 1,
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_backward_prefetch": "BACKWARD_PRE",
    "fsdp_cpu_ram_efficient_loading": True,
    "fsdp_forward_prefetch": False,
    "fsdp_offload_params": False,
    "fsdp_sharding_strategy": "FULL_SHARD",
    "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    "fsdp_sync_module_states": True,
    "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
    "fsdp_use_orig_params": True,
}
_FSDP2 = {
    "fsdp_version": 2,
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_cpu_ram_efficient_loading": True,
    "fsdp_offload_params": False,
    "fsdp_reshard_after_forward": True,
    "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    "fsdp_transformer_layer_cls_to_wrap": "Qwen2DecoderLayer",
}
_STAGE_3 = {
    "stage": 3,
    "overlap_comm": True,
    "contiguous_gradients": True,
    "sub_group_size": 1e9,
    "reduce_bucket_size": 5e7,
    "stage3_prefetch_bucket_size": 5e7,
    "stage3_param_persistence_threshold": 1e5,
    "stage3_max_live_parameters": 1e9,
    "stage3_max_reuse_distance": 1e9,
    "stage3_gather_16bit_weights_on_model_save": True,
}

EVERY: dict[str, Original] = {
    "llamafactory-lora": Original("llamafactory", "train.yaml", {**_LLAMAFACTORY, **_LORA, "warmup_steps": 100}),
    "llamafactory-qlora": Original(
        "llamafactory",
        "train.yaml",
        {**_LLAMAFACTORY, **_LORA, **_EVALUATED, "quantization_bit": 4, "quantization_method": "bnb"},
    ),
    "llamafactory-full": Original(
        "llamafactory",
        "train.yaml",
        {**_LLAMAFACTORY, "finetuning_type": "full", "learning_rate": 1e-5, "flash_attn": "fa2", "packing": True},
    ),
    "llamafactory-freeze": Original(
        "llamafactory",
        "train.yaml",
        {
            **_LLAMAFACTORY,
            "finetuning_type": "freeze",
            "freeze_trainable_layers": 2,
            "freeze_trainable_modules": "all",
            "learning_rate": 1e-5,
        },
    ),
    "llamafactory-dpo": Original(
        "llamafactory",
        "train.yaml",
        {
            **_LLAMAFACTORY,
            **_LORA,
            "stage": "dpo",
            "dataset": "dpo_en_demo",
            "pref_beta": 0.1,
            "pref_loss": "sigmoid",
            "learning_rate": 5e-6,
        },
    ),
    "trainer-full": Original("trainer", "train.yaml", _TRAINER),
    "trainer-evaluated": Original(
        "trainer",
        "train.yaml",
        {
            **_TRAINER,
            "do_train": True,
            "do_eval": True,
            "eval_strategy": "steps",
            "eval_steps": 500,
            "per_device_eval_batch_size": 4,
            "load_best_model_at_end": True,
            "metric_for_best_model": "loss",
        },
    ),
    "trl-sft": Original("trl-sft", "sft.yaml", {**_TRL, "max_length": 2048, "packing": False}),
    "trl-sft-lora": Original("trl-sft", "sft.yaml", {**_TRL, **_PEFT, "max_length": 1024}),
    "trl-dpo": Original("trl-dpo", "dpo.yaml", {**_TRL, **_PEFT, "beta": 0.1, "loss_type": "sigmoid"}),
    "trl-grpo": Original(
        "trl-grpo",
        "grpo.yaml",
        {**_TRL, "num_generations": 4, "max_completion_length": 256, "beta": 0.04, "temperature": 0.9},
    ),
    "trl-kto": Original("trl-kto", "kto.yaml", {**_TRL, **_PEFT, "beta": 0.1, "max_length": 1024}),
    "trl-reward": Original("trl-reward", "reward.yaml", {**_TRL, **_PEFT, "max_length": 1024}),
    "axolotl-full": Original("axolotl", "config.yaml", _AXOLOTL),
    "axolotl-lora": Original(
        "axolotl",
        "config.yaml",
        {
            **_AXOLOTL,
            "adapter": "lora",
            "lora_r": 32,
            "lora_alpha": 16,
            "lora_dropout": 0.05,
            "lora_target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"],
            "learning_rate": 2e-4,
        },
    ),
    "axolotl-qlora-fsdp": Original(
        "axolotl",
        "config.yaml",
        {
            **_AXOLOTL,
            "load_in_4bit": True,
            "adapter": "qlora",
            "lora_r": 32,
            "lora_alpha": 64,
            "lora_target_linear": True,
            "learning_rate": 2e-4,
            "fsdp_version": 2,
            "fsdp_config": {
                "offload_params": False,
                "cpu_ram_efficient_loading": False,
                "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                "transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
                "state_dict_type": "FULL_STATE_DICT",
                "reshard_after_forward": True,
            },
        },
    ),
    "axolotl-dpo": Original(
        "axolotl",
        "config.yaml",
        {
            **{key: value for key, value in _AXOLOTL.items() if key != "sample_packing"},
            "rl": "dpo",
            "datasets": [{"path": "Intel/orca_dpo_pairs", "type": "chatml.intel", "split": "train"}],
            "val_set_size": 0.0,
            "evals_per_epoch": 0,
        },
    ),
    "deepspeed-zero2": Original(
        "deepspeed",
        "ds_config.json",
        {
            **_DEEPSPEED,
            "zero_optimization": {
                "stage": 2,
                "allgather_partitions": True,
                "allgather_bucket_size": 5e8,
                "overlap_comm": True,
                "reduce_scatter": True,
                "reduce_bucket_size": 5e8,
                "contiguous_gradients": True,
                "offload_optimizer": {"device": "cpu", "pin_memory": True},
            },
        },
    ),
    "deepspeed-zero3": Original("deepspeed", "ds_config.json", {**_DEEPSPEED, "zero_optimization": _STAGE_3}),
    "deepspeed-zero3-offload": Original(
        "deepspeed",
        "ds_config.json",
        {
            **_DEEPSPEED,
            "bf16": {"enabled": False},
            "fp16": {
                "enabled": True,
                "loss_scale": 0,
                "loss_scale_window": 1000,
                "initial_scale_power": 16,
                "hysteresis": 2,
                "min_loss_scale": 1,
            },
            "zero_optimization": {
                **_STAGE_3,
                "offload_optimizer": {"device": "cpu", "pin_memory": True},
                "offload_param": {"device": "cpu", "pin_memory": True},
            },
        },
    ),
    "accelerate-multi": Original("accelerate", "launch.yaml", {**_LAUNCH, "distributed_type": "MULTI_GPU"}),
    "accelerate-fsdp1": Original(
        "accelerate", "launch.yaml", {**_LAUNCH, "distributed_type": "FSDP", "fsdp_config": _FSDP}
    ),
    "accelerate-fsdp2": Original(
        "accelerate", "launch.yaml", {**_LAUNCH, "distributed_type": "FSDP", "fsdp_config": _FSDP2}
    ),
    "accelerate-deepspeed": Original(
        "accelerate",
        "launch.yaml",
        {
            **_LAUNCH,
            "distributed_type": "DEEPSPEED",
            "deepspeed_config": {
                "deepspeed_multinode_launcher": "standard",
                "gradient_accumulation_steps": 1,
                "gradient_clipping": 1.0,
                "offload_optimizer_device": "none",
                "offload_param_device": "none",
                "zero3_init_flag": True,
                "zero3_save_16bit_model": True,
                "zero_stage": 3,
            },
        },
    ),
}
