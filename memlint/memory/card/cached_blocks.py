"""What a step of full fine-tuning reserves, where its tensors take the blocks that the step before left cached.

When the optimizer has stepped, its temporaries and then the gradients are freed: one block for each parameter. The next
forward takes such a block for any tensor that is no larger, and splits it. So tensors of a short batch lie in the
blocks of matrices, logits in those of a large vocabulary's embedding, and only what is larger than all blocks that are
left needs memory of its own. The tensors of a step are replayed through a model of the allocator in the order in which
they come and go: the forward, then the backward of the head and of the last layers, after which gradients find the
blocks that they left. Equal layers in the middle only leave what they save.

Here the optimizer's states lie apart, as in a run that is resumed, or whose first batch was much shorter than its
longest one. Full steps on fake tensors, replayed in the same allocator, reserve as much within 3 % in 47 runs of Llama
3.2 1B, Qwen2.5 0.5B and 1.5B, TinyLlama 1.1B, SmolLM2 1.7B and Gemma 2 2B. For states that the first step creates, see
first_steps.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from memlint._record import NamedTuple
from memlint.memory.autograd.walk import Segment
from memlint.memory.card.allocator import Allocator, size_of
from memlint.memory.card.replayed_tensors import (
    Blocks,
    gradients,
    segment_events,
    temporaries,
    times,
)
from memlint.memory.values import ModelState, Unit

_BACKWARD_SEGMENTS = 2  # the head and the layers before it


def beyond_step(segments: Sequence[Segment], units: tuple[Unit, ...], state: ModelState, inputs: int) -> int:
    """Bytes that a step reserves beyond the tensors that are alive when the optimizer steps. `inputs`: bytes of the
    batch and its masks."""
    of_gradients = tuple(gradients(units))
    left = _left(of_gradients, not state.gradients_resident, state.step_temporaries)
    blocks = Blocks(Allocator.with_cached(left.segments))
    cached = blocks.reserved
    blocks.keep((inputs,))
    _forward(blocks, segments)
    _backward(blocks, segments)
    at_step = state.weights + state.optimizer_states + state.gradients_at_step + state.step_temporaries
    return blocks.reserved - cached + left.rests * at_step // max(1, sum(of_gradients))


class _Left(NamedTuple):
    """What the step before leaves cached: its `segments` in bytes, each free as a whole. `rests`: bytes left over in
    the segments of the gradients: segments are of 20 MiB for matrices of less than 10. Those of parameters and states
    have as many and as large tensors."""

    segments: tuple[int, ...]
    rests: int


@lru_cache(maxsize=64)  # a batch, a length and what is computed twice change nothing of it
def _left(of_gradients: tuple[int, ...], are_freed: bool, step_temporaries: int) -> _Left:
    """What the gradients (if `are_freed`) and the optimizer's temporaries leave."""
    allocator = Allocator()
    rests = -sum(size_of(allocator.allocate(size)) for size in of_gradients)
    rests += allocator.reserved
    if not are_freed:
        allocator = Allocator()
    for size in temporaries(of_gradients, step_temporaries):
        allocator.allocate(size)
    return _Left((*allocator.small.segments.values(), *allocator.large.segments.values()), rests)


def _forward(blocks: Blocks, segments: Sequence[Segment]) -> None:
    """Each segment's forward, of equal ones the first and the last, and the end of autocast, which frees its copies."""
    first: dict[int, int] = {}
    last = {id(one.profile): index for index, one in enumerate(segments)}
    for index, one in enumerate(segments):
        of_one = segment_events(one.profile, one.sizes, True)
        begins = first.setdefault(id(one.profile), index) == index
        ends = last[id(one.profile)] == index and (one.repeat > 1 or not begins)
        if begins:
            blocks.run(of_one.forward)
        blocks.change({}, times(of_one.kept, one.repeat - begins - ends))
        if ends:
            blocks.run(of_one.forward)
    for one in segments:
        of_one = segment_events(one.profile, one.sizes, True)
        blocks.change(times(of_one.kept, one.repeat), times(of_one.saved, one.repeat))


def _backward(blocks: Blocks, segments: Sequence[Segment]) -> None:
    """The backward of the head, and of a layer."""
    for one in segments[: -_BACKWARD_SEGMENTS - 1 : -1]:
        blocks.run(segment_events(one.profile, one.sizes, True).backward)
