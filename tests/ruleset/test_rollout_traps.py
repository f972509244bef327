"""The traps of completions between updates, for each framework that has them: a file that falls in, the same after the
first fix that is offered, and one that does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint import cli

MODEL = "Qwen/Qwen2.5-7B-Instruct"
GPU = ("--gpu", "A100-80GB", "--gpus", "4")
Changes = dict[str, Any]


def trl(**changes: Any) -> Changes:
    ds = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto"}
    return {"model_name_or_path": MODEL, "dtype": "bfloat16", "bf16": True, "output_dir": "o", "deepspeed": ds} | {
        "per_device_train_batch_size": 2,
        "max_prompt_length": 1024,
        "max_completion_length": 1024,
        "num_generations": 8,
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_enable_sleep_mode": True,
        "learning_rate": 1e-6,
        "vllm_gpu_memory_utilization": 0.3,
        **changes,
    }


def swift(**changes: Any) -> Changes:
    return {"model": MODEL, "rlhf_type": "grpo", "tuner_type": "lora", "dataset": "d", "torch_dtype": "bfloat16"} | {
        "max_length": 1024,
        "max_completion_length": 1024,
        "per_device_train_batch_size": 2,
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": 0.3,
        "sleep_level": 1,
        "attn_impl": "flash_attn",
        **changes,
    }


NOT_SAID = object()


def verl(actor: Changes | None = None, **rollout: Any) -> Changes:
    given = {
        "name": "vllm",
        "gpu_memory_utilization": 0.3,
        "tensor_model_parallel_size": 1,
        "n": 8,
        "log_prob_micro_batch_size_per_gpu": 2,
        **rollout,
    }
    return {
        "actor_rollout_ref": {
            "model": {"path": MODEL},
            "actor": {"ppo_micro_batch_size_per_gpu": 2, "ppo_mini_batch_size": 64, **(actor or {})},
            "rollout": {key: value for key, value in given.items() if value is not NOT_SAID},
        },
        "algorithm": {"adv_estimator": "grpo"},
        "trainer": {"n_gpus_per_node": 4, "nnodes": 1},
        "data": {"max_prompt_length": 1024, "max_response_length": 1024, "train_batch_size": 64},
    }


def openrlhf(**changes: Any) -> Changes:
    return {"pretrain": MODEL, "actor_num_nodes": 1, "actor_num_gpus_per_node": 4, "ref_num_nodes": 1} | {
        "ref_num_gpus_per_node": 4,
        "colocate_all_models": True,
        "vllm_num_engines": 4,
        "zero_stage": 3,
        "vllm_gpu_memory_utilization": 0.3,
        "vllm_enable_sleep": True,
        "deepspeed_enable_sleep": True,
        "micro_train_batch_size": 2,
        "micro_rollout_batch_size": 2,
        "train_batch_size": 64,
        "max_len": 2048,
        "bf16": True,
        "flash_attn": True,
        "gradient_checkpointing": True,
        "advantage_estimator": "group_norm",
        **changes,
    }


OFFLOADED = {"fsdp_config": {"param_offload": True, "optimizer_offload": True}}
# trap: rule, a file that falls in, one that does not.
TRAPS: dict[str, tuple[str, Changes, Changes]] = {
    "TRL: the engine stays awake": (
        "ROL001",
        trl(vllm_enable_sleep_mode=False, vllm_gpu_memory_utilization=0.5),
        trl(vllm_gpu_memory_utilization=0.5),
    ),
    "ms-swift: the engine stays awake": (
        "ROL001",
        swift(sleep_level=0, vllm_gpu_memory_utilization=0.7),
        swift(vllm_gpu_memory_utilization=0.7),
    ),
    "verl: the engine stays awake": (
        "ROL001",
        verl(OFFLOADED, free_cache_engine=False, gpu_memory_utilization=0.7),
        verl(OFFLOADED, gpu_memory_utilization=0.7),
    ),
    "OpenRLHF: the engine stays awake": (
        "ROL001",
        openrlhf(vllm_enable_sleep=False, vllm_gpu_memory_utilization=0.6),
        openrlhf(vllm_gpu_memory_utilization=0.6),
    ),
    "TRL: a share without room": (
        "ROL002",
        trl(vllm_gpu_memory_utilization=0.9),
        trl(vllm_gpu_memory_utilization=0.3),
    ),
    "ms-swift: a share without room": (
        "ROL002",
        swift(vllm_gpu_memory_utilization=0.95),
        swift(vllm_gpu_memory_utilization=0.5),
    ),
    "verl: a share without room": ("ROL002", verl(gpu_memory_utilization=0.9), verl(OFFLOADED)),
    "OpenRLHF: a share without room": (
        "ROL002",
        openrlhf(vllm_gpu_memory_utilization=0.95),
        openrlhf(vllm_gpu_memory_utilization=0.4),
    ),
    "verl: log-probabilities of many at once": (
        "ROL003",
        verl(OFFLOADED, log_prob_micro_batch_size_per_gpu=128),
        verl(OFFLOADED),
    ),
    "OpenRLHF: log-probabilities of many at once": (
        "ROL003",
        openrlhf(micro_rollout_batch_size=64),
        openrlhf(),
    ),
    "TRL: the engine accepts more than is needed": (
        "ROL004",
        trl(vllm_max_model_length=32768),
        trl(vllm_max_model_length=2048),
    ),
    "ms-swift: the engine accepts more than is needed": (
        "ROL004",
        swift(vllm_max_model_len=32768),
        swift(vllm_max_model_len=2048),
    ),
    "verl: the engine accepts more than is needed": ("ROL004", verl(max_model_len=32768), verl(max_model_len=2048)),
    "TRL: a share below the engine's weights": (
        "ROL005",
        trl(vllm_gpu_memory_utilization=0.15),
        trl(vllm_gpu_memory_utilization=0.15, vllm_tensor_parallel_size=2),
    ),
    "ms-swift: a share below the engine's weights": (
        "ROL005",
        swift(vllm_gpu_memory_utilization=0.15),
        swift(vllm_gpu_memory_utilization=0.15, vllm_tensor_parallel_size=2),
    ),
    "verl: a share below the engine's weights": (
        "ROL005",
        verl(OFFLOADED, gpu_memory_utilization=0.15),
        verl(OFFLOADED, gpu_memory_utilization=0.15, tensor_model_parallel_size=2),
    ),
    "OpenRLHF: a share below the engine's weights": (
        "ROL005",
        openrlhf(vllm_gpu_memory_utilization=0.15),
        openrlhf(),
    ),
    "verl: no micro-batch for log-probabilities": (
        "VER002",
        verl(OFFLOADED, log_prob_micro_batch_size_per_gpu=NOT_SAID),
        verl(OFFLOADED),
    ),
    "verl: a token bound below a sequence": (
        "VER001",
        verl({"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 1024}),
        verl({"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 4096}),
    ),
}
# Rules without a fix: what to do depends on the data.
WITHOUT_FIX = ("VER001",)


def rules_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    capsys.readouterr()
    cli.main(["check", str(folder), "--isolated", "--format", "json", "--exit-zero", *GPU])
    return {one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_named_and_its_fix_leads_out(trap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule, falls, passes = TRAPS[trap]
    file = tmp_path / "train.json"
    file.write_text(json.dumps(passes, indent=1), encoding="utf-8")
    assert rule not in rules_of(tmp_path, capsys)
    file.write_text(json.dumps(falls, indent=1), encoding="utf-8")
    assert rule in rules_of(tmp_path, capsys)
    if rule in WITHOUT_FIX:
        return
    cli.main(["fix", str(file), "--isolated", "--unsafe", "--select", rule, *GPU])
    assert rule not in rules_of(tmp_path, capsys), file.read_text(encoding="utf-8")


@pytest.mark.parametrize(("gpu", "rule"), [("A100-40GB", "MEM001"), ("140GiB", "MEM002")])
def test_memory_of_the_critics_update_points_to_the_critics_batch(
    gpu: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    critic = {"model": {"path": MODEL, "enable_gradient_checkpointing": False}, "ppo_micro_batch_size_per_gpu": 8}
    ppo = {**verl(OFFLOADED), "algorithm": {"adv_estimator": "gae"}, "critic": critic}
    (tmp_path / "train.json").write_text(json.dumps(ppo, indent=1), encoding="utf-8")
    cli.main(["check", str(tmp_path), "--isolated", "--format", "json", "--exit-zero", "--gpu", gpu, "--gpus", "4"])
    found = {one["rule"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert "value update phase" in found[rule]["message"]
    assert found[rule]["location"]["pointer"] == "/critic/ppo_micro_batch_size_per_gpu"


@pytest.mark.parametrize(("sleeps", "is_named"), [(False, True), (True, False)], ids=["awake", "asleep"])
def test_an_engine_beside_the_trained_model_is_among_the_parts_of_its_peak(
    sleeps: bool, is_named: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = trl(vllm_enable_sleep_mode=sleeps, per_device_train_batch_size=8, max_completion_length=8192)
    (tmp_path / "a.json").write_text(json.dumps(config))
    cli.main(["check", str(tmp_path / "a.json"), "--format", "json", "--isolated", "--gpu", "RTX4090", "--gpus", "4"])
    said = [one["message"] for one in json.loads(capsys.readouterr().out)["findings"] if one["rule"] == "MEM001"]
    assert ["inference engine 7.1 GiB" in one for one in said] == [is_named]
