"""OpenRLHF's own answer: the command's parser, the checks after it, and those of `train` before a model is placed."""

from __future__ import annotations

import argparse
import ast
import functools
import shlex
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from benchmarks.mistakes.fields import Field, Place
from benchmarks.mistakes.judges import refusal
from benchmarks.refusals.drawn import MISSING, Options, Original, flags

NAME, RELEASE, FILE = "OpenRLHF", "0.11.2", "train.sh"
VERSIONS = {"openrlhf": (0, 11, 2)}
# DeepSpeed and vLLM look at these as they are built.
LATER = ("must be 0, 1, 2 or 3", "`vllm.gpu_memory_utilization` must be")
_PROGRAM = "program"  # the key of a configuration that is no flag
_SHARED: dict[str, Any] = {
    "data.max_len": 2048,
    "train.batch_size": 128,
    "train.micro_batch_size": 2,
    "data.max_samples": 500000,
    "ckpt.output_dir": "./checkpoint",
    "ckpt.save_steps": -1,
    "logger.logging_steps": 1,
    "eval.steps": -1,
    "ds.zero_stage": 2,
    "train.max_epochs": 1,
    "ds.param_dtype": "bf16",
    "ds.attn_implementation": "flash_attention_2",
    "ds.packing_samples": True,
}
_MODEL = "meta-llama/Meta-Llama-3-8B"
_SFT = {
    _PROGRAM: "sft",
    **_SHARED,
    "model.model_name_or_path": _MODEL,
    "data.dataset": "Open-Orca/OpenOrca",
    "data.input_key": "question",
    "data.output_key": "response",
    "adam.lr": 5e-6,
    "model.gradient_checkpointing_enable": True,
}
_PAIRS = {key: value for key, value in _SFT.items() if key not in ("data.input_key", "data.output_key")}
_RM = {**_PAIRS, _PROGRAM: "rm", "data.chosen_key": "chosen", "data.rejected_key": "rejected"}
_DPO = {**_PAIRS, _PROGRAM: "dpo", "model.beta": 0.1, "ref.model_name_or_path": _MODEL}
_RAY = {
    **_SHARED,
    _PROGRAM: "ppo_ray",
    "ref.num_nodes": 1,
    "ref.num_gpus_per_node": 8,
    "actor.num_nodes": 1,
    "actor.num_gpus_per_node": 8,
    "vllm.num_engines": 4,
    "vllm.tensor_parallel_size": 2,
    "train.colocate_all": True,
    "vllm.gpu_memory_utilization": 0.5,
    "actor.model_name_or_path": _MODEL,
    "rollout.batch_size": 1024,
    "rollout.micro_batch_size": 8,
    "ds.zero_stage": 3,
    "actor.adam.lr": 5e-7,
    "algo.kl.init_coef": 0.01,
    "data.prompt_dataset": "OpenRLHF/prompt-collection-v0.1",
    "data.input_key": "context_messages",
    "data.apply_chat_template": True,
    "actor.gradient_checkpointing_enable": True,
    "vllm.sync_backend": "nccl",
    "vllm.enforce_eager": True,
    "vllm.enable_sleep": True,
    "ds.enable_sleep": True,
}
_CRITIC = {f"{role}.{key}": value for role in ("critic", "reward") for key, value in (("num_nodes", 1),)}
_PPO = {
    **_RAY,
    **_CRITIC,
    "critic.num_gpus_per_node": 8,
    "reward.num_gpus_per_node": 8,
    "reward.model_name_or_path": "OpenRLHF/Llama-3-8b-rm-700k",
    "critic.adam.lr": 9e-6,
}
_GROUP = {
    **_RAY,
    "algo.advantage.estimator": "group_norm",
    "rollout.n_samples_per_prompt": 8,
    "reward.remote_url": "reward_func.py",
    "algo.kl.use_loss": True,
    "algo.kl.estimator": "k3",
}
_ASYNC = {
    **{key: value for key, value in _GROUP.items() if key not in ("vllm.enable_sleep", "train.colocate_all")},
    "train.async_enable": True,
    "train.agent_func_path": "agent.py",
}
_SWITCH = (True, False)
_COMMON: Options = {
    ("ds.zero_stage",): (0, 1, 2, 3, 4, "three"),
    ("ds.param_dtype",): ("bf16", "fp16", "fp32", "bfloat16"),
    ("ds.attn_implementation",): ("eager", "sdpa", "flash_attention_2", "flash"),
    ("ds.packing_samples",): _SWITCH,
    ("ds.ring_attn_size",): (1, 2, 4),
    ("ds.ring_attn_head_stride",): (2,),
    ("ds.tensor_parallel_size",): (1, 2),
    ("ds.lora.rank",): (0, 16, "16x"),
    ("ds.load_in_4bit",): _SWITCH,
    ("ds.lora.target_modules",): ("all-linear", ["q_proj", "v_proj"]),
    ("ds.adam_offload",): _SWITCH,
    ("ds.overlap_comm",): (True, "true"),
    ("ds.grad_accum_dtype",): ("fp32", "bf16"),
    ("ds.use_liger_kernel",): _SWITCH,
    ("ds.experts_implementation",): ("eager", "grouped_mm", "triton"),
    ("optim",): ("adam", "muon", "adamw"),
    ("train.batch_size",): (64, 128, "128k"),
    ("train.micro_batch_size",): (1, 2, 4, 1.5),
    ("data.apply_chat_template",): _SWITCH,
    ("data.max_len",): (1024, 4096, "4k"),
    ("lr_scheduler",): ("cosine_with_min_lr", "constant"),
    ("max_len",): (2048,),
    ("zero_stage",): (2,),
    ("bf16",): (True,),
    ("flash_attn",): (True,),
    ("gradient_checkpointing",): (True,),
    ("learning_rate",): (5e-6,),
    ("micro_train_batch_size",): (2,),
    ("per_device_train_batch_size",): (2,),
    ("train.dynamic_batch_enable",): _SWITCH,
}
_SFT_OPTIONS: Options = {**_COMMON, ("data.multiturn",): _SWITCH, ("model.aux_loss_coef",): (0.01,)}
_RAY_OPTIONS: Options = {
    **_COMMON,
    ("algo.advantage.estimator",): (
        *("gae", "reinforce", "rloo", "reinforce_baseline", "group_norm", "dr_grpo", "grpo"),
    ),
    ("rollout.n_samples_per_prompt",): (1, 4, 8),
    ("rollout.batch_size",): (1024, 128, 4),
    ("rollout.micro_batch_size",): (1, 8, 16, 512),
    ("rollout.vllm_generate_batch_size",): (128, 2048),
    ("rollout.max_tokens_per_gpu",): (16384,),
    ("train.max_tokens_per_gpu",): (16384,),
    ("vllm.num_engines",): (4, 2, 8, 0),
    ("vllm.tensor_parallel_size",): (1, 2, 4),
    ("vllm.enable_sleep",): _SWITCH,
    ("vllm.gpu_memory_utilization",): (0.5, "half"),
    ("train.colocate_all",): _SWITCH,
    ("train.colocate_actor_ref",): _SWITCH,
    ("train.colocate_critic_reward",): _SWITCH,
    ("train.async_enable",): _SWITCH,
    ("train.partial_rollout_enable",): _SWITCH,
    ("actor.num_gpus_per_node",): (8, 4, 2),
    ("actor.num_nodes",): (1, 2),
    ("ref.num_gpus_per_node",): (8, 4),
    ("critic.num_gpus_per_node",): (8, 4),
    ("reward.num_gpus_per_node",): (8, 4),
    ("algo.kl.init_coef",): (0.0, 0.01),
    ("algo.kl.estimator",): ("k1", "k2", "k3", "k4"),
    ("algo.kl.use_loss",): _SWITCH,
    ("algo.dynamic_filtering_enable",): _SWITCH,
    ("algo.dynamic_filtering_range",): ([0, 1], [1, 0], [0.5]),
    ("algo.advantage.is_correction_threshold",): ([5.0], [0.5, 5.0], [0.1, 0.5, 5.0]),
    ("algo.advantage.is_correction_level",): ("off", "token", "seq", "sequence"),
    ("algo.advantage.is_correction_mode",): ("mask", "clip", "truncate"),
    ("algo.advantage.is_correction_enable",): (True,),
    ("algo.advantage.is_correction_type",): ("icepop",),
    ("reward.remote_url",): (MISSING, "http://localhost:5000/get_reward"),
    ("reward.model_name_or_path",): (MISSING, "OpenRLHF/Llama-3-8b-rm-700k"),
    ("eval.dataset",): ("prompts.jsonl",),
    ("data.max_images_per_prompt",): (0, 4),
    ("actor.eps_clip_low_high",): ([0.2, 0.27], [0.2]),
    ("train.agent_func_path",): ("agent.py", MISSING),
    ("train.colocate_all_models",): (True,),
    ("actor_num_gpus_per_node",): (8,),
    ("algo.advantage.gamma",): (1.0,),
    ("rollout.max_new_tokens",): (1024,),
    ("train.full_determinism_enable",): (True,),
}
_PAIR_OPTIONS: Options = {
    **_COMMON,
    ("model.beta",): (0.1, "low"),
    ("model.ipo_enable",): _SWITCH,
    ("model.loss_type",): ("sigmoid", "hinge"),
    ("beta",): (0.1,),
}
ORIGINALS: Mapping[str, Original] = {
    "sft": Original(_SFT, _SFT_OPTIONS),
    "rm": Original(_RM, _PAIR_OPTIONS),
    "dpo": Original(_DPO, _PAIR_OPTIONS),
    "ppo": Original(_PPO, _RAY_OPTIONS),
    "group": Original(_GROUP, _RAY_OPTIONS),
    "async": Original(_ASYNC, _RAY_OPTIONS),
}


