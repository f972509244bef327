"""Files that the `defaults` of a copy of verl list for its sections."""

from __future__ import annotations

import pytest

from memlint.formats.fields import root
from memlint.formats.verl.groups import groups
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse

_FOLDER = "verl/trainer/config"
_TRAINER = """\
defaults:
  - actor@actor_rollout_ref.actor: dp_actor
  - data@data: legacy
  - _self_
data:
  train_batch_size: 256
"""
_FILES = {
    f"{_FOLDER}/ppo_trainer.yaml": _TRAINER,
    f"{_FOLDER}/actor/dp_actor.yaml": (
        "defaults:\n  - ../engine@fsdp_config: fsdp\n  - actor\n  - _self_\nstrategy: fsdp\n"
    ),
    f"{_FOLDER}/actor/actor.yaml": "strategy: none\nppo_micro_batch_size_per_gpu: 1\n",
    f"{_FOLDER}/engine/fsdp.yaml": "param_offload: true\n",
    f"{_FOLDER}/data/legacy.yaml": "defaults:\n  - legacy\nmax_prompt_length: 512\n",
}


def test_each_file_stands_where_the_list_puts_it() -> None:
    workspace = in_memory(_FILES)
    (base,) = workspace.documents(f"{_FOLDER}/ppo_trainer.yaml")
    found = [one.value for one in groups(root(base, "default"), workspace.context())]
    actor = [one["actor_rollout_ref"]["actor"] for one in found if "actor_rollout_ref" in one]
    assert actor[0]["strategy"] == "fsdp"
    assert actor[1:] == [
        {"strategy": "none", "ppo_micro_batch_size_per_gpu": 1},
        {"fsdp_config": {"param_offload": True}},
    ]
    assert all(one["data"]["max_prompt_length"] == 512 for one in found if "data" in one)
    assert {one.kind for one in groups(root(base, "companion"), workspace.context())} == {"default"}


@pytest.mark.parametrize(("size", "refused"), [("1", False), ("null", True)])
def test_a_size_that_a_listed_file_gives_is_given(size: str, refused: bool) -> None:
    actor = f"ppo_micro_batch_size_per_gpu: {size}\n"
    copy = "class RayPPOTrainer:\n    def _validate_config(self):\n        pass\n"
    command = (
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
        "actor_rollout_ref.actor.ppo_mini_batch_size=32 "
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B\n"
    )
    files = {**_FILES, f"{_FOLDER}/actor/actor.yaml": actor, "verl/trainer/ppo/ray_trainer.py": copy}
    workspace = in_memory({**files, "run.sh": command})
    (document,) = workspace.documents("run.sh")
    found = analyse(document, workspace.context(), ()).findings
    assert any("ppo_micro_batch_size_per_gpu" in one.message for one in found if one.rule == "CFG008") is refused
