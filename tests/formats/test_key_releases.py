"""Keys by the releases that take them: what the stated one refuses, and what none takes together."""

from __future__ import annotations

import pytest

from memlint.formats.key_releases import KeyReleases, key_releases
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse

TABLE = KeyReleases(["0.1.0", "0.2.0", "0.4.0", "0.4.1"], {"0-3": "model", "0": "old", "1-2": "middle", "3": "new.key"})


@pytest.mark.parametrize(
    ("keys", "stated", "found"),
    [
        (("model", "middle"), (), None),
        (("model", "old", "middle"), (), None),  # a commit between the two releases may take both
        (("model", "old", "new.key"), (), ("0.4.1", ("old",))),
        (("model", "old"), (0, 1), None),
        (("model", "old"), (0, 2), ("0.2.0", ("old",))),
        (("model", "middle"), (0, 3), None),  # of a release that is not in the table its neighbours speak
        (("model", "old"), (0, 3), ("0.4.0", ("old",))),
        (("new.key",), (0, 4), None),
        (("old",), (0, 5), None),  # a newer release may take anything
        (("old",), (0, 0, 9), None),
    ],
)
def test_what_a_release_refuses(
    keys: tuple[str, ...], stated: tuple[int, ...], found: tuple[str, tuple[str, ...]]
) -> None:
    refusal = TABLE.refusal(keys, stated)
    assert (refusal and refusal[:2]) == found
    assert refusal is None or refusal.is_stated is bool(stated)


def test_argparse_takes_the_beginning_of_a_key() -> None:
    assert TABLE.refusal(("mod", "new"), (0, 4, 1)) is not None
    assert TABLE.refusal(("mod", "new"), (0, 4, 1), abbreviates=True) is None


@pytest.mark.parametrize(
    ("name", "program", "key"),
    [
        ("openrlhf", "ppo_ray", "actor.num_gpus_per_node"),
        ("swift", "rlhf", "rlhf_type"),
        ("verl", "ppo", "actor_rollout_ref.rollout.n"),
        ("verl", "sft_trainer", "engine.strategy"),
    ],
)
def test_the_tables_have_each_program(name: str, program: str, key: str) -> None:
    table = key_releases(name, program)
    assert table is not None and table.knows(key) and not table.knows(f"{key}_of_a_fork")


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
