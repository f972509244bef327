"""A replay of how ZeRO reduces gradients: bytes of gradients and their copies as a backward goes.

Stages 1 and 2, deepspeed 0.19.8 runtime/zero/stage_1_and_2.py. What decides the peak:
- A gradient joins the bucket when it is complete. One that would overflow the bucket first empties it (:1424).
  Contiguous gradients are copied into the bucket's buffer, and larger ones than the bucket stay where they are
  (:1441-1463).
- The slices of a bucket that go to different ranks are flattened into a copy (:2367). A single slice is not copied:
  flattening one tensor is a view.
- Then a rank's own gradients move to a buffer of its partition, made whole at the first of them (:2171-2187). Without
  contiguous gradients they stay where they are. Others are freed, with `overlap_comm` and without contiguous
  gradients only at the next reduction (:2261-2267).
- Stage 1 without `overlap_comm` reduces at the end of the backward, parameter group by parameter group (:973-978).
- What is left in the bucket is reduced at the end of the backward, by a callback of autograd's engine (runtime/
  base_optimizer.py:193), and the buffers are freed (:1016-1060).

Stage 3, runtime/zero/stage3.py: the bucket's buffer is there all the time, as are the partitions that gradients end in.
A reduction copies the whole bucket, unless one gradient that divides evenly is alone in it (:1682, runtime/comm/
coalesced_collectives.py:102). Without `reduce_scatter` it is reduced in place, and multiplied into a copy (:1883).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from memlint._record import NamedTuple
from memlint.memory.sharding.zero.layout import decays
from memlint.memory.values import Moment, Unit


class Gradient(NamedTuple):
    """A trainable tensor: its elements, its parameter group and where it begins in the group's flat partition."""

    numel: int
    group: int
    start: int


class ReductionSettings(NamedTuple):
    """What the engine's settings say. `element`: bytes of an element of a gradient. `bucket`: elements.

    `shares`: elements of a rank's partition by group (stages 1 and 2). `accumulates`: the step has several backward
    passes, of which the last is replayed. `wide`: own gradients are added to an fp32 partition. `offloads`: they go to
    host memory.
    """

    element: int
    ranks: int
    bucket: int
    stage: int
    overlaps: bool
    contiguous: bool
    scatters: bool
    shares: tuple[int, ...] = ()
    accumulates: bool = False
    wide: bool = False
    offloads: bool = False
    reduced: int = 0  # bytes of an element in which stage 3 reduces; 0 = those of a gradient


