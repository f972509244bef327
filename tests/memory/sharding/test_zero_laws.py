"""Laws of sharded placement, for models and knobs drawn at random."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.memory.sharding.fsdp import placement as fsdp
from memlint.memory.sharding.zero import placement as zero
from memlint.memory.sharding.zero import trace as zero_trace
from memlint.memory.sharding.zero.trace import Gathered, ModuleCall, PrefetchSettings, RepeatedUnit, replay
from memlint.memory.state.parameters import total
from memlint.memory.values import ModelState
from memlint.run import replace
from tests.memory.sharding.models import fsdp_run, model, zero_run

MODELS = st.builds(
    model,
    hidden=st.sampled_from([8, 24, 64]),
    layers=st.integers(1, 6),
    vocabulary=st.sampled_from([16, 100, 333]),
)
KNOBS = st.fixed_dictionaries(
    {
        "reduce_bucket_size": st.sampled_from([1, 1000, 10**6]),
        "prefetch_bucket_size": st.sampled_from([0, 1000, 10**6]),
        "param_persistence_threshold": st.sampled_from([0, 100, 10**6]),
        "max_live_parameters": st.sampled_from([0, 10**4, 10**9]),
        "max_reuse_distance": st.sampled_from([0, 10**4, 10**9]),
        "overlap_comm": st.booleans(),
    }
)


def resting(state: ModelState) -> int:
    return state.weights + state.optimizer_states


def is_sound(state: ModelState) -> bool:
    """No amount is negative, and neither is what any unit holds during its backward."""
    amounts = [value for value in state if isinstance(value, int)]
    kept = 0
    for unit in reversed(state.units):
        kept += unit.gradient_kept
        amounts += [unit.gathered_forward, unit.gathered_backward, unit.gradient_live, unit.gradient_end, kept]
        amounts += [state.gradients_resident + min(moment) for moment in unit.moments]
    return min(amounts) >= 0


@settings(max_examples=60, deadline=None)
@given(MODELS, KNOBS, st.integers(0, 3), st.integers(1, 9), st.sampled_from([1, 4]))
def test_no_zero_run_has_negative_bytes(units: Any, settings: Any, stage: int, world: int, accumulation: int) -> None:
    run = replace(zero_run(stage, world, **settings), {"batch.gradient_accumulation_steps": accumulation})
    assert is_sound(zero.place(run, units))


@settings(max_examples=40, deadline=None)
@given(MODELS, st.sampled_from([1, 2, 4, 8]))
def test_a_higher_stage_never_rests_heavier(units: Any, world: int) -> None:
    weights = [resting(zero.place(zero_run(stage, world), units)) for stage in (0, 1, 2, 3)]
    slack = 16 * 2 * world * (5 * units[1].repeat + 3)  # padding of each tensor to the ranks
    assert all(after <= before + slack for before, after in itertools.pairwise(weights))


@settings(max_examples=40, deadline=None)
@given(MODELS, st.integers(1, 3), st.sampled_from([1, 2, 4, 8, 16]))
def test_more_ranks_never_rest_heavier(units: Any, stage: int, world: int) -> None:
    run, more = zero_run(stage, world), zero_run(stage, 2 * world)
    slack = 16 * 2 * world * (5 * units[1].repeat + 3)
    assert resting(zero.place(more, units)) <= resting(zero.place(run, units)) + slack


@settings(max_examples=40, deadline=None)
@given(MODELS)
def test_stage_3_on_one_gpu_saves_nothing(units: Any) -> None:
    alone, shared = zero.place(zero_run(3, 1), units), zero.place(zero_run(3, 2), units)
    assert resting(alone) >= (2 + 4 + 8) * total(units)  # half weights, fp32 master, two fp32 states
    assert resting(alone) + alone.gradients_resident > resting(shared) + shared.gradients_resident


@settings(max_examples=40, deadline=None)
@given(MODELS, st.integers(1, 3), st.integers(2, 5), st.sampled_from([1, 10, 10**4]))
def test_a_bucket_larger_than_the_model_never_needs_less(units: Any, stage: int, world: int, more: int) -> None:
    def most(size: int) -> int:
        state = zero.place(zero_run(stage, world, reduce_bucket_size=size), units)
        return state.communication + max(max(moment) for unit in state.units[:-1] for moment in unit.moments)

    whole = total(units)
    assert most(whole + more) >= most(whole)


@settings(max_examples=60, deadline=None)
@given(
    MODELS,
    st.integers(1, 2),
    st.integers(1, 9),
    st.sampled_from(["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"]),
    st.sampled_from(["transformer", "none", "size"]),
    st.booleans(),
    st.sampled_from([1, 3]),
)
def test_no_fsdp_run_has_negative_bytes(
    units: Any, version: int, world: int, strategy: str, wrap: str, reshards: bool, accumulation: int
) -> None:
    settings = {"strategy": strategy, "wrap": wrap, "reshard_after_forward": reshards, "min_num_params": 300}
    run = replace(fsdp_run(version, world, **settings), {"batch.gradient_accumulation_steps": accumulation})
    state = fsdp.place(run, units)
    amounts = [value for value in state if isinstance(value, int)]
    assert min(amounts) >= 0
    kept = 0
    for unit, placed in reversed(list(zip(units, state.units, strict=True))):
        for _ in range(unit.repeat):
            here = state.gradients_resident + placed.gathered_backward + kept
            kept += placed.gradient_kept
            assert here + placed.gradient_live >= 0
            assert here + placed.gradient_end >= 0


@settings(max_examples=40, deadline=None)
@given(MODELS, st.integers(1, 2), st.sampled_from([1, 2, 4, 8]))
def test_more_fsdp_ranks_never_rest_heavier(units: Any, version: int, world: int) -> None:
    slack = 2 * world * 64 * 4 * 3 * (5 * units[1].repeat + 3)
    more, run = fsdp.place(fsdp_run(version, 2 * world), units), fsdp.place(fsdp_run(version, world), units)
    assert resting(more) <= resting(run) + slack


REPLAYS = st.tuples(
    st.lists(st.integers(1, 50), min_size=1, max_size=5),
    st.integers(1, 40),
    st.booleans(),
    st.builds(
        PrefetchSettings,
        ranks=st.integers(2, 5),
        prefetch_bucket_size=st.sampled_from([0, 10, 100]),
        max_live_parameters=st.sampled_from([0, 60, 300, 10**6]),
        max_reuse_distance=st.sampled_from([0, 60, 500, 10**6]),
    ),
)


def segments(sizes: list[int], repeat: int, checkpointed: bool) -> tuple[RepeatedUnit, ...]:
    layer = (ModuleCall(()), *(ModuleCall((size,), 1) for size in sizes))
    return (
        RepeatedUnit((ModuleCall((77,)),)),
        RepeatedUnit(layer, repeat, checkpointed),
        RepeatedUnit((ModuleCall((78,)),)),
    )


def _as_cut(whole: Gathered, cut: Gathered) -> Gathered:
    """`whole` without figures of each repetition where the cut replay has none."""
    return whole if cut.each_backward else whole._replace(each_backward=())


@settings(max_examples=80, deadline=None)
@given(REPLAYS)
def test_no_repetition_has_more_gathered_than_the_unit(drawn: Any) -> None:
    sizes, repeat, checkpointed, settings = drawn
    for unit in replay(segments(sizes, repeat, checkpointed), settings).units:
        assert not unit.each_backward or max(map(max, unit.each_backward)) == unit.backward


@settings(max_examples=80, deadline=None)
@given(REPLAYS)
def test_a_cut_replay_is_the_whole_one(drawn: Any) -> None:
    sizes, repeat, checkpointed, settings = drawn
    cut = replay(segments(sizes, repeat, checkpointed), settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zero_trace, "_units_to_replay", lambda segment, settings: 10**9)
        whole = zero_trace._replay.__wrapped__(segments(sizes, repeat, checkpointed), settings)
    assert cut == whole._replace(units=tuple(map(_as_cut, whole.units, cut.units)))


@settings(max_examples=80, deadline=None)
@given(REPLAYS)
def test_a_replay_holds_what_runs_and_never_more_than_twice_the_model(drawn: Any) -> None:
    sizes, repeat, checkpointed, settings = drawn
    found = replay(segments(sizes, repeat, checkpointed), settings)
    padded = sum(-(-size // settings.ranks) * settings.ranks for size in [77, *sizes * repeat, 78])
    for peak in found.units:
        assert peak.forward <= 2 * padded and peak.backward <= 2 * padded
    assert found.units[1].forward >= max(sizes) and found.units[1].backward >= max(sizes)
    assert found.units[2].forward >= 78
