"""The peak of a training step: forward through the segments of a model from first to last, then backward.

Each segment (the embedding, a decoder layer, the head, ...) was recorded once, see `Profile`. The walk adds up what
earlier segments saved, what the segment itself holds at its peak, the parameters that are gathered for it, and the
gradients that later segments left. All figures are bytes beyond the resident state (weights, optimizer states).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import mul

from memlint._record import NamedTuple
from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.tape import KEPT_GRADIENT, KERNEL_MEMORY, PeakCandidates, TensorSize, counters
from memlint.memory.state.storage import ALIGNMENT, rounded
from memlint.memory.values import Moment

_LOW_BITS = ALIGNMENT - 1


class TensorBytes:
    """Bytes of the tensors of a recording, for one model, batch and length; made by `tensor_bytes`.

    `counts`: number of elements by extent. `keeps_gradients`: gradients of parameters stay where autograd made
    them. Else an engine stores them elsewhere, and they count as 0 here.
    """

    __slots__ = ("__weakref__", "_bytes", "_components", "_peaks", "counts", "keeps_gradients")

    def __init__(self, counts: Mapping[str, int], keeps_gradients: bool) -> None:
        self.counts = counts
        self.keeps_gradients = keeps_gradients
        # By the identity of a recording's parts, which are kept here so that it is not used again.
        self._bytes: dict[int, tuple[Sequence[TensorSize], list[int]]] = {}
        self._peaks: dict[int, tuple[PeakCandidates, int]] = {}
        self._components: dict[int, tuple[PeakCandidates, dict[str, int]]] = {}

    def of(self, extent: str, width: int) -> int:
        """Bytes of one tensor."""
        return rounded(self.counts[extent] * width)

    def by_size(self, candidates: PeakCandidates) -> list[int]:
        """Bytes of one tensor of each size in the recording, as the allocator rounds them."""
        sizes = candidates.tensor_sizes
        found = self._bytes.get(id(sizes))
        if found is None:
            counts, keeps = self.counts, self.keeps_gradients
            each = [
                (counts[name] * width + _LOW_BITS) & ~_LOW_BITS if keeps or not is_gradient else 0
                for _, width, name, is_gradient in sizes
            ]
            found = self._bytes[id(sizes)] = (sizes, each)
        return found[1]

    def peak(self, candidates: PeakCandidates) -> int:
        """Bytes of the largest of the live sets."""
        found = self._peaks.get(id(candidates))
        if found is None:
            sizes = self.by_size(candidates)
            most = max(accumulate(map(mul, candidates.pick(sizes), candidates.numbers))) if sizes else 0
            found = self._peaks[id(candidates)] = (candidates, most)
        return found[1]

    def peak_components(self, candidates: PeakCandidates) -> dict[str, int]:
        """Bytes of the largest live set by component: gradients, temporaries, logits, activations."""
        found = self._components.get(id(candidates))
        if found is None:
            found = self._components[id(candidates)] = (candidates, self._by_component(candidates))
        return dict(found[1])

    def _by_component(self, candidates: PeakCandidates) -> dict[str, int]:
        sizes = self.by_size(candidates)
        levels = [0, *accumulate(map(mul, candidates.pick(sizes), candidates.numbers))]
        totals = [levels[end] for end in candidates.ends]
        found = dict.fromkeys(("activations", "logits", "gradients", "temporaries"), 0)
        for index, number in enumerate(counters(candidates.packed[totals.index(max(totals))])):
            if number:
                found[component(candidates.tensor_sizes[index].extent)] += sizes[index] * number
        return found


def tensor_bytes(counts: Mapping[str, int], keeps_gradients: bool) -> TensorBytes:
    """`TensorBytes` of these values: the same object for equal ones, with what it has added up so far. Most changes
    that a plan tries (optimizers, sharding, offload) leave the tensors of most segments as they are."""
    return _of_values(keeps_gradients, tuple(counts), tuple(counts.values()))


@lru_cache(maxsize=48)
def _of_values(keeps_gradients: bool, extents: tuple[str, ...], numbers: tuple[int, ...]) -> TensorBytes:
    return TensorBytes(dict(zip(extents, numbers)), keeps_gradients)


def component(extent: str) -> str:
    """The component that tensors of this extent belong to."""
    if extent.startswith(KEPT_GRADIENT):
        return "gradients"
    if extent.startswith(KERNEL_MEMORY):
        return "temporaries"
    return "logits" if extent.startswith("logits") else "activations"


class HeadProduct(NamedTuple):
    """Bytes while the head's matrix product runs, before the loss and after the loss's backward, where gathered
    parameters and gradients differ from those at the loss."""

    activations_forward: int = 0
    activations_backward: int = 0
    gathered_forward: int = 0
    gathered_backward: int = 0
    gradient: int = 0


_NO_PRODUCT = HeadProduct()  # of segments that are no head


class Segment(NamedTuple):
    """`repeat` equal units of the model, one after the other. The other numbers are bytes for one of them; those that
    are named as in `UnitState` mean the same."""

    profile: Profile
    sizes: TensorBytes
    repeat: int = 1
    gathered_forward: int = 0
    gathered_backward: int = 0
    gradient_live: int = 0
    gradient_kept: int = 0
    gradient_end: int = 0
    moments: tuple[Moment, ...] = ()
    kept_after_backward: int = 0  # activations that its backward does not free
    kept_after_first: int = 0  # those that the first backward of its repetitions leaves to the others
    concurrent_activations: int = 0  # of another segment, alive while this one runs
    product: HeadProduct = _NO_PRODUCT
    gathered_entering: int = 0
    held_until_loss: int = 0  # activations that its code holds while the forward goes on and the backward does not
    held_until_backward: int = 0  # activations that it keeps for its own backward, besides those of its profile

    def entering(self) -> int:
        """Bytes when the segment's forward begins: gathered parameters, and the output of the segment before."""
        width = self.profile.width
        return self.gathered_entering + (self.sizes.of("hidden", width) if width and self.gathered_entering else 0)