def replay(units: tuple[tuple[Gradient, ...], ...], settings: ReductionSettings) -> tuple[Moment, ...]:
    """A `Moment` for each of `units`, which run backward from last to first; gradients within one come from last to
    first, too. Of all ranks the fullest counts at each moment. What is resident is not in it: in an accumulation what
    earlier backward passes left, in stage 3 the bucket's buffer and the partitions."""
    if settings.stage == 3:
        return tuple(_Scattered(units, settings).backward())
    last = settings.ranks - 1
    ranks = sorted({0, 1, last // 2, last} & set(range(settings.ranks)))
    return tuple(_Partitioned(units, settings, ranks).backward())


def reduction_moments(
    units: tuple[Unit, ...], settings: ReductionSettings, shared: int
) -> tuple[tuple[Moment, ...], ...]:
    """For each unit the moments of its repetitions, the last one first. `shared`: bytes of a tied embedding's gradient,
    which the head makes.

    While the logits are alive there is only the head's gradient.
    """
    different = {id(unit.tensors): unit for unit in units}
    gradients = {key: _trained(unit) for key, unit in different.items()}
    trained = tuple((gradients[id(unit.tensors)], unit.repeat) for unit in units)
    moments = iter(_replayed(trained, _without_ranks(trained, settings)))
    found = []
    for unit in units:
        own = [next(moments) for _ in range(unit.repeat)][::-1]
        found.append(tuple(_with_more(one, shared) for one in own) if shared else tuple(own))
    if len(units) > 1:
        largest = max((tensor.numel for tensor in units[-1].tensors if tensor.trainable), default=0)
        found[-1] = (Moment(max(settings.element * largest, shared), found[-1][0].end),)
    return tuple(found)


def _with_more(moment: Moment, more: int) -> Moment:
    return Moment(moment.live + more, moment.end + more, begin=moment.begin + more)


# The elements of a unit's trainable tensors and whether weight decay applies to each, and how often the unit repeats.
_Trained = tuple[tuple[tuple[int, bool], ...], int]


def _trained(unit: Unit) -> tuple[tuple[int, bool], ...]:
    return tuple((t.numel, decays(t)) for t in unit.tensors if t.trainable for _ in range(t.copies))


def _without_ranks(units: tuple[_Trained, ...], settings: ReductionSettings) -> ReductionSettings:
    """Settings of one rank where the number of ranks changes nothing: in stage 3 it only pads gradients that do not
    divide evenly, and says which part of a bucket is cast."""
    ranks = settings.ranks
    even = not any(numel % ranks for tensors, _ in units for numel, _ in tensors)
    return settings._replace(ranks=1) if settings.stage == 3 and even and not settings.wide else settings


@lru_cache(maxsize=256)
def _replayed(units: tuple[_Trained, ...], settings: ReductionSettings) -> tuple[Moment, ...]:
    return replay(_of_any_place(units) if settings.stage == 3 else _gradients(units), settings)


def _of_any_place(units: tuple[_Trained, ...]) -> tuple[tuple[Gradient, ...], ...]:
    """The trainable tensors of every repetition of every unit, in stage 3, where no flat partition decides anything:
    those of one unit are the same objects."""
    found: list[tuple[Gradient, ...]] = []
    for tensors, repeat in units:
        found += [tuple(Gradient(numel, 0, 0) for numel, _ in tensors)] * repeat
    return tuple(found)


def _gradients(units: tuple[_Trained, ...]) -> tuple[tuple[Gradient, ...], ...]:
    """The trainable tensors of every repetition of every unit, each with its place in its group's flat partition."""
    ends = [0, 0]
    both = {decay for tensors, _ in units for _, decay in tensors}
    found = []
    for tensors, repeat in units:
        for _ in range(repeat):
            own = []
            for numel, decay in tensors:
                group = int(len(both) > 1 and not decay)
                own.append(Gradient(numel, group, ends[group]))
                ends[group] += numel
            found.append(tuple(own))
    return tuple(found)


class _Reduction:
    """The walk through a backward. `alive`: bytes of gradients in tensors of their own. `bucket`: the gradients that
    wait, with the bytes that each holds outside of the bucket's buffer."""

    def __init__(self, units: tuple[tuple[Gradient, ...], ...], settings: ReductionSettings) -> None:
        self.units = units
        self.settings = settings
        self.alive = self.filled = self.arriving = self.peak = self.peak_with_arriving = 0
        self.bucket: list[tuple[Gradient, int]] = []

    def backward(self) -> list[Moment]:
        """The moments of all units, in the order of the forward."""
        found = []
        for place in range(len(self.units) - 1, -1, -1):
            begin = self.peak = self.peak_with_arriving = self._now()
            if not self._joins_at_once(self.units[place]):
                self._arrive_in_turn(self.units[place])
            live = self.peak
            if not place and any(self.units):
                self._finish()
            found.append(Moment(live, max(self.peak_with_arriving, self._now()), begin=begin))
        return found[::-1]

    def _arrive_in_turn(self, unit: tuple[Gradient, ...]) -> None:
        for gradient in reversed(unit):
            self._arrive(gradient)

    def _joins_at_once(self, unit: tuple[Gradient, ...]) -> bool:
        """Puts a unit's gradients into the bucket where nothing else happens: each moves to the bucket's buffer as it
        comes, and there is room for all of them."""
        if not self._moves_to_buffer():
            return False
        sizes = [gradient.numel for gradient in unit]
        if self.filled + sum(sizes) > self.settings.bucket:
            return False
        self.peak_with_arriving += self.settings.element * max(sizes, default=0)
        self.bucket += [(gradient, 0) for gradient in reversed(unit)]
        self.filled += sum(sizes)
        return True

    def _moves_to_buffer(self) -> bool:
        """Whether a gradient that has room in the bucket leaves nothing behind where it was."""
        raise NotImplementedError

    def _now(self) -> int:
        """Bytes at this moment."""
        return self.alive

    def _touch(self, more: int = 0) -> None:
        """A moment with `more` bytes. The gradient that arrives is one of the unit's activations as well."""
        now = self._now() + more
        if now > self.peak_with_arriving:
            self.peak_with_arriving = now
        if now - self.arriving > self.peak:
            self.peak = now - self.arriving

    def _arrive(self, gradient: Gradient) -> None:
        """A gradient is complete."""
        raise NotImplementedError

    def _finish(self) -> None:
        """The backward has ended, whether the last units have gradients or not."""
        raise NotImplementedError

    def _wait(self, gradient: Gradient, moves: bool) -> None:
        """Puts a gradient into the bucket. `moves`: into its buffer."""
        size = self.settings.element * gradient.numel
        self.arriving = 0
        if moves:
            self.alive -= size
        self.bucket.append((gradient, 0 if moves else size))
        self.filled += gradient.numel


class _Scattered(_Reduction):
    """Stage 3. Repetitions of a unit that begin alike go alike: `_ways` has what each began and ended with."""

    def __init__(self, units: tuple[tuple[Gradient, ...], ...], settings: ReductionSettings) -> None:
        super().__init__(units, settings)
        self._ways: dict[tuple[Any, ...], tuple[int, int, int, int, list[tuple[Gradient, int]]]] = {}

    def _arrive_in_turn(self, unit: tuple[Gradient, ...]) -> None:
        begin = id(unit), self.alive, tuple(self.bucket)
        way = self._ways.get(begin)
        if way is None:
            super()._arrive_in_turn(unit)
            self._ways[begin] = self.peak, self.peak_with_arriving, self.alive, self.filled, self.bucket[:]
        else:
            self.peak, self.peak_with_arriving, self.alive, self.filled, bucket = way
            self.bucket = bucket[:]

    def _moves_to_buffer(self) -> bool:
        return self.settings.contiguous

    def _arrive(self, gradient: Gradient) -> None:
        settings = self.settings
        self.arriving = settings.element * gradient.numel
        self.alive += self.arriving
        self._touch()
        if self.filled and self.filled + gradient.numel > settings.bucket:
            self._finish()
        self._wait(gradient, settings.contiguous and self.filled + gradient.numel <= settings.bucket)

    def _finish(self) -> None:
        """Reduces the bucket; gradients of another dtype that are not in its buffer are copied (:1447). The part of
        each rank is then cast where gradients accumulate in fp32 (:1937)."""
        settings = self.settings
        sizes = [-(-gradient.numel // settings.ranks) * settings.ranks for gradient, _ in self.bucket]
        in_place = settings.contiguous and not settings.scatters and self.filled <= settings.bucket
        alone = len(sizes) == 1 and sizes[0] == self.filled
        cast = 4 * sum(sizes) // (1 if in_place else settings.ranks) if settings.wide else 0
        width = settings.reduced or settings.element
        copies = width * self.filled if width != settings.element and not settings.contiguous else 0
        self._touch((0 if alone and not in_place else width * sum(sizes)) + cast + copies)
        self.alive -= sum(stored for _, stored in self.bucket)
        self.bucket = []
        self.filled = 0


class _Rank:
    """A rank of stages 1 and 2. Bytes that it has beside what every rank has: `alive` in gradients (negative: what it
    freed), `own` in buffers of its partition, `later` until the next reduction. `owned`: its gradients."""

    def __init__(self, number: int, gradients: list[Gradient], settings: ReductionSettings) -> None:
        self.number = number
        self.ends = [(number * share, (number + 1) * share) for share in settings.shares]  # of its part of each group
        self.owned = settings.element * sum(gradient.numel for gradient in gradients if self.owns(gradient))
        self.alive = self.own = self.later = 0
        self.wide_groups: set[int] = set()

    def bytes(self) -> int:
        return self.alive + self.own + self.later

    def owns(self, gradient: Gradient) -> bool:
        """Whether a part of a gradient is in this rank's partition."""
        first, end = self.ends[gradient.group]
        return gradient.start < end and gradient.start + gradient.numel > first

    def own_part(self, gradient: Gradient) -> int:
        """Elements of a gradient in this rank's partition."""
        first, end = self.ends[gradient.group]
        return max(0, min(end, gradient.start + gradient.numel) - max(first, gradient.start))


class _Partitioned(_Reduction):
    """Stages 1 and 2, on several ranks at once: they differ only in what they own. `beside`: bytes of the rank at hand,
    or of the fullest one, beside what every rank has."""

    def __init__(
        self, units: tuple[tuple[Gradient, ...], ...], settings: ReductionSettings, ranks: Iterable[int]
    ) -> None:
        super().__init__(units, settings)
        gradients = [gradient for unit in units for gradient in unit]
        self.ranks = [_Rank(rank, gradients, settings) for rank in ranks]
        self.whole = settings.element * sum(gradient.numel for gradient in gradients)
        self.keeps_all = settings.stage == 1
        self.reduces_late = self.keeps_all and not settings.overlaps
        self.buffers = self.beside = 0

    def _moves_to_buffer(self) -> bool:
        adds_in_place = self.keeps_all and self.settings.accumulates
        return self.buffers > 0 and not self.reduces_late and not adds_in_place

    def _now(self) -> int:
        return self.alive + self.buffers + self.beside

    def _arrive(self, gradient: Gradient) -> None:
        """A gradient is complete. In stage 1 an accumulation holds it already: what comes is added to it."""
        settings = self.settings
        size = settings.element * gradient.numel
        held = self.keeps_all and settings.accumulates
        self.arriving = size
        if not held:
            self.alive += size
        self._touch(size if held else 0)
        self.arriving = 0 if held else size
        if settings.contiguous and not held and not self.buffers:
            self.buffers = settings.element * settings.bucket * (2 if settings.overlaps else 1)
            self._touch()
        if not self.reduces_late:
            self._join(gradient)
        self.arriving = 0

    def _join(self, gradient: Gradient) -> None:
        settings = self.settings
        if self.filled + gradient.numel > settings.bucket:
            self._reduce()
            self._touch()
        self._wait(gradient, settings.contiguous and gradient.numel <= settings.bucket)

    def _finish(self) -> None:
        """The last gradient has come: what waits is reduced, and the buffers are freed."""
        if self.reduces_late:
            every = [gradient for unit in self.units for gradient in unit]
            for gradient in sorted(every, key=lambda one: (one.group, one.start)):
                self._join(gradient)
        self._reduce()
        self.buffers = 0
        if self.keeps_all:  # the parameters' gradients go, the rank's own stay
            self.alive = -self.whole if self.settings.accumulates else 0
        for rank in self.ranks:
            rank.later = 0
            if self.keeps_all:
                rank.alive = 0 if self.settings.contiguous else rank.owned
        self._look_at_the_fullest()

    def _look_at_the_fullest(self) -> None:
        self.beside = max(rank.bytes() for rank in self.ranks)

    def _reduce(self) -> None:
        """Empties the bucket, on one rank after the other."""
        if not self.bucket:
            return
        copied = 0 if self.settings.wide else self._copied()
        for rank in self.ranks:
            self._reduce_on(rank, self._copied(rank.number) if self.settings.wide else copied)
        self.bucket = []
        self.filled = 0
        self._look_at_the_fullest()

    def _reduce_on(self, rank: _Rank, copied: int) -> None:
        settings = self.settings
        if settings.wide:
            self._widen(rank)
        delays = settings.overlaps and not settings.contiguous
        if delays:
            rank.later = 0
        self.beside = rank.bytes()
        self._touch(settings.element * copied + self._converted(rank))
        for gradient, stored in self.bucket:
            if rank.owns(gradient):
                self._take(rank, gradient, stored)
            elif stored and not self.keeps_all:
                rank.alive -= stored
                rank.later += stored if delays else 0

    def _take(self, rank: _Rank, gradient: Gradient, stored: int) -> None:
        """Moves one of the rank's own gradients out of the bucket."""
        settings = self.settings
        if not settings.contiguous or (settings.wide and not settings.offloads):
            return
        if not settings.offloads:
            rank.own = rank.owned
        self.beside = rank.bytes()
        self._touch(8 * rank.own_part(gradient) if settings.offloads else 0)  # its norm, in fp64 (:1886)
        rank.alive -= stored

    def _widen(self, rank: _Rank) -> None:
        """The fp32 partition of a group is made at the first of the rank's own gradients (:1303)."""
        for gradient, _ in self.bucket:
            if rank.owns(gradient) and gradient.group not in rank.wide_groups:
                rank.wide_groups.add(gradient.group)
                rank.own += 0 if self.settings.accumulates else 4 * self.settings.shares[gradient.group]

    def _converted(self, rank: _Rank) -> int:
        """Bytes of the largest slice on its way to the fp32 partition (:1326)."""
        if not self.settings.wide:
            return 0
        return 4 * max((rank.own_part(gradient) for gradient, _ in self.bucket), default=0)

    def _copied(self, rank: int = -1) -> int:
        """Elements of the flat copy that a reduction makes: of at most a bucket and the slice that overflows it.
        `rank`: the one whose slices stay apart, since they are added to its fp32 partition."""
        settings = self.settings
        if not settings.contiguous:
            return self.filled if len(self.bucket) > 1 else 0
        if not settings.scatters:
            return 0
        most = count = slices = 0
        for size in self._slices(rank):
            count, slices = count + size, slices + 1
            most = max(most, count if slices > 1 else 0)
            if count > settings.bucket:
                count = slices = 0
        return most

    def _slices(self, apart: int) -> Iterator[int]:
        """Elements of the bucket's parts that go to one rank each. Neighbours that go to the same rank are one, but for
        those of the rank `apart`."""
        destination, size = -1, 0
        for gradient, _ in self.bucket:
            for rank, part in self._parts(gradient):
                if rank == destination and rank != apart:
                    size += part
                    continue
                if size:
                    yield size
                destination, size = rank, part
        if size:
            yield size

    def _parts(self, gradient: Gradient) -> Iterator[tuple[int, int]]:
        """The ranks that own a gradient, with the elements that each owns."""
        share = self.settings.shares[gradient.group]
        position, end = gradient.start, gradient.start + gradient.numel
        while position < end:
            rank = position // share
            following = min(end, (rank + 1) * share)
            yield rank, following - position
            position = following
