"""AReaL's own answer: its merge of a file into its dataclasses, their checks, its allocation texts and its trainer's.

SOURCES has `areal-1.0.4`, the unpacked release, beside omegaconf, hydra and lark. What only training needs is a
stand-in; no model is loaded and no worker started."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from benchmarks.mistakes.fields import Field, Place
from benchmarks.mistakes.judges import refusal
from benchmarks.refusals.absent import stand_in
from benchmarks.refusals.drawn import MISSING, Options, Original

NAME, RELEASE, FILE = "AReaL", "1.0.4", "config.yaml"
VERSIONS = {"areal": (1, 0, 4)}
# Found by the engine that is made, or by the model.
LATER = ("cannot be divided", "no dtype", "none of linear", "none of adam")
_ABSENT = ("uvloop", "numba", "ray", "colorlog", "torchdata", "datasets")
# The modules that run as they are; every other one of AReaL's is a stand-in.
_REAL = frozenset(
    f"areal.{name}"
    for name in ("api.cli_args", "api.alloc_mode", "engine.fsdp_utils.attn_impl", "trainer.rl_trainer")
    + ("utils.constants", "utils.seqpack", "utils.pkg_version")
)
_PACKAGES = frozenset(("areal", "areal.api", "areal.engine", "areal.engine.fsdp_utils", "areal.trainer", "areal.utils"))
_SECTIONS = ((), ("actor",), ("actor", "mb_spec"), ("actor", "optimizer"), ("gconfig",), ("rollout",), ("cluster",))
_ENGINE: dict[str, Any] = {
    "experiment_name": "e",
    "trial_name": "t",
    "path": "Qwen/Qwen2.5-1.5B-Instruct",
    "backend": "fsdp:d4",
    "gradient_checkpointing": True,
    "dtype": "bfloat16",
    "mb_spec": {"max_tokens_per_mb": 10240},
    "optimizer": {"type": "adam", "lr": 1e-5, "weight_decay": 0.01},
}
_PLAIN: dict[str, Any] = {
    "experiment_name": "e",
    "trial_name": "t",
    "total_train_epochs": 3,
    "tokenizer_path": "Qwen/Qwen2.5-1.5B-Instruct",
    "cluster": {"n_nodes": 1, "n_gpus_per_node": 8, "fileroot": "/tmp/a"},
    "scheduler": {"type": "local"},
    "train_dataset": {"path": "openai/gsm8k", "type": "rl", "batch_size": 128, "max_length": 1024},
    **{
        name: {"experiment_name": "e", "trial_name": "t", "fileroot": "/tmp/a"}
        for name in ("saver", "recover", "evaluator", "stats_logger")
    },
}
_GRPO: dict[str, Any] = {
    **_PLAIN,
    "gconfig": {"n_samples": 4, "max_new_tokens": 1024, "temperature": 1.0},
    "rollout": {"backend": "sglang:d4", "max_concurrent_rollouts": 64, "max_head_offpolicyness": 2},
    "actor": {**_ENGINE, "kl_ctl": 0.0, "ppo_n_minibatches": 2, "eps_clip": 0.4, "recompute_logprob": True},
}
_WITH_REFERENCE: dict[str, Any] = {
    **_GRPO,
    "actor": {**_GRPO["actor"], "kl_ctl": 0.1},
    "ref": {**_ENGINE, "optimizer": None, "scheduling_strategy": {"type": "colocation", "target": "actor"}},
}
_SFT: dict[str, Any] = {**_PLAIN, "actor": {**_ENGINE, "backend": "fsdp:d8"}}
_SWITCH = (True, False)
_OF_ENGINE: Options = {
    ("actor", "backend"): ("fsdp:d8", "fsdp:d2p2", "megatron:d2p2", "archon:d4", "d4", "fsdp:d4+fsdp:d4", "ddp:d4")
    + ("megatron:(attn:d1p2t2|ffn:d1p2e2)", "megatron:d2e4", "fsdp.d4", MISSING),
    ("actor", "mb_spec", "packing_algorithm"): ("ffd", "kk", "best"),
    ("actor", "mb_spec", "max_tokens_per_mb"): (4096, None, "4k", "8192"),
    ("actor", "mb_spec", "n_mbs"): (2, None),
    ("actor", "init_from_scratch"): _SWITCH,
    ("actor", "fsdp", "memory_efficient_load"): _SWITCH,
    ("actor", "fsdp", "optim_step_prefetch_layers"): (1, -1),
    ("actor", "archon", "reshard_after_forward_policy"): ("always", "sometimes"),
    ("actor", "archon", "pp_layers_per_stage"): (2, 0),
    ("actor", "gradient_checkpointing"): ("yes", "on", None),
    ("actor", "optimizer"): (None,),
    ("actor", "optimizer_dtype"): ("float32",),
    ("actor", "_version"): ("v2", "v3"),
    ("recover", "mode"): ("on", "auto", "fault", "disabled"),
    ("saver", "mode"): ("sync", "later"),
    ("stats_logger", "wandb"): ({"mode": "online"}, {"mode": "local"}, {"project": None}),
    ("allocation_mode",): ("sglang:d4+fsdp:d4",),
    ("launcher",): ({"trainer_cpus_per_gpu": 4},),
    ("total_train_epochs",): (0, 5, None),
    ("enable_offload",): _SWITCH,
    ("trial_name",): (1, None),
}
_OF_GRPO: Options = {
    **_OF_ENGINE,
    ("actor", "use_sapo_loss"): _SWITCH,
    ("actor", "use_decoupled_loss"): _SWITCH,
    ("actor", "sapo_tau_pos"): (0.0, 1.5),
    ("actor", "reward_norm"): ({"mean_level": "group", "group_size": 4}, {"mean_level": "token"}, None),
    ("actor", "adv_norm"): ({"std_level": None}, {"std_level": "all"}),
    ("actor", "rejection_sampling"): (
        *({"metric": "ratio", "upper": 5.0}, {"upper": 0.9}, {"lower": 9.0}, {"metric": "kl_k2", "upper": 0}),
        *({"action": "clamp", "metric": "kl_k1"}, {"level": "group"}),
    ),
    ("actor", "behave_imp_weight_cap"): (5.0,),
    ("actor", "offload"): _SWITCH,
    ("actor", "use_lora"): _SWITCH,
    ("actor", "weight_update_mode"): ("disk", "xccl"),
    ("rollout", "backend"): ("vllm:d4", "sglang:d2t2", "trt:d4", "sglang:d4c2", MISSING),
    ("rollout", "scheduling_strategy"): ({"type": "colocation", "target": "actor"},),
    ("rollout", "return_routed_experts"): _SWITCH,
    ("rollout", "_version"): ("v2", "new"),
    ("gconfig", "stop_token_ids"): ([1, 2], "1"),
    ("critic",): (None, {**_ENGINE, "is_critic": True}),
}
ORIGINALS: Mapping[str, Original] = {
    "grpo": Original(_GRPO, _OF_GRPO),
    "reference": Original(_WITH_REFERENCE, _OF_GRPO),
    "sft": Original(_SFT, _OF_ENGINE),
}


def fields() -> dict[Place, Field]:
    """The fields of the sections that the originals have."""
    found: dict[Place, Field] = {}
    for section in _SECTIONS:
        kind: Any = _areal().GRPOConfig
        for step in section:
            kind = _class_of(typing.get_type_hints(kind)[step])
        for name, hint in typing.get_type_hints(kind).items():
            plain = next((one for one in (*typing.get_args(hint), hint) if one in (int, float, bool, str)), None)
            if plain is not None and name in {one.name for one in dataclasses.fields(kind)}:
                found[(*section, name)] = Field(plain)
    return found


def _class_of(hint: Any) -> Any:
    return next(one for one in (*typing.get_args(hint), hint) if dataclasses.is_dataclass(one))


def written(value: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(value), sort_keys=False)


def beside(value: Mapping[str, Any]) -> Mapping[str, str]:
    """The program that reads the file into AReaL's own class, and the command that starts it."""
    name = "GRPOConfig" if "rollout" in value or "gconfig" in value else "SFTConfig"
    program = f"from areal.api.cli_args import {name}, load_expr_config\nload_expr_config([], {name})\n"
    return {"train.py": program, "run.sh": f"python train.py --config {FILE}\n"}


