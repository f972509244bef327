"""Reports of very many files in little memory: pickled and deflated in blocks, unpacked one block at a time.

What a report holds (findings, phases of estimates, the texts that excerpts quote) takes some 16 KiB as objects and
less than 1 KiB packed, so that 100,000 files take no longer a file than 2,000 do. A few files stay as
they are: pickling is not even imported for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

from memlint.report.model import FileReport

Item = TypeVar("Item")

BLOCK = 64
MANY = 256  # reports from which on packing is worth it


class Packed(Sequence[Item], Generic[Item]):
    """A sequence that is read from the front: each pass unpacks anew, and gives equal items."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._blocks: list[bytes | list[Item]] = []
        self._last: list[Item] = []
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        self._last.append(item)
        if len(self._last) == BLOCK:
            self._blocks.append(_packed(self._last))
            self._last = []

    def __len__(self) -> int:
        return len(self._blocks) * BLOCK + len(self._last)

    def __iter__(self) -> Iterator[Item]:
        for block in self._blocks:
            yield from _unpacked(block) if isinstance(block, bytes) else block
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
        block = self._blocks[number]
        found: list[Item] = _unpacked(block) if isinstance(block, bytes) else block
        return found[place]


def reread(reports: Iterable[FileReport], number: int) -> Sequence[FileReport]:
    """`reports`, of which there are about `number`, to be read more than once."""
    return tuple(reports) if number <= MANY else Packed(reports)


def _packed(items: list[Item]) -> bytes | list[Item]:
    import pickle
    import zlib

    try:
        return zlib.compress(pickle.dumps(items, pickle.HIGHEST_PROTOCOL), 1)
    except (pickle.PicklingError, TypeError, AttributeError):  # a plug-in's findings may hold anything
        return items


def _unpacked(block: bytes) -> list[Item]:
    import pickle
    import zlib

    found: list[Item] = pickle.loads(zlib.decompress(block))
    return found
