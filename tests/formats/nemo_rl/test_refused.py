"""What NeMo-RL refuses before a model is loaded, held against its programs by benchmarks/refusals/nemo_rl.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from memlint.findings import Finding
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse

BASE: Mapping[str, Any] = {
    "grpo": {
        "num_prompts_per_step": 32,
        "num_generations_per_prompt": 16,
        "batch_multiplier": 1,
        "use_dynamic_sampling": False,
        "adv_estimator": {"name": "grpo"},
        "async_grpo": {"enabled": False},
        "reward_scaling": {"enabled": False},
        "reward_shaping": {"enabled": False},
    },
    "loss_fn": {
        "reference_policy_kl_penalty": 0.01,
        "ratio_clip_c": None,
        "token_level_loss": True,
        "use_importance_sampling_correction": False,
        "force_on_policy_ratio": False,
    },
    "data": {"use_multiple_dataloader": False},
    "policy": {
        "model_name": "Qwen/Qwen2.5-1.5B",
        "train_global_batch_size": 512,
        "train_micro_batch_size": 4,
        "logprob_batch_size": 4,
        "max_total_sequence_length": 512,
        "precision": "bfloat16",
        "dtensor_cfg": {"enabled": True, "_v2": True, "tensor_parallel_size": 1, "context_parallel_size": 1},
        "megatron_cfg": {"enabled": False},
        "dynamic_batching": {"enabled": False},
        "sequence_packing": {"enabled": False},
        "optimizer": {"name": "torch.optim.AdamW", "kwargs": {"lr": 1e-6}},
        "generation": {
            "backend": "vllm",
            "top_p": 1.0,
            "top_k": None,
            "vllm_cfg": {
                "async_engine": False,
                "precision": "bfloat16",
                "kv_cache_dtype": "auto",
                "tensor_parallel_size": 1,
                "pipeline_parallel_size": 1,
                "expert_parallel_size": 1,
            },
            "colocated": {"enabled": True, "resources": {"gpus_per_node": None, "num_nodes": None}},
        },
    },
    "cluster": {"gpus_per_node": 8, "num_nodes": 1},
}
SIZE = {"policy.train_micro_batch_size": 4}  # by which the file is recognised
ASYNC = {
    "grpo.async_grpo.enabled": True,
    "loss_fn.use_importance_sampling_correction": True,
    "policy.generation.vllm_cfg.async_engine": True,
    "policy.generation.colocated.enabled": False,
    "policy.generation.colocated.resources.gpus_per_node": 4,
}
LOADERS = {"data.use_multiple_dataloader": True, "data.num_prompts_per_dataloader": 16}
TRUNCATED = {
    "loss_fn.use_importance_sampling_correction": True,
    "loss_fn.truncated_importance_sampling_type": "icepop",
    "loss_fn.truncated_importance_sampling_ratio": 5.0,
    "loss_fn.truncated_importance_sampling_ratio_min": 0.5,
}
APART = {
    "policy.generation.colocated.enabled": False,
    "policy.generation.colocated.resources.gpus_per_node": 4,
    "cluster.gpus_per_node": 8,
}


def nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in changes.items():
        section = found
        *above, key = name.split(".")
        for step in above:
            section = section.setdefault(step, {})
        section[key] = value
    return found


def findings(
    changes: Mapping[str, Any],
    versions: Mapping[str, tuple[int, ...]] | None = None,
    base: Mapping[str, Any] = BASE,
    more: Mapping[str, str] | None = None,
) -> list[Finding]:
    recipe = yaml.safe_dump({"defaults": "base.yaml", **nested({**SIZE, **changes})})
    workspace = in_memory({"recipe.yaml": recipe, "base.yaml": yaml.safe_dump(dict(base)), **(more or {})})
    (document,) = workspace.documents("recipe.yaml")
    told = {"nemo_rl": (0, 7, 0)} if versions is None else versions
    found = analyse(document, workspace.context(versions=dict(told), gpu=None), ()).findings
    return [one for one in found if one.rule in ("CFG003", "CFG008")]


def place(finding: Finding) -> str:
    """The key that a finding stands at."""
    return ".".join(map(str, finding.location.pointer))


def messages(changes: Mapping[str, Any], **more: Any) -> list[str]:
    return [one.message for one in findings(changes, **more)]


@pytest.mark.parametrize(
    "changes",
    [
        {"policy.max_total_sequence_length": 1024},
        ASYNC,
        TRUNCATED,
        APART,
        {"loss_fn.sequence_level_importance_ratios": True, "loss_fn.token_level_loss": False},
        {"loss_fn.use_cispo": True},
        {"loss_fn.force_on_policy_ratio": True},
        {"grpo.batch_multiplier": 2, "grpo.use_dynamic_sampling": True},
        LOADERS,
        {"policy.generation.vllm_cfg.tensor_parallel_size": 4, "policy.generation.vllm_cfg.expert_parallel_size": 4},
    ],
)
def test_what_runs_is_left_alone(changes: Mapping[str, Any]) -> None:
    assert messages(changes) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({**ASYNC, "grpo.use_dynamic_sampling": True}, "does not take `grpo.use_dynamic_sampling`"),
        ({**ASYNC, "grpo.reward_shaping.enabled": True}, "does not take `grpo.reward_shaping.enabled`"),
        ({**ASYNC, **LOADERS}, "does not take `data.use_multiple_dataloader`"),
        ({**ASYNC, "loss_fn.use_importance_sampling_correction": False}, "sampling_correction: true`"),
        ({**ASYNC, "policy.generation.vllm_cfg.async_engine": False}, "vllm_cfg.async_engine: true`"),
        ({**ASYNC, "policy.generation.backend": "megatron"}, "mcore_generation_config.async_engine: true`"),
        ({**ASYNC, "policy.generation.colocated.enabled": True}, "GPUs of its own"),
        ({"grpo.batch_multiplier": 2}, "`batch_multiplier: 2` needs"),
        ({"grpo.adv_estimator.name": "rloo"}, "is none of grpo, gdpo, reinforce_plus_plus, opd"),
        ({"data.use_multiple_dataloader": True}, "needs `num_prompts_per_dataloader`"),
        ({"data.use_multiple_dataloader": True, "data.num_prompts_per_dataloader": 5}, "no multiple of"),
        ({"loss_fn.sequence_level_importance_ratios": True}, "needs `token_level_loss: false`"),
        ({"loss_fn.force_on_policy_ratio": True, "grpo.num_prompts_per_step": 16}, "the 256 sequences of a step"),
        ({"grpo.skip_reference_policy_logprobs_calculation": True}, "needs `reference_policy_kl_penalty: 0`"),
        ({"loss_fn.use_cispo": True, "loss_fn.disable_ppo_ratio": True}, "does not go with `disable_ppo_ratio`"),
        ({"loss_fn.use_cispo": True, "loss_fn.ratio_clip_c": 3.0}, "does not go with `ratio_clip_c`"),
        ({"loss_fn.use_cispo": True, "loss_fn.token_level_loss": False}, "needs `token_level_loss: true`"),
        ({**TRUNCATED, "loss_fn.use_importance_sampling_correction": False}, "needs `use_importance_sampling"),
        ({**TRUNCATED, "loss_fn.truncated_importance_sampling_type": "clip"}, "is none of tis, icepop"),
        ({**TRUNCATED, "loss_fn.truncated_importance_sampling_ratio": 0}, "above 0"),
        ({**TRUNCATED, "loss_fn.truncated_importance_sampling_ratio_min": 6.0}, "more than the ratio"),
        ({**TRUNCATED, "loss_fn.truncated_importance_sampling_ratio_min": None}, "needs `truncated_importance"),
        ({"policy.draft.enabled": True}, "needs Megatron-LM"),
        ({"policy.precision": "bf16"}, "`precision: bf16` is none of"),
        ({"policy.dtensor_cfg.dp_replicate_size": 2, "policy.dtensor_cfg._v2": False}, "need `_v2: true`"),
        ({"policy.dtensor_cfg.dp_replicate_size": 3, "cluster.gpus_per_node": 8}, "the 3 copies"),
        ({"policy.hf_config_overrides.rope_scaling.rope_type": "yarn"}, "YaRN needs Megatron-LM"),
        (
            {
                "policy.dtensor_cfg.automodel_kwargs.attn_implementation": "sdpa",
                "policy.sequence_packing.enabled": True,
            },
            "need flash_attention_2",
        ),
    ],
)
def test_what_the_programs_refuse_is_said_at_the_key(changes: Mapping[str, Any], words: str) -> None:
    found = findings(changes)
    assert [words in one.message for one in found] == [True]
    assert {one.severity for one in found} == {"error"}
    assert place(found[0]) in changes


def test_dpo_takes_no_packing() -> None:
    base = {
        **{key: value for key, value in BASE.items() if key not in ("grpo", "loss_fn")},
        "dpo": {"max_num_steps": 1},
    }
    assert messages({"policy.sequence_packing.enabled": True}, base=base) == [
        "DPO does not take `policy.sequence_packing.enabled`; NeMo-RL refuses to start"
    ]


def test_a_check_is_of_its_releases() -> None:
    """CISPO's checks came with 0.7; without a stated release they warn."""
    changes = {"loss_fn.use_cispo": True, "loss_fn.ratio_clip_c": 3.0}
    assert findings(changes, versions={"nemo_rl": (0, 6, 0)}) == []
    assert [one.severity for one in findings(changes, versions={})] == ["warning"]
    assert [one.severity for one in findings({"grpo.batch_multiplier": 2}, versions={})] == ["error"]


def test_nothing_is_said_of_a_copys_checks() -> None:
    copy = {"nemo_rl/algorithms/grpo.py": "def setup():\n    pass\n"}
    assert findings({"grpo.batch_multiplier": 2}, versions={}, more=copy) == []


def test_what_a_file_below_refuses_is_said_of_that_file() -> None:
    base = {**BASE, "grpo": {**BASE["grpo"], "batch_multiplier": 2}}
    assert messages({"policy.max_total_sequence_length": 1024}, base=base) == []
