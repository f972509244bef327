"""The caching allocator's laws, and its published numbers."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.memory.card.allocator import (
    LARGE_BUFFER,
    MIB,
    SMALL_BUFFER,
    Allocator,
    AllocatorSettings,
    Block,
    OutOfMemory,
    Pool,
    Requests,
    replay,
    segment_size,
    size_of,
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
    _apply(allocator, [*events, *(~index for index in range(len(wanted)) if ~index not in events)], wanted)
    assert all(_has_no_neighbours(pool) for pool in (allocator.small, allocator.large))
    allocator.empty_cache()
    assert allocator.reserved == 0


def _apply(allocator: Allocator, events: list[int], wanted: tuple[int, ...]) -> None:
    held: dict[int, Block] = {}
    for event in events:
        if event >= 0:
            held[event] = allocator.allocate(wanted[event])
            assert size_of(held[event]) >= wanted[event]
        else:
            allocator.free(held.pop(~event))


def _has_no_neighbours(pool: Pool) -> bool:
    addresses = [(block - (size_of(block) << 48), size_of(block)) for block in pool.blocks]
    return not {address for address, _ in addresses} & {address + size for address, size in addresses}


@given(sizes, st.integers(1, 5), settings)
def test_repeating_a_request_reserves_nothing_new(size: int, times: int, chosen: AllocatorSettings) -> None:
    events = [0, ~0] * times
    assert replay(events, (size,), chosen) == replay([0, ~0], (size,), chosen)


@given(sizes, settings)
def test_a_copy_goes_on_alone(size: int, chosen: AllocatorSettings) -> None:
    allocator, alike = _with_one_block(size, chosen), _with_one_block(size, chosen)
    copied = allocator.copy()
    for each in (size, 2 * size, size):
        copied.allocate(each)

    assert allocator.reserved == alike.reserved
    assert allocator.allocate(size) == alike.allocate(size)
    assert copied.reserved >= allocator.reserved


def _with_one_block(size: int, chosen: AllocatorSettings) -> Allocator:
    allocator = Allocator(chosen._replace(capacity=0))
    allocator.free(allocator.allocate(2 * size))
    allocator.allocate(size)
    return allocator


@given(histories())
def test_a_capacity_is_never_exceeded(history: tuple[list[int], tuple[int, ...]]) -> None:
    events, wanted = history
    capacity = 200 * MIB
    allocator = Allocator(AllocatorSettings(capacity=capacity))
    with suppress(OutOfMemory):
        _apply(allocator, events, wanted)
    assert allocator.peak_reserved <= capacity


@pytest.mark.parametrize(
    ("size", "segment"),
    [(1, SMALL_BUFFER), (MIB, SMALL_BUFFER), (MIB + 512, LARGE_BUFFER), (10 * MIB, 10 * MIB), (11 * MIB + 1, 12 * MIB)],
)
def test_segments(size: int, segment: int) -> None:
    assert segment_size(size) == segment
    allocator = Allocator()
    allocator.allocate(size)
    assert allocator.reserved == segment


def test_rounding_to_shares_of_a_power_of_two() -> None:
    # docs.pytorch.org, "Memory management": 1200 with 4 divisions becomes 1280
    allocator = Allocator(AllocatorSettings(roundup_power2_divisions=4))
    assert allocator.rounded(1200 * MIB) == 1280 * MIB
    assert allocator.rounded(1024 * MIB) == 1024 * MIB


def test_cached_blocks_are_given_back_when_the_card_is_full() -> None:
    allocator = Allocator(AllocatorSettings(capacity=100 * MIB))
    allocator.free(allocator.allocate(60 * MIB))
    allocator.allocate(80 * MIB)
    assert (allocator.retries, allocator.reserved) == (1, 80 * MIB)
    with pytest.raises(OutOfMemory):
        allocator.allocate(40 * MIB)


def test_a_split_limit_keeps_large_blocks_whole() -> None:
    for limit, reserved in ((0, 300), (64, 330)):
        allocator = Allocator(AllocatorSettings(max_split_size_mb=limit))
        allocator.free(allocator.allocate(300 * MIB))
        allocator.allocate(30 * MIB)
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
    for block in [freed.allocate(size) for size in before]:
        freed.free(block)
    cached = Allocator.with_cached((*freed.small.segments.values(), *freed.large.segments.values()))

    assert cached.reserved == freed.reserved
    for size in after:
        assert cached.allocate(size) == freed.allocate(size)
        assert cached.reserved == freed.reserved


@given(st.lists(sizes, max_size=20))
def test_a_pool_alone_serves_as_the_allocator_does(wanted: list[int]) -> None:
    allocator, other = Allocator(), Allocator()
    for size in map(allocator.rounded, wanted):
        pool = other.small if size <= MIB else other.large
        assert pool.allocate(size) == allocator.allocate(size)
        assert other.reserved == allocator.reserved


def test_pages_that_were_given_back_are_not_counted_as_free_space() -> None:
    """Of 200 MiB, 100 are in use and 60 free at the end. 90 more need the pages that were given back, and others."""
    allocator = Allocator(AllocatorSettings(expandable_segments=True, capacity=180 * MIB))
    allocator.allocate(100 * MIB)
    allocator.free(allocator.allocate(60 * MIB))
    with pytest.raises(OutOfMemory):
        allocator.allocate(90 * MIB)


@given(histories())
def test_what_is_surely_served_reserves_nothing(history: tuple[list[int], tuple[int, ...]]) -> None:
    events, wanted = history
    allocator = Allocator()
    for block in [allocator.allocate(size) for size in wanted[::2]]:
        allocator.free(block)
    pools = (allocator.small, allocator.large)
    by_pool = [[size for size in map(allocator.rounded, wanted) if (size > MIB) == large] for large in (False, True)]
    served = [
        not own or pool.surely_serves(Requests(sum(own), max(own))) for pool, own in zip(pools, by_pool, strict=True)
    ]
    before = [pool.reserved for pool in pools]
    _apply(allocator, events, wanted)
    for pool, is_served, reserved in zip(pools, served, before, strict=True):
        assert not is_served or pool.reserved == reserved


def test_blocks_serve_what_lies_beside_the_largest_request() -> None:
    """Of two blocks of 30 MiB, each holds 20 MiB until others got more than 10 of it."""
    pool = Allocator.with_cached((30 * MIB, 30 * MIB)).large
    assert pool.surely_serves(Requests(40 * MIB, 20 * MIB))
    assert not pool.surely_serves(Requests(41 * MIB, 20 * MIB))
    assert not pool.surely_serves(Requests(31 * MIB, 31 * MIB))
