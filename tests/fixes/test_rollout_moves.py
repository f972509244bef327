"""Moves of reinforcement learning: the engine's sleep and share, forwards before the update, a bound on tokens."""

from __future__ import annotations

from memlint.architectures import resolve
from memlint.fixes.consequences import consistent
from memlint.fixes.moves.rollout import (
    critic,
    engine,
    engine_ranks,
    gathered_parts,
    generation,
    log_probabilities,
    reference,
    tokens,
    waiting,
)
from memlint.hardware import find
from memlint.run import UNKNOWN, Model, Parallelism, ValueModel, Zero, replace
from tests.memory.runs import run

COLOCATED = {"rollout__generator": "vllm_colocate", "rollout__share": 0.5}


def test_an_engine_sleeps_or_takes_less() -> None:
    shares = [{"rollout.share": share} for share in (0.4, 0.3, 0.2)]
    assert [step.changes for step in engine(run(**COLOCATED))] == [{"rollout.sleep_level": 2}, *shares]
    assert [step.changes for step in engine(run(**COLOCATED, rollout__sleep_level=1))] == shares
    assert list(engine(run())) == []


def test_an_engine_keeps_room_for_its_weights_and_a_cache() -> None:
    """Of 7.6e9 parameters in half precision an engine has 14.2 GiB, and 16 sequences of 3072 tokens are 2.6 GiB."""
    architecture = resolve("Qwen/Qwen2.5-7B-Instruct").architecture
    facts = {**COLOCATED, "rollout__share": 0.8, "rollout__sleep_level": 1, "sequence__length": 3072}
    facts["model__architecture"] = architecture

    def shares(card: str, **more: object) -> list[float]:
        return [step.changes["rollout.share"] for step in engine(run(**facts, hardware__gpu=find(card), **more))]

    assert shares("A100-80GB") == [0.7, 0.6, 0.5, 0.4, 0.3]
    assert shares("A100-40GB") == [0.7, 0.6, 0.5]
    assert shares("RTX4090") == []
    assert shares("RTX4090", rollout__tensor_parallel_size=2) == [0.7, 0.6, 0.5]


def test_forwards_before_the_update_shrink_to_one_sequence() -> None:
    one = run(rollout__log_prob_micro_batch_size=4, rollout__reference_micro_batch_size=2)
    assert [step.changes for step in log_probabilities(one)] == [
        {"rollout.log_prob_micro_batch_size": 2},
        {"rollout.log_prob_micro_batch_size": 1, "rollout.reference_micro_batch_size": 1},
    ]
    assert list(log_probabilities(run())) == []


def test_a_bound_on_tokens_stays_above_the_longest_sequence() -> None:
    one = run(batch__max_tokens=4096, sequence__length=1024)
    assert [step.changes["batch.max_tokens"] for step in tokens(one)] == [2048, 1024]
    assert list(tokens(run())) == []


def test_fewer_completions() -> None:
    said = [step.title for step in generation(run(method__stage="grpo", method__num_generations=8))]
    assert said == ["8 -> 4 completions a prompt", "8 -> 2 completions a prompt"]


def test_what_has_nothing_to_do_during_the_rollout_leaves_the_card() -> None:
    said = [step.changes for step in waiting(run(**COLOCATED))]
    both = {"rollout.offloads_optimizer": True, "rollout.offloads_weights": True}
    assert said == [{"rollout.offloads_optimizer": True}, both]
    assert [step.changes for step in waiting(run(**COLOCATED, rollout__offloads_optimizer=True))] == [
        {"rollout.offloads_weights": True}
    ]
    assert list(waiting(run())) == []
    assert list(waiting(run(**COLOCATED, parallelism__fsdp__cpu_offload=True))) == []


def test_new_weights_of_an_engine_are_gathered_in_parts_where_the_framework_can() -> None:
    sharded = Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(3))
    one = run(**COLOCATED, rollout__gathered_parts=1, parallelism=sharded)
    assert [step.changes["rollout.gathered_parts"] for step in gathered_parts(one)] == [2, 4, 8, 16]
    assert list(gathered_parts(run(**COLOCATED, parallelism=sharded))) == []  # one parameter at a time anyway
    whole = sharded._replace(zero=Zero(2))
    assert list(gathered_parts(run(**COLOCATED, rollout__gathered_parts=1, parallelism=whole))) == []


def test_an_engine_spreads_over_gpus_that_divide_its_heads() -> None:
    eight = Parallelism(8, 8, 8, engine="fsdp")
    assert [step.changes for step in engine_ranks(run(**COLOCATED, parallelism=eight))] == [
        {"rollout.tensor_parallel_size": 2},
        {"rollout.tensor_parallel_size": 4},
    ]
    assert list(engine_ranks(run(parallelism=eight))) == []
    unsaid = [
        step.changes for step in engine_ranks(run(**COLOCATED, parallelism=eight._replace(gpus_per_node=UNKNOWN)))
    ]
    assert unsaid == [{"rollout.tensor_parallel_size": 2}, {"rollout.tensor_parallel_size": 4}]
    many = Parallelism(24, UNKNOWN, 24, engine="fsdp")
    assert list(engine_ranks(run(**COLOCATED, parallelism=many))) == []


def test_a_critic_has_smaller_batches_and_leaves_the_card() -> None:
    value = ValueModel(Model(), 4, offloads_weights=True)
    apart = run(method__value_model=value, planning__critic_has_own_batch=True)
    assert [step.changes for step in critic(apart)] == [
        {"method.value_model.micro_batch_size": 2},
        {"method.value_model.micro_batch_size": 1},
        {"method.value_model.offloads_optimizer": True},
    ]
    assert list(critic(run())) == []


def test_a_critic_without_a_batch_of_its_own_follows_the_policy() -> None:
    one = run(method__value_model=ValueModel(Model(), 2))
    assert not [step for step in critic(one) if step.group == "critic batch"]
    after = consistent(replace(one, {"batch.micro_batch_size": 1}), one)
    assert after.method.value_model is not None and after.method.value_model.micro_batch_size == 1


def test_a_copied_reference_can_wait_in_host_memory() -> None:
    assert [step.changes for step in reference(run(method__reference_model="copy"))] == [
        {"rollout.offloads_reference": True}
    ]
    assert list(reference(run(method__reference_model="shared"))) == []