class PeakPosition(NamedTuple):
    """A candidate for the peak: the index of its segment, and what is alive outside of that segment."""

    total: int
    position: int
    activations: int  # of other segments
    gradients: int
    gathered: int
    without_own: bool = False  # the segment's own activations are freed, or are in `activations`


class Peak(NamedTuple):
    """The peak of the forward or of the backward, its components and its place."""

    total: int
    components: dict[str, int]
    position: PeakPosition


class Walk(NamedTuple):
    """The peaks of a step."""

    forward: Peak
    saved_activations: int  # alive between forward and backward
    backward: Peak
    logits: int  # one fp32 tensor of all logits, 0 if they are never built
    scores: int  # the fp32 attention scores of one layer
    saved_logits: int = 0  # of the saved activations, those of the last segment
    segments: Sequence[Segment] = ()


def walk(segments: Sequence[Segment], during_layers: int = 0) -> Walk:
    """Peaks of the forward and the backward. `during_layers`: bytes that the model frees before its head runs."""
    forward, saved = _forward(segments, during_layers)
    backward = _backward(segments, sum(saved))
    counts = segments[-1].sizes.counts
    scores = max((segment.sizes.counts.get("scores", 0) for segment in segments), default=0)
    return Walk(
        _peak(segments, forward, backward=False),
        sum(saved),
        _peak(segments, backward, backward=True),
        4 * counts["logits"],
        4 * scores,
        saved[-1],
        segments,
    )


