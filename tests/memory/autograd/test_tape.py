"""What a recording keeps of the live sets that it has seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Parameter, Tape, Value, counters
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


def _recomputed_branch() -> dict[tuple[str, int], list[int]]:
    """How many tensors of each size the peaks have of `x + scale(f(wide(x))).float()`, which is recomputed."""
    tape = Tape()
    x = tape.new("hidden", 2, requires_grad=True)
    wide = ops.linear(tape, x, Parameter("w", 2, trainable=True), "wide")
    tape.spike(("wide", 2), ("wide", 2))
    product = ops.linear(tape, wide, Parameter("v", 2, trainable=True), "hidden")
    scaled = ops.scale(tape, product)
    converted = ops.cast(tape, scaled, 4)
    y = ops.add(tape, converted, x)
    tape.drop(wide, product, scaled, converted, y)
    tape.stop_at_last_saved()
    tape.backward(y, tape.incoming_gradient(y), recomputed=True)
    peaks = tape.take_peaks()
    counts = [counters(live, len(peaks.tensor_sizes)) for live in peaks.packed]
    return {(size.extent, size.width): [one[at] for one in counts] for at, size in enumerate(peaks.tensor_sizes)}


def test_a_recomputation_ends_with_the_last_op_that_saves_something() -> None:
    """What follows it, here in fp32, is not computed again, and the gradients in fp32 are gone before."""
    assert max(_recomputed_branch()["hidden", 4]) == 0


def test_gradients_made_before_the_recomputation_are_alive_in_it() -> None:
    """Where most wide tensors are alive: `x`, what the sum has sent it, and the gradient of the product by a number."""
    found = _recomputed_branch()
    at = max(range(len(found["wide", 2])), key=found["wide", 2].__getitem__)
    assert (found["wide", 2][at], found["hidden", 4][at], found["hidden", 2][at]) == (3, 0, 3)
