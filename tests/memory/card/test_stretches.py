"""A replay without the stretches that surely change nothing reserves as much as the whole one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memlint.memory.card.allocator import MIB, Allocator
from memlint.memory.card.replayed_tensors import Blocks
from memlint.memory.card.stretches import Stretch, in_order, stretches

_SIZES = st.sampled_from([512, 1024, 300 * 512, MIB, 2 * MIB, 3 * MIB, 12 * MIB, 16 * MIB, 48 * MIB, 128 * MIB])


@st.composite
def histories(draw: st.DrawFn) -> list[int]:
    """Allocations, and frees of what is alive."""
    events: list[int] = []
    live: list[int] = []
    for size in draw(st.lists(_SIZES, min_size=1, max_size=25)):
        events.append(size)
        live.append(size)
        while live and draw(st.booleans()):
            events.append(-live.pop(draw(st.integers(0, len(live) - 1))))
    return events


@given(st.lists(_SIZES, max_size=12), histories(), st.integers(1, 4))
def test_what_is_left_out_changes_nothing(cached: list[int], history: list[int], times: int) -> None:
    whole, shortened = Allocator(), Allocator()
    for allocator in (whole, shortened):
        for block in [allocator.allocate(size) for size in cached]:
            allocator.free(block)
    for allocator, found in ((whole, in_order(history)), (shortened, stretches(history))):
        blocks = Blocks(allocator)
        for _ in range(times):
            blocks.run(found)
    for one, other in ((whole.small, shortened.small), (whole.large, shortened.large)):
        assert (one.reserved, one.blocks) == (other.reserved, other.blocks)


@given(histories())
def test_stretches_have_all_events_in_order(history: list[int]) -> None:
    joined = [event for stretch in stretches(history) for event in stretch.events]
    assert joined == [event for stretch in in_order(history) for event in stretch.events]


def test_a_stretch_ends_where_nothing_of_it_is_alive() -> None:
    a, b, c = 2 * MIB, 4 * MIB, 8 * MIB
    found = stretches([a, b, -b, c, -a, -c, b, a, -b])
    assert [(stretch.events, stretch.requests) for stretch in found if stretch.events] == [
        ([a, b, -b, c, -a, -c], (a + b + c, c)),
        ([b, a, -b], None),
    ]


def test_what_is_freed_beside_it_ends_a_stretch() -> None:
    """A tensor that was there before is freed while another one lives: the stretches are those inside of that."""
    a, b, c = 2 * MIB, 4 * MIB, 8 * MIB
    found = [stretch for stretch in stretches([a, b, -b, -c, -a]) if stretch.events]
    assert found == [Stretch(False, [a]), Stretch(False, [b, -b], (b, b)), Stretch(False, [-c, -a])]  # type: ignore[arg-type]
