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


class Requests(NamedTuple):
    """Requests to one pool: the bytes of all of them and of the largest one."""

    total: int = 0
    largest: int = 0


class OutOfMemory(RuntimeError):
    """The request could not be served even after all cached segments were released."""


Block = int  # its size, and below that its address: in order, blocks are as they are tried
_ADDRESS_BITS = 48
_ADDRESS = (1 << _ADDRESS_BITS) - 1
_FIRST_LARGE = 1 << (_ADDRESS_BITS - 1)  # the pool of large blocks has the upper half of the addresses


def size_of(block: Block) -> int:
    """Bytes of a block, those beyond what was asked for included."""
    return block >> _ADDRESS_BITS


class Pool:
    """The segments of one pool and their free blocks. No free block ends where another one begins: those are one.

    `end`: where the last segment ends. A block is split where at least `least_rest` bytes are left, for requests of
    less than `whole_from` bytes. Sizes are rounded.
    """

    def __init__(self, begin: int, least_rest: int, whole_from: int = UNLIMITED) -> None:
        self.blocks: list[Block] = []  # free ones, in order
        self.segments: dict[int, int] = {}  # bytes by address; not of expandable ones
        self.reserved = 0
        self.end, self._least_rest, self._whole_from = begin, least_rest, whole_from
        self._size_from: dict[int, int] = {}  # bytes of the free block that begins at an address
        self._size_until: dict[int, int] = {}  # bytes of the free block that ends at an address

    def copy(self) -> Pool:
        made = Pool(self.end, self._least_rest, self._whole_from)
        made.blocks, made.segments, made.reserved = list(self.blocks), dict(self.segments), self.reserved
        made._size_from, made._size_until = dict(self._size_from), dict(self._size_until)
        return made

    def allocate(self, size: int) -> Block:
        """The smallest block that fits, where no settings forbid that, and memory is not limited."""
        index = bisect_left(self.blocks, size << _ADDRESS_BITS)
        if index == len(self.blocks):
            index = self.place(self.add_segment(segment_size(size)))
        return self.serve(index, size)

    def serve(self, index: int, size: int) -> Block:
        """Takes the block at this place of `blocks`, of which what is beyond `size` stays free."""
        block = self.blocks.pop(index)
        address = block & _ADDRESS
        rest_address, rest = address + size, (block >> _ADDRESS_BITS) - size
        del self._size_from[address]
        if rest < self._least_rest or size >= self._whole_from:
            del self._size_until[rest_address + rest]
            return block
        insort(self.blocks, rest << _ADDRESS_BITS | rest_address)
        self._size_from[rest_address] = self._size_until[rest_address + rest] = rest
        return size << _ADDRESS_BITS | address

    def free(self, block: Block) -> Block:
        """try_merge_blocks: frees a block. It and its free neighbours are one, which is returned."""
        blocks, address = self.blocks, block & _ADDRESS
        end = address + (block >> _ADDRESS_BITS)
        before, after = self._size_until.pop(address, 0), self._size_from.pop(end, 0)
        if before:
            address -= before
            del blocks[bisect_left(blocks, before << _ADDRESS_BITS | address)]
        if after:
            del blocks[bisect_left(blocks, after << _ADDRESS_BITS | end)]
            end += after
        size = self._size_from[address] = self._size_until[end] = end - address
        block = size << _ADDRESS_BITS | address
        insort(blocks, block)
        return block

    def place(self, block: Block) -> int:
        """Where a free block stands in `blocks`."""
        return bisect_left(self.blocks, block)

    def add_segment(self, size: int) -> Block:
        """Reserves a segment, which is one free block. Between two of them lies a gap, so that blocks do not merge."""
        self.end += MIN_BLOCK
        self.segments[self.end] = size
        return self.extend(size)

    def add_segments(self, sizes: Iterable[int]) -> None:
        """As `add_segment` of each, in one go."""
        for size in sizes:
            address, self.end = self.end + MIN_BLOCK, self.end + MIN_BLOCK + size
            self.reserved += size
            self.blocks.append(size << _ADDRESS_BITS | address)
            self.segments[address] = self._size_from[address] = self._size_until[self.end] = size
        self.blocks.sort()

    def extend(self, size: int) -> Block:
        """Reserves memory at the end of the last segment: the free block there."""
        begin, self.end = self.end, self.end + size
        self.reserved += size
        return self.free(size << _ADDRESS_BITS | begin)

    def at_end(self) -> Block | None:
        """The free block at the end of the last segment."""
        size = self._size_until.get(self.end)
        return None if size is None else size << _ADDRESS_BITS | self.end - size

    def release_segments(self) -> None:
        """Gives back every segment that is one free block."""
        for block in tuple(self.blocks):
            if self.segments.get(block & _ADDRESS) == size_of(block):
                self.reserved -= self.segments.pop(block & _ADDRESS)
                self.serve(self.place(block), size_of(block))

    def release_pages(self, page: int) -> None:
        """Gives back whole free pages at the end of an expandable segment. (PyTorch gives back holes, too.)"""
        block = self.at_end()
        pages = 0 if block is None else size_of(block) // page * page
        if block is not None and pages:
            kept = size_of(block) - pages
            self.serve(self.place(block), size_of(block))
            self.reserved -= pages
            self.end -= pages
            if kept:
                self.free(kept << _ADDRESS_BITS | self.end - kept)

    def surely_serves(self, requests: Requests) -> bool:
        """Whether the free blocks serve such requests, whatever their order and however many are freed in between.

        A request is served from the beginning of a free block. So the end of a block of b bytes holds a request of q
        until others got more than b - q bytes of it. (What is too little to be split off is less than any request of
        the pool.) Where no block of at least q bytes held one, the others would have got more than there is of them.
        """
        total, largest = requests
        others = total - largest
        for block in reversed(self.blocks):
            beside_largest = (block >> _ADDRESS_BITS) - largest
            if beside_largest < 0:
                return False
            others -= beside_largest
            if others <= 0:
                return True
        return False


