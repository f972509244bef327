"""Sizes that verl refuses together: its assertions in 0.2.0 to 0.9.1, by command."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
SIZES = {
    "algorithm.adv_estimator": "grpo",
    "data.train_batch_size": "64",
    "data.max_prompt_length": "512",
    "data.max_response_length": "512",
    "actor_rollout_ref.model.path": "Qwen/Qwen2.5-7B-Instruct",
    f"{_ACTOR}.ppo_mini_batch_size": "32",
    f"{_ACTOR}.ppo_micro_batch_size_per_gpu": "4",
    f"{_ACTOR}.use_dynamic_bsz": "False",
    f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu": "4",
    f"{_ROLLOUT}.tensor_model_parallel_size": "2",
    f"{_ROLLOUT}.name": "vllm",
    f"{_ROLLOUT}.n": "4",
    "trainer.n_gpus_per_node": "8",
    "trainer.nnodes": "1",
}


def said(sizes: dict[str, str], program: str = "python3 -m verl.trainer.main_ppo", **versions: object) -> list[str]:
    words = " ".join(f"{key}={value}" for key, value in sizes.items())
    workspace = in_memory({"run.sh": f"{program} {words}\n"})
    (document,) = workspace.documents("run.sh")
    context = workspace.context()
    found = analyse(document, context._replace(versions={**context.versions, **versions}), ()).findings
    return [one.message for one in found if one.rule == "CFG008" and one.severity == "error"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, ""),
        ({f"{_ROLLOUT}.tensor_model_parallel_size": "3"}, "`tensor_model_parallel_size: 3` does not divide the 8 GPUs"),
        ({f"{_ROLLOUT}.tensor_model_parallel_size": "16"}, "`tensor_model_parallel_size: 16` does not divide"),
        ({f"{_ROLLOUT}.tensor_model_parallel_size": "16", "trainer.nnodes": "2"}, ""),
        ({f"{_ROLLOUT}.tensor_model_parallel_size": "3", f"{_ROLLOUT}.nnodes": "1"}, ""),
        ({f"{_ROLLOUT}.tensor_model_parallel_size": "3", f"{_ROLLOUT}.name": "hf"}, ""),
        ({f"{_ROLLOUT}.tensor_model_parallel_size": "3", "trainer.n_gpus_per_node": "$1"}, ""),
        ({f"+{_ROLLOUT}.pipeline_model_parallel_size": "3"}, "`tensor_model_parallel_size: 2` (6 GPUs an engine) does"),
        ({"data.train_batch_size": "33"}, "`train_batch_size: 33` * n 4 cannot be divided over 8 GPUs"),
        ({"data.train_batch_size": "34"}, ""),
        ({"data.train_batch_size": "33", f"{_ACTOR}.use_dynamic_bsz": "True"}, ""),
        ({"data.train_batch_size": "16"}, "`ppo_mini_batch_size: 32` is more than the 16 prompts of a step"),
        ({f"{_ACTOR}.ppo_micro_batch_size_per_gpu": "3"}, "an update has 16 sequences on each rank (128 over 8), no"),
        ({f"{_ACTOR}.ppo_micro_batch_size_per_gpu": "3", f"{_ACTOR}.use_dynamic_bsz": "True"}, ""),
        ({f"{_ACTOR}.ppo_mini_batch_size": "1"}, "an update of 4 sequences is less than one for each of 8 ranks"),
        (
            {f"{_ACTOR}.ppo_micro_batch_size": "32"},
            "`ppo_micro_batch_size` and `ppo_micro_batch_size_per_gpu` are both",
        ),
        (
            {f"{_ACTOR}.ulysses_sequence_parallel_size": "2", "actor_rollout_ref.model.use_remove_padding": "False"},
            "`ulysses_sequence_parallel_size: 2` needs `use_remove_padding: true`",
        ),
        ({f"{_ACTOR}.ulysses_sequence_parallel_size": "2", "actor_rollout_ref.model.use_remove_padding": "True"}, ""),
    ],
)
def test_sizes_that_the_trainer_refuses(changes: dict[str, str], message: str) -> None:
    found = said({**SIZES, **changes})
    assert [one[: len(message)] for one in found] == ([message] if message else [])
    assert all(one.endswith("verl refuses to start") for one in found)


KL = {f"{_ACTOR}.use_kl_loss": "True"}
_REFERENCE = "actor_rollout_ref.ref.log_prob_micro_batch_size"


@pytest.mark.parametrize(
    ("changes", "left_out", "message"),
    [
        (
            {},
            f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu",
            f"without `{_ROLLOUT}.log_prob_micro_batch_size_per_gpu`",
        ),
        ({}, f"{_ACTOR}.ppo_micro_batch_size_per_gpu", f"without `{_ACTOR}.ppo_micro_batch_size_per_gpu` (or"),
        ({f"{_ACTOR}.ppo_micro_batch_size": "32"}, f"{_ACTOR}.ppo_micro_batch_size_per_gpu", ""),
        ({f"{_ACTOR}.use_dynamic_bsz": "True"}, f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", ""),
        ({f"{_ACTOR}.use_dynamic_bsz": "$1"}, f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", ""),
        (KL, "", f"without `{_REFERENCE}_per_gpu` (or"),
        ({**KL, f"{_REFERENCE}_per_gpu": "4"}, "", ""),
        ({**KL, f"{_REFERENCE}_per_gpu": "$1"}, "", ""),
        ({**KL, f"{_REFERENCE}": "32"}, "", ""),
        ({"algorithm.use_kl_in_reward": "True"}, "", f"without `{_REFERENCE}_per_gpu` (or"),
    ],
)
def test_a_forward_without_a_size_is_refused(changes: dict[str, str], left_out: str, message: str) -> None:
    found = said({key: value for key, value in {**SIZES, **changes}.items() if key != left_out})
    assert [one[: len(message)] for one in found] == ([message] if message else [])
    assert all(one.endswith("verl refuses to start") for one in found)


def test_a_file_that_nobody_sees_may_give_the_size() -> None:
    given = {key: value for key, value in {**SIZES, **KL}.items() if not key.startswith(f"{_ROLLOUT}.log_prob")}
    assert said(given, "python3 -m verl.trainer.main_ppo --config-path conf --config-name own") == [] != said(given)


def test_a_program_of_somebodys_own_may_take_what_verl_refuses() -> None:
    changed = {**SIZES, f"{_ROLLOUT}.tensor_model_parallel_size": "3"}
    assert said(changed, "python3 -m recipe.own.main") == [] != said(changed)


def test_releases_before_0_4_compare_no_micro_batch_of_a_gpu() -> None:
    changed = {**SIZES, f"{_ACTOR}.ppo_micro_batch_size_per_gpu": "3"}
    assert said(changed, verl=(0, 3)) == [] != said(changed, verl=(0, 4))


@pytest.mark.parametrize(
    ("prompts", "micro", "message"),
    [
        ("64", "4", ""),
        ("66", "4", "`train_batch_size: 66` cannot be divided over 8 ranks"),
        ("64", "3", "each of 8 ranks has 8 of a batch's samples, no multiple of `micro_batch_size_per_gpu: 3`"),
    ],
)
def test_sizes_that_the_sft_trainer_refuses(prompts: str, micro: str, message: str) -> None:
    sizes = {
        "data.train_batch_size": prompts,
        "data.micro_batch_size_per_gpu": micro,
        "data.max_length": "512",
        "data.train_files": "a.parquet",
    }
    program = "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer"
    found = said(
        {
            **sizes,
            "model.partial_pretrain": "Qwen/Qwen2.5-7B",
            "data.use_dynamic_bsz": "False",
            "trainer.total_epochs": "2",
        },
        program,
    )
    assert [one[: len(message)] for one in found] == ([message] if message else [])


@pytest.mark.parametrize("more", [{"optim": "megatron"}, {"engine.tensor_model_parallel_size": "2"}])
def test_ranks_of_an_engine_that_divides_the_model_are_not_its_gpus(more: dict[str, str]) -> None:
    program = "torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer"
    sizes = {
        "data.train_batch_size": "8",
        "data.micro_batch_size_per_gpu": "2",
        "data.use_dynamic_bsz": "False",
        "data.max_length": "512",
        "data.train_files": "a.parquet",
        "model.path": "Qwen/Qwen2.5-7B",
        "trainer.total_epochs": "2",
    }
    assert len(said(sizes, program)) == 1
    assert said({**sizes, "engine": "megatron", **more}, program) == []


@pytest.mark.parametrize(("function", "refuses"), [("fit", False), ("_validate_config", True)])
def test_a_copy_that_validates_nothing_refuses_no_batch(function: str, refuses: bool) -> None:
    words = " ".join(f"{key}={value}" for key, value in {**SIZES, "data.train_batch_size": "33"}.items())
    copy = f"class RayPPOTrainer:\n    def {function}(self):\n        pass\n"
    workspace = in_memory(
        {"run.sh": f"python3 -m verl.trainer.main_ppo {words}\n", "verl/trainer/ppo/ray_trainer.py": copy}
    )
    (document,) = workspace.documents("run.sh")
    found = analyse(document, workspace.context(), ()).findings
    assert any(one.rule == "CFG008" for one in found) is refuses


def test_a_copy_without_its_trainer_may_compare_no_batches() -> None:
    words = " ".join(f"{key}={value}" for key, value in {**SIZES, "data.train_batch_size": "16"}.items())
    script = {"run.sh": f"python3 -m verl.trainer.main_ppo {words}\n"}
    for files, count in (
        ({}, 1),
        ({"verl/utils/torch_functional.py": "def masked_mean(values, mask):\n    pass\n"}, 0),
    ):
        workspace = in_memory({**script, **files})
        (document,) = workspace.documents("run.sh")
        found = analyse(document, workspace.context(), ()).findings
        assert sum(one.rule == "CFG008" for one in found) == count
