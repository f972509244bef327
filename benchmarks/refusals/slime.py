"""slime's own answer: its arguments and checks, on a parser with a few of Megatron-LM's arguments.

SOURCES has `slime-0.3.1`, the unpacked release. Files exist, SGLang and Megatron-LM are stand-ins."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import shlex
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from unittest import mock

from benchmarks.mistakes.fields import Field, Place
from benchmarks.mistakes.judges import refusal
from benchmarks.refusals.absent import stand_in
from benchmarks.refusals.drawn import MISSING, Options, Original, flags

NAME, RELEASE, FILE = "slime", "0.3.1", "run.sh"
VERSIONS = {"slime": (0, 3, 1)}
# Found once GPUs are taken, a batch is there or Megatron-LM looks at its sizes.
LATER = ("the engines have no GPUs", "no update to make", "no multiple of", "cannot be divided evenly")
_ABSENT = ("megatron", "sglang", "sglang_router", "ray", "transformers", "omegaconf", "wandb", "httpx", "torch")
_OF_MEGATRON = {
    "--num-layers": int,
    "--hidden-size": int,
    "--tensor-model-parallel-size": int,
    "--optimizer": str,
    "--ckpt-step": int,
}
_GRPO: dict[str, Any] = {
    "actor-num-nodes": 1,
    "actor-num-gpus-per-node": 8,
    "colocate": True,
    "hf-checkpoint": "/root/model",
    "ref-load": "/root/reference",
    "save": "/root/saved",
    "save-interval": 20,
    "prompt-data": "/root/math.jsonl",
    "rm-type": "math",
    "num-rollout": 300,
    "rollout-batch-size": 32,
    "n-samples-per-prompt": 8,
    "rollout-max-response-len": 8192,
    "global-batch-size": 256,
    "eval-interval": 20,
    "eval-prompt-data": ["aime", "/root/aime.jsonl"],
    "use-dynamic-batch-size": True,
    "max-tokens-per-gpu": 9216,
    "advantage-estimator": "grpo",
    "use-kl-loss": True,
    "kl-loss-coef": 0.0,
    "kl-loss-type": "low_var_kl",
    "lr": 1e-6,
    "rollout-num-gpus-per-engine": 2,
}
_ALONE = {key: value for key, value in _GRPO.items() if key != "colocate"}
_ELSEWHERE = {**_ALONE, "rollout-num-gpus": 8}
_SFT = {**_ALONE, "debug-train-only": True, "loss-type": "sft_loss", "n-samples-per-prompt": 1, "global-batch-size": 32}
_SWITCH = (True, False)
_OPTIONS: Options = {
    ("kl-coef",): (0.1, 0.0, "low"),
    ("kl-loss-coef",): (0.01,),
    ("advantage-estimator",): ("grpo", "gspo", "reinforce_plus_plus", "ppo", "gae"),
    ("normalize-advantages",): _SWITCH,
    ("num-steps-per-rollout",): (1, 2),
    ("over-sampling-batch-size",): (16, 64),
    ("rollout-max-context-len",): (4096, 16384),
    ("rollout-max-prompt-len",): (2048, 4096),
    ("use-tis",): _SWITCH,
    ("use-rollout-logprobs",): _SWITCH,
    ("get-mismatch-metrics",): _SWITCH,
    ("custom-tis-function-path",): ("a.b",),
    ("enable-mtp-training",): _SWITCH,
    ("mtp-num-layers",): (1,),
    ("use-opd",): _SWITCH,
    ("opd-type",): ("sglang", "megatron", "vllm"),
    ("opd-teacher-load",): ("/root/teacher",),
    ("balance-by-flops",): _SWITCH,
    ("use-dynamic-batch-size",): _SWITCH,
    ("max-tokens-per-gpu",): (4096, MISSING, "4k"),
    ("kl-loss-type",): ("k1", "k3", "k5"),
    ("loss-type",): ("policy_loss", "sft"),
    ("rollout-batch-size",): (32, 16, MISSING),
    ("global-batch-size",): (256, 128, 0.5),
    ("num-rollout",): (10, MISSING),
    ("num-epoch",): (2,),
    ("disable-rollout-global-dataset",): _SWITCH,
    ("eval-prompt-data",): (MISSING, ["aime", "/a", "math"], ["/a"]),
    ("ref-load",): (MISSING,),
    ("save",): (MISSING,),
    ("freeze-params-name-list",): ("embedding",),
    ("only-train-params-name-list",): ("experts",),
    ("update-weight-mode",): ("full",),
    ("keep-old-actor",): _SWITCH,
    ("loss-mask-type",): ("qwen", "qwen9"),
}
ORIGINALS: Mapping[str, Original] = {
    "grpo": Original(_GRPO, _OPTIONS),
    "elsewhere": Original(_ELSEWHERE, _OPTIONS),
    "sft": Original(_SFT, _OPTIONS),
}


def fields() -> dict[Place, Field]:
    """The arguments of the originals: a slip in another's name is passed over."""
    found: dict[Place, Field] = {}
    for action in _parser()._actions:
        kind = bool if action.nargs == 0 else action.type if action.type in (int, float) else str
        found[(action.dest.replace("_", "-"),)] = Field(kind, tuple(action.choices or ()) if kind is str else ())
    return {place: field for place, field in found.items() if place[0] in _GRPO}


def written(value: Mapping[str, Any]) -> str:
    return f"python3 train.py {shlex.join(flags(value))}\n"


def refuses(value: Mapping[str, Any]) -> str:
    return refusal(lambda: _run(flags(value)))


@functools.cache
def _slime() -> Any:
    stand_in(_ABSENT)
    return importlib.import_module("slime.utils.arguments")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name, kind in _OF_MEGATRON.items():
        parser.add_argument(name, type=kind)
    found: argparse.ArgumentParser = _slime().get_slime_extra_args_provider()(parser)
    return found


def _run(words: list[str]) -> None:
    """`parse_args` from its second parser on."""
    args, _ = _parser().parse_known_args(words)
    own = {"debug_train_only": False, "debug_rollout_only": False, "load_debug_rollout_data": None}
    given = {name: True for name in own if f"--{name.replace('_', '-')}" in words}
    vars(args).update({**own, **given, "train_backend": "megatron"})
    datasets = mock.patch.object(_slime(), "build_eval_dataset_configs", _datasets)
    with mock.patch.object(os.path, "exists", return_value=True), datasets:
        _slime().slime_validate_args(args)


def _datasets(args: Any, found: list[dict[str, str]], defaults: Any) -> list[Any]:
    return [SimpleNamespace(**one) for one in found]
