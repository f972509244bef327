"""verl's own answer: Hydra's composition of the command, `validate_config`, and the configuration classes that the
trainer and its workers fill before a model is loaded."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.mistakes.fields import Field, Place
from benchmarks.mistakes.judges import refusal, tiny_checkpoint
from benchmarks.refusals.absent import stand_in
from benchmarks.refusals.drawn import MISSING, Options, Original

NAME, RELEASE, FILE = "verl", "0.9.1", "run.sh"
VERSIONS = {"verl": (0, 9, 1)}
# The workers find these once each rank knows its group (workers/engine_workers.py, workers/engine/utils.py).
LATER = (
    "no multiple of `ppo_micro_batch_size_per_gpu",
    "no multiple of `micro_batch_size_per_gpu",
    "is less than one for each of",
    "does not divide the",
    "GPUs an engine) does",
    "actor.strategy`",  # each worker looks for its engine
    "wants a number",  # text where the trainer first counts, or divides, later
    "is no loss of verl",  # its first update looks for the function
)
_ABSENT = ("ray", "vllm", "torchdata", "codetiming", "pylatexenc", "tensordict", "cachetools")
_SFT_PROGRAM = "program"
_A, _R, _REF = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.ref"
_M = "actor_rollout_ref.model"
_GRPO: dict[str, Any] = {
    "algorithm.adv_estimator": "grpo",
    "data.train_files": "train.parquet",
    "data.val_files": "test.parquet",
    "data.train_batch_size": 1024,
    "data.max_prompt_length": 512,
    "data.max_response_length": 1024,
    f"{_M}.path": "Qwen/Qwen2.5-7B-Instruct",
    f"{_M}.use_remove_padding": True,
    f"{_M}.enable_gradient_checkpointing": True,
    f"{_A}.optim.lr": 1e-6,
    f"{_A}.ppo_mini_batch_size": 256,
    f"{_A}.ppo_micro_batch_size_per_gpu": 8,
    f"{_A}.use_kl_loss": True,
    f"{_A}.kl_loss_coef": 0.001,
    f"{_A}.kl_loss_type": "low_var_kl",
    f"{_A}.entropy_coeff": 0,
    f"{_A}.fsdp_config.param_offload": False,
    f"{_A}.fsdp_config.optimizer_offload": False,
    f"{_R}.log_prob_micro_batch_size_per_gpu": 8,
    f"{_R}.tensor_model_parallel_size": 2,
    f"{_R}.name": "vllm",
    f"{_R}.gpu_memory_utilization": 0.5,
    f"{_R}.n": 8,
    f"{_REF}.log_prob_micro_batch_size_per_gpu": 8,
    f"{_REF}.fsdp_config.param_offload": True,
    "trainer.n_gpus_per_node": 8,
    "trainer.nnodes": 1,
    "trainer.save_freq": 20,
    "trainer.test_freq": 5,
    "trainer.total_epochs": 15,
}
_DYNAMIC = {
    **{key: value for key, value in _GRPO.items() if "micro_batch_size" not in key},
    f"{_A}.use_dynamic_bsz": True,
    f"{_A}.ppo_max_token_len_per_gpu": 24000,
}
_PPO = {
    **{key: value for key, value in _GRPO.items() if not key.startswith(_REF) and "kl_loss" not in key},
    "algorithm.adv_estimator": "gae",
    f"{_R}.n": 1,
    "critic.optim.lr": 1e-5,
    "critic.model.use_remove_padding": True,
    "critic.model.path": "Qwen/Qwen2.5-7B-Instruct",
    "critic.ppo_micro_batch_size_per_gpu": 16,
}
_SFT = {
    _SFT_PROGRAM: "sft",
    "data.train_files": "train.parquet",
    "data.val_files": "test.parquet",
    "data.train_batch_size": 256,
    "data.micro_batch_size_per_gpu": 4,
    "data.max_length": 2048,
    "data.use_dynamic_bsz": False,
    "optim.lr": 1e-5,
    "optim.lr_warmup_steps_ratio": 0.1,
    "engine.strategy": "fsdp2",
    "engine.ulysses_sequence_parallel_size": 1,
    "model.path": "Qwen/Qwen2.5-7B-Instruct",
    "model.use_remove_padding": True,
    "trainer.project_name": "sft",
    "trainer.experiment_name": "run",
    "trainer.total_epochs": 3,
}
_SWITCH = (True, False)
_RL_OPTIONS: Options = {
    (key,): values
    for key, values in {
        "algorithm.adv_estimator": ("gae", "grpo", "rloo", "reinforce_plus_plus", "remax", "ppo", "group"),
        "algorithm.use_kl_in_reward": _SWITCH,
        "algorithm.gamma": (1.0, "one"),
        "algorithm.norm_adv_by_std_in_grpo": _SWITCH,
        "data.train_batch_size": (1024, 512, 256, 128, 100, 1000),
        "data.max_prompt_length": (512, "1k"),
        "data.truncation": ("error", "left", "cut"),
        f"{_M}.use_remove_padding": _SWITCH,
        f"{_M}.lora_rank": (0, 32, 100, 1024),
        f"{_M}.target_modules": ("all-linear", "[q_proj,v_proj]"),
        f"{_M}.enable_activation_offload": _SWITCH,
        f"{_M}.gradient_checkpointing": (True,),
        f"{_A}.strategy": ("fsdp", "fsdp2", "fsdp3", "ddp", "deepspeed"),
        f"{_A}.ppo_mini_batch_size": (256, 128, 2048, 64),
        f"{_A}.ppo_micro_batch_size_per_gpu": (1, 4, 8, MISSING),
        f"{_A}.ppo_micro_batch_size": (64, 48),
        f"{_A}.ppo_micro_batch_size_per_device": (8,),
        f"{_A}.use_dynamic_bsz": _SWITCH,
        f"{_A}.ppo_max_token_len_per_gpu": (16384,),
        f"{_A}.ulysses_sequence_parallel_size": (1, 2, 4),
        f"{_A}.use_kl_loss": _SWITCH,
        f"{_A}.kl_loss_type": ("low_var_kl", "kl", "k3+"),
        f"{_A}.loss_agg_mode": ("token-mean", "seq-mean-token-sum", "seq-mean", "token_mean"),
        f"{_A}.clip_ratio_high": (0.28,),
        f"{_A}.policy_loss.loss_mode": ("vanilla", "gspo", "clip-cov", "gpg"),
        f"{_A}.grad_clip": (1.0,),
        f"{_A}.optim.lr": (1e-6, "1e-6", "high"),
        f"{_A}.optim.lr_scheduler_type": ("constant", "cosine", "linear", "wsd"),
        f"{_A}.optim.warmup_style": ("constant", "cosine", "linear"),
        f"{_A}.optim.lr_warmup_steps": (10,),
        f"{_A}.optim.weight_decay": (0.1,),
        f"{_A}.fsdp_config.fsdp_size": (-1, 8),
        f"{_A}.fsdp_config.model_dtype": ("bf16", "fp32"),
        f"{_A}.fsdp_config.dtype": ("bfloat16", "float16"),
        f"{_A}.fsdp_config.offload_policy": _SWITCH,
        f"{_A}.fsdp_config.grad_offload": (True,),
        f"{_A}.fsdp_config.forward_prefetch": _SWITCH,
        f"{_A}.gradient_checkpointing": (True,),
        f"{_R}.name": ("vllm", "sglang", "hf", "trtllm"),
        f"{_R}.mode": ("async", "sync"),
        f"{_R}.n": (1, 5, 8),
        f"{_R}.tensor_model_parallel_size": (1, 2, 4),
        f"{_R}.pipeline_model_parallel_size": (1, 2),
        f"{_R}.data_parallel_size": (1, 2),
        f"{_R}.expert_parallel_size": (1, 2, 4),
        f"{_R}.gpu_memory_utilization": (0.4, 0.8),
        f"{_R}.temperature": (1.0, 0),
        f"{_R}.val_kwargs.do_sample": _SWITCH,
        f"{_R}.val_kwargs.n": (1, 8),
        f"{_R}.log_prob_micro_batch_size_per_gpu": (8, MISSING),
        f"{_R}.log_prob_micro_batch_size": (64,),
        f"{_R}.log_prob_use_dynamic_bsz": _SWITCH,
        f"{_R}.free_cache_engine": _SWITCH,
        f"{_R}.enforce_eager": _SWITCH,
        f"{_R}.max_num_batched_tokens": (8192,),
        f"{_R}.multi_turn.enable": _SWITCH,
        f"{_R}.multi_turn.max_turns": (5,),
        f"{_R}.calculate_log_probs": _SWITCH,
        f"{_R}.use_fire_sampling": (False,),
        f"{_R}.enable_sleep_mode": (True,),
        f"{_REF}.log_prob_micro_batch_size_per_gpu": (8, MISSING),
        f"{_REF}.log_prob_micro_batch_size": (64,),
        f"{_REF}.strategy": ("fsdp", "fsdp2"),
        "critic.ppo_micro_batch_size_per_gpu": (16, MISSING),
        "critic.ppo_micro_batch_size": (64,),
        "critic.ppo_mini_batch_size": (256, 2048),
        "critic.strategy": ("fsdp2",),
        "critic.enable": _SWITCH,
        "critic.optim.lr": (1e-5,),
        "critic.ulysses_sequence_parallel_size": (1, 2),
        "reward_model.enable": (False,),
        "reward_model.reward_manager": ("dapo",),
        "custom_reward_function.path": ("reward.py",),
        "trainer.n_gpus_per_node": (8, 4, 3),
        "trainer.nnodes": (1, 2),
        "trainer.val_before_train": _SWITCH,
        "trainer.total_training_steps": (100,),
        "trainer.total_episodes": (100,),
        "trainer.logger": ("[console]", "console"),
        "trainer.resume_mode": ("auto", "disable"),
    }.items()
}
_SFT_OPTIONS: Options = {
    (key,): values
    for key, values in {
        "data.train_batch_size": (256, 128, 100),
        "data.micro_batch_size_per_gpu": (4, 8, 3),
        "data.micro_batch_size": (4,),
        "data.use_dynamic_bsz": _SWITCH,
        "data.max_token_len_per_gpu": (8192,),
        "data.max_length": (1024, "2k"),
        "data.truncation": ("error", "left"),
        "data.pad_mode": ("no_padding", "right", "left"),
        "data.prompt_key": ("question",),
        "engine.strategy": ("fsdp", "fsdp2", "ddp"),
        "engine.ulysses_sequence_parallel_size": (1, 2),
        "engine.fsdp_size": (-1, 8),
        "engine.model_dtype": ("bf16", "fp32"),
        "engine.param_offload": _SWITCH,
        "engine.cpu_offload": (True,),
        "optim.lr": (1e-5, "high"),
        "optim.lr_scheduler_type": ("cosine", "constant", "linear"),
        "optim.warmup_style": ("cosine",),
        "optim.weight_decay": (0.1,),
        "optim.betas": ("[0.9,0.95]",),
        "optim.clip_grad": (1.0,),
        "model.use_remove_padding": _SWITCH,
        "model.lora_rank": (0, 32),
        "model.target_modules": ("all-linear",),
        "model.partial_pretrain": ("Qwen/Qwen2.5-7B-Instruct",),
        "model.enable_gradient_checkpointing": _SWITCH,
        "model.use_liger": _SWITCH,
        "ulysses_sequence_parallel_size": (2,),
        "use_remove_padding": (True,),
        "trainer.default_local_dir": ("out",),
        "trainer.total_training_steps": (100,),
        "trainer.logger": ("console",),
        "trainer.device": ("cuda",),
    }.items()
}
ORIGINALS: Mapping[str, Original] = {
    "grpo": Original(_GRPO, _RL_OPTIONS),
    "dynamic": Original(_DYNAMIC, _RL_OPTIONS),
    "ppo": Original(_PPO, _RL_OPTIONS),
    "sft": Original(_SFT, _SFT_OPTIONS),
}


def fields() -> dict[Place, Field]:
    """Every value of `ppo_trainer.yaml` as it is composed, by its dotted name: numbers and switches by their kind."""
    from omegaconf import OmegaConf

    config = OmegaConf.to_container(_composed("ppo_trainer", []), resolve=False)
    return {(place,): Field(type(value)) for place, value in _leaves(config, "") if type(value) in (int, float, bool)}


def _leaves(value: Any, above: str) -> Any:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _leaves(item, f"{above}{key}.")
        else:
            yield f"{above}{key}", item


def written(value: Mapping[str, Any]) -> str:
    sft = value.get(_SFT_PROGRAM) == "sft"
    start = "torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer" if sft else "python3 -m verl.trainer.main_ppo"
    return f"{start} {shlex.join(_words(value))}\n"


def _words(value: Mapping[str, Any]) -> list[str]:
    return [f"{key}={item}" for key, item in value.items() if key != _SFT_PROGRAM]


def refuses(value: Mapping[str, Any]) -> str:
    if value.get(_SFT_PROGRAM) == "sft":
        return refusal(lambda: _sft(_composed("sft_trainer_engine", _words(value))))
    return refusal(lambda: _reinforcement(_composed("ppo_trainer", _words(value))))


def _composed(name: str, words: list[str]) -> Any:
    from hydra import compose, initialize_config_dir

    folder = next(Path(path) for path in sys.path if Path(path).name.startswith("verl-"))
    with initialize_config_dir(str(folder / "verl" / "trainer" / "config"), version_base=None):
        return compose(name, words)


def _reinforcement(config: Any) -> None:
    """trainer/main_ppo.py main, then what the workers make of their sections (workers/engine_workers.py)."""
    stand_in(_ABSENT)
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    config.critic.model.path = tiny_checkpoint("qwen2")
    validate_config(config, need_reference_policy(config), need_critic(config))
    get_adv_estimator_fn(config.algorithm.adv_estimator)
    omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    omega_conf_to_dataclass(config.algorithm)
    _model(config.actor_rollout_ref.model)


def _sft(config: Any) -> None:
    """trainer/sft_trainer.py, _build_config."""
    stand_in(_ABSENT)
    from verl.utils.config import omega_conf_to_dataclass

    _model(config.model)
    for section in (config.engine, config.optim, config.checkpoint, config.profiler):
        omega_conf_to_dataclass(section)


def _model(section: Any) -> None:
    """The model's section, of a tiny model, without the tokenizer."""
    from omegaconf import open_dict
    from verl.utils.config import omega_conf_to_dataclass

    with open_dict(section):
        section.path, section.load_tokenizer = tiny_checkpoint("qwen2"), False
    omega_conf_to_dataclass(section)
