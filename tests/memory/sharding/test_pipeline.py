"""The least that a pipeline stage holds."""

from __future__ import annotations

import pytest

from memlint.memory.estimate import estimate
from memlint.memory.sharding.pipeline import fullest_stage
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
