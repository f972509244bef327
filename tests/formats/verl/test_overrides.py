"""Overrides that Hydra refuses: keys that verl's files do not have, by release and program."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse

PPO = "algorithm.adv_estimator=grpo data.train_batch_size=64 actor_rollout_ref.rollout.name=vllm"


@pytest.mark.parametrize(
    ("words", "version", "found"),
    [
        ("data.max_propmt_length=3", None, ["CFG001"]),
        ("actor_rollout_ref.actor.a_forks_own=1", None, []),
        ("actor_rollout_ref.actor.a_forks_own=1", (0, 9, 1), ["CFG001"]),
        ("+actor_rollout_ref.actor.a_forks_own=1", (0, 9, 1), []),
        ("reward_model.enable=False", (0, 6, 1), []),
        ("actor_rollout_ref.rollout.use_fire_sampling=False transfer_queue.enable=True", None, ["CFG016"]),
        ("engine=veomni own.key=1", (0, 9, 1), []),
        ("--config-name=own own.key=1", (0, 9, 1), []),
    ],
)
def test_overrides_that_hydra_refuses(words: str, version: tuple[int, ...] | None, found: list[str]) -> None:
    workspace = in_memory({"run.sh": f"python3 -m verl.trainer.main_ppo {PPO} {words}\n"})
    (document,) = workspace.documents("run.sh")
    context = workspace.context(versions={"verl": version} if version else {})
    rules = [one.rule for one in analyse(document, context, ()).findings if one.rule in ("CFG001", "CFG016")]
    assert rules == found


def test_the_program_says_what_reads_a_command() -> None:
    """A key of reinforcement learning in a command of the SFT trainer is a key that Hydra refuses, and no crash."""
    words = "data.train_batch_size=64 model.path=a/b optim.lr=1e-5 actor_rollout_ref.actor.ppo_mini_batch_size=8"
    workspace = in_memory({"run.sh": f"torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer {words}\n"})
    (document,) = workspace.documents("run.sh")
    found = analyse(document, workspace.context(versions={"verl": (0, 9, 1)}), ()).findings
    assert [one.rule for one in found if one.severity == "error"] == ["CFG001"]
