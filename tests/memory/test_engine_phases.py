"""Phases that frameworks' own files say: beside simulated steps in benchmarks/data, beside their code's arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.engine_phases import ENGINES, MODEL, STATED, estimated, nash_md, predicted, xpo
from memlint.hardware import find
from memlint.lint.analyse_file import uniform_analyser
from memlint.memory.values import Phase
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "engine_phases.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
CONFIG = next(case["config"] for case in CASES if case["config_class"] == "Qwen2Config")
CARD = find("A100-80GB")
SHARES = (0.3, 0.6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['engine']}-{case['config_class']}-{case['B']}")
def test_each_phase_is_the_simulated_one(case: dict[str, Any]) -> None:
    said = predicted(case)
    assert {name: said[name] for name in case["result"]} == pytest.approx(case["result"], rel=0.025)


def test_there_are_a_hundred_figures_of_seven_trainers() -> None:
    assert sum(len(case["result"]) for case in CASES) >= 100
    assert {case["engine"] for case in CASES} == set(ENGINES)
    assert not estimated(CASES[0]).unknown


def phases_of(file: dict[str, Any], gpus: int = 2) -> dict[str, Phase]:
    facts = {"gpu": CARD, "gpu_origin": STATED, "gpus": gpus, "gpus_origin": STATED, "gpus_per_node": gpus}
    workspace = in_memory({"train.yaml": json.dumps(file)}, {MODEL: CONFIG})
    analysis = uniform_analyser(Engine(()), facts, cwd="/", workspace=workspace).analyse("train.yaml", fixes=False)
    return {one.name: one for one in analysis.analyses[0].estimates[0].phases}


def test_gradients_of_two_graphs_wait_for_each_other() -> None:
    """XPO's are added to those of earlier micro-batches once both graphs' are there."""
    alone, accumulating = (phases_of({**xpo(2, 512), "gradient_accumulation_steps": n}, 1)["backward"] for n in (1, 2))
    gradients = 2 * _parameters()
    assert alone.components["gradients"] >= gradients
    assert accumulating.allocated_bytes == pytest.approx(alone.allocated_bytes + gradients, rel=0.01)
    assert "backward" not in phases_of({**xpo(2, 512), "deepspeed": {"zero_optimization": {"stage": 2}}})


@pytest.mark.parametrize("recomputes", (False, True))
def test_a_mixture_of_two_models_returns_all_logits(recomputes: bool) -> None:
    """With a cache those of the prompt, without one those of everything that is written at last."""
    file = {**nash_md(2, 512), "gradient_checkpointing": recomputes}
    found = phases_of(file, 1)["generation"].components
    read = 512 if recomputes else 384
    assert found["logits"] == 20 * 2 * read * CONFIG["vocab_size"]
    assert (found.get("kv_cache", 0) > 0) is not recomputes


def verl(share: float, offloads: bool, ranks: int) -> dict[str, Any]:
    """verl 0.9.1 workers/engine_workers.py: weights and states leave the card before the engine wakes."""
    moved = {"param_offload": offloads, "optimizer_offload": offloads}
    return {
        "actor_rollout_ref": {
            "model": {"path": MODEL},
            "actor": {"ppo_micro_batch_size_per_gpu": 1, "ppo_mini_batch_size": 8, "fsdp_config": moved},
            "rollout": {
                "name": "vllm",
                "gpu_memory_utilization": share,
                "tensor_model_parallel_size": ranks,
                "log_prob_micro_batch_size_per_gpu": 1,
                "n": 8,
            },
        },
        "algorithm": {"adv_estimator": "grpo"},
        "data": {"max_prompt_length": 512, "max_response_length": 512},
        "trainer": {"n_gpus_per_node": 2, "nnodes": 1},
    }


def swift(share: float, offloads: bool, ranks: int) -> dict[str, Any]:
    """ms-swift 4.6.0 rlhf_trainers/rollout_mixin.py: `offload_model`, `offload_optimizer`, `sleep_level`."""
    moved = {"offload_model": offloads, "offload_optimizer": offloads, "sleep_level": 1}
    return {"rlhf_type": "grpo", "model": MODEL, "tuner_type": "full", "torch_dtype": "bfloat16", "dataset": "d"} | {
        "per_device_train_batch_size": 2,
        "num_generations": 2,
        "max_length": 512,
        "max_completion_length": 512,
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": share,
        **moved,
        "vllm_tensor_parallel_size": ranks,
        "attn_impl": "flash_attn",
    }


def openrlhf(share: float, offloads: bool, ranks: int) -> dict[str, Any]:
    """OpenRLHF 0.11.2 trainer/ppo_trainer.py: `ds.enable_sleep` moves optimizer states; weights stay."""
    return {"pretrain": MODEL, "actor_num_nodes": 1, "ref_num_nodes": 1, "colocate_all_models": True} | {
        "actor_num_gpus_per_node": 2,
        "ref_num_gpus_per_node": 2,
        "vllm_num_engines": 2 // ranks,
        "bf16": True,
        "vllm_tensor_parallel_size": ranks,
        "vllm_gpu_memory_utilization": share,
        "vllm_enable_sleep": True,
        "deepspeed_enable_sleep": offloads,
        "micro_train_batch_size": 1,
        "micro_rollout_batch_size": 1,
        "train_batch_size": 8,
        "max_len": 1024,
        "zero_stage": 3,
        "flash_attn": True,
        "advantage_estimator": "group_norm",
        "gradient_checkpointing": True,
    }


WRITERS = (verl, swift, openrlhf)


@pytest.mark.parametrize("file", WRITERS)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("offloads", (False, True))
@pytest.mark.parametrize("ranks", (1, 2))
def test_beside_a_colocated_engine(file: Any, share: float, offloads: bool, ranks: int) -> None:
    """While completions are written the engine has its share of what CUDA reports; while it gets weights it has them
    alone, in half precision, a part on each of its ranks."""
    found = phases_of(file(share, offloads, ranks))
    assert CARD is not None
    written, synced = found["rollout"].components, found["weight_sync"].components
    assert written["engine"] == pytest.approx(share * CARD.usable_bytes, rel=0.02)
    assert synced["engine"] == 2 * _parameters() // ranks
    stays = found["optimizer_step"].components
    assert written["optimizer_states"] == (0 if offloads else stays["optimizer_states"])
    assert (written["weights"] == 0) == (offloads and file is not openrlhf)
    assert synced["weights"] >= written["weights"]


def _parameters() -> int:
    """Of the small Qwen2: embedding and head, and in each of four layers attention with biases, MLP and two norms."""
    hidden, vocabulary, inner = (CONFIG[name] for name in ("hidden_size", "vocab_size", "intermediate_size"))
    keys = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    attention = 2 * hidden * hidden + 2 * hidden * keys + hidden + 2 * keys
    layer = attention + 3 * hidden * inner + 2 * hidden
    return int(2 * vocabulary * hidden + CONFIG["num_hidden_layers"] * layer + hidden)
