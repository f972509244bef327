"""Methods that write or compare completions, by engine: a figure, a bound, or UNKNOWN with its reason.

    python benchmarks/accuracy/methods.py

Each cell is one small file of the framework for Qwen2.5-7B (8 GPUs of 80 GB), read as any file is: the phase and the
GiB of its peak, `at least` where only a bound is known, else the reason. `no such trainer` stands for a method that the
framework's release does not have; the module names where that was read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.hardware import find
from memlint.lint.analyse_file import uniform_analyser
from memlint.memory.values import Estimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import Origin

MODEL, TEACHER = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-14B-Instruct"
GIB = 1 << 30
_STATED = Origin("setting", detail="the cell")
_TRL = {"model_name_or_path": MODEL, "dtype": "bfloat16", "bf16": True, "output_dir": "o", "learning_rate": 1e-6} | {
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "gradient_checkpointing": True,
    "deepspeed": {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}, "train_batch_size": "auto"},
}
_LLAMAFACTORY = {"model_name_or_path": MODEL, "do_train": True, "finetuning_type": "full", "bf16": True} | {
    "template": "qwen",
    "dataset": "d",
    "output_dir": "o",
    "cutoff_len": 2048,
    "learning_rate": 1e-6,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 4,
    "deepspeed": "ds.json",
}
_SWIFT = {"model": MODEL, "tuner_type": "full", "torch_dtype": "bfloat16", "dataset": "d", "deepspeed": "zero3"} | {
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "max_length": 2048,
    "attn_impl": "flash_attn",
    "learning_rate": 1e-6,
}
_OPENRLHF = {"pretrain": MODEL, "micro_train_batch_size": 2, "train_batch_size": 128, "zero_stage": 3, "bf16": True} | {
    "flash_attn": True,
    "gradient_checkpointing": True,
    "max_len": 2048,
    "zpg": 1,
}
_RAY = {"actor_num_nodes": 1, "actor_num_gpus_per_node": 8, "ref_num_nodes": 1, "ref_num_gpus_per_node": 8} | {
    "critic_num_nodes": 1,
    "critic_num_gpus_per_node": 8,
    "colocate_all_models": True,
    "vllm_num_engines": 8,
    "vllm_gpu_memory_utilization": 0.4,
    "vllm_enable_sleep": True,
    "deepspeed_enable_sleep": True,
    "micro_rollout_batch_size": 2,
}
_GENERATED = {"max_prompt_length": 1024, "max_completion_length": 1024}
Cell = dict[str, Any] | str


def _verl(estimator: str, **more: Any) -> dict[str, Any]:
    actor = {"ppo_micro_batch_size_per_gpu": 2, "ppo_mini_batch_size": 64, "use_kl_loss": True, "entropy_coeff": 0}
    rollout = {"name": "vllm", "gpu_memory_utilization": 0.4, "log_prob_micro_batch_size_per_gpu": 2, "n": 8}
    return {
        "actor_rollout_ref": {
            "model": {"path": MODEL},
            "actor": actor,
            "ref": {"log_prob_micro_batch_size_per_gpu": 2},
            "rollout": {**rollout, "tensor_model_parallel_size": 2},
        },
        "critic": {"model": {"path": MODEL}, "ppo_micro_batch_size_per_gpu": 2},
        "algorithm": {"adv_estimator": estimator},
        "trainer": {"n_gpus_per_node": 8, "nnodes": 1},
        "data": {"max_prompt_length": 1024, "max_response_length": 1024},
        **more,
    }


def _swift(kind: str, **more: Any) -> dict[str, Any]:
    return {**_SWIFT, "rlhf_type": kind, **more}


def _estimator(name: str) -> dict[str, Any]:
    return {**_OPENRLHF, **_RAY, "advantage_estimator": name}


# LLaMA-Factory 0.9.5 hparams/finetuning_args.py (stage), ms-swift 4.6.0 arguments/rlhf_args.py:233 (rlhf_type),
# OpenRLHF 0.11.2 cli/ and algo.advantage.estimator, verl 0.9.1 trainer/ppo/core_algos.py:97, trl 1.16 trainer/ and
# experimental/.
NONE = "no such trainer"
TABLE: dict[str, dict[str, Cell]] = {
    "PPO": {
        "trl": {**_TRL, "reward_model_path": MODEL, "response_length": 512, "max_length": 1024},
        "llamafactory": {**_LLAMAFACTORY, "stage": "ppo", "reward_model": MODEL, "reward_model_type": "full"},
        "swift": _swift("ppo", reward_model=MODEL, response_length=512),
        "verl": _verl("gae"),
        "openrlhf": _estimator("gae"),
    },
    "GRPO": {
        "trl": {**_TRL, **_GENERATED, "num_generations": 8, "beta": 0.04, "use_vllm": True},
        "llamafactory": NONE,
        "swift": _swift("grpo", max_completion_length=1024, num_generations=8, use_vllm=True, vllm_mode="colocate"),
        "verl": _verl("grpo"),
        "openrlhf": _estimator("group_norm"),
    },
    "RLOO": {
        "trl": {**_TRL, **_GENERATED, "num_generations": 2, "beta": 0.05},
        "llamafactory": NONE,
        "swift": _swift("grpo", advantage_estimator="rloo", max_completion_length=1024, num_generations=8),
        "verl": _verl("rloo"),
        "openrlhf": _estimator("rloo"),
    },
    "REINFORCE++": {
        "trl": NONE,
        "llamafactory": NONE,
        "swift": _swift("grpo", advantage_estimator="reinforce_plus_plus", max_completion_length=1024),
        "verl": _verl("reinforce_plus_plus"),
        "openrlhf": _estimator("reinforce"),
    },
    "ReMax": {
        "trl": NONE,
        "llamafactory": NONE,
        "swift": NONE,
        "verl": _verl("remax"),
        "openrlhf": NONE,
    },
    "PRIME": {
        "trl": NONE,
        "llamafactory": NONE,
        "swift": NONE,
        "verl": _verl("rloo", reward_model={"enable": True, "model": {"path": MODEL}}),
        "openrlhf": NONE,
    },
    "Online DPO": {
        "trl": {**_TRL, "judge": "j", "max_length": 2048, "max_new_tokens": 512},
        "llamafactory": NONE,
        "swift": NONE,
        "verl": NONE,
        "openrlhf": NONE,
    },
    "distillation (GKD, train_kd)": {
        "trl": {**_TRL, "teacher_model_name_or_path": TEACHER, "lmbda": 0.5, "max_length": 2048},
        "llamafactory": NONE,
        "swift": _swift("gkd", teacher_model=TEACHER, max_completion_length=512),
        "verl": _verl("grpo", distillation={"enabled": True}),
        "openrlhf": {**_OPENRLHF, "teacher_model": TEACHER},
    },
    "DPO": {
        "trl": {**_TRL, "dpo_beta": 0.1, "max_length": 2048},
        "llamafactory": {**_LLAMAFACTORY, "stage": "dpo"},
        "swift": _swift("dpo"),
        "verl": NONE,
        "openrlhf": {**_OPENRLHF, "chosen_key": "chosen", "beta": 0.1},
    },
}
ENGINES = ("trl", "llamafactory", "swift", "verl", "openrlhf")


def cells() -> Iterator[tuple[str, str, str]]:
    """Method, engine, and what is said of it."""
    for method, row in TABLE.items():
        for engine in ENGINES:
            cell = row[engine]
            yield method, engine, cell if isinstance(cell, str) else said(estimate_of(cell))


def estimate_of(file: dict[str, Any]) -> Estimate:
    facts = {"gpu": find("A100-80GB"), "gpu_origin": _STATED, "gpus": 8, "gpus_origin": _STATED, "gpus_per_node": 8}
    engine = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}, "train_batch_size": "auto"}
    workspace = in_memory({"train.yaml": json.dumps(file), "ds.json": json.dumps(engine)})
    analyser = uniform_analyser(Engine(()), facts, cwd="/", workspace=workspace)
    return analyser.analyse("train.yaml", fixes=False).analyses[0].estimates[0]


def said(found: Estimate) -> str:
    if found.device_bytes is not None:
        return f"{found.device_bytes / GIB:.0f} GiB, {found.peak_phase}"
    reason = "; ".join(one.reason for one in found.unknown)
    if "at least" in reason:
        return reason
    if found.allocated_low_bytes is not None:
        return f"at least {found.allocated_low_bytes / GIB:.0f} GiB: {reason}"
    return f"UNKNOWN: {reason}"


def main() -> int:
    parser(__doc__).parse_args()
    print("| method | " + " | ".join(ENGINES) + " |\n|" + "---|" * (len(ENGINES) + 1))
    found: dict[str, list[str]] = {}
    for method, _, words in cells():
        found.setdefault(method, []).append(words)
    for method, row in found.items():
        print(f"| {method} | " + " | ".join(row) + " |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