class Allocator:
    """The allocator's state: its two pools, the most that it reserved, and how often the card was full. Bytes."""

    def __init__(self, settings: AllocatorSettings = DEFAULT) -> None:
        self.settings = settings
        self.peak_reserved = self.retries = 0
        self._split_limit = settings.max_split_size_mb * MIB or UNLIMITED
        of_large = (MIN_BLOCK, UNLIMITED) if settings.expandable_segments else (SMALL_SIZE + 1, self._split_limit)
        self.small, self.large = Pool(0, MIN_BLOCK), Pool(_FIRST_LARGE, *of_large)

    @classmethod
    def with_cached(cls, segments: Iterable[int]) -> Allocator:
        """The allocator after everything in these segments was freed: each is one free block."""
        allocator, given = cls(), tuple(segments)
        allocator.small.add_segments(size for size in given if size == SMALL_BUFFER)
        allocator.large.add_segments(size for size in given if size != SMALL_BUFFER)
        return allocator

    def copy(self) -> Allocator:
        """The same state, for another continuation."""
        made = Allocator(self.settings)
        made.peak_reserved, made.retries = self.peak_reserved, self.retries
        made.small, made.large = self.small.copy(), self.large.copy()
        return made

    @property
    def reserved(self) -> int:
        return self.small.reserved + self.large.reserved

    def allocate(self, size: int) -> Block:
        """A block for a tensor of so many bytes. Raises OutOfMemory when `capacity` is set and reached."""
        size = self.rounded(size)
        pool = self.small if size <= SMALL_SIZE else self.large
        index = self._permitted(pool, size)
        if index == len(pool.blocks):
            index = pool.place(self._new(pool, size))
        return pool.serve(index, size)

    def free(self, block: Block) -> None:
        """Frees a block, which merges with free neighbours."""
        (self.large if block & _ADDRESS >= _FIRST_LARGE else self.small).free(block)

    def empty_cache(self) -> None:
        """torch.cuda.empty_cache(): releases every segment without a live block."""
        for pool in (self.small, self.large):
            if self.settings.expandable_segments:
                pool.release_pages(self._page(pool))
            else:
                pool.release_segments()

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

    def _permitted(self, pool: Pool, size: int) -> int:
        """get_free_block: the place of the smallest block that fits; beyond the last place if there is none. Oversize
        blocks are for oversize requests only. The block at the end of an expandable segment can grow, so that it counts
        as the largest one."""
        blocks, limit = pool.blocks, self._split_limit
        index = bisect_left(blocks, size << _ADDRESS_BITS)
        if self.settings.expandable_segments and index + 1 < len(blocks) and blocks[index] == pool.at_end():
            index += 1
        if index < len(blocks):
            found = size_of(blocks[index])
            if size < limit <= found or (size >= limit and found >= size + LARGE_BUFFER):
                return len(blocks)
        return index

    def _new(self, pool: Pool, size: int) -> Block:
        """A free block in memory that is reserved for it. Where the card is full, cached segments are released."""
        if self._is_full(pool, size):
            self.retries += 1
            self.empty_cache()
            if self._is_full(pool, size):
                raise OutOfMemory(f"{size} bytes more than {self.reserved} of {self.settings.capacity}")
        missing = self._missing(pool, size)
        block = pool.extend(missing) if self.settings.expandable_segments else pool.add_segment(missing)
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return block

    def _is_full(self, pool: Pool, size: int) -> bool:
        return 0 < self.settings.capacity < self.reserved + self._missing(pool, size)

    def _missing(self, pool: Pool, size: int) -> int:
        """Bytes to reserve: a segment, or pages behind the free space at the end of an expandable one."""
        if not self.settings.expandable_segments:
            return segment_size(size)
        page = self._page(pool)
        return -(-(size - size_of(pool.at_end() or 0)) // page) * page

    def _page(self, pool: Pool) -> int:
        return SMALL_BUFFER if pool is self.small else LARGE_BUFFER


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
    held: dict[int, Block] = {}
    allocated = peak = 0
    for event in events:
        if event >= 0:
            block = held[event] = allocator.allocate(sizes[event])
            allocated += size_of(block)
            peak = max(peak, allocated)
        else:
            block = held.pop(~event)
            allocator.free(block)
            allocated -= size_of(block)
    return Reserved(peak, allocator.peak_reserved, allocator.retries)
