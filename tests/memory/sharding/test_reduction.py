"""The replay of ZeRO's reduction of gradients, in steps that can be counted by hand: 100 elements of 2 bytes each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.memory.sharding.zero.reduction import Gradient, ReductionSettings, _Partitioned, _Reduction, replay
from memlint.memory.values import Moment

FOUR = tuple((Gradient(100, 0, 100 * index),) for index in range(4))


def knobs(**changes: object) -> ReductionSettings:
    values = {"element": 2, "ranks": 2, "bucket": 200, "stage": 2, "overlaps": False, "contiguous": True}
    return ReductionSettings(**{**values, "scatters": True, "shares": (200,), **changes})  # type: ignore[arg-type]


def test_a_bucket_for_one_rank_is_reduced_without_a_copy() -> None:
    """The bucket, then the rank's half of the gradients; the one that arrives is an activation in `live`."""
    assert [moment.live for moment in replay(FOUR, knobs())[::-1]] == [400, 400, 800, 800]


def test_a_bucket_for_several_ranks_is_copied() -> None:
    across = knobs(bucket=300)
    assert max(moment.live for moment in replay(FOUR, across)) == 600 + 600 + 400 - 400
    assert replay(FOUR, across)[0].end >= 600 + 600


def test_without_contiguous_gradients_the_copy_stands_beside_them() -> None:
    found = replay(FOUR, knobs(contiguous=False))
    assert max(moment.live for moment in found) == 400 + 400
    assert found[3].live == 0


def test_buffers_stay_until_the_backward_has_ended() -> None:
    """Frozen layers run backward beside the buffer and the gradients in it."""
    frozen = ((), (), *(gradient for gradient in FOUR[:2]))
    found = replay(frozen, knobs(shares=(100,)))
    assert [moment.live for moment in found[:2]] == [400, 400]
    assert found[2].end > 200


def test_stage_3_copies_a_bucket_unless_one_gradient_is_alone() -> None:
    third = knobs(stage=3, shares=())
    assert max(moment.end for moment in replay(FOUR, third)) == 200 + 400
    assert max(moment.end for moment in replay(FOUR, third._replace(bucket=50))) == 200 + 200


def test_stage_3_multiplies_what_it_reduced_in_place_into_a_copy() -> None:
    """Beside it the fp32 copy of all ranks' gradients, where they accumulate so."""
    in_place = knobs(stage=3, shares=(), scatters=False, bucket=1000)
    assert replay(FOUR, in_place)[0].end == 4 * 200
    assert replay(FOUR, in_place._replace(wide=True))[0].end == 4 * 200 + 4 * 400


def test_stage_1_keeps_gradients_until_the_end() -> None:
    found = replay(FOUR, knobs(stage=1))
    assert [moment.live for moment in found[::-1]] == [400, 400 + 200, 400 + 400, 400 + 600]


SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=8)


@given(SIZES, st.integers(1, 4), st.integers(1, 120), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_nothing_is_negative_and_the_end_is_no_less(
    sizes: list[int], ranks: int, bucket: int, stage: int, overlaps: bool, contiguous: bool, scatters: bool
) -> None:
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    units = tuple((Gradient(size, 0, start),) for size, start in zip(sizes, starts, strict=True))
    share = -(-sum(sizes) // ranks)
    found = replay(units, ReductionSettings(2, ranks, bucket, stage, overlaps, contiguous, scatters, (share,)))
    assert len(found) == len(units)
    assert all(0 <= moment.live <= moment.end for moment in found)


FLAGS = ("overlaps", "contiguous", "scatters", "accumulates", "wide", "offloads")


@given(SIZES, st.integers(1, 3), st.integers(1, 120), st.integers(1, 2), st.sets(st.sampled_from(FLAGS)))
def test_the_fullest_of_several_ranks_is_that_of_each_alone(
    sizes: list[int], ranks: int, bucket: int, stage: int, flags: set[str]
) -> None:
    units = tuple((Gradient(size, 0, sum(sizes[:index])),) for index, size in enumerate(sizes))
    share = -(-sum(sizes) // ranks)
    switches = {flag: flag in flags for flag in FLAGS}
    settings = ReductionSettings(2, ranks, bucket, stage, shares=(share,), **switches)
    alone = [_Partitioned(units, settings, (rank,)).backward() for rank in range(ranks)]
    assert replay(units, settings) == tuple(
        Moment(*map(max, zip(*moments, strict=True))) for moments in zip(*alone, strict=True)
    )


@given(
    st.lists(SIZES, min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 400),
    st.integers(1, 3),
    st.sets(st.sampled_from(FLAGS)),
)
def test_gradients_that_join_at_once_are_those_that_join_one_by_one(
    sizes: list[list[int]], ranks: int, bucket: int, stage: int, flags: set[str]
) -> None:
    units, start = [], 0
    for own in sizes:
        units.append(tuple(Gradient(size, 0, start + sum(own[:index])) for index, size in enumerate(own)))
        start += sum(own)
    switches = {flag: flag in flags for flag in FLAGS}
    settings = ReductionSettings(2, ranks, bucket, stage, shares=(-(-start // ranks),), **switches)
    found = replay(tuple(units), settings)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_Reduction, "_joins_at_once", lambda reduction, unit: False)
        assert replay(tuple(units), settings) == found


@given(SIZES, st.integers(1, 9), st.integers(1, 3), st.integers(1, 200), st.sets(st.sampled_from(FLAGS)))
def test_repetitions_of_one_unit_go_as_units_of_their_own_do(
    sizes: list[int], repeat: int, ranks: int, bucket: int, flags: set[str]
) -> None:
    settings = ReductionSettings(2, ranks, bucket, 3, **{flag: flag in flags for flag in FLAGS})
    own = [tuple(Gradient(size, 0, 0) for size in sizes) for _ in range(repeat)]
    assert replay((own[0],) * repeat, settings) == replay(tuple(own), settings)
