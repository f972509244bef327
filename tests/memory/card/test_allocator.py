"""The caching allocator's laws, and its published numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.memory.card.allocator import (
    LARGE_BUFFER,
    MIB,
    SMALL_BUFFER,
    Allocator,
    AllocatorSettings,
    OutOfMemory,
    replay,
    segment_size,
)

sizes = st.one_of(st.integers(1, 4096), st.integers(1, 3 * MIB), st.integers(MIB, 300 * MIB))
settings = st.builds(
    AllocatorSettings,
    expandable_segments=st.booleans(),
    max_split_size_mb=st.sampled_from([0, 21, 64, 512]),
    roundup_power2_divisions=st.sampled_from([0, 4, 8]),
    capacity=st.just(0),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], tuple[int, ...]]:
    """A valid sequence of allocations and frees."""
    wanted = draw(st.lists(sizes, min_size=1, max_size=30))
    events: list[int] = []
    live: list[int] = []
    for index in range(len(wanted)):
        events.append(index)
        live.append(index)
        while live and draw(st.booleans()):
            events.append(~live.pop(draw(st.integers(0, len(live) - 1))))
    return events, tuple(wanted)


@given(histories(), settings)
def test_reserved_covers_allocated_covers_requested(
    history: tuple[list[int], tuple[int, ...]], chosen: AllocatorSettings
) -> None:
    events, wanted = history
    requested = highest = 0
    for event in events:
        requested += wanted[event] if event >= 0 else -wanted[~event]
        highest = max(highest, requested)
    peaks = replay(events, wanted, chosen)
    assert highest <= peaks.allocated <= peaks.reserved


@given(histories(), settings)
def test_free_neighbours_coalesce_and_everything_can_be_given_back(
    history: tuple[list[int], tuple[int, ...]], chosen: AllocatorSettings
) -> None:
    events, wanted = history
    allocator = Allocator(chosen)
    live = set()
    for event in events:
        if event >= 0:
            allocator.allocate(event, wanted[event])
            live.add(event)
        else:
            allocator.free(~event)
            live.discard(~event)
    for key in live:
        allocator.free(key)
    assert allocator.allocated == 0
    allocator.empty_cache()
    assert allocator.reserved == 0


@given(sizes, st.integers(1, 5), settings)
def test_repeating_a_request_reserves_nothing_new(size: int, times: int, chosen: AllocatorSettings) -> None:
    events = [0, ~0] * times
    assert replay(events, (size,), chosen) == replay([0, ~0], (size,), chosen)


@given(histories())
def test_a_capacity_is_never_exceeded(history: tuple[list[int], tuple[int, ...]]) -> None:
    events, wanted = history
    capacity = 200 * MIB
    allocator = Allocator(AllocatorSettings(capacity=capacity))
    try:
        for event in events:
            allocator.allocate(event, wanted[event]) if event >= 0 else allocator.free(~event)
    except OutOfMemory:
        pass
    assert allocator.peak_reserved <= capacity


@pytest.mark.parametrize(
    ("size", "segment"),
    [(1, SMALL_BUFFER), (MIB, SMALL_BUFFER), (MIB + 512, LARGE_BUFFER), (10 * MIB, 10 * MIB), (11 * MIB + 1, 12 * MIB)],
)
def test_segments(size: int, segment: int) -> None:
    assert segment_size(size) == segment
    allocator = Allocator()
    allocator.allocate(0, size)
    assert allocator.reserved == segment


def test_rounding_to_shares_of_a_power_of_two() -> None:
    # docs.pytorch.org, "Memory management": 1200 with 4 divisions becomes 1280
    allocator = Allocator(AllocatorSettings(roundup_power2_divisions=4))
    assert allocator.rounded(1200 * MIB) == 1280 * MIB
    assert allocator.rounded(1024 * MIB) == 1024 * MIB


def test_cached_blocks_are_given_back_when_the_card_is_full() -> None:
    allocator = Allocator(AllocatorSettings(capacity=100 * MIB))
    allocator.allocate(0, 60 * MIB)
    allocator.free(0)
    allocator.allocate(1, 80 * MIB)
    assert (allocator.retries, allocator.reserved) == (1, 80 * MIB)
    with pytest.raises(OutOfMemory):
        allocator.allocate(2, 40 * MIB)


def test_a_split_limit_keeps_large_blocks_whole() -> None:
    for limit, reserved in ((0, 300), (64, 330)):
        allocator = Allocator(AllocatorSettings(max_split_size_mb=limit))
        allocator.allocate(0, 300 * MIB)
        allocator.free(0)
        allocator.allocate(1, 30 * MIB)
        assert allocator.reserved == reserved * MIB


def test_growing_sizes_leave_holes_that_expandable_segments_do_not() -> None:
    events = [event for index in range(20) for event in (index, ~index)]
    wanted = tuple((100 + 5 * index) * MIB for index in range(20))
    plain, expandable = replay(events, wanted), replay(events, wanted, AllocatorSettings(expandable_segments=True))
    assert plain.reserved > 5 * expandable.reserved
    assert expandable.reserved <= expandable.allocated + LARGE_BUFFER


@given(st.lists(sizes, max_size=20), st.lists(sizes, max_size=20))
def test_segments_whose_tensors_were_freed_are_as_good_as_new_ones_of_their_sizes(
    before: list[int], after: list[int]
) -> None:
    freed = Allocator()
    for key, size in enumerate(before):
        freed.allocate(key, size)
    for key in range(len(before)):
        freed.free(key)
    cached = Allocator.with_cached(freed.segments)

    assert cached.reserved == freed.reserved
    for key, size in enumerate(after):
        freed.allocate(key, size)
        cached.allocate(key, size)
        assert (cached.reserved, cached.allocated) == (freed.reserved, freed.allocated)