def refuses(value: Mapping[str, Any]) -> str:
    return refusal(lambda: _run(value))


@functools.cache
def _areal() -> Any:
    stand_in(_ABSENT)
    sys.meta_path.insert(0, _Finder())
    return importlib.import_module("areal.api.cli_args")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stand-ins for AReaL's modules, but for those of `_REAL`, which the next finder loads."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != "areal" or name in _REAL:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ in _PACKAGES:
            tail = module.__name__.split(".")
            module.__path__ = [str(Path(one, *tail)) for one in sys.path if Path(one, *tail).is_dir()]
        if module.__name__ == "areal.utils.logging":
            module.getLogger = logging.getLogger  # type: ignore[attr-defined]


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()


def _run(value: Mapping[str, Any]) -> None:
    from omegaconf import OmegaConf

    areal = _areal()
    reads = areal.GRPOConfig if "rollout" in value or "gconfig" in value else areal.SFTConfig
    merged = areal.to_structured_cfg(OmegaConf.create(yaml.safe_load(written(value))), config_cls=reads)
    config = OmegaConf.to_object(merged)
    for text in _backends(config):
        importlib.import_module("areal.api.alloc_mode").ModelAllocation.from_str(text)
    if reads is areal.GRPOConfig:
        _validate(config)


def _backends(config: Any) -> Iterator[str]:
    """Those that the trainers parse (rl_trainer.py and sft_trainer.py, `__init__`)."""
    yield config.actor.backend
    if hasattr(config, "rollout"):
        yield config.rollout.backend
        yield from (config.critic.backend,) if config.critic is not None else ()
        yield from (config.ref.backend,) if config.ref is not None and config.actor.kl_ctl > 0 else ()


def _validate(config: Any) -> None:
    """`PPOTrainer.__init__` up to its checks."""
    module = importlib.import_module("areal.trainer.rl_trainer")
    parse = importlib.import_module("areal.api.alloc_mode").ModelAllocation.from_str
    trainer = object.__new__(module.PPOTrainer)
    trainer.config = config
    trainer.actor_alloc, trainer.rollout_alloc = parse(config.actor.backend), parse(config.rollout.backend)
    together = trainer._is_actor_rollout_colocated(config)
    trainer._should_offload_rollout = together
    trainer._should_offload_actor = together or config.actor.offload
    for role in ("critic", "ref", "teacher"):
        one = getattr(config, role)
        setattr(trainer, f"_should_offload_{role}", one is not None and one.offload)
    trainer._validate_cfg()
