"""A model of PyTorch's CUDA caching allocator: what it reserves for a sequence of allocations and frees.

After c10/cuda/CUDACachingAllocator.cpp at pytorch/pytorch@001074d (the rules below are unchanged since 2.0):
sizes round to 512 bytes (round_size); requests up to 1 MiB live in 2 MiB segments, those below 10 MiB in
20 MiB segments, larger ones in segments rounded to 2 MiB (get_allocation_size); the smallest free block
that fits is taken (get_free_block) and split when more than 1 MiB (small pool: 512 bytes) is left
(should_split); freed neighbours merge (try_merge_blocks). When the card is full, unsplit cached segments go
back to the driver and the request is tried again (release_cached_blocks). One stream.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from memlint._record import NamedTuple

MIB = 1 << 20
MIN_BLOCK = 512
SMALL_SIZE = MIB  # kSmallSize
SMALL_BUFFER = 2 * MIB  # kSmallBuffer
LARGE_BUFFER = 20 * MIB  # kLargeBuffer
MIN_LARGE = 10 * MIB  # kMinLargeAlloc
ROUND_LARGE = 2 * MIB  # kRoundLarge
UNLIMITED = 1 << 62


class AllocatorSettings(NamedTuple):
    """PYTORCH_CUDA_ALLOC_CONF. `capacity`: bytes the driver can give; 0 = no limit."""

    expandable_segments: bool = False
    max_split_size_mb: int = 0  # 0 = unlimited
    roundup_power2_divisions: int = 0
    capacity: int = 0


DEFAULT = AllocatorSettings()


class Reserved(NamedTuple):
    """Peaks of a replay, bytes. `allocated` counts whole blocks, unsplit rests included, as PyTorch does."""

    allocated: int
    reserved: int
    retries: int  # how often cached segments had to be released


class OutOfMemory(RuntimeError):
    """The request could not be served even after all cached segments were released."""


class _Block:
    __slots__ = ("address", "expandable", "free", "next", "previous", "size", "small")

    def __init__(self, address: int, size: int, small: bool, expandable: bool = False) -> None:
        self.address, self.size, self.small, self.expandable = address, size, small, expandable
        self.free = False
        self.previous: _Block | None = None
        self.next: _Block | None = None


class _Pool:
    """The free blocks of one pool in the order (size, address)."""

    def __init__(self) -> None:
        self.keys: list[tuple[int, int]] = []
        self.blocks: dict[int, _Block] = {}
        self.tail: _Block | None = None  # last block of the expandable segment

    def put(self, block: _Block) -> None:
        block.free = True
        insort(self.keys, (block.size, block.address))
        self.blocks[block.address] = block

    def add(self, block: _Block) -> None:
        """Puts a block out of order; the keys are to be sorted then."""
        block.free = True
        self.keys.append((block.size, block.address))
        self.blocks[block.address] = block

    def take(self, block: _Block) -> None:
        block.free = False
        del self.keys[bisect_left(self.keys, (block.size, block.address))]
        del self.blocks[block.address]


class Allocator:
    """The allocator's state: `allocated`, `reserved` and their peaks, in bytes. Callers choose a key per allocation."""

    def __init__(self, settings: AllocatorSettings = DEFAULT) -> None:
        self.settings = settings
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = self.retries = 0
        self._split_limit = settings.max_split_size_mb * MIB or UNLIMITED
        self._small, self._large = _Pool(), _Pool()
        self._held: dict[int, _Block] = {}
        self._address = 0
        self.segments: list[int] = []  # bytes of each that was reserved, in order; not of expandable ones

    @classmethod
    def with_cached(cls, segments: Iterable[int]) -> Allocator:
        """The allocator after everything in these segments was freed: each is one free block."""
        allocator = cls()
        for size in segments:
            small = size == SMALL_BUFFER
            (allocator._small if small else allocator._large).add(_Block(allocator._address, size, small))
            allocator._address += size
        for pool in (allocator._small, allocator._large):
            pool.keys.sort()
        allocator.reserved = allocator.peak_reserved = allocator._address
        return allocator

    def allocate(self, key: int, size: int) -> None:
        """Raises OutOfMemory when `capacity` is set and reached."""
        size = self.rounded(size)
        small = size <= SMALL_SIZE
        pool = self._small if small else self._large
        block = self._reuse(pool, size) or self._new(pool, size, small)
        if self._splits(block, size):
            self._split(pool, block, size)
        self._held[key] = block
        self.allocated += block.size
        if self.allocated > self.peak_allocated:
            self.peak_allocated = self.allocated

    def free(self, key: int) -> None:
        """Frees the block of `key`, which merges with free neighbours."""
        block = self._held.pop(key)
        self.allocated -= block.size
        pool = self._small if block.small else self._large
        before, after = block.previous, block.next
        if before is not None and before.free:
            self._merge(pool, block, before)
        if after is not None and after.free:
            self._merge(pool, block, after)
        pool.put(block)

    def empty_cache(self) -> None:
        """torch.cuda.empty_cache(): releases every segment without a live block."""
        for pool in (self._small, self._large):
            for block in list(pool.blocks.values()):
                if block.expandable:
                    self._unmap(pool, block)
                elif block.previous is None and block.next is None:
                    pool.take(block)
                    self.reserved -= block.size

    def rounded(self, size: int) -> int:
        """round_size: multiples of 512, or of a share of the next power of two when that is set."""
        divisions = self.settings.roundup_power2_divisions
        if size < MIN_BLOCK:
            return MIN_BLOCK
        if divisions > 1 and size > MIN_BLOCK * divisions:
            floor = 1 << (size.bit_length() - 1)
            if floor == size:
                return size
            step = max(1, floor // divisions)
            return -(-size // step) * step
        return -(-size // MIN_BLOCK) * MIN_BLOCK

    def _reuse(self, pool: _Pool, size: int) -> _Block | None:
        """get_free_block: best fit; oversize blocks only for oversize requests."""
        index = bisect_left(pool.keys, (size, -1))
        if index == len(pool.keys):
            return None
        found = pool.blocks[pool.keys[index][1]]
        if found.expandable and found is pool.tail and index + 1 < len(pool.keys):
            found = pool.blocks[
                pool.keys[index + 1][1]
            ]  # the last block can grow, so that it counts as the largest one
        if size < self._split_limit <= found.size:
            return None
        if size >= self._split_limit and found.size >= size + LARGE_BUFFER:
            return None
        pool.take(found)
        return found

    def _new(self, pool: _Pool, size: int, small: bool) -> _Block:
        if self.settings.expandable_segments:
            return self._extend(pool, size, small)
        segment = segment_size(size)
        self._reserve(segment)
        self.segments.append(segment)
        block = _Block(self._address, segment, small)
        self._address += segment
        return block

    def _extend(self, pool: _Pool, size: int, small: bool) -> _Block:
        """Maps pages at the end of the pool's expandable segment; free space at its end is used first."""
        page = SMALL_BUFFER if small else LARGE_BUFFER
        tail = pool.tail
        growing = tail if tail is not None and tail.free else None
        missing = size - (growing.size if growing else 0)
        pages = -(-missing // page) * page
        self._reserve(pages)
        if growing is not None and growing.free and pool.tail is growing:
            pool.take(growing)
            growing.size += pages
            return growing
        address = pool.tail.address + pool.tail.size if pool.tail else (0 if small else UNLIMITED)
        block = _Block(address, pages, small, expandable=True)
        block.previous = pool.tail
        if pool.tail is not None:
            pool.tail.next = block
        pool.tail = block
        return block

    def _reserve(self, size: int) -> None:
        capacity = self.settings.capacity
        if capacity and self.reserved + size > capacity:
            self.retries += 1
            self.empty_cache()
            if self.reserved + size > capacity:
                raise OutOfMemory(f"{size} bytes more than {self.reserved} of {capacity}")
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def _splits(self, block: _Block, size: int) -> bool:
        rest = block.size - size
        if block.small or block.expandable:
            return rest >= MIN_BLOCK
        return size < self._split_limit and rest > SMALL_SIZE

    def _split(self, pool: _Pool, block: _Block, size: int) -> None:
        rest = _Block(block.address + size, block.size - size, block.small, block.expandable)
        block.size = size
        rest.previous, rest.next = block, block.next
        if rest.next is not None:
            rest.next.previous = rest
        block.next = rest
        if pool.tail is block:
            pool.tail = rest
        pool.put(rest)

    def _merge(self, pool: _Pool, block: _Block, other: _Block) -> None:
        pool.take(other)
        if block.previous is other:
            block.address, block.previous = other.address, other.previous
            if other.previous is not None:
                other.previous.next = block
        else:
            block.next = other.next
            if other.next is not None:
                other.next.previous = block
        block.size += other.size
        if pool.tail is other:
            pool.tail = block

    def _unmap(self, pool: _Pool, block: _Block) -> None:
        """Unmaps whole free pages at the end of the segment. Holes stay mapped (PyTorch unmaps those, too)."""
        page = SMALL_BUFFER if block.small else LARGE_BUFFER
        whole = block.size // page * page
        if not whole or pool.tail is not block:
            return
        pool.take(block)
        self.reserved -= whole
        block.size -= whole
        if block.size:
            pool.put(block)
            return
        pool.tail = block.previous
        if block.previous is not None:
            block.previous.next = None


def segment_size(size: int) -> int:
    """get_allocation_size: the bytes that are requested from the driver for an allocation of `size` bytes."""
    if size <= SMALL_SIZE:
        return SMALL_BUFFER
    if size < MIN_LARGE:
        return LARGE_BUFFER
    return -(-size // ROUND_LARGE) * ROUND_LARGE


def replay(events: Iterable[int], sizes: tuple[int, ...], settings: AllocatorSettings = DEFAULT) -> Reserved:
    """Peaks for a recorded step: `index` allocates sizes[index] bytes, `~index` frees them."""
    allocator = Allocator(settings)
    for event in events:
        if event >= 0:
            allocator.allocate(event, sizes[event])
        else:
            allocator.free(~event)
    return Reserved(allocator.peak_allocated, allocator.peak_reserved, allocator.retries)