def fields() -> dict[Place, Field]:
    """The flags of every program; a flag that one program has not is refused there."""
    found: dict[Place, Field] = {}
    for program in ("sft", "rm", "dpo", "ppo_ray"):
        for action in _parser(program)._actions:
            kind = bool if action.nargs == 0 else action.type if action.type in (int, float) else str
            if action.dest != "help":
                found[(action.dest,)] = Field(kind, tuple(action.choices or ()) if kind is str else ())
    return found


def written(value: Mapping[str, Any]) -> str:
    program = value[_PROGRAM]
    start = "python3 -m" if program == "ppo_ray" else "deepspeed --num_gpus 8 --module"
    return f"{start} openrlhf.cli.train_{program} {shlex.join(_words(value))}\n"


def _words(value: Mapping[str, Any]) -> list[str]:
    return flags({key: item for key, item in value.items() if key != _PROGRAM})


def refuses(value: Mapping[str, Any]) -> str:
    return refusal(lambda: _run(value[_PROGRAM], _words(value)))


@functools.cache
def _source(program: str) -> tuple[Any, Any]:
    """The program's parsing and checks, and its `train`, as compiled code."""
    folder = next(Path(path) for path in sys.path if "openrlhf" in path.lower() and Path(path).is_dir())
    (path,) = folder.rglob(f"openrlhf/cli/train_{program}.py")
    sys.path.insert(0, str(path.parents[2]))
    _as_bare_package("openrlhf.utils", path.parents[1] / "utils")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    main = next(node for node in tree.body if isinstance(node, ast.If))
    train = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    return (
        compile(ast.Module(main.body, []), str(path), "exec"),
        compile(ast.Module([train], []), str(path), "exec"),
    )


