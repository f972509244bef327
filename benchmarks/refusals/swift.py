"""ms-swift's own answer: `swift sft` and `swift rlhf` with a YAML file, up to the end of their arguments' checks.

The model is a tiny one of the same class, so that nothing is loaded from the hub.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from benchmarks.mistakes.fields import Field, Place, kind_of
from benchmarks.mistakes.judges import refusal, tiny_checkpoint
from benchmarks.refusals.drawn import MISSING, Options, Original

NAME, RELEASE, FILE = "ms-swift", "4.6.0", "train.yaml"
VERSIONS = {"swift": (4, 6, 0)}
MODEL = "Qwen/Qwen2.5-7B-Instruct"
# A command gives these beside the file as well.
KEPT = (("model",), ("dataset",))
_SFT: dict[str, Any] = {
    "model": MODEL,
    "tuner_type": "lora",
    "dataset": ["AI-ModelScope/alpaca-gpt4-data-en#500"],
    "torch_dtype": "bfloat16",
    "num_train_epochs": 1,
    "per_device_train_batch_size": 1,
    "learning_rate": 1e-4,
    "lora_rank": 8,
    "lora_alpha": 32,
    "target_modules": ["all-linear"],
    "gradient_accumulation_steps": 16,
    "eval_steps": 50,
    "save_steps": 50,
    "max_length": 2048,
    "output_dir": "output",
    "warmup_ratio": 0.05,
    "dataloader_num_workers": 4,
}
_DPO = {**_SFT, "rlhf_type": "dpo", "beta": 0.1}
_KTO = {**_SFT, "rlhf_type": "kto", "beta": 0.1}
_GRPO = {
    **_SFT,
    "rlhf_type": "grpo",
    "reward_funcs": ["accuracy"],
    "num_generations": 8,
    "per_device_train_batch_size": 8,
    "max_completion_length": 1024,
    "temperature": 1.0,
}
_GKD = {**_SFT, "rlhf_type": "gkd", "teacher_model": "Qwen/Qwen2.5-14B-Instruct", "seq_kd": False, "lmbda": 0.5}
_SWITCH = (True, False)
_COMMON: Options = {
    ("tuner_type",): ("full", "lora", "qlora", "lora_llm", "dora", "adalora"),
    ("train_type",): ("lora",),
    ("torch_dtype",): ("bfloat16", "float16", "bf16", "fp16", "auto", "float64"),
    ("attn_impl",): ("flash_attn", "sdpa", "eager", "flash_attention_2", "fa2"),
    ("packing",): _SWITCH,
    ("padding_free",): _SWITCH,
    ("packing_length",): (4096, 0, "4k"),
    ("packing_strategy",): ("binpack", "sequential", "greedy"),
    ("lazy_tokenize",): _SWITCH,
    ("streaming",): _SWITCH,
    ("max_steps",): (100,),
    ("truncation_strategy",): ("delete", "left", "right", "split", "raise", "middle"),
    ("quant_method",): ("bnb", "hqq", "gptq", "awq", "eetq", "bitsandbytes"),
    ("quant_bits",): (4, 8, 2, 16, "4bit"),
    ("bnb_4bit_quant_type",): ("nf4", "fp4", "int4"),
    ("bnb_4bit_compute_dtype",): ("bfloat16", "bf16"),
    ("deepspeed",): ("zero2", "zero3", "zero3_offload", "zero4", "zero2-offload"),
    ("fsdp",): ("fsdp2", "full_shard auto_wrap"),
    ("save_only_model",): _SWITCH,
    ("zero_hpz_partition_size",): (8,),
    ("deepspeed_autotp_size",): (2,),
    ("gradient_checkpointing",): _SWITCH,
    ("use_liger_kernel",): _SWITCH,
    ("sequence_parallel_size",): (1, 2, 4),
    ("task_type",): ("causal_lm", "seq_cls", "embedding", "reranker", "classification"),
    ("num_labels",): (2,),
    ("warmup_steps",): (100, 0),
    ("warmup_ratio",): (0.1, 1.0, 5, 0),
    ("rope_scaling",): ("yarn", "linear", "ntk"),
    ("max_model_len",): (65536,),
    ("init_weights",): ("gaussian", "pissa", "true"),
    ("init_strategy",): ("normal", "he"),
    ("tuner_backend",): ("peft", "swift"),
    ("lr_scheduler_type",): ("cosine", "constant_with_warmup", "linear_decay"),
    ("lr_scheduler_kwargs",): ('{"min_lr": 1e-6}', "{'min_lr': 1}", "min_lr=1"),
    ("optim",): ("adamw_torch", "adamw_8bit", "adamw_bnb_8bit", "adamw8"),
    ("optimizer",): ("galore", "lorap", "adafactor"),
    ("save_strategy",): ("steps", "epoch", "no", "step"),
    ("eval_strategy",): ("steps", "epoch", "no", "never"),
    ("load_best_model_at_end",): _SWITCH,
    ("split_dataset_ratio",): (0.01, 0.0),
    ("bf16",): _SWITCH,
    ("fp16",): _SWITCH,
    ("group_by_length",): _SWITCH,
    ("loss_scale",): ("default", "all", "last_round"),
    ("bone",): (True,),
    ("max_seq_length",): (2048,),
    ("cutoff_len",): (2048,),
    ("lora_r",): (8,),
    ("template",): ("qwen2_5", "qwen"),
    ("agent_template",): ("hermes", "qwen"),
    ("acc_strategy",): ("token", "seq", "sentence"),
    ("neftune_noise_alpha",): (5,),
    ("columns",): ('{"a": "b"}', "a:b"),
    ("gradient_checkpointing_kwargs",): ('{"use_reentrant": false}', "use_reentrant"),
    ("model_kwargs",): ('{"max_pixels": 1}', "max_pixels"),
    ("use_dora",): _SWITCH,
    ("use_rslora",): _SWITCH,
    ("freeze_llm",): _SWITCH,
    ("report_to",): (["tensorboard"], ["none"], "tensor_board"),
    ("ref_model",): ("Qwen/Qwen2.5-7B-Instruct",),
    ("gradient_accumulation_steps",): (1, 16, 0),
    ("loss_type",): ("sigmoid", "cross_entropy"),
}
_RL: Options = {
    **_COMMON,
    ("rlhf_type",): ("dpo", "grpo", "kto", "rm", "simpo", "orpo", "cpo", "ppo", "gkd", "DPO", "rloo"),
    ("loss_type",): ("sigmoid", ["sigmoid", "bco_pair"], "hinge", "grpo", "dapo", "kto", "ipo"),
    ("loss_weights",): ([0.5, 0.5], [1.0]),
    ("rpo_alpha",): (0.1,),
    ("beta",): (0.1, 0.0),
    ("use_vllm",): _SWITCH,
    ("vllm_mode",): ("colocate", "server", "local"),
    ("max_completion_length",): (512, "1k"),
    ("max_new_tokens",): (256,),
    ("cached_dataset",): (["cache"],),
}
_GROUPS: Options = {
    **_RL,
    ("num_generations",): (1, 2, 4, 8, 3),
    ("per_device_train_batch_size",): (1, 4, 8),
    ("generation_batch_size",): (8, 16, 12),
    ("steps_per_generation",): (1, 2),
    ("advantage_estimator",): ("grpo", "rloo", "reinforce_plus_plus", "gae"),
    ("kl_in_reward",): _SWITCH,
    ("scale_rewards",): ("group", "batch", "none", "gdpo", "all"),
    ("importance_sampling_level",): ("token", "sequence", "sequence_token", "group"),
    ("loss_type",): ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "real", "fipo", "ppo"),
    ("reward_funcs",): (["accuracy", "format"], ["soft_overlong"], ["accuracy", "soft_overlong"], MISSING),
    ("soft_cache_length",): (256,),
    ("reward_weights",): ([1.0], [1.0, 0.5]),
    ("async_generate",): _SWITCH,
    ("multi_turn_scheduler",): ("math_tip_trick",),
    ("dynamic_sample",): _SWITCH,
    ("top_entropy_quantile",): (0.2, 1.0),
    ("log_entropy",): _SWITCH,
    ("delta",): (1.5,),
    ("epsilon",): (0.2,),
    ("teacher_model",): ("Qwen/Qwen2.5-14B-Instruct",),
    ("teacher_model_server",): ("http://localhost:8000",),
    ("advantage_reweight",): ("rlsd", "none"),
    ("rlsd_lambda",): (0.5, 1.5),
    ("sdar_loss_coef",): (0.1,),
    ("sdar_gate_beta",): (0.0,),
    ("off_policy_sequence_mask_delta",): (0.5,),
    ("sleep_level",): (0, 1, 2, 3),
    ("offload_model",): _SWITCH,
    ("offload_optimizer",): _SWITCH,
    ("move_model_batches",): (4,),
    ("vllm_tensor_parallel_size",): (1, 2),
    ("vllm_gpu_memory_utilization",): (0.5, 1.5),
    ("num_iterations",): (1, 2),
    ("seq_kd",): _SWITCH,
    ("gkd_logits_topk",): (20, 0, -1),
    ("lmbda",): (0.5, 2.0),
    ("sft_alpha",): (0.1,),
}
ORIGINALS: Mapping[str, Original] = {
    "sft": Original(_SFT, _COMMON),
    "full": Original({**_SFT, "tuner_type": "full", "deepspeed": "zero3"}, _COMMON),
    "dpo": Original(_DPO, _RL),
    "kto": Original(_KTO, _RL),
    "grpo": Original(_GRPO, _GROUPS),
    "gkd": Original(_GKD, _GROUPS),
}


def fields() -> dict[Place, Field]:
    """What the parser of `swift sft` declares; none of the fields that name files."""
    import dataclasses
    import typing

    from swift.arguments import SftArguments

    hints = typing.get_type_hints(SftArguments)
    found = {(field.name,): kind_of(hints[field.name]) for field in dataclasses.fields(SftArguments) if field.init}
    judged = {place: kind for place, kind in found.items() if kind is not None and kind.kind is not dict}
    return {place: kind for place, kind in judged.items() if place != ("use_cpu",)}  # the judge sets it


def written(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1)


def refuses(value: Mapping[str, Any]) -> str:
    """Why ms-swift does not start; "" where it does."""
    with tempfile.TemporaryDirectory() as folder:
        kept = dict(os.environ)
        try:
            return refusal(lambda: _parsed(dict(value), folder))
        finally:
            logging.disable(logging.CRITICAL)
            os.environ.clear()
            os.environ.update(kept)


def _parsed(value: dict[str, Any], folder: str) -> None:
    from swift.arguments import RLHFArguments, SftArguments
    from swift.cli.main import parse_yaml_args
    from swift.utils import parse_args

    local: dict[str, Any] = {
        name: tiny_checkpoint("qwen2") for name in ("model", "ref_model", "teacher_model") if name in value
    }
    value.update(local, output_dir=f"{folder}/output", use_cpu=True)
    if local:
        value.update({f"{name}_type": "qwen2" for name in local})
        value.setdefault("template", "qwen2_5")
    path = f"{folder}/train.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)
    words = [path]
    parse_yaml_args(words)
    kind = RLHFArguments if "rlhf_type" in value else SftArguments
    _, left = parse_args(kind, words)
    if left:
        raise ValueError(f"remaining_argv: {left}")
