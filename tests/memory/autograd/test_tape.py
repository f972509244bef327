"""What a recording keeps of the live sets that it has seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memlint.memory.autograd.tape import Tape, Value, counters
from memlint.memory.autograd.walk import tensor_bytes

SIZES = tuple((f"extent{number}", 2) for number in range(4))
STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from(SIZES)), max_size=40)


def test_bytes_are_added_up_once_for_equal_tensors() -> None:
    """Whoever gets them may change what he got: others do not see it."""
    tape = Tape()
    tape.new("hidden", 2)
    (peaks,) = (tape.take_peaks(),)
    first, second = (tensor_bytes({"hidden": 100}, keeps_gradients=False) for _ in range(2))
    first.peak_components(peaks)["activations"] = 0
    assert first is second
    assert second.peak(peaks) == second.peak_components(peaks)["activations"] == 512
    assert tensor_bytes({"hidden": 1000}, keeps_gradients=False).peak(peaks) == 2048


@given(STEPS)
def test_the_peaks_are_the_live_sets_that_no_other_contains(steps: list[tuple[bool, tuple[str, int]]]) -> None:
    """Tensors come and go in any order; each of four sizes has up to some tens of them."""
    tape = Tape()
    held: dict[tuple[str, int], list[Value]] = {size: [] for size in SIZES}
    for size in SIZES:
        tape.increment(*size)
    seen = [counters(0, len(SIZES))]
    for allocates, size in steps:
        if allocates:
            held[size].append(tape.new(*size))
        elif held[size]:
            tape.drop(held[size].pop())
        seen.append(counters(tape.live, len(SIZES)))

    peaks = [counters(live, len(SIZES)) for live in tape.take_peaks().packed]

    assert len(set(peaks)) == len(peaks)
    assert set(peaks) == {one for one in seen if not any(contains(other, one) for other in seen)}


def contains(other: tuple[int, ...], one: tuple[int, ...]) -> bool:
    return other != one and all(more >= less for more, less in zip(other, one, strict=True))