def _as_bare_package(name: str, folder: Path) -> None:
    """The package without what its `__init__` imports, which training needs; modules in it are its own."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def _names(program: str) -> dict[str, Any]:
    """What the program imports: the standard library's as they are, everything else as a stand-in."""
    import os
    from datetime import datetime

    given = {"argparse": argparse, "datetime": datetime, "os": os, "train": lambda args: None}
    stand_ins = ("ray", "placement_group", "create_vllm_engines", "RayActorGroup", "ReferenceModelActor")
    given.update({name: mock.MagicMock() for name in (*stand_ins, "RewardModelActor", "PolicyModelActor")})
    return {**given, "CriticModelActor": mock.MagicMock(), "get_strategy": _strategy}


def _run(program: str, words: list[str]) -> None:
    main, train = _source(program)
    names = _names(program)
    if program == "ppo_ray":
        exec(train, names)
    else:
        names["train"] = _strategy
    stand_ins = {f"openrlhf.trainer.{one}": mock.MagicMock() for one in ("ppo_trainer", "ppo_trainer_async")}
    with mock.patch.object(sys, "argv", ["train", *words]), mock.patch.dict(sys.modules, stand_ins):
        exec(main, names)


def _strategy(args: Any) -> Any:
    """What `DeepspeedStrategy` asserts as it is made (utils/deepspeed/deepspeed.py:76)."""
    if getattr(args.ds, "tensor_parallel_size", 1) > 1:
        assert args.ds.param_dtype == "bf16", "BF16 is required for tensor parallel training"
    return SimpleNamespace(print=lambda *_: None)


def _parser(program: str) -> argparse.ArgumentParser:
    """The program's parser, as it stands when it is about to parse."""
    found: list[argparse.ArgumentParser] = []

    def stop(self: argparse.ArgumentParser, *_: Any) -> None:
        found.append(self)
        raise SystemExit

    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop):
        refusal(lambda: _run(program, []))
    return found[0]
