"""A stranger's slips, each of which ends the run before its first step."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse

SWIFT = "NPROC_PER_NODE=4 swift {} --model Qwen/Qwen2.5-7B-Instruct --dataset a --train_type lora --max_length 2048 {}"
OPENRLHF = (
    "deepspeed --module openrlhf.cli.train_sft --pretrain meta-llama/Llama-3.1-8B --dataset a --max_len 2048 "
    "--train_batch_size 128 --micro_train_batch_size 8 --bf16 --learning_rate 5e-6 --save_path o --zero_stage {}"
)
VERL = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=a.parquet data.val_files=b.parquet "
    "data.train_batch_size={} data.max_prompt_length=512 data.max_response_length=512 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.actor.ppo_mini_batch_size=256 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 "
    "actor_rollout_ref.actor.use_dynamic_bsz={} trainer.n_gpus_per_node=8 trainer.nnodes=1"
)
GRPO = (
    "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\ndataset_name: a/b\noutput_dir: o\nlearning_rate: 1.0e-6\n"
    "num_generations: 8\nreward_funcs: [accuracy]\nuse_vllm: true\nvllm_mode: {}\nvllm_gpu_memory_utilization: {}\n"
)
LORA = (
    "from peft import LoraConfig\nfrom trl import SFTConfig, SFTTrainer\n"
    "trainer = SFTTrainer(model='Qwen/Qwen2.5-7B', args=SFTConfig('o', max_length=512), train_dataset=d, "
    "peft_config=LoraConfig({}=16))\ntrainer.train()\n"
)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.sh", SWIFT.format("sft", "--torch_dtype bf16"), "`torch_dtype` wants `bfloat16`,"),
        ("a.sh", SWIFT.format("sft", "--torch_dtype bfloat16"), ""),
        ("a.sh", SWIFT.format("rlhf", "--rlhf_type gpro"), "`rlhf_type` wants `dpo`,"),
        ("a.sh", SWIFT.format("rlhf", "--rlhf_type newer_name"), ""),
        ("a.sh", OPENRLHF.format(4), "`zero_stage` must be 0, 1, 2 or 3, got 4"),
        ("a.sh", OPENRLHF.format(3), ""),
        ("a.sh", VERL.format(104, False), "`ppo_mini_batch_size: 256` is more than the 104 prompts of a step"),
        ("a.sh", VERL.format(104, True), ""),
        ("a.sh", VERL.format(256, False), ""),
        ("a.yaml", GRPO.format("colocate", 30), "`vllm_gpu_memory_utilization` must be at most 1, got 30"),
        ("a.yaml", GRPO.format("server", 30), ""),
        ("a.yaml", GRPO.format("colocate", 0.3), ""),
        ("a.py", LORA.format("rank"), "LoraConfig takes no `rank`: use `r`"),
        ("a.py", LORA.format("r"), ""),
    ],
)
def test_it_is_told_where_the_framework_refuses_it(name: str, text: str, said: str) -> None:
    """ms-swift 4.6.0 and OpenRLHF's argparse, verl 0.4 ray_trainer.py:437, vLLM's CacheConfig, PEFT's LoraConfig."""
    workspace = in_memory({name: text})
    (document,) = workspace.documents(name)

    errors = [one.message for one in analyse(document, workspace.context(), ()).findings if one.severity == "error"]

    assert [message[: len(said)] for message in errors] == ([said] if said else [])


COMPARES = "assert config.data.train_batch_size >= config.actor_rollout_ref.actor.ppo_mini_batch_size"


@pytest.mark.parametrize(("line", "refused"), [(COMPARES, True), (f"# {COMPARES}", False), ("pass", False)])
def test_a_copy_of_verl_that_compares_no_batches(line: str, refused: bool) -> None:
    """verl 0.2 (trainer/ppo/ray_trainer.py), and copies of later releases in which the comparison is a comment."""
    copy = f"class RayPPOTrainer:\n    def _validate_config(self):\n        {line}\n        return\n"
    workspace = in_memory({"a.sh": VERL.format(100, False), "verl/trainer/ppo/ray_trainer.py": copy})
    (document,) = workspace.documents("a.sh")

    found = [one for one in analyse(document, workspace.context(), ()).findings if "prompts of a step" in one.message]

    assert [one.severity for one in found] == (["warning"] if refused else [])
