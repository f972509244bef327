"""Advice beside plans: what no edit does, in words and with the figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint

PACKED = """\
base_model: mistralai/Mixtral-8x22B-v0.1
load_in_4bit: true
quantize_moe_experts: true
adapter: qlora
lora_r: 16
lora_alpha: 32
lora_target_modules: [q_proj, v_proj]
datasets:
  - path: d
    type: alpaca
sequence_len: 1024
micro_batch_size: 1
gradient_accumulation_steps: 4
optimizer: adamw_torch_fused
learning_rate: 0.0002
bf16: true
gradient_checkpointing: true
flash_attention: true
output_dir: out
"""


def plan_of(text: str, gpu: str, gpus: int, keep: tuple[str, ...] = ()) -> Mapping[str, Any]:
    (row,) = memlint.plan(text, gpu=gpu, gpus=gpus, keep=keep).runs
    return row


def advised(text: str, gpu: str, gpus: int, keep: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    return {one["title"]: one for one in plan_of(text, gpu, gpus, keep)["advice"]}


def test_why_more_cards_do_not_help_packed_experts_is_said() -> None:
    (card,) = advised(PACKED, "L40S", 4).values()
    assert card["title"] == "use H200" and "each holds all weights (7" in card["note"]
    assert "more cards" not in advised(PACKED, "L40S", 1)["use H200"]["note"]


def test_experts_are_not_packed_under_an_engine_that_leaves_their_memory_unknown() -> None:
    """FSDP 1 (formats/axolotl/experts.py): neither a plan nor a step of the checklist says that it fits."""
    sharded = "fsdp: [full_shard, auto_wrap]\nfsdp_config:\n  fsdp_offload_params: true\n"
    row = plan_of(PACKED.replace("quantize_moe_experts: true\n", sharded), "H200", 1)
    assert not row["plans"] and not [one for one in row["checklist"] if one["fits"]]


GRPO = """\
model: Qwen/Qwen2.5-72B-Instruct
rlhf_type: grpo
train_type: lora
torch_dtype: bfloat16
dataset: [d]
max_length: 2048
max_completion_length: 1024
per_device_train_batch_size: 1
num_generations: 8
gradient_accumulation_steps: 2
deepspeed: zero3
reward_funcs: [accuracy]
output_dir: o
"""


def test_an_engine_for_completions_is_told_with_its_keys_where_no_plan_keeps_the_result() -> None:
    told = advised(GRPO, "H100-80GB", 8)["generate with vLLM on the same cards"]
    assert "--vllm_tensor_parallel_size 4" in told["note"] and told["after"]["high"] <= told["after"]["usable"]
    assert "generate with vLLM on the same cards" not in advised(GRPO.replace("72B", "7B"), "H100-80GB", 8)


KTO = """\
model_name_or_path: Qwen/Qwen2.5-3B-Instruct
output_dir: o
bf16: true
per_device_train_batch_size: 8
gradient_accumulation_steps: 2
max_length: 4096
desirable_weight: 1.0
undesirable_weight: 1.0
use_peft: true
lora_r: 16
"""


def test_no_micro_batch_is_smaller_than_the_framework_takes() -> None:
    """KTO compares each sample with the next one of its batch (trl 1.16.0 trainer/kto_trainer.py:844)."""
    row = plan_of(KTO, "T4", 1)
    said = " ".join(one["title"] for one in (*row["plans"], *row["advice"], *row["checklist"]))
    assert "micro batch 8 -> 2" in said and "-> 1," not in said


VERL = """\
algorithm: {adv_estimator: grpo}
data: {train_batch_size: 128, max_prompt_length: 1024, max_response_length: 7168}
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-7B-Instruct, enable_gradient_checkpointing: true, use_remove_padding: true}
  actor:
    ppo_mini_batch_size: 64
    use_dynamic_bsz: true
    ppo_max_token_len_per_gpu: 32768
    optim: {lr: 1.0e-6}
    fsdp_config: {param_offload: true, optimizer_offload: true}
  rollout: {name: vllm, n: 8, tensor_model_parallel_size: 2, gpu_memory_utilization: 0.5}
  ref: {log_prob_max_token_len_per_gpu: 32768}
trainer: {n_gpus_per_node: 2, nnodes: 1}
"""


# What another release of verl, or a reader who says so, keeps from changing.
KEPT = ("parallelism.fsdp.cpu_offload", "loss.kind", "method.kind", "optimizer.name")


def test_more_cards_are_told_with_what_keeps_the_result_on_them() -> None:
    """Fewer tokens in a forward, or where one sequence is too long for a card, sequences that several share."""
    for length, gpu, gpus, wanted in (
        (7168, "A100-40GB", 1, "at most 32768 -> 8192 tokens in a forward"),
        (31744, "RTX4090", 2, "share each sequence over 4 GPUs (4 times the accumulation)"),
    ):
        text = VERL.replace("7168", str(length))
        (told,) = (one for title, one in advised(text, gpu, gpus, KEPT).items() if "of these cards" in title)
        assert f"with these changes: {wanted}; each card" in told["note"]
        assert told["after"]["high"] <= told["after"]["usable"]
