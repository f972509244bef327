"""What NeMo-RL refuses of the engine that writes completions, and of its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.formats.nemo_rl.test_refused import APART, findings, messages, place

VLLM = "policy.generation.vllm_cfg"
OWN = "policy.generation.colocated.resources"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policy.generation.backend": "hf"}, "is none of vllm, sglang, megatron"),
        ({"policy.generation.backend": "sglang"}, "needs a section `sglang_cfg`"),
        ({f"{VLLM}.pipeline_parallel_size": 2}, "needs `async_engine: true`"),
        ({f"{VLLM}.expert_parallel_size": 3, f"{VLLM}.tensor_parallel_size": 2}, "no multiple of"),
        (
            {f"{VLLM}.expert_parallel_size": 4, f"{VLLM}.async_engine": True},
            "needs `expert_parallel_size: 1`",
        ),
        ({"policy.generation.top_p": 1.5}, "`top_p: 1.5`"),
        ({"policy.generation.top_k": 0}, "`top_k: 0`"),
        ({f"{VLLM}.precision": "fp8"}, "fp8 weights of vLLM need"),
        ({f"{VLLM}.kv_cache_dtype": "fp8"}, "needs `precision: fp8`"),
        (
            {
                f"{VLLM}.kv_cache_dtype": "fp8",
                f"{VLLM}.precision": "fp8",
                "loss_fn.use_importance_sampling_correction": True,
            },
            "needs Megatron-LM",
        ),
        ({**APART, f"{OWN}.gpus_per_node": 8}, "leaves none for training"),
        ({**APART, f"{OWN}.gpus_per_node": None}, "needs their number"),
        ({**APART, f"{OWN}.num_nodes": 2}, "no `num_nodes: 2`"),
        ({**APART, "cluster.num_nodes": 2}, "must take some and leave some"),
        ({**APART, "cluster.num_nodes": 2, f"{OWN}.num_nodes": 1}, "takes all 8 GPUs"),
        ({"cluster.gpus_per_node": 8, f"{VLLM}.tensor_parallel_size": 3}, "no multiple of the 3 of an engine"),
    ],
)
def test_engines_that_are_refused(changes: Mapping[str, Any], words: str) -> None:
    found = findings(changes)
    assert [words in one.message for one in found] == [True]
    assert place(found[0]) in changes


@pytest.mark.parametrize(
    "changes",
    [
        {**APART, f"{OWN}.num_nodes": 1},
        {**APART, "cluster.num_nodes": 2, f"{OWN}.num_nodes": 1, f"{OWN}.gpus_per_node": 8},
        {f"{VLLM}.pipeline_parallel_size": 2, f"{VLLM}.async_engine": True},
        {"policy.generation.top_k": -1, "policy.generation.top_p": 0.9},
        {f"{VLLM}.tensor_parallel_size": 3},  # the command may say how many GPUs there are
    ],
)
def test_engines_that_start(changes: Mapping[str, Any]) -> None:
    assert messages(changes) == []
