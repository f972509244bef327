"""What the checks of a framework refuse is not known where the repository has a copy of it."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse
from memlint.ruleset.shipped import shipped

OPENRLHF = (
    "python3 -m openrlhf.cli.train_ppo_ray --pretrain Qwen/Qwen2.5-7B --advantage_estimator rloo "
    "--n_samples_per_prompt 1 --prompt_data d --save_path o --remote_rm_url u --zero_stage 3 --bf16\n"
)
VERL = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.actor.loss_agg_mode=own-mean "
    "actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1\n"
)
SWIFT = (
    "swift sft --model Qwen/Qwen2.5-7B-Instruct --dataset d --train_type lora --max_length 2048 "
    "--logging_steps 0 --output_dir o\n"
)
GONE = (
    "deepspeed --module openrlhf.cli.train_ppo --pretrain Qwen/Qwen2.5-7B --reward_pretrain a/b --zero_stage 2 --bf16\n"
)


@pytest.mark.parametrize(
    ("command", "rule", "copy"),
    [
        (OPENRLHF, "ORL009", "openrlhf/cli/train_ppo_ray.py"),
        (VERL, "VER003", "verl/trainer/ppo/ray_trainer.py"),
        (SWIFT, "SWF013", "swift/llm/train/sft.py"),
    ],
)
def test_checks_of_a_copy_are_its_own(command: str, rule: str, copy: str) -> None:
    def rules(files: dict[str, str]) -> set[str]:
        workspace = in_memory({"run.sh": command, **files})
        (document,) = workspace.documents("run.sh")
        return {one.rule for one in analyse(document, workspace.context(), tuple(shipped())).findings}

    assert rule in rules({})
    assert rule not in rules({copy: "class Own:\n    def fit(self):\n        pass\n"})


def test_a_release_without_the_program_refuses_none_of_its_flags() -> None:
    """`train_ppo` left OpenRLHF with 0.6."""
    workspace = in_memory({"run.sh": GONE})
    (document,) = workspace.documents("run.sh")
    found = analyse(document, workspace.context(versions={"openrlhf": (0, 8, 11)}), ()).findings
    assert not [one for one in found if one.rule == "CFG001"]
