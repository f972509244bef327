"""The least that a pipeline stage holds."""

from __future__ import annotations

import pytest

from memlint.memory.estimate import estimate
from memlint.memory.sharding.model_parallel import is_expert, shard_units
from memlint.memory.sharding.model_parallel import stages as stage_numbers
from memlint.memory.sharding.pipeline import fullest_stage
from memlint.memory.state.parameters import units
from memlint.run import Run, replace
from tests.comparisons.families import Step, members, run_of


def piped(stages: int, **more: object) -> Run:
    run = run_of({**members()["llama"], "num_hidden_layers": 8}, Step("pure", True, "sdpa"))
    return replace(run, {"parallelism.pipeline_parallel_size": stages, "parallelism.world_size": stages, **more})


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_a_stage_holds_less_than_the_whole_model(stages: int) -> None:
    one, whole = fullest_stage(piped(stages)), estimate(piped(1))
    assert whole.allocated_bytes is not None
    assert one.layers == 8 // stages
    assert one.total < whole.allocated_bytes


@pytest.mark.parametrize(("steps", "in_flight"), [(1, 1), (2, 2), (16, 4)])
def test_micro_batches_in_flight_are_those_of_the_stages_that_follow(steps: int, in_flight: int) -> None:
    assert fullest_stage(piped(4, **{"batch.gradient_accumulation_steps": steps})).in_flight == in_flight


def test_the_estimate_says_the_bound_and_no_figure() -> None:
    found = estimate(piped(4))
    assert found.allocated_bytes is None
    assert found.allocated_low_bytes == fullest_stage(piped(4)).total
    assert found.unknown[0].reason.startswith("at least ")
    assert found.parameters == estimate(piped(1)).parameters


def test_more_gpus_divide_the_optimizer_states_alone() -> None:
    few, many = fullest_stage(piped(2)), fullest_stage(piped(2, **{"parallelism.world_size": 8}))
    assert many.optimizer_states == few.optimizer_states // 4
    assert many._replace(optimizer_states=0) == few._replace(optimizer_states=0)


def test_megatron_keeps_half_precision_and_divides_the_fp32_copy() -> None:
    run = replace(
        run_of(members()["llama"], Step("full", True, "sdpa")),
        {"parallelism.engine": "megatron", "parallelism.world_size": 2},
    )
    bound = fullest_stage(run)
    assert bound.weights == bound.gradients  # both two bytes for each parameter


def megatron(**more: object) -> Run:
    base = {"parallelism.engine": "megatron", "parallelism.world_size": 8}
    return replace(run_of(members()["llama"], Step("full", True, "sdpa")), {**base, **more})


def test_ranks_of_context_parallelism_divide_optimizer_states() -> None:
    assert fullest_stage(megatron(**{"parallelism.context_parallel_size": 4})).optimizer_states == (
        fullest_stage(megatron()).optimizer_states
    )


@pytest.mark.parametrize(("share", "left"), [(1.0, 0.0), (0.25, 0.75)])
def test_what_the_host_steps_is_not_on_the_card(share: float, left: float) -> None:
    host = {"offload.optimizer": "cpu", "offload.optimizer_ratio": share}
    assert fullest_stage(megatron(**host)).optimizer_states == pytest.approx(
        left * fullest_stage(megatron()).optimizer_states, abs=8
    )


@pytest.mark.parametrize(
    ("stages", "first", "last", "layers"),
    [(4, 1, 1, (1, 3, 1)), (4, 0, 2, (2, 2, 2)), (2, 5, 0, (5, 3)), (2, 0, 1, (7, 1)), (4, 5, 0, (5, 1, 1))],
)
def test_the_first_and_the_last_stage_may_have_other_layers(
    stages: int, first: int, last: int, layers: tuple[int, ...]
) -> None:
    """Megatron core 0.13 transformer/transformer_block.py, get_num_layers_to_build."""
    ends = {"parallelism.first_stage_layers": first, "parallelism.last_stage_layers": last}
    run = piped(stages, **ends)
    found = [shard_units(run, units(run), stage) for stage in stage_numbers(run)]
    kept = tuple(sum(unit.repeat for unit in one if unit.name == "layer" and unit.tensors) for one in found)
    assert kept == layers


def sparse(**more: object) -> Run:
    """A mixture of experts on 8 GPUs, in fours that hold the same half of each."""
    base = {"parallelism.engine": "megatron", "parallelism.world_size": 8, "parallelism.expert_parallel_size": 2}
    return replace(run_of(members()["qwen3_moe"], Step("full", True, "sdpa")), {**base, **more})


def experts_of(run: Run) -> int:
    held = shard_units(run, units(run))
    return sum(one.numel * one.copies * unit.repeat for unit in held for one in unit.tensors if is_expert(one))


def test_experts_are_divided_among_ranks_of_their_own() -> None:
    """Tensor ranks divide other matrices, and experts where nothing else is said."""
    alone = {"parallelism.expert_tensor_parallel_size": 1}
    shared, whole = (sparse(**{"parallelism.tensor_parallel_size": 2}, **more) for more in ({}, alone))
    assert experts_of(whole) == 2 * experts_of(shared) == experts_of(sparse())


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_states_of_experts_are_divided_among_those_that_hold_the_same(ranks: int) -> None:
    """All GPUs have one copy of the states together, however the experts are divided."""
    one, many = fullest_stage(sparse()), fullest_stage(sparse(**{"parallelism.expert_parallel_size": 4 * ranks}))
    assert many.weights < one.weights
    assert many.optimizer_states == pytest.approx(one.optimizer_states, rel=1e-2)


def test_the_loss_of_the_last_stage_holds_logits() -> None:
    with_loss = {"loss.bytes_per_logit": 8, "batch.max_tokens": 512}
    run, shared = megatron(**with_loss), megatron(**with_loss, **{"parallelism.tensor_parallel_size": 2})
    vocabulary = run.model.architecture.vocab_size
    assert fullest_stage(run).logits == 8 * 512 * vocabulary
    assert fullest_stage(shared).logits == 8 * 512 * vocabulary // 2
    assert fullest_stage(megatron()).logits == 0


def test_a_filled_micro_batch_is_half_full_at_least() -> None:
    run = megatron(**{"loss.bytes_per_logit": 8, "batch.max_tokens": 512})
    half = megatron(**{"loss.bytes_per_logit": 8, "batch.max_tokens": 256})
    found = estimate(run)
    assert found.allocated_low_bytes == fullest_stage(half).total < fullest_stage(run).total
    assert "full micro batches of 512 tokens" in found.unknown[0].reason
