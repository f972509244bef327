"""The walk over a model's segments: forward from first to last, backward from last to first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from memlint._record import NamedTuple
from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.tape import KEPT, KERNEL, PeakCandidates, counters
from memlint.memory.storage import ALIGNMENT, rounded

_LOW_BITS = ALIGNMENT - 1


class Sizes:
    """Bytes of a tape's tensors. `counts`: elements by extent; `keeps`: parameter gradients stay with autograd."""

    __slots__ = ("_bytes", "_largest", "counts", "keeps")

    def __init__(self, counts: dict[str, int], keeps: bool) -> None:
        self.counts = counts
        self.keeps = keeps
        self._bytes: dict[int, list[int]] = {}
        self._largest: dict[int, int] = {}

    def of(self, extent: str, width: int) -> int:
        """Bytes of one tensor."""
        return rounded(self.counts[extent] * width)

    def listed(self, moments: PeakCandidates) -> list[int]:
        """Bytes of all units of a recording, as the allocator rounds them; profiles outlive `Sizes`, so their identity
        is a key."""
        found = self._bytes.get(id(moments.units))
        if found is None:
            counts, keeps = self.counts, self.keeps
            found = [
                (counts[name] * width + _LOW_BITS) & ~_LOW_BITS if keeps or not kept else 0
                for _, width, name, kept in moments.units
            ]
            self._bytes[id(moments.units)] = found
        return found

    def largest(self, moments: PeakCandidates) -> int:
        """Bytes of the largest moment."""
        found = self._largest.get(id(moments))
        if found is None:
            units = self.listed(moments)
            found = max(accumulate(map(mul, moments.pick(units), moments.numbers))) if units else 0
            self._largest[id(moments)] = found
        return found

    def parts(self, moments: PeakCandidates) -> dict[str, int]:
        """The largest moment by component: gradients, temporaries, logits, activations."""
        units = self.listed(moments)
        levels = [0, *accumulate(map(mul, moments.pick(units), moments.numbers))]
        totals = [levels[end] for end in moments.ends]
        found = dict.fromkeys(("activations", "logits", "gradients", "temporaries"), 0)
        for index, number in enumerate(counters(moments.packed[totals.index(max(totals))])):
            if number:
                found[component(moments.units[index].extent)] += units[index] * number
        return found


def component(extent: str) -> str:
    """The component that an extent belongs to."""
    if extent.startswith(KEPT):
        return "gradients"
    if extent.startswith(KERNEL):
        return "temporaries"
    return "logits" if extent.startswith("logits") else "activations"


class Segment(NamedTuple):
    """One unit of the walk and `repeat` - 1 equal ones behind it."""

    profile: Profile
    sizes: Sizes
    repeat: int = 1
    gathered_forward: int = 0
    gathered_backward: int = 0
    gradient_live: int = 0
    gradient_kept: int = 0
    gradient_end: int = 0
    left_behind: int = 0  # activations that its backward does not free
    waiting: int = 0  # activations of another segment that are there while it runs


class Peak(NamedTuple):
    """The highest level of one direction and what it consists of, bytes beyond the resident state."""

    total: int
    parts: dict[str, int]


class Level(NamedTuple):
    """A candidate for the peak: where it stands and what the walk held there."""

    total: int
    position: int
    held: int
    gradients: int
    gathered: int
    ended: bool = False  # behind the segment's backward: nothing of its own is alive any more


class Walk(NamedTuple):
    """What the walk found, bytes beyond the resident state. `held`: activations alive when the forward ends."""

    forward: Peak
    held: int
    backward: Peak
    logits: int  # one fp32 tensor of all logits, 0 if never built
    scores: int  # one layer's fp32 attention scores


def walk(segments: Sequence[Segment], during_layers: int = 0) -> Walk:
    """Peaks of the forward and the backward. `during_layers`: bytes that the model lets go of before its head."""
    forward, held = _forward(segments, during_layers)
    backward = _backward(segments, sum(held))
    counts = segments[-1].sizes.counts
    scores = max((part.sizes.counts.get("scores", 0) for part in segments), default=0)
    return Walk(
        _peak(segments, forward, backward=False),
        sum(held),
        _peak(segments, backward, backward=True),
        4 * counts["logits"],
        4 * scores,
    )


def _forward(segments: Sequence[Segment], during_layers: int) -> tuple[Level, list[int]]:
    best = Level(-1, 0, 0, 0, 0)
    level = 0
    held = []
    for index, part in enumerate(segments):
        stays = part.sizes.largest(part.profile.held_forward)
        below = level + (part.repeat - 1) * stays + (during_layers if index < len(segments) - 1 else 0) + part.waiting
        total = below + part.sizes.largest(part.profile.forward) + part.gathered_forward
        if total > best.total:
            best = Level(total, index, below, 0, part.gathered_forward)
        level += part.repeat * stays
        held.append(part.repeat * part.sizes.largest(part.profile.held))
    return best, held


def _backward(segments: Sequence[Segment], held: int) -> Level:
    best = Level(-1, 0, 0, 0, 0)
    gradients = left = 0
    for index in range(len(segments) - 1, -1, -1):
        part = segments[index]
        one = part.sizes.largest(part.profile.held)
        held -= part.repeat * one
        own = part.sizes.largest(part.profile.backward) + part.gathered_backward + part.gradient_live
        more = (part.repeat - 1) * one
        grown = (part.repeat - 1) * part.gradient_kept
        later = left + (part.repeat - 1) * part.left_behind
        held_here = held + part.waiting
        for below, before in ((held_here + left + more, gradients), (held_here + later, gradients + grown)):
            if below + before + own > best.total:
                best = Level(below + before + own, index, below, before + part.gradient_live, part.gathered_backward)
            ending = below + before + part.gathered_backward + part.gradient_end
            if ending > best.total:
                best = Level(ending, index, below, before + part.gradient_end, part.gathered_backward, ended=True)
        gradients += part.repeat * part.gradient_kept
        left += part.repeat * part.left_behind
    return best


def _peak(segments: Sequence[Segment], level: Level, backward: bool) -> Peak:
    part = segments[level.position]
    parts = part.sizes.parts(part.profile.backward if backward else part.profile.forward)
    if level.ended:
        parts = dict.fromkeys(parts, 0)
    parts["activations"] += level.held
    parts["gradients"] += level.gradients
    parts["weights"] = level.gathered
    return Peak(level.total, parts)
