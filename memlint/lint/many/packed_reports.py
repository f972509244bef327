"""Stores the reports of very many files in little memory: pickled in blocks, unpickled block by block.

A report (findings, phases of estimates, the texts of excerpts) takes about 16 KiB as objects, 2 KiB pickled and less
than 1 KiB compressed. That adds up over many thousand files. So once KEPT_BYTES are used, further blocks are compressed
and written to a temporary file: of 100,000 files little more than the names stays in memory.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Generic, TypeVar, overload

from memlint._record import NamedTuple

Item = TypeVar("Item")

BLOCK = 64  # items in a block
KEPT_BYTES = 4 << 20  # of pickled blocks in memory: some two thousand reports


class _Place(NamedTuple):
    """The position of a compressed block in the temporary file."""

    start: int
    length: int


class _Compressed(NamedTuple):
    """A compressed block in memory: the temporary file could not be written."""

    data: bytes


class PackedSequence(Sequence[Item], Generic[Item]):
    """A sequence to iterate over from the front. Each pass unpickles again: its items are equal, not identical."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._blocks: list[_Place | _Compressed | bytes | list[Item]] = []
        self._last: list[Item] = []
        self._room = KEPT_BYTES
        self._file: BinaryIO | None = None
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        self._last.append(item)
        if len(self._last) == BLOCK:
            block = _pickled(self._last)
            self._blocks.append(self._stored(block) if isinstance(block, bytes) else block)
            self._last = []

    def _stored(self, pickled: bytes) -> _Place | _Compressed | bytes:
        """The block as it is while there is room in memory; else compressed, in the temporary file if one can be
        written."""
        self._room -= len(pickled)
        if self._room >= 0:
            return pickled
        block = zlib.compress(pickled, 1)
        try:
            if self._file is None:
                from tempfile import TemporaryFile  # thousands of files

                self._file = TemporaryFile(prefix="memlint-", buffering=0)  # noqa: SIM115  # open as long as this sequence
            place = _Place(self._file.seek(0, 2), len(block))
            return place if self._file.write(block) == len(block) else _Compressed(block)
        except OSError:
            return _Compressed(block)

    def _block(self, stored: _Place | _Compressed | bytes | list[Item]) -> list[Item]:
        if isinstance(stored, list):
            return stored
        if isinstance(stored, _Place):
            assert self._file is not None
            self._file.seek(stored.start)
            stored = _Compressed(self._file.read(stored.length))
        found: list[Item] = pickle.loads(stored if isinstance(stored, bytes) else zlib.decompress(stored.data))
        return found

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()  # deletes it

    def __len__(self) -> int:
        return len(self._blocks) * BLOCK + len(self._last)

    def __iter__(self) -> Iterator[Item]:
        for block in self._blocks:
            yield from self._block(block)
        yield from self._last

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return list(self)[index]
        number, place = divmod(range(len(self))[index], BLOCK)
        if number == len(self._blocks):
            return self._last[place]
        return self._block(self._blocks[number])[place]


def _pickled(items: list[Item]) -> bytes | list[Item]:
    try:
        return pickle.dumps(items, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError):  # a plug-in's findings may hold anything
        return items