def _forward(segments: Sequence[Segment], during_layers: int) -> tuple[PeakPosition, list[int]]:
    """The peak of the forward, and what each segment saves for the backward."""
    best = PeakPosition(-1, 0, 0, 0, 0)
    earlier = 0
    saved = []
    for index, segment in enumerate(segments):
        sizes, profile = segment.sizes, segment.profile
        saved_by_one = sizes.peak(profile.live_in_forward)
        left_by_one = saved_by_one + segment.held_until_loss + segment.held_until_backward
        other_activations = earlier + (segment.repeat - 1) * left_by_one + segment.concurrent_activations
        other_activations += during_layers if index < len(segments) - 1 else 0
        total = other_activations + sizes.peak(profile.forward) + segment.gathered_forward
        if total > best.total:
            best = PeakPosition(total, index, other_activations, 0, segment.gathered_forward)
        if other_activations + segment.entering() > best.total:
            best = _entering(segment, index, other_activations)
        if segment.product is not _NO_PRODUCT:
            best = max(best, _at_product(segment.product, index, other_activations, 0, backward=False), key=_total)
        earlier += segment.repeat * left_by_one
        saved.append(segment.repeat * (sizes.peak(profile.live_until_backward) + segment.held_until_backward))
    return best, saved


def _backward(segments: Sequence[Segment], saved: int) -> PeakPosition:
    """The peak of the backward. `saved`: activations of all segments when the backward begins."""
    best = PeakPosition(-1, 0, 0, 0, 0)
    gradients = kept_activations = 0
    for index in range(len(segments) - 1, -1, -1):
        segment = segments[index]
        saved_by_one = segment.sizes.peak(segment.profile.live_until_backward) + segment.held_until_backward
        saved -= segment.repeat * saved_by_one
        own = segment.sizes.peak(segment.profile.backward)
        around = saved + segment.concurrent_activations + kept_activations
        for passed, moment in _moments(segment):
            activations = around + (segment.repeat - 1 - passed) * saved_by_one + _kept(segment, passed)
            gathered = segment.gathered_backward - moment.released
            total = activations + gradients + moment.live + own + gathered
            if total > best.total:
                here = gradients + moment.live
                best = PeakPosition(total, index, activations, here, gathered)
            total = activations + gradients + moment.end + gathered
            if total > best.total:
                here = gradients + moment.end
                best = PeakPosition(total, index, activations, here, gathered, without_own=True)
        if segment.product is not _NO_PRODUCT:
            best = max(best, _at_product(segment.product, index, around, gradients, backward=True), key=_total)
        gradients += segment.repeat * segment.gradient_kept
        kept_activations += _kept(segment, segment.repeat)
    return best


def _kept(segment: Segment, passed: int) -> int:
    """The activations that `passed` repetitions left behind."""
    return passed * segment.kept_after_backward + (segment.kept_after_first if passed else 0)


def _entering(segment: Segment, index: int, others: int) -> PeakPosition:
    """The moment when a segment's forward begins."""
    around = others + segment.entering() - segment.gathered_entering
    return PeakPosition(around + segment.gathered_entering, index, around, 0, segment.gathered_entering, True)


def _total(position: PeakPosition) -> int:
    return position.total


def _at_product(product: HeadProduct, index: int, others: int, gradients: int, backward: bool) -> PeakPosition:
    """The moment of the head's product."""
    activations = others + (product.activations_backward if backward else product.activations_forward)
    gathered = product.gathered_backward if backward else product.gathered_forward
    gradients += product.gradient if backward else 0
    return PeakPosition(activations + gathered + gradients, index, activations, gradients, gathered, without_own=True)


def _moments(segment: Segment) -> list[tuple[int, Moment]]:
    """How many repetitions have run backward, and what gradients take in the next one. Of equal units without moments
    of their own, the first (most activations), the one that finds what it left, and the last (most gradients) count."""
    if segment.moments:
        return list(enumerate(segment.moments))
    last = segment.repeat - 1
    counted = (0, min(1, last), last) if segment.kept_after_first else (0, last)
    live, end, kept = segment.gradient_live, segment.gradient_end, segment.gradient_kept
    return [(passed, Moment(live + passed * kept, end + passed * kept)) for passed in counted]


def _peak(segments: Sequence[Segment], found: PeakPosition, backward: bool) -> Peak:
    """The peak with its components."""
    segment = segments[found.position]
    components = segment.sizes.peak_components(segment.profile.backward if backward else segment.profile.forward)
    if found.without_own:
        components = dict.fromkeys(components, 0)
    components["activations"] += found.activations
    components["gradients"] += found.gradients
    components["weights"] = found.gathered
    return Peak(found.total, components, found)
